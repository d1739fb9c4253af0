"""Requests of people: rows, so that an undo, a dropped line and a restart change nothing about them.

One dated ahead (`not_before`) can be taken back until then, and is carried out by whoever holds the database when it is due.
"""

from __future__ import annotations

from typing import Any

from .inserting import insert_one
from .transaction import Transaction, marks

MANNERS = {"pause": ("pause", "stop"), "resume": ("resume",), "cancel": ("cancel", "kill")}
"""What is wanted of a task (`task.wanted`) → the verbs that ask for it, the gentler first."""

DATED = "not_before > created_at"
"""Is it dated ahead at all? What is not stands at once and for good, also where the clock is set back behind it."""
_STANDS = "not_before <= max(created_at, ?)"
"""Does it hold at this time (UTC text): was it never dated ahead, or is it due?"""
_AHEAD = f"NOT {_STANDS}"

_ADD = "INSERT INTO request(verb, task_id, args, actor, created_at, not_before) VALUES "
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
    row = (verb, task_id, args, actor, tx.now, not_before or tx.now)
    return insert_one(tx.connection, _ADD, f"({marks(len(row))})", row)


def close(tx: Transaction, request_id: int, outcome: str) -> None:
    """Close a request with what became of it."""
    tx.connection.execute(
        "UPDATE request SET done_at = ?, outcome = ? WHERE id = ? AND done_at IS NULL",
        (tx.now, outcome, request_id),
    )


def answer(tx: Transaction, request_id: int, outcome: str) -> None:
    """What became of a request that is closed."""
    tx.connection.execute("UPDATE request SET outcome = ? WHERE id = ?", (outcome, request_id))


def close_all_of(tx: Transaction, task_id: int, outcome: str) -> None:
    """Close what is still open for a task; what is dated ahead stands, whatever became of the attempt meanwhile."""
    tx.connection.execute(_CLOSE_ALL, (tx.now, outcome, task_id, tx.now))


def standing(tx: Transaction, task_id: int) -> str | None:
    """The verb of what is asked of a living attempt and not answered yet: pause, stop, resume, cancel or kill."""
    return _newest(tx, "verb", "task_id = ?", task_id)


def wishes(tx: Transaction) -> list[dict[str, Any]]:
    """The wishes that are still open: id, fence, worker_id, and as `verb` what is wanted in which manner."""
    return tx.rows(_WISHES, tx.now)


def actor_of(tx: Transaction, task_id: int, wish: str) -> str | None:
    """Who asked for `wish` (pause, resume, cancel; in whichever manner) last, if that is still open."""
    verbs = MANNERS[wish]
    return _newest(tx, "actor", f"task_id = ? AND verb IN ({marks(len(verbs))})", task_id, *verbs)


def _newest(tx: Transaction, column: str, which: str, *args: Any) -> str | None:
    sql = f"SELECT {column} FROM request WHERE {which} AND done_at IS NULL AND {_STANDS} ORDER BY id DESC LIMIT 1"
    row = tx.connection.execute(sql, (*args, tx.now)).fetchone()
    return row[0] if row else None


def dated(tx: Transaction, task_id: int) -> list[dict[str, Any]]:
    """What is to happen to a task later: open requests that are dated ahead."""
    return _ahead(tx, "task_id = ?", task_id)


def latest_dated(tx: Transaction, actor: str) -> list[dict[str, Any]]:
    """What this actor asked for last, in one act, and is not due yet."""
    mine = _ahead(tx, "actor = ?", actor)
    return [each for each in mine if each["created_at"] == mine[-1]["created_at"]]


def last_closed(tx: Transaction, actor: str, task_ids: list[int]) -> list[dict[str, Any]]:
    """The last request of this actor for each of these tasks, where it is closed."""
    return tx.rows(
        "SELECT * FROM request WHERE done_at IS NOT NULL AND id IN (SELECT max(id) FROM request"
        f" WHERE actor = ? AND task_id IN ({marks(len(task_ids))}) GROUP BY task_id) ORDER BY task_id",
        actor,
        *task_ids,
    )


def _ahead(tx: Transaction, which: str, value: Any) -> list[dict[str, Any]]:
    return tx.rows(
        f"SELECT * FROM request WHERE {which} AND done_at IS NULL AND {_AHEAD} ORDER BY created_at, id",
        value,
        tx.now,
    )


def due(tx: Transaction) -> list[dict[str, Any]]:
    """Open requests that were dated ahead (undo) and whose time has come."""
    return tx.rows(_DUE, tx.now)


def next_dated(tx: Transaction) -> str | None:
    """When the next request that is dated ahead comes due (UTC text)."""
    return tx.connection.execute(_NEXT, (tx.now,)).fetchone()[0]
