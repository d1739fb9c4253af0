"""Rows of engines and workers, and what workers can run. Constant SQL: each start and each heartbeat passes here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .inserting import insert_row
from .transaction import Transaction


def add_engine(tx: Transaction, **columns: Any) -> int:
    """Record the start of an engine. Returns its id."""
    return insert_row(tx.connection, "engine", {"started_at": tx.now, **columns})


def end_engine(tx: Transaction, engine_id: int, reason: str) -> None:
    """Record how an engine ended, once."""
    tx.connection.execute(
        "UPDATE engine SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL",
        (tx.now, reason, engine_id),
    )


def first_start(tx: Transaction) -> str | None:
    """When the first engine started on this database (UTC text)."""
    return tx.connection.execute("SELECT min(started_at) FROM engine").fetchone()[0]


def open_engines(tx: Transaction) -> list[dict[str, Any]]:
    """Engines that never said how they ended."""
    return tx.rows("SELECT * FROM engine WHERE ended_at IS NULL ORDER BY id")


def add_worker(tx: Transaction, **columns: Any) -> int:
    """Record a worker process; committed before its first frame is answered."""
    defaults = {"state": "STARTING", "started_at": tx.now, "handlers": "", "recorded": 0, "tasks": 0}
    return insert_row(tx.connection, "worker", defaults | columns)


def open_workers(tx: Transaction) -> list[dict[str, Any]]:
    """Workers that are not known to have ended."""
    return tx.rows("SELECT * FROM worker WHERE ended_at IS NULL ORDER BY id")


def worker_of(tx: Transaction, incarnation: str) -> dict[str, Any] | None:
    """The worker of this incarnation, living or not; None = it was never one of this database."""
    return tx.row("SELECT * FROM worker WHERE incarnation = ?", incarnation)


def set_worker(
    tx: Transaction, worker_id: int, state: str, *, only_from: str | None = None, evidence: str | None = None
) -> bool:
    """Change the state of a live worker (only one in state `only_from`, if given). Returns whether that was a change.

    `evidence`: what makes it suspect, or away; nothing for other states.
    """
    changed = tx.connection.execute(
        "UPDATE worker SET state = ?, evidence = ? WHERE id = ? AND ended_at IS NULL AND state <> ?"
        " AND state = coalesce(?, state)",
        (state, evidence, worker_id, state, only_from),
    )
    return changed.rowcount == 1


def beat(tx: Transaction, worker_id: int, rss: int) -> None:
    """Record a heartbeat."""
    tx.connection.execute(
        "UPDATE worker SET last_heartbeat = ?, rss = ? WHERE id = ? AND ended_at IS NULL",
        (tx.now, rss, worker_id),
    )


def recorded(tx: Transaction, worker_id: int) -> int:
    """The number of the last report of a worker that is recorded; 0 = none is."""
    row = tx.connection.execute("SELECT recorded FROM worker WHERE id = ?", (worker_id,)).fetchone()
    return row[0] if row else 0


def note_recorded(tx: Transaction, worker_id: int, number: int, begun: int) -> None:
    """Its reports up to this number are recorded in this transaction; with them, `begun` attempts were begun."""
    tx.connection.execute(
        "UPDATE worker SET recorded = ?, tasks = tasks + ? WHERE id = ? AND recorded < ?",
        (number, begun, worker_id, number),
    )


def end_worker(tx: Transaction, worker_id: int, state: str, reason: str) -> bool:
    """Record the end (ENDED) or loss (LOST) of a worker, once. Returns whether it was still open."""
    ended = tx.connection.execute(
        "UPDATE worker SET ended_at = ?, state = ?, end_reason = ?, evidence = NULL WHERE id = ? AND ended_at IS NULL",
        (tx.now, state, reason, worker_id),
    )
    return ended.rowcount == 1


def publish_types(tx: Transaction, types: Sequence[tuple[str, str]]) -> list[str]:
    """Record what the newest worker can run: (name, settings JSON). Returns the names that are new or changed."""
    known = type_settings(tx)
    changed = [name for name, settings in types if known.get(name) != settings]
    for name, settings in types:
        if name in changed:
            tx.connection.execute(
                "REPLACE INTO task_type(name, settings, published_at) VALUES (?, ?, ?)",
                (name, settings, tx.now),
            )
    for name in set(known) - {name for name, _ in types}:
        tx.connection.execute("DELETE FROM task_type WHERE name = ?", (name,))
    return changed


def type_settings(tx: Transaction) -> dict[str, str]:
    """The published types: name → settings JSON."""
    return dict(tx.connection.execute("SELECT name, settings FROM task_type").fetchall())
