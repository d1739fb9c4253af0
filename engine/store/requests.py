"""Requests of people: rows, so that an undo, a dropped line and a restart change nothing about them.

One dated ahead (`not_before`) can be taken back until then, and is carried out by whoever holds the database when it is due.
"""

from __future__ import annotations

from typing import Any

from peewee import SQL, fn

from . import models as m
from .transaction import Transaction

MANNERS = {"pause": ("pause", "stop"), "resume": ("resume",), "cancel": ("cancel", "kill")}
"""What is wanted of a task (`task.wanted`) → the verbs that ask for it, the gentler first."""

DATED = "not_before > created_at"
"""Is it dated ahead at all? What is not stands at once and for good, also where the clock is set back behind it."""
_STANDS = "not_before <= max(created_at, ?)"
"""Does it hold at this time (UTC text): was it never dated ahead, or is it due?"""
_AHEAD = f"NOT {_STANDS}"

# With each tick or each end of an attempt, hence constant SQL (docs/decisions/0003).
_CLOSE_ALL = (
    f"UPDATE request SET done_at = ?, outcome = ? WHERE task_id = ? AND done_at IS NULL AND {_STANDS}"
)
_DUE = (
    "SELECT id, verb, task_id, args, actor FROM request INDEXED BY request_open"
    f" WHERE done_at IS NULL AND not_before <= ? AND {DATED} ORDER BY id"
)
_NEXT = f"SELECT min(not_before) FROM request WHERE done_at IS NULL AND {_AHEAD}"
_WISHES = (
    "SELECT id, fence, worker_id, coalesce((SELECT verb FROM request WHERE task_id = task.id AND done_at IS NULL"
    f" AND {_STANDS} ORDER BY request.id DESC LIMIT 1), wanted) AS verb FROM task WHERE wanted IS NOT NULL"
)


def add(
    tx: Transaction, verb: str, task_id: int | None, actor: str, args: str = "{}", not_before: str = ""
) -> int:
    """Record an open request. `not_before` is UTC text, now by default. Returns its id."""
    return m.Request.insert(
        verb=verb, task_id=task_id, args=args, actor=actor, created_at=tx.now, not_before=not_before or tx.now
    ).execute(tx.db)


def close(tx: Transaction, request_id: int, outcome: str) -> None:
    """Close a request with what became of it."""
    _close(tx, outcome, m.Request.id == request_id)


def answer(tx: Transaction, request_id: int, outcome: str) -> None:
    """What became of a request that is closed."""
    m.Request.update(outcome=outcome).where(m.Request.id == request_id).execute(tx.db)


def close_all_of(tx: Transaction, task_id: int, outcome: str) -> None:
    """Close what is still open for a task; what is dated ahead stands, whatever became of the attempt meanwhile."""
    tx.connection.execute(_CLOSE_ALL, (tx.now, outcome, task_id, tx.now))


def _close(tx: Transaction, outcome: str, *which: Any) -> None:
    m.Request.update(done_at=tx.now, outcome=outcome).where(*which, m.Request.done_at.is_null()).execute(
        tx.db
    )


def standing(tx: Transaction, task_id: int) -> str | None:
    """The verb of what is asked of a living attempt and not answered yet: pause, stop, resume, cancel or kill."""
    return _newest(tx, m.Request.verb, m.Request.task_id == task_id)


def wishes(tx: Transaction) -> list[dict[str, Any]]:
    """The wishes that are still open: id, fence, worker_id, and as `verb` what is wanted in which manner."""
    return tx.rows(_WISHES, tx.now)


def actor_of(tx: Transaction, task_id: int, wish: str) -> str | None:
    """Who asked for `wish` (pause, resume, cancel; in whichever manner) last, if that is still open."""
    return _newest(tx, m.Request.actor, m.Request.task_id == task_id, m.Request.verb.in_(MANNERS[wish]))


def _newest(tx: Transaction, column: Any, *which: Any) -> str | None:
    query = m.Request.select(column).where(*which, m.Request.done_at.is_null(), SQL(_STANDS, (tx.now,)))
    row = next(iter(query.order_by(m.Request.id.desc()).limit(1).tuples().execute(tx.db)), None)
    return row[0] if row else None


def dated(tx: Transaction, task_id: int) -> list[dict[str, Any]]:
    """What is to happen to a task later: open requests that are dated ahead."""
    return _ahead(tx, m.Request.task_id == task_id)


def latest_dated(tx: Transaction, actor: str) -> list[dict[str, Any]]:
    """What this actor asked for last, in one act, and is not due yet."""
    mine = _ahead(tx, m.Request.actor == actor)
    return [each for each in mine if each["created_at"] == mine[-1]["created_at"]]


def last_closed(tx: Transaction, actor: str, task_ids: list[int]) -> list[dict[str, Any]]:
    """The last request of this actor for each of these tasks, where it is closed."""
    mine = m.Request.select(fn.MAX(m.Request.id)).where(
        m.Request.actor == actor, m.Request.task_id.in_(task_ids)
    )
    query = m.Request.select().where(
        m.Request.id.in_(mine.group_by(m.Request.task_id)), m.Request.done_at.is_null(False)
    )
    return list(query.order_by(m.Request.task_id).dicts().execute(tx.db))


def _ahead(tx: Transaction, which: Any) -> list[dict[str, Any]]:
    query = m.Request.select().where(which, m.Request.done_at.is_null(), SQL(_AHEAD, (tx.now,)))
    return list(query.order_by(m.Request.created_at, m.Request.id).dicts().execute(tx.db))


def due(tx: Transaction) -> list[dict[str, Any]]:
    """Open requests that were dated ahead (undo) and whose time has come."""
    return tx.rows(_DUE, tx.now)


def next_dated(tx: Transaction) -> str | None:
    """When the next request that is dated ahead comes due (UTC text)."""
    return tx.connection.execute(_NEXT, (tx.now,)).fetchone()[0]
