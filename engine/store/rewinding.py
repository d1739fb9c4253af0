"""What a database that is about to be replaced by an older copy of itself knows, and what the copy must be told of it.

A restore is a known rewind: numbers that were given out since must not be given out again, above all fences, by which a stale
worker is refused.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from ..rules.chain import Head
from .transaction import Transaction

FENCES_UNKNOWN = 1_000_000_000
"""By how much the fences jump where nobody can say how many were drawn since."""
NUMBERS_UNKNOWN = 1_000_000
"""The same for the ids of tasks, attempts, workers."""


class Later(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the time after the copy. `same_history`: the replaced database went on from where the copy stands;
    only then are the other fields told."""

    same_history: bool = False
    last_event: int = 0
    fence: int = 0
    numbers: dict[str, int] = {}
    tasks: dict[int, tuple[str, int]] = {}
    """State and number of attempts of every task that was open at the copy or had attempts since."""
    added: int = 0
    open_workers: list[dict[str, Any]] = []


def look(replaced: Path, head: Head, open_tasks: list[int]) -> Later:
    """Ask the database that is to be replaced. One that is missing, damaged or of another history says nothing."""
    if not replaced.exists():
        return Later()
    # Its log was brought in before; where that was not possible it is asked together with its log.
    mode = "mode=ro" if os.path.exists(f"{replaced}-wal") else "mode=ro&immutable=1"
    try:
        with closing(
            sqlite3.connect(f"file:{quote(str(replaced))}?{mode}", uri=True, timeout=5)
        ) as connection:
            connection.row_factory = sqlite3.Row
            return _look(connection, head, open_tasks)
    except sqlite3.Error:
        return Later()


def _look(connection: sqlite3.Connection, head: Head, open_tasks: list[int]) -> Later:
    workers = [dict(row) for row in connection.execute("SELECT * FROM worker WHERE ended_at IS NULL")]
    last = connection.execute("SELECT event_id, hash FROM event_head").fetchone()
    row = connection.execute("SELECT hash FROM event_log WHERE event_id = ?", (head.event_id,)).fetchone()
    known = row["hash"] if row else last["hash"] if last["event_id"] == head.event_id else None
    if known != head.hash:
        return Later(last_event=last["event_id"], open_workers=workers)
    numbers = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    newest = max(open_tasks, default=0)
    return Later(
        same_history=True,
        last_event=last["event_id"],
        fence=connection.execute("SELECT value FROM sequence WHERE name = 'fence'").fetchone()[0],
        numbers=numbers,
        tasks={
            row["id"]: (row["state"], row["attempt"])
            for row in connection.execute("SELECT id, state, attempt FROM task WHERE id <= ?", (newest,))
        },
        added=_added(connection, head),
        open_workers=workers,
    )


def _added(connection: sqlite3.Connection, head: Head) -> int:
    sql = "SELECT count(*) FROM event_log WHERE event_id > ? AND event_type = 'TASK_CREATED'"
    return connection.execute(sql, (head.event_id,)).fetchone()[0]


def move_numbers_on(tx: Transaction, later: Later) -> None:
    """No id and no fence that may have been given out since the copy is given out again."""
    own = dict(tx.connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    for name, number in own.items():
        least = later.numbers.get(name, number) if later.same_history else number + NUMBERS_UNKNOWN
        tx.connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (max(number, least), name))
    for name in later.numbers.keys() - own.keys():
        tx.connection.execute(
            "INSERT INTO sqlite_sequence(name, seq) VALUES (?, ?)", (name, later.numbers[name])
        )
    fence = tx.connection.execute("SELECT value FROM sequence WHERE name = 'fence'").fetchone()[0]
    least = later.fence if later.same_history else fence + FENCES_UNKNOWN
    tx.connection.execute("UPDATE sequence SET value = ? WHERE name = 'fence'", (max(fence, least),))


def unfinished(tx: Transaction) -> list[dict[str, Any]]:
    """The tasks that may still run by themselves or that a person paused: their whole rows."""
    return tx.rows(
        "SELECT * FROM task WHERE state IN ('PENDING','RUNNING','PAUSED','RETRYING','LOST') ORDER BY id"
    )
