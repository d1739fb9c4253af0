"""Rows of engines and workers: who they are exactly, since when, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .database import Transaction


def add_engine(tx: Transaction, **columns: Any) -> int:
    """Record the start of an engine. Returns its id."""
    return _insert(tx, "engine", {**columns, "started_at": tx.now})


def end_engine(tx: Transaction, engine_id: int, reason: str) -> None:
    """Record the end of an engine."""
    tx.connection.execute(
        "UPDATE engine SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL", (tx.now, reason, engine_id)
    )


def open_engines(tx: Transaction) -> list[dict[str, Any]]:
    """Engines that never said how they ended."""
    return tx.rows("SELECT * FROM engine WHERE ended_at IS NULL ORDER BY id")


def add_worker(tx: Transaction, **columns: Any) -> int:
    """Record a worker process; committed before its first frame is answered."""
    return _insert(tx, "worker", {**columns, "state": "STARTING", "started_at": tx.now})


def open_workers(tx: Transaction) -> list[dict[str, Any]]:
    """Workers that are not known to have ended."""
    return tx.rows("SELECT * FROM worker WHERE ended_at IS NULL ORDER BY id")


def set_worker(tx: Transaction, worker_id: int, state: str) -> bool:
    """Change the state of a live worker. Returns whether that was a change."""
    return (
        tx.connection.execute(
            "UPDATE worker SET state = ? WHERE id = ? AND ended_at IS NULL AND state <> ?", (state, worker_id, state)
        ).rowcount
        == 1
    )


def beat(tx: Transaction, worker_id: int, rss: int) -> None:
    """Record a heartbeat."""
    tx.connection.execute(
        "UPDATE worker SET last_heartbeat = ?, rss = ?, state = CASE state WHEN 'SUSPECT' THEN 'READY' ELSE state END"
        " WHERE id = ? AND ended_at IS NULL",
        (tx.now, rss, worker_id),
    )


def end_worker(tx: Transaction, worker_id: int, state: str, reason: str) -> bool:
    """Record the end (ENDED) or loss (LOST) of a worker, once. Returns whether it was still open."""
    return (
        tx.connection.execute(
            "UPDATE worker SET ended_at = ?, state = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL",
            (tx.now, state, reason, worker_id),
        ).rowcount
        == 1
    )


def publish_types(tx: Transaction, types: Sequence[tuple[str, str]]) -> list[str]:
    """Record what the newest worker can run: (name, settings JSON). Returns the names that are new or changed."""
    known = dict(tx.connection.execute("SELECT name, settings FROM task_type").fetchall())
    changed = [name for name, settings in types if known.get(name) != settings]
    for name, settings in types:
        if name in changed:
            tx.connection.execute("INSERT OR REPLACE INTO task_type VALUES (?,?,?)", (name, settings, tx.now))
    for name in set(known) - {name for name, _ in types}:
        tx.connection.execute("DELETE FROM task_type WHERE name = ?", (name,))
    return changed


def types(tx: Transaction) -> dict[str, str]:
    """The published types: name → settings JSON."""
    return dict(tx.connection.execute("SELECT name, settings FROM task_type").fetchall())


def holds(tx: Transaction) -> dict[str, str]:
    """What is held: scope (`queue` or `type:NAME`) → actor."""
    return dict(tx.connection.execute("SELECT scope, actor FROM hold").fetchall())


def _insert(tx: Transaction, table: str, columns: dict[str, Any]) -> int:
    names = ", ".join(columns)
    marks = ",".join("?" * len(columns))
    cursor = tx.connection.execute(f"INSERT INTO {table}({names}) VALUES ({marks})", tuple(columns.values()))
    assert cursor.lastrowid is not None
    return cursor.lastrowid
