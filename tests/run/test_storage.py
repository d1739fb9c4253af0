"""The watch over the storage: real files, a real writer, a manual clock."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.config import Config, load
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.edge.logs import AttemptLog
from taskdeck.engine.errors import Refused, StorageTrouble
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.settings import StorageSettings, TaskdeckSettings
from taskdeck.engine.run.attempt_logs import log_path
from taskdeck.engine.run.disk_fitness import refuse_unfit_disk
from taskdeck.engine.run.storage import StorageWatch, hold
from taskdeck.engine.store.writer import Writer
from tests.scratch import Scratch


class Watched:
    """A writer with its watch on the database of `scratch`."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self.path = scratch.path
        self.writer = Writer(
            scratch.database,
            scratch.path,
            clock=scratch.clock,
            boot_id="b",
            redactor=Redactor(),
            guard=lambda: hold(self.lock, self.path),
        )
        self.writer.start()
        self.changes = 0
        self.clock: ManualClock = scratch.clock
        self.lock = DatabaseLock(self.path)
        assert self.lock.acquire()
        self.taken = False
        self.watch = StorageWatch(
            self.config(),
            self.clock,
            self.writer,
            self.lock,
            on_change=self._on_change,
            on_taken=self._on_taken,
        )

    def _on_change(self) -> None:
        self.changes += 1

    def _on_taken(self) -> None:
        self.taken = True

    def config(self, **tables: object) -> Config:
        config = load(db=self.path, environ={"HOME": str(self.path.parent)}, cwd=self.path.parent)
        return msgspec.structs.replace(
            config,
            **{
                name: msgspec.structs.replace(getattr(config, name), **values)  # type: ignore[arg-type]
                for name, values in tables.items()
            },
        )

    def events(self) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(self.path)) as connection:
            sql = "SELECT event_type, reason FROM event_log WHERE event_type LIKE 'ALERT%' OR event_type LIKE 'LOGS%'"
            return connection.execute(sql + " ORDER BY event_id").fetchall()

    def alerts(self) -> dict[str, bool]:
        return {each["reason"]: each["pauses"] for each in self.watch.description()["alerts"]}


@pytest_asyncio.fixture
async def watched(scratch: Scratch) -> AsyncIterator[Watched]:
    made = Watched(scratch)
    yield made
    await made.writer.close()
    made.lock.release()


async def test_little_room_is_told_of_until_there_is_more_and_less_stops_the_start_of_anything(
    watched: Watched,
) -> None:
    watch = watched.watch
    await watch.tick()
    assert (watched.alerts(), watched.events()) == ({}, [])
    watch.config = watched.config(storage={"warn_free_bytes": 10**15})
    await watch.tick()
    await watch.tick()
    assert watched.alerts() == {"low_disk_database": False, "low_disk_logs": False}
    assert not watch.paused
    watch.config = watched.config(storage={"warn_free_bytes": 10**15, "pause_free_bytes": 10**15})
    await watch.tick()
    assert watched.alerts() == {"no_room_database": True, "low_disk_logs": False}
    assert watch.paused
    assert watch.description()["pause"] == watch.pause
    assert "make room" in watch.pause
    watch.config = watched.config()
    await watch.tick()
    assert (watched.alerts(), watch.paused, watched.changes) == ({}, False, 1)
    assert sorted(watched.events()) == [
        ("ALERT_CLEARED", "low_disk_database"),
        ("ALERT_CLEARED", "low_disk_logs"),
        ("ALERT_CLEARED", "no_room_database"),
        ("ALERT_RAISED", "low_disk_database"),
        ("ALERT_RAISED", "low_disk_logs"),
        ("ALERT_RAISED", "no_room_database"),
    ]


async def test_a_lost_database_is_noticed_when_nothing_is_written_and_told_of_once_it_can_be(
    watched: Watched,
) -> None:
    await watched.watch.tick()
    os.unlink(watched.path)
    await watched.watch.tick()
    assert watched.alerts() == {"database_gone": True}
    assert watched.watch.paused
    (told,) = watched.watch.description()["alerts"]
    copy = watched.path.with_name("taskdeck.db.rescued")
    assert told["remedy"].endswith(f"mv {copy} {watched.path}")
    os.rename(copy, watched.path)
    for _ in range(2):
        await watched.watch.tick()
    assert (watched.alerts(), watched.watch.paused) == ({}, False)
    assert watched.events() == [("ALERT_RAISED", "database_gone"), ("ALERT_CLEARED", "database_gone")]


async def test_a_removed_lock_is_held_again_and_one_that_another_took_ends_all_writing(
    watched: Watched,
) -> None:
    os.unlink(watched.lock.file)
    await watched.watch.tick()
    assert watched.lock.intact()
    assert DatabaseLock.holder(watched.path) is not None
    assert not watched.taken

    os.unlink(watched.lock.file)
    with DatabaseLock(watched.path) as other:
        assert other.acquire()
        await watched.watch.tick()
        assert watched.taken
        with pytest.raises(StorageTrouble, match="took the database meanwhile"):
            await watched.writer.write(lambda tx: tx.event("NOTE", actor="engine"))
        assert watched.alerts() == {"database_taken": True}


async def test_not_one_commit_is_made_after_another_took_the_lock_not_even_once_that_one_has_gone(
    watched: Watched,
) -> None:
    os.unlink(watched.lock.file)
    await watched.writer.write(lambda tx: tx.event("NOTE", actor="engine"))  # no watch has looked since
    assert watched.lock.intact()

    os.unlink(watched.lock.file)
    with DatabaseLock(watched.path) as other:
        assert other.acquire()
        with pytest.raises(StorageTrouble, match=f"pid {os.getpid()} took the database meanwhile"):
            await watched.writer.write(lambda tx: tx.event("NOTE", actor="engine"))
    with pytest.raises(StorageTrouble, match="took the database meanwhile"):
        await watched.writer.write(lambda tx: tx.event("NOTE", actor="engine"))
    assert watched.scratch.query("SELECT count(*) FROM event_log WHERE event_type = 'NOTE'") == [(1,)]


async def test_the_output_of_ended_attempts_is_removed_past_the_budget_and_that_is_put_on_record(
    watched: Watched,
) -> None:
    scratch, logs = watched.scratch, watched.watch.config.log_directory
    running = scratch.running()
    path = log_path(str(logs), running["id"], 1)
    scratch.database.execute_sql("UPDATE attempt SET log_path = ?", (path,))
    for each in (path, log_path(str(logs), 999, 1)):
        log = AttemptLog(each)
        log.write(b"x" * 5000)
        log.close()
    watched.watch.config = watched.config(logging={"attempts_total_bytes": 4096})
    await watched.watch.keep_logs_within()
    assert [each.name for each in sorted((logs / "tasks" / "0000").iterdir())] == [Path(path).name]
    assert watched.events() == [("LOGS_REMOVED", "budget")]


@pytest.mark.parametrize(
    ("kind", "network", "answer"),
    [
        ("ext4", "refuse", ""),
        ("nfs4", "refuse", "refused"),
        ("nfs4", "warn", "locks may not hold there"),
        ("fuse.somebodys", "refuse", "locks may not hold there"),
    ],
)
def test_a_database_on_a_network_filesystem_is_refused_unless_that_is_allowed(
    tmp_path: Path, kind: str, network: str, answer: str
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"21 1 0:21 / / rw - {kind} server:/x rw\n")
    config = Config(taskdeck=TaskdeckSettings(db=tmp_path / "a.db"), storage=StorageSettings(network=network))
    if answer == "refused":
        with pytest.raises(Refused, match=r'lies on nfs4 .*network = "warn"'):
            refuse_unfit_disk(config, mounts)
    else:
        assert answer in refuse_unfit_disk(config, mounts)
        assert bool(answer) == bool(refuse_unfit_disk(config, mounts))
