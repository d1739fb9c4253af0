"""An engine that holds its database and does not answer, until it goes on: for whoever has to wait for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine import commands
from taskdeck.engine.edge.link import Link, LinkError
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.run.messages import Call, Reply, encode, from_peer


class Frozen:
    """Connections wait in its queue, as those of a stopped process do. `go_on` answers them and all others."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.asked: list[str] = []

    def go_on(self, **answers: Any) -> None:
        """Answer each verb with what is given for it, all others with nothing that matters."""
        threading.Thread(target=self._answer, args=(answers,), daemon=True).start()

    def _answer(self, answers: dict[str, Any]) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:  # closed: the test is over
                return
            threading.Thread(target=self._serve, args=(Link(sock), answers), daemon=True).start()

    def _serve(self, link: Link, answers: dict[str, Any]) -> None:
        with link:
            if (body := link.receive(10)) is None:
                return
            _, call = from_peer(body)
            assert isinstance(call, Call)
            self.asked.append(call.verb)
            with suppress(LinkError):  # who asked has gone
                link.send(encode([Reply(call.req, answers.get(call.verb, {"id": 1}))]))
            link.receive(10)


@contextmanager
def frozen(database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Frozen]:
    """The engine of this database, of this process's pid. It is found silent at once."""
    monkeypatch.setattr(commands, "DOUBT_AFTER", 0.01)
    monkeypatch.setattr(commands, "PING_WITHIN", 0.05)
    path = database.parent / "e.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        with DatabaseLock(database, role="engine", incarnation="x", socket=path) as lock:
            assert lock.acquire()
            yield Frozen(listener)
            listener.shutdown(socket.SHUT_RDWR)
