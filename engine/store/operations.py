"""Operations: one business effect by scope and key, recorded at most once; doubt is a state of its own (invariant 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..rules.timing import seconds_between
from .tasks import family_scope
from .transaction import Transaction

BEGUN = "state IN ('BEGUN','IN_DOUBT') AND state = 'BEGUN'"
"""The first half is spelled as in the index of the open ones, or all that were ever done are read."""
_UPDATE = "UPDATE operation INDEXED BY operation_open"


def find(tx: Transaction, scope: str, key: str) -> dict[str, Any] | None:
    """The operation of this scope and key, or None."""
    return tx.row("SELECT * FROM operation WHERE scope = ? AND operation_key = ?", scope, key)


def begin(tx: Transaction, scope: str, key: str, task_id: int, attempt_id: int, fence: int) -> None:
    """Record the intent; an operation that was certainly not done is begun again."""
    tx.connection.execute(
        "INSERT INTO operation(scope, operation_key, task_id, attempt_id, fence, state, begun_at)"
        " VALUES (?,?,?,?,?,'BEGUN',?) ON CONFLICT (scope, operation_key) DO UPDATE SET task_id = excluded.task_id,"
        " attempt_id = excluded.attempt_id, fence = excluded.fence, state = 'BEGUN', result = NULL,"
        " begun_at = excluded.begun_at, ended_at = NULL WHERE operation.state IN ('NOT_DONE')",
        (scope, key, task_id, attempt_id, fence, tx.now),
    )


def adopt(tx: Transaction, operation_id: int, task_id: int, attempt_id: int, fence: int) -> None:
    """A later attempt takes on an operation in doubt; `doubt_at` stays, since it dates the late request."""
    tx.connection.execute(
        "UPDATE operation SET task_id = ?, attempt_id = ?, fence = ? WHERE id = ?",
        (task_id, attempt_id, fence, operation_id),
    )


def settle(tx: Transaction, operation_id: int, state: str, result: str | None) -> None:
    """Set the operation to DONE, NOT_DONE or IN_DOUBT. DONE is final."""
    if state == "IN_DOUBT":
        _doubt(tx, "id = ? AND state NOT IN ('DONE','IN_DOUBT')", operation_id)
        return
    tx.connection.execute(
        "UPDATE operation SET state = ?, result = ?, ended_at = ?, doubt_at = NULL WHERE id = ? AND state <> 'DONE'",
        (state, result, tx.now, operation_id),
    )


def doubt_open_ones(tx: Transaction, fence: int, reason: str) -> None:
    """What an attempt that is gone had begun and not recorded is in doubt from now on, and an event says so."""
    _tell(tx, _doubt(tx, f"{BEGUN} AND fence = ?", fence), reason)


def forget_open_ones(tx: Transaction, fence: int) -> None:
    """What was begun with the claim of an attempt that never started has certainly not happened."""
    tx.connection.execute(
        f"{_UPDATE} SET state = 'NOT_DONE', ended_at = ? WHERE {BEGUN} AND fence = ?",
        (tx.now, fence),
    )


def doubt_without_attempt(tx: Transaction, reason: str) -> None:
    """Operations that were begun by attempts which have ended since: in doubt as well, and an event says so of each."""
    ended = "EXISTS (SELECT 1 FROM attempt WHERE attempt.id = attempt_id AND attempt.ended_at IS NOT NULL)"
    _tell(tx, _doubt(tx, f"{BEGUN} AND {ended}"), reason)


def _tell(tx: Transaction, doubted: list[tuple[int, str]], reason: str) -> None:
    for task_id, key in doubted:
        tx.event(
            "OPERATION_IN_DOUBT",
            actor="engine",
            task_id=task_id,
            level="warning",
            reason=reason,
            message=f"begun, not recorded: {key}",
            payload={"key": key},
        )


def _doubt(tx: Transaction, condition: str, *args: Any) -> list[tuple[int, str]]:
    """From now on it is not known whether these happened: nobody who began them can send anything any more."""
    rows = tx.connection.execute(
        "UPDATE operation SET state = 'IN_DOUBT', result = NULL, ended_at = NULL, doubt_at = ?, doubt_boot = ?,"
        f" doubt_boot_id = ? WHERE {condition} RETURNING task_id, operation_key",
        (tx.now, tx.boot, tx.boot_id, *args),
    ).fetchall()
    return sorted(rows)


def doubted_for(tx: Transaction, operation: Mapping[str, Any]) -> float:
    """Seconds for which an operation has been in doubt, on the boot clock, which no step of the wall clock moves.

    One of an earlier boot is at least as old as this one.
    """
    if operation["doubt_boot_id"] == tx.boot_id:
        return max(0.0, tx.boot - operation["doubt_boot"])
    if operation["doubt_boot_id"] is not None:
        return tx.boot
    return max(0.0, seconds_between(operation["doubt_at"] or operation["begun_at"], tx.now))


def of_task(tx: Transaction, task_id: int) -> list[dict[str, Any]]:
    """All operations of a task, those that it shares with its retries and clones included, in the order of their intents."""
    return tx.rows(
        "SELECT * FROM operation WHERE task_id = ? OR scope = ? ORDER BY id",
        task_id,
        family_scope(tx, task_id),
    )


def in_doubt(tx: Transaction, task_id: int) -> list[dict[str, Any]]:
    """Those of them of which nobody knows whether they happened."""
    return [row for row in of_task(tx, task_id) if row["state"] == "IN_DOUBT"]
