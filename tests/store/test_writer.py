from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.errors import Unavailable
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.transaction import Transaction
from taskdeck.engine.store.writer import Writer
from tests.faults import fault

NOW = "2026-11-29T12:00:00.000000Z"


@pytest_asyncio.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    path = tmp_path / "taskdeck.db"
    made = Writer(open_for_writing(path, NOW), path, clock=ManualClock(), boot_id="b", redactor=Redactor())
    made.start()
    yield made
    if not made._closed:
        await made.close()


def note(tx: Transaction, message: str) -> str:
    tx.event("NOTE", actor="engine", message=message)
    return message


def fail(tx: Transaction) -> None:
    note(tx, "never seen")
    raise ValueError("mine alone")


def messages(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return [row[0] for row in connection.execute("SELECT message FROM event_log ORDER BY event_id")]
    finally:
        connection.close()


async def test_what_is_answered_is_durable_and_in_order(writer: Writer, tmp_path: Path) -> None:
    results = await asyncio.gather(*(writer.write(note, str(number)) for number in range(500)))
    assert results == [str(number) for number in range(500)] == messages(tmp_path / "taskdeck.db")


async def test_units_that_wait_together_share_commits(writer: Writer) -> None:
    await asyncio.gather(*(writer.write(note, str(number)) for number in range(500)))
    assert writer.commits < 250


async def test_one_bad_unit_hurts_nobody_else(writer: Writer, tmp_path: Path) -> None:
    outcomes = await asyncio.gather(
        writer.write(note, "a"), writer.write(fail), writer.write(note, "b"), return_exceptions=True
    )
    assert [str(outcome) for outcome in outcomes] == ["a", "mine alone", "b"]
    assert messages(tmp_path / "taskdeck.db") == ["a", "b"]


@fault("TF106")
@fault("TF028")
async def test_a_lock_held_by_somebody_else_is_waited_for(writer: Writer, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "taskdeck.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = writer.write(note, "patient")
    await asyncio.wait({waiting}, timeout=0.2)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    assert await waiting == "patient"


@fault("TF110")
async def test_closing_finishes_what_was_queued_and_takes_no_more(writer: Writer, tmp_path: Path) -> None:
    queued = [writer.write(note, str(number)) for number in range(20)]
    await writer.close()
    assert [future.result() for future in queued] == messages(tmp_path / "taskdeck.db")
    with pytest.raises(Unavailable):
        writer.write(note, "late")


@fault("TF112")
async def test_the_write_ahead_log_is_gone_after_a_clean_end(writer: Writer, tmp_path: Path) -> None:
    await asyncio.gather(*(writer.write(note, "x" * 1000) for _ in range(100)))
    await writer.close()
    wal = tmp_path / "taskdeck.db-wal"
    assert not wal.exists() or wal.stat().st_size == 0


@fault("TF109")
async def test_many_threads_write_over_the_one_connection_of_one_thread(
    writer: Writer, tmp_path: Path
) -> None:
    loop = asyncio.get_running_loop()

    async def write(message: str) -> str:
        return await writer.write(note, message)

    def go_on(name: str) -> None:
        for number in range(200):
            asyncio.run_coroutine_threadsafe(write(f"{name} {number}"), loop).result()

    await asyncio.gather(*(asyncio.to_thread(go_on, name) for name in ("heartbeat", "task")))
    written = messages(tmp_path / "taskdeck.db")
    for name in ("heartbeat", "task"):
        assert [each for each in written if each.startswith(name)] == [
            f"{name} {number}" for number in range(200)
        ]
