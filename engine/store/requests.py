"""Requests of people: rows, so that an undo, a dropped line and a restart change nothing about them."""

from __future__ import annotations

from typing import Any

from peewee import fn

from .tables import Request
from .transaction import Transaction


def add(
    tx: Transaction, verb: str, task_id: int | None, actor: str, args: str = "{}", not_before: str = ""
) -> int:
    """Record an open request. `not_before` is UTC text, now by default. Returns its id."""
    return Request.insert(
        verb=verb, task_id=task_id, args=args, actor=actor, created_at=tx.now, not_before=not_before or tx.now
    ).execute(tx.db)


def close(tx: Transaction, request_id: int, outcome: str) -> None:
    """Close a request with what became of it."""
    _close(tx, outcome, Request.id == request_id)


def close_all_of(tx: Transaction, task_id: int, outcome: str) -> None:
    """Close what is still open for a task."""
    _close(tx, outcome, Request.task_id == task_id)


def _close(tx: Transaction, outcome: str, which: Any) -> None:
    Request.update(done_at=tx.now, outcome=outcome).where(which, Request.done_at.is_null()).execute(tx.db)


def actor_of(tx: Transaction, task_id: int, verb: str) -> str | None:
    """Who asked for `verb` on this task last, if that is still open."""
    query = Request.select(Request.actor).where(
        Request.task_id == task_id, Request.verb == verb, Request.done_at.is_null()
    )
    row = next(iter(query.order_by(Request.id.desc()).limit(1).tuples().execute(tx.db)), None)
    return row[0] if row else None


def due(tx: Transaction) -> list[dict[str, Any]]:
    """Open requests that were dated ahead (undo) and whose time has come."""
    query = Request.select(Request.id, Request.verb, Request.task_id, Request.args, Request.actor).where(
        Request.done_at.is_null(), Request.not_before <= tx.now, Request.not_before > Request.created_at
    )
    return list(query.order_by(Request.id).dicts().execute(tx.db))


def next_dated(tx: Transaction) -> str | None:
    """When the next request that is dated ahead comes due (UTC text)."""
    query = Request.select(fn.min(Request.not_before)).where(
        Request.done_at.is_null(), Request.not_before > tx.now
    )
    return next(iter(query.tuples().execute(tx.db)))[0]
