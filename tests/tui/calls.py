"""Calling the command line as a person or script would: in a process of its own, with and without a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = [sys.executable, "-c", "import sys; from taskdeck.tui.cli import main; sys.exit(main())"]


@dataclass
class Ended:
    """How a call ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, Any]:
        """The error object on standard error."""
        return json.loads(self.err)["error"]


class Calls:
    """Calls on one database in one directory; every call must end without a traceback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / "taskdeck.db"
        self.environment = {**os.environ, "TASKDECK_DB": str(self.db), "TERM": "xterm", "TZ": "UTC"}
        self.environment.pop("COLUMNS", None)

    def __call__(self, *words: str, stdin: str = "", code: int | None = 0, **more: str) -> Ended:
        done = subprocess.run(
            [*PROGRAM, *words],
            input=stdin.encode("utf-8", "surrogateescape"),
            capture_output=True,
            cwd=self.folder,
            env={**self.environment, **more},
            timeout=30,
            check=False,
        )
        ended = Ended(done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode())
        assert "Traceback" not in ended.err
        assert code is None or ended.code == code, ended
        return ended

    def on_terminal(self, *words: str, answer: str = "", **more: str) -> Ended:
        """The same with a terminal of 24 lines and 80 columns on all three streams."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*PROGRAM, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self.folder,
            env={**self.environment, **more},
            start_new_session=True,
        )
        os.close(theirs)
        if answer:
            os.write(ours, answer.encode())
        shown = b""
        try:
            while data := os.read(ours, 65536):
                shown += data
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(ours)
        text = shown.decode().replace("\r\n", "\n")
        assert "Traceback" not in text
        return Ended(process.wait(timeout=30), text, text)
