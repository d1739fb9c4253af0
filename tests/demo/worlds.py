"""A demo's world for tests: the real process, and what it tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import Any

from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.run import messages as m
from tests.eventually import eventually
from tests.secret_files import reference

PATIENCE = 15.0


class World:
    """One running world. `told` is its world.json."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process
        self.told: dict[str, Any] = eventually(self._told, "the world")

    def _told(self) -> dict[str, Any] | None:
        """What this world says, not one before it in the same folder."""
        assert self.process.poll() is None
        file = self.folder / "world.json"
        told = json.loads(file.read_text()) if file.exists() else None
        return told if told and told["pid"] == self.process.pid else None

    def ask(self, path: str, send: Any = None, **query: str) -> tuple[int, Message, str]:
        """Status, headers and text of an answer."""
        url = self.told["site"] + path + (f"?{urllib.parse.urlencode(query)}" if query else "")
        body = None if send is None else json.dumps(send).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=PATIENCE) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()

    def data(self, path: str, send: Any = None, **query: str) -> Any:
        """The JSON of an answer that must be good."""
        status, _, text = self.ask(path, send, **query)
        assert status == 200, text
        return json.loads(text)

    def proxy(self, id: str) -> dict[str, Any]:
        return next(each for each in self.told["proxies"] if each["id"] == id)

    def password(self, id: str) -> str:
        """Empty where the proxy has none."""
        file = self.proxy(id)["password_file"]
        return Path(file).read_text() if file else ""

    def exit(self, id: str) -> Exit:
        one = self.proxy(id)
        login = (one["username"], self.password(id) or None)
        return Exit(Scheme(one["scheme"]), one["host"], one["port"], *login)

    def route(self, id: str) -> m.LeasedRoute:
        one = self.proxy(id)
        return m.LeasedRoute(
            id, one["scheme"], one["host"], one["port"], one["username"] or "", reference(self.password(id))
        )

    def ledger(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in Path(self.told["ledger"]).read_text().splitlines()]


def start(folder: Path, **options: Any) -> subprocess.Popen[bytes]:
    """A world's process; options as for `Popen`, `environ` beside them."""
    options["env"] = {**os.environ, **options.pop("environ", {})}
    command = [sys.executable, "-m", "taskdeck.engine.demo.world", "--dir", str(folder), "--seed", "7"]
    process: Any = subprocess.Popen(command, **options)
    return process


@contextmanager
def world(folder: Path, **options: Any) -> Iterator[World]:
    """A world, ended at the end."""
    process = start(folder, **options)
    try:
        yield World(folder, process)
    finally:
        process.terminate()
        process.wait(PATIENCE)
