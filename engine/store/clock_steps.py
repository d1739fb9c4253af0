"""What a wall clock that was set back means for what waits: a wait of 30 s is over after 30 s, whatever the clock says.

A row that was written at a moment which has not come yet was written by a clock that ran ahead. Its wait begins anew now,
with its own length; it can only come later than it would have, never twice. Times that a person named are left as they are.
"""

from __future__ import annotations

from typing import Any

from ..rules.timing import add_seconds, seconds_between
from .requests import DATED
from .tasks import ENGINE
from .transaction import Transaction

_TASKS = (
    "SELECT id, updated_at AS began, next_run_at AS until FROM task WHERE state IN ('PENDING','RETRYING','PAUSED')"
    " AND NOT (next_run_at = scheduled_at AND scheduled_at > created_at) AND updated_at > ? AND next_run_at > ?"
)
"""All but those whose time was named when they were added. What was added for no time was due at once, and still is."""
_REQUESTS = (
    "SELECT id, created_at AS began, not_before AS until FROM request"
    f" WHERE done_at IS NULL AND created_at > ? AND {DATED}"
)


def restart_waits(tx: Transaction) -> list[int]:
    """Begin anew the waits that a clock which ran ahead has begun. Returns the tasks, in an event where there are any."""
    waiting = tx.rows(_TASKS, tx.now, tx.now)
    for row in waiting:
        args = (tx.now, _until(tx, row), row["id"])
        tx.connection.execute("UPDATE task SET updated_at = ?, next_run_at = ? WHERE id = ?", args)
    for row in tx.rows(_REQUESTS, tx.now):
        args = (tx.now, _until(tx, row), row["id"])
        tx.connection.execute("UPDATE request SET created_at = ?, not_before = ? WHERE id = ?", args)
    ids = [row["id"] for row in waiting]
    if ids:
        tx.event(
            "WAITS_RESTARTED",
            actor=ENGINE,
            level="warning",
            reason="clock_set_back",
            message=f"{len(ids)} waits had been begun by a clock that ran ahead; they begin anew",
            payload={"tasks": ids[:100]},
            ours=True,
        )
    return ids


def _until(tx: Transaction, row: dict[str, Any]) -> str:
    return add_seconds(tx.now, max(0.0, seconds_between(row["began"], row["until"])))
