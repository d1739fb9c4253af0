"""Operations: one business effect by scope and key, recorded at most once; doubt is a state of its own (invariant 5)."""

from __future__ import annotations

from typing import Any

from .transaction import Transaction


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
    """A later attempt takes on an operation in doubt; `begun_at` stays, since it dates the late request."""
    tx.connection.execute(
        "UPDATE operation SET task_id = ?, attempt_id = ?, fence = ? WHERE id = ?",
        (task_id, attempt_id, fence, operation_id),
    )


def settle(tx: Transaction, operation_id: int, state: str, result: str | None) -> None:
    """Set the operation to DONE, NOT_DONE or IN_DOUBT. DONE is final."""
    tx.connection.execute(
        "UPDATE operation SET state = ?, result = ?, ended_at = ? WHERE id = ? AND state <> 'DONE'",
        (state, result, tx.now if state != "IN_DOUBT" else None, operation_id),
    )


def doubt_open_ones(tx: Transaction, fence: int) -> list[str]:
    """What an attempt that is gone had begun and not recorded is in doubt from now on. Returns the keys."""
    rows = tx.connection.execute(
        "UPDATE operation SET state = 'IN_DOUBT' WHERE fence = ? AND state = 'BEGUN' RETURNING operation_key",
        (fence,),
    ).fetchall()
    return sorted(row[0] for row in rows)


def doubt_without_attempt(tx: Transaction) -> list[str]:
    """Operations that were begun by attempts which have ended since: in doubt as well. Returns the keys."""
    rows = tx.connection.execute(
        "UPDATE operation SET state = 'IN_DOUBT' WHERE state = 'BEGUN' AND attempt_id IN"
        " (SELECT id FROM attempt WHERE ended_at IS NOT NULL) RETURNING operation_key"
    ).fetchall()
    return sorted(row[0] for row in rows)
