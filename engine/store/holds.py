"""What is held back (`rules.holds`), and which tasks a hold itself has paused."""

from __future__ import annotations

from typing import Any

from ..rules.holds import EVERYTHING
from . import models as m
from .transaction import Transaction

_IN_POOL = (
    "EXISTS (SELECT 1 FROM resource_slot s JOIN resource r USING (resource_id)"
    " WHERE s.task_id = task.id AND s.fence = task.fence AND r.pool = ?)"
)


def holds(tx: Transaction) -> dict[str, str]:
    """What is held back: scope → actor."""
    return dict(tx.connection.execute("SELECT scope, actor FROM hold").fetchall())


def hold(tx: Transaction, scope: str, actor: str) -> bool:
    """Hold a scope back. Returns whether that is new."""
    if scope in holds(tx):
        return False
    m.Hold.insert(scope=scope, actor=actor, created_at=tx.now).execute(tx.db)
    return True


def release(tx: Transaction, scope: str) -> bool:
    """Let a scope go on. Returns whether it was held."""
    return m.Hold.delete().where(m.Hold.scope == scope).execute(tx.db) == 1


def alive(tx: Transaction, scope: str) -> list[int]:
    """The tasks in a scope that have a living attempt, suspended ones among them; of a pool those that hold some of it."""
    kind, _, name = scope.partition(":")
    condition, args = "", ()
    if scope != EVERYTHING:
        condition, args = (" AND type = ?" if kind == "type" else f" AND {_IN_POOL}"), (name,)
    sql = f"SELECT id FROM task WHERE worker_id IS NOT NULL AND state IN ('RUNNING','PAUSED'){condition} ORDER BY id"
    return [row[0] for row in tx.connection.execute(sql, args)]


def note_paused(tx: Transaction, scope: str, task_ids: list[int]) -> None:
    """These are paused because of the hold; whoever acts on one of them himself takes it out again."""
    tx.connection.executemany(
        "INSERT OR IGNORE INTO hold_task(task_id, scope) VALUES (?, ?)", [(each, scope) for each in task_ids]
    )


def forget_paused(tx: Transaction, task_id: int) -> None:
    """A person acted on this task itself: no hold decides about it any more."""
    tx.connection.execute("DELETE FROM hold_task WHERE task_id = ?", (task_id,))


def take_paused(tx: Transaction, scope: str) -> list[int]:
    """The tasks that this hold paused and no other hold still covers; they are forgotten. The others follow those."""
    rows: list[dict[str, Any]] = tx.rows(
        "SELECT task_id, type FROM hold_task JOIN task ON task.id = task_id WHERE scope = ?", scope
    )
    held = holds(tx)
    free = []
    for row in rows:
        other = next((each for each in (EVERYTHING, f"type:{row['type']}") if each in held), None)
        if other:
            tx.connection.execute("UPDATE hold_task SET scope = ? WHERE task_id = ?", (other, row["task_id"]))
        else:
            forget_paused(tx, row["task_id"])
            free.append(row["task_id"])
    return free
