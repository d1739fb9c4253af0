"""An engine whose socket was taken away is found again, by whoever asks the lock where it listens."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from taskdeck.engine.config import load
from taskdeck.engine.edge.link import AsyncLink, open_link, serve, socket_path
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.errors import AlreadyRunning
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.run.engine import Engine
from taskdeck.engine.run.listening import Listening
from taskdeck.engine.store.writer import Writer
from tests.scratch import Scratch


class Heard:
    """A lock, a writer and a socket in a runtime directory of its own, with the watch over it."""

    def __init__(self, scratch: Scratch, runtime: Path) -> None:
        self.scratch, self.runtime = scratch, runtime
        self.told: list[Path] = []
        self.path = socket_path(scratch.path, os.environ)
        self.fallback = socket_path(scratch.path, {})
        self.lock = DatabaseLock(scratch.path, incarnation="i", socket=self.path)
        assert self.lock.acquire()
        self.writer = Writer(
            scratch.database, scratch.path, clock=scratch.clock, boot_id="b", redactor=Redactor()
        )
        self.writer.start()

    async def begin(self) -> None:
        server = await serve(self.path, self._answer)
        self.watch = Listening(
            server, self.scratch.path, self.lock, self.scratch.clock, self.writer, self.told.append
        )

    async def _answer(self, link: AsyncLink) -> None:
        if (body := await link.receive()) is not None:
            link.send(body)

    async def found(self) -> Path:
        """Where the lock says that the engine listens; it does."""
        holder = DatabaseLock.holder(self.scratch.path)
        assert holder is not None
        link = await open_link(holder.socket)
        link.send(b"are you there")
        assert await link.receive() == b"are you there"
        link.close()
        return Path(holder.socket)

    def alerts(self) -> list[tuple[str, str, str]]:
        sql = "SELECT event_type, reason, message FROM event_log WHERE event_type LIKE 'ALERT%' ORDER BY event_id"
        return self.scratch.query(sql)  # type: ignore[return-value]


@pytest_asyncio.fixture
async def heard(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Heard]:
    with TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as runtime:  # a socket's path is short
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        made = Heard(scratch, Path(runtime))
        await made.begin()
        yield made
        await made.watch.close()
        await made.writer.close()
        made.lock.release()
        assert not made.fallback.exists()


async def test_a_removed_socket_is_made_again_and_one_whose_runtime_directory_is_gone_lies_in_tmp(
    heard: Heard,
) -> None:
    await heard.watch.tick()
    assert (heard.told, heard.alerts()) == ([], [])
    shutil.rmtree(heard.runtime / "taskdeck")
    await heard.watch.tick()
    assert heard.told == [heard.path] == [await heard.found()]
    shutil.rmtree(heard.runtime)
    await heard.watch.tick()
    assert heard.told[1:] == [heard.fallback] == [await heard.found()]
    await heard.watch.tick()
    was = f"the socket {heard.path} was removed: nobody could reach the engine"
    assert heard.alerts() == [
        ("ALERT_RAISED", "socket_gone", was),
        ("ALERT_CLEARED", "socket_gone", f"the engine listens anew at {heard.path}"),
        ("ALERT_RAISED", "socket_gone", was),
        ("ALERT_CLEARED", "socket_gone", f"the engine listens anew at {heard.fallback}"),
    ]


async def test_while_it_can_listen_nowhere_that_is_told_once_and_tried_again(heard: Heard) -> None:
    shutil.rmtree(heard.runtime)
    heard.fallback.parent.mkdir(mode=0o700, exist_ok=True)
    heard.fallback.touch()  # no socket, so it is left alone
    for _ in range(2):
        await heard.watch.tick()
    ((event_type, _, message),) = heard.alerts()
    assert event_type == "ALERT_RAISED"
    assert "can't listen anew" in message
    assert "something that is not a socket lies there" in message
    heard.fallback.unlink()
    await heard.watch.tick()
    assert await heard.found() == heard.fallback
    assert [each[0] for each in heard.alerts()] == ["ALERT_RAISED", "ALERT_CLEARED"]


async def test_an_engine_that_found_the_lock_free_writes_nothing_while_another_answers_at_the_socket(
    heard: Heard, tmp_path: Path
) -> None:
    heard.lock.file.unlink()
    config = load(db=heard.scratch.path, environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    before = heard.scratch.query("SELECT count(*) FROM engine")
    second = Engine(config, heard.scratch.clock, verbs={}, together={}, redactor=Redactor(), code_version="0")
    with pytest.raises(AlreadyRunning, match="another engine answers there"):
        await second.run()
    assert heard.scratch.query("SELECT count(*) FROM engine") == before
    assert heard.lock.take_again()
