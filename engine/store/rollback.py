"""Rollback steps of tasks: registered before an effect, closed when done or dropped; and the end that waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import Refused
from ..rules.rollback import Ending
from .transaction import Transaction


def find(tx: Transaction, task_id: int, name: str, arguments: str, undoes: int | None) -> int | None:
    """The number of a step that stands already, with the same arguments; None = there is none."""
    known = tx.row(
        "SELECT number FROM rollback_step WHERE task_id = ? AND state = 'REGISTERED' AND name = ? AND arguments = ?"
        " AND undoes IS ?",
        task_id, name, arguments, undoes,
    )  # fmt: skip
    return known["number"] if known is not None else None


def register(
    tx: Transaction,
    attempt: Mapping[str, Any],
    name: str,
    arguments: str,
    *,
    repeatable: bool,
    undoes: int | None,
) -> int:
    """Add a step behind the others. Returns its number."""
    task_id = attempt["task_id"]
    last = tx.connection.execute("SELECT max(number) FROM rollback_step WHERE task_id = ?", (task_id,))
    number = (last.fetchone()[0] or 0) + 1
    tx.connection.execute(
        "INSERT INTO rollback_step(task_id, attempt_id, number, name, arguments, repeatable, undoes, created_at)"
        " VALUES (?,?,?,?,?,?,?,?)",
        (task_id, attempt["id"], number, name, arguments, int(repeatable), undoes, tx.now),
    )
    return number


def open_steps(tx: Transaction, task_id: int) -> list[dict[str, Any]]:
    """The steps that are neither done nor dropped, last registered first; `error` decoded."""
    rows = tx.rows(
        "SELECT * FROM rollback_step WHERE task_id = ? AND state = 'REGISTERED' ORDER BY number DESC", task_id
    )
    for row in rows:
        row["error"] = msgspec.json.decode(row["error"]) if row["error"] else None
    return rows


def count_open(tx: Transaction, task_id: int) -> int:
    """How many steps are neither done nor dropped."""
    sql = "SELECT count(*) FROM rollback_step WHERE task_id = ? AND state = 'REGISTERED'"
    return tx.connection.execute(sql, (task_id,)).fetchone()[0]


def close(tx: Transaction, step_id: int, state: str) -> None:
    """The step is DONE or DROPPED."""
    tx.connection.execute(
        "UPDATE rollback_step SET state = ?, error = NULL, ended_at = ? WHERE id = ?",
        (state, tx.now, step_id),
    )


def note_try(tx: Transaction, step_id: int, round: int, error: str) -> None:
    """The step was tried in this round and is not done, for this reason (JSON)."""
    tx.connection.execute(
        "UPDATE rollback_step SET tried = ?, tries = tries + 1, error = ? WHERE id = ?",
        (round, error, step_id),
    )


def undo_operation(tx: Transaction, operation_id: int) -> dict[str, Any] | None:
    """What this operation did is undone: it has not happened any more. Returns it as it was where that is news."""
    known = tx.row("SELECT * FROM operation WHERE id = ? AND state <> 'NOT_DONE'", operation_id)
    tx.connection.execute(
        "UPDATE operation SET state = 'NOT_DONE', result = NULL, ended_at = ?, doubt_at = NULL WHERE id = ?",
        (tx.now, operation_id),
    )
    return known


def set_ending(tx: Transaction, task_id: int, ending: Ending | None) -> None:
    """The end that waits for the rollback, or None."""
    tx.connection.execute(
        "UPDATE task SET ending = ?, updated_at = ? WHERE id = ?", (stored(ending), tx.now, task_id)
    )


def stored(ending: Ending | None) -> str | None:
    """As the column holds it."""
    return None if ending is None else msgspec.json.encode(ending).decode()


def ending_of(task: Mapping[str, Any]) -> Ending | None:
    """The end that waits for this task's rollback, or None. Raises `Refused` where its row is damaged."""
    if not task["ending"]:
        return None
    try:
        return msgspec.json.decode(task["ending"], type=Ending)
    except (msgspec.DecodeError, TypeError) as error:
        raise Refused(
            f"#{task['id']}: the end that waits for its rollback can't be read",
            str(error),
            f"give its rollback up: taskdeck discard --no-rollback {task['id']}",
        ) from error
