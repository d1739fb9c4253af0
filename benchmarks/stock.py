"""Databases of any size, made in seconds: one real task and what it has on record, multiplied by SQL.

The hashes of multiplied events are random: the chain goes on behind them, but `audit verify` would find them.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from .home import Home, until

NUMBERS = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < {count})"


def finished(made: Home, count: int) -> None:
    """`count` ended tasks with their attempts and events."""
    made.add(1)
    made.start("--until-idle")
    until(lambda: made.count("SUCCESS") == 1, "the pattern")
    made.stop()
    with closing(sqlite3.connect(made.db)) as connection:
        connection.execute("PRAGMA foreign_keys = 0")
        pattern = connection.execute("SELECT max(id) FROM task").fetchone()[0]
        fence = connection.execute("SELECT max(fence) FROM attempt").fetchone()[0]
        events = connection.execute(
            "SELECT count(*) FROM event_log WHERE task_id = ?", (pattern,)
        ).fetchone()[0]
        last = connection.execute("SELECT max(event_id) FROM event_log").fetchone()[0]
        _copy(
            connection, "task", {"id": f"{pattern} + i", "fence": f"{fence} + i"}, count, f"p.id = {pattern}"
        )
        _copy(
            connection,
            "attempt",
            {"id": "p.id + i", "task_id": f"{pattern} + i", "fence": f"{fence} + i"},
            count,
            f"p.task_id = {pattern}",
        )
        place = f"(SELECT count(*) FROM event_log e WHERE e.task_id = {pattern} AND e.event_id <= p.event_id)"
        _copy(
            connection,
            "event_log",
            {
                "event_id": f"{last} + (i - 1) * {events} + {place}",
                "task_id": f"{pattern} + i",
                "hash": "lower(hex(randomblob(32)))",
            },
            count,
            f"p.task_id = {pattern}",
        )
        connection.execute(f"UPDATE sequence SET value = value + {count} WHERE name = 'fence'")
        connection.execute(
            "UPDATE event_head SET (event_id, count, hash) ="
            f" (SELECT event_id, count + {count * events}, e.hash FROM event_log e ORDER BY event_id DESC LIMIT 1)"
        )
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def waiting(made: Home, count: int, *, due: bool = True) -> None:
    """`count` no-ops that wait, for their turn or for a far day."""
    made.add(1)
    with closing(sqlite3.connect(made.db)) as connection:
        pattern = connection.execute("SELECT max(id) FROM task").fetchone()[0]
        columns = {"id": f"{pattern} + i", "payload": "CAST(i AS TEXT)"}
        _copy(connection, "task", columns, count - 1, f"p.id = {pattern}")
        if not due:
            connection.execute(
                "UPDATE task SET next_run_at = '2099-01-01T00:00:00.000000Z' WHERE state = 'PENDING'"
            )
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def running(made: Home, count: int) -> None:
    """`count` tasks that a worker held which is gone."""
    waiting(made, count)
    with closing(sqlite3.connect(made.db)) as connection:
        connection.executescript(
            "INSERT INTO engine(incarnation, pid, start_time, boot_id, host, code_version, started_at, ended_at)"
            " SELECT 'gone', 4000000, 1, 'earlier', 'here', '0', created_at, created_at FROM task LIMIT 1;"
            "INSERT INTO worker(incarnation, engine_id, pid, start_time, boot_id, host, code_version, state, started_at)"
            " SELECT 'gone', max(e.id), 4000000, 1, 'earlier', 'here', '0', 'READY', max(t.created_at)"
            " FROM engine e, task t;"
            "UPDATE task SET state = 'RUNNING', reason = 'dispatched', attempt = 1, fence = id, started_at = created_at,"
            " worker_id = (SELECT max(id) FROM worker), lease_until = created_at, lease_until_boot = 1,"
            " boot_id = 'earlier' WHERE state = 'PENDING';"
            "INSERT INTO attempt(task_id, number, worker_id, fence, dispatched_at, started_at)"
            " SELECT id, 1, worker_id, fence, created_at, created_at FROM task WHERE state = 'RUNNING';"
            "UPDATE sequence SET value = (SELECT max(fence) FROM task) WHERE name = 'fence';"
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _copy(
    connection: sqlite3.Connection, table: str, changed: dict[str, str], count: int, which: str
) -> None:
    """`count` copies of the rows `which` (of `p`) of a table, some columns computed from i = 1, 2, …"""
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    values = [changed.get(name, f"p.{name}") for name in names]
    connection.execute(
        f"{NUMBERS.format(count=count)} INSERT INTO {table}({', '.join(names)})"
        f" SELECT {', '.join(values)} FROM n CROSS JOIN (SELECT * FROM {table} WHERE {which.replace('p.', '')}) p"
    )
