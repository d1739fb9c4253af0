"""Requests of people: rows, so that an undo, a dropped line and a restart change nothing about them."""

from __future__ import annotations

from typing import Any

from .database import Transaction


def add(tx: Transaction, verb: str, task_id: int | None, actor: str, args: str = "{}", not_before: str = "") -> int:
    """Record an open request. `not_before` is UTC text, now by default. Returns its id."""
    cursor = tx.connection.execute(
        "INSERT INTO request(verb, task_id, args, actor, created_at, not_before) VALUES (?,?,?,?,?,?)",
        (verb, task_id, args, actor, tx.now, not_before or tx.now),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def close(tx: Transaction, request_id: int, outcome: str) -> None:
    """Close a request with what became of it."""
    tx.connection.execute(
        "UPDATE request SET done_at = ?, outcome = ? WHERE id = ? AND done_at IS NULL", (tx.now, outcome, request_id)
    )


def close_all_of(tx: Transaction, task_id: int, outcome: str) -> None:
    """Close what is still open for a task."""
    tx.connection.execute(
        "UPDATE request SET done_at = ?, outcome = ? WHERE task_id = ? AND done_at IS NULL", (tx.now, outcome, task_id)
    )


def actor_of(tx: Transaction, task_id: int, verb: str) -> str | None:
    """Who asked for `verb` on this task last, if that is still open."""
    row = tx.connection.execute(
        "SELECT actor FROM request WHERE task_id = ? AND verb = ? AND done_at IS NULL ORDER BY id DESC LIMIT 1",
        (task_id, verb),
    ).fetchone()
    return row[0] if row else None


def due(tx: Transaction) -> list[dict[str, Any]]:
    """Open requests whose time has come and that wait for nobody else: those that were dated ahead (undo)."""
    return tx.rows(
        "SELECT id, verb, task_id, args, actor FROM request WHERE done_at IS NULL AND not_before <= ?"
        " AND not_before > created_at ORDER BY id",
        tx.now,
    )


def next_dated(tx: Transaction) -> str | None:
    """When the next request that is dated ahead comes due (UTC text)."""
    return tx.connection.execute(
        "SELECT min(not_before) FROM request WHERE done_at IS NULL AND not_before > ?", (tx.now,)
    ).fetchone()[0]
