"""A disk, a database file or a reader that gets in the writer's way: nothing is lost, and it goes on when it can."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.errors import NotPermitted, StorageTrouble
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.storage import Fault
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.transaction import Transaction, refuse_what_is_read_only
from taskdeck.engine.store.writer import WAL_KEPT, Writer
from tests.faults import fault
from tests.scarce import on_a_small_disk, short_files

NOW = "2026-11-29T12:00:00.000000Z"


@pytest.mark.parametrize("part", ["", "-wal", "-shm"])
def test_a_read_only_part_of_a_database_is_named_before_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    path, kept = tmp_path / "taskdeck.db", tmp_path / f"taskdeck.db{part}"
    for each in ("", "-wal", "-shm"):
        (tmp_path / f"taskdeck.db{each}").touch()
    refuse_what_is_read_only(path)
    monkeypatch.setattr(os, "access", lambda name, mode: Path(name) != kept)  # root may write everything
    with pytest.raises(StorageTrouble, match=f"{kept} can't be written: it is read-only"):
        refuse_what_is_read_only(path)
    monkeypatch.setattr(os, "geteuid", lambda: kept.stat().st_uid + 1)
    with pytest.raises(NotPermitted, match=f"{kept} can't be written: it is another user's"):
        refuse_what_is_read_only(path)


def test_a_log_that_comes_while_it_is_looked_for_is_not_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = tmp_path / "taskdeck.db", os.access

    def comes_meanwhile(name: Path, mode: int) -> bool:
        allowed = asked(name, mode)
        Path(name).touch()
        return allowed

    monkeypatch.setattr(os, "access", comes_meanwhile)
    refuse_what_is_read_only(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "taskdeck.db"


@pytest_asyncio.fixture
async def writer(path: Path) -> AsyncIterator[Writer]:
    made = Writer(open_for_writing(path, NOW), path, clock=ManualClock(), boot_id="b", redactor=Redactor())
    made.start()
    await made.write(note, "first")
    yield made
    if not made._closed:
        await made.close()


def note(tx: Transaction, message: str) -> str:
    tx.event("NOTE", actor="engine", message=message)
    return message


def nothing(tx: Transaction) -> None:
    return


def pragma(tx: Transaction, text: str) -> int:
    return tx.connection.execute(f"PRAGMA {text}").fetchone()[0]


def messages(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT message FROM event_log ORDER BY event_id")]


def bulk(tx: Transaction) -> None:
    tx.event("NOTE", actor="engine", message="x" * 4_000_000, ours=True)


def contents(path: Path) -> list[bytes]:
    return [path.with_name(path.name + end).read_bytes() for end in ("", "-wal")]


async def refused(writer: Writer, message: str, fault: Fault) -> StorageTrouble:
    with pytest.raises(StorageTrouble) as caught:
        await writer.write(note, message)
    assert writer.trouble is not None
    assert writer.trouble.fault is fault
    return caught.value


# ---- no room ---------------------------------------------------------------------------------------------------------


async def test_a_full_database_refuses_whole_groups_and_goes_on_when_there_is_room(
    writer: Writer, path: Path
) -> None:
    pages = await writer.write(pragma, "page_count")
    await writer.write(pragma, f"max_page_count = {pages}")
    await refused(writer, "x" * 100_000, Fault.FULL)
    await writer.write(nothing)
    assert writer.failing  # an empty commit proves nothing
    await writer.write(pragma, f"max_page_count = {pages + 1000}")
    await writer.write(note, "y" * 100_000)
    assert not writer.failing
    assert [message[:1] for message in messages(path)] == ["f", "y"]


async def test_an_error_of_the_disk_is_named_and_over_when_it_is(writer: Writer, path: Path) -> None:
    with short_files(os.stat(f"{path}-wal").st_size + 100):
        error = await refused(writer, "lost", Fault.BROKEN)
    assert "SQLITE_IOERR" in error.why
    await writer.write(note, "second")
    assert not writer.failing
    assert messages(path) == ["first", "second"]


def test_a_database_that_has_no_room_for_its_tables_is_a_matter_of_the_disk(tmp_path: Path) -> None:
    with (
        short_files(50_000),
        pytest.raises(StorageTrouble, match="can't be opened now: disk I/O error"),
    ):
        open_for_writing(tmp_path / "new.db", NOW)


async def test_a_database_that_became_read_only_is_told_of(writer: Writer, path: Path) -> None:
    connection = writer._transaction.connection
    connection.execute("PRAGMA query_only = 1")
    await refused(writer, "lost", Fault.READ_ONLY)
    connection.execute("PRAGMA query_only = 0")
    await writer.write(note, "second")
    assert messages(path) == ["first", "second"]


DISK = """
import asyncio, json, sys
from pathlib import Path
from tests.store.test_writer_trouble import NOW, ManualClock, Redactor, StorageTrouble, Writer, note, open_for_writing

async def main(folder):
    path = folder / "taskdeck.db"
    writer = Writer(open_for_writing(path, NOW), path, clock=ManualClock(), boot_id="b", redactor=Redactor())
    writer.start()
    told, written = [], []

    async def write(message):
        try:
            written.append((await writer.write(note, message))[:20])
        except StorageTrouble:
            told.append(writer.trouble.fault.value)

    await write("first")
    ballast = folder / "ballast"
    try:
        ballast.write_bytes(bytes(10_000_000))
    except OSError:
        pass
    await write("x" * 200_000)
    ballast.unlink()
    await write("after full")
    await writer.close()
    print(json.dumps({"told": told, "written": written}))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_disk_that_is_really_full_loses_nothing_and_is_gone_on_with(tmp_path: Path) -> None:
    done = on_a_small_disk(tmp_path, "2m", "-c", DISK, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"told": ["disk_full"], "written": ["first", "after full"]}


# ---- the file --------------------------------------------------------------------------------------------------------


async def test_a_database_that_was_moved_is_not_written_until_it_is_back(writer: Writer, path: Path) -> None:
    away = path.with_name("away.db")
    os.rename(path, away)
    error = await refused(writer, "lost", Fault.GONE)
    assert "was deleted or moved" in str(error)
    assert "put it back" in error.remedy
    away.rename(path)
    await writer.write(note, "back")
    assert not writer.failing
    assert messages(path) == ["first", "back"]


async def test_what_a_deleted_database_held_is_kept_in_a_copy_that_is_gone_on_with_once_it_is_put_there(
    writer: Writer, path: Path
) -> None:
    os.unlink(path)
    error = await refused(writer, "lost", Fault.GONE)
    copy = path.with_name("taskdeck.db.rescued")
    assert f"mv {copy} {path}" in error.remedy
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert messages(copy) == ["first"]
    await refused(writer, "lost too", Fault.GONE)
    assert [each.name for each in path.parent.glob("*rescued*")] == [copy.name]
    copy.rename(path)
    await writer.write(note, "back")
    assert not writer.failing
    await writer.close()
    assert messages(path) == ["first", "back"]


async def test_a_strangers_file_is_never_written(writer: Writer, path: Path) -> None:
    os.unlink(path)
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as stranger:
        stranger.execute("PRAGMA journal_mode = wal")
        stranger.execute("CREATE TABLE mine (x)")
        error = await refused(writer, "lost", Fault.REPLACED)
        assert "another file stands at" in str(error)
        before = contents(path)
        await writer.close()
        assert contents(path) == before
        assert stranger.execute("SELECT count(*) FROM mine").fetchone() == (0,)
    assert messages(path.with_name("taskdeck.db.rescued")) == ["first"]


async def test_a_removed_log_costs_nothing_since_what_it_held_is_taken_over(
    writer: Writer, path: Path
) -> None:
    path.with_name(path.name + "-wal").unlink()
    await writer.write(note, "second")
    assert not writer.failing
    assert messages(path) == ["first", "second"]
    await writer.close()
    assert messages(path) == ["first", "second"]


async def test_nothing_that_lies_where_the_copy_would_go_is_overwritten(writer: Writer, path: Path) -> None:
    earlier = path.with_name("taskdeck.db.rescued")
    earlier.write_bytes(b"of an earlier loss")
    os.unlink(path)
    error = await refused(writer, "lost", Fault.GONE)
    assert "taskdeck.db.rescued-2" in error.remedy
    assert earlier.read_bytes() == b"of an earlier loss"


# ---- readers ---------------------------------------------------------------------------------------------------------


@fault("TF112")
async def test_a_long_reader_holds_the_log_back_and_its_end_lets_the_file_shrink_without_a_restart(
    writer: Writer, path: Path
) -> None:
    wal = path.with_name(path.name + "-wal")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM event_log").fetchone()
    while wal.stat().st_size <= WAL_KEPT:
        await writer.write(bulk)
    await writer.write(nothing)  # answered after the round before it
    assert writer.held_back
    reader.execute("COMMIT")
    reader.close()
    for _ in range(2):
        await writer.write(nothing)  # one round of maintenance, and one that is answered after it
    assert not writer.held_back
    assert wal.stat().st_size <= WAL_KEPT


async def test_without_readers_the_log_stays_small(writer: Writer, path: Path) -> None:
    for _ in range(10):
        await writer.write(bulk)
    await writer.write(nothing)
    assert not writer.held_back
    assert path.with_name(path.name + "-wal").stat().st_size <= WAL_KEPT
