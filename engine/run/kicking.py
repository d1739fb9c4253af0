"""A person takes a resource or route away from whoever holds it: the lease is fenced off, and its attempt asked to stop."""

from __future__ import annotations

from ..errors import TaskdeckError
from ..store import slots, tasks
from ..store.slots import SlotTable
from ..store.transaction import Transaction
from . import control


def kick(tx: Transaction, table: SlotTable, name: str, actor: str, lock_delay: float, fence: int = 0) -> str:
    """The verb, for one resource or route, or one slot of it. Returns what became of it, in words.

    Nobody gets it for `lock_delay` seconds: an account, a browser or a remote site can't check our fence.

    The task is stopped as `stop` does it and stays PAUSED, so that it doesn't take the next free one by itself.
    """
    held = slots.kick(tx, table, name, actor, lock_delay, fence)
    if not held:
        return "is held by nobody"
    now = {row["id"]: row for row in table.rows(tx, f"s.{table.id_column} = ?", name.partition("/")[0])}
    states = " ".join(dict.fromkeys(f"is {now[row['id']]['state']}" for row in held))
    return "; ".join([states, *(_stop(tx, each, actor) for each in sorted({row["task_id"] for row in held}))])


def _stop(tx: Transaction, task_id: int, actor: str) -> str:
    try:
        told = control.act(tx, "stop", tasks.get(tx, task_id), actor, {})
    except TaskdeckError as error:  # it is lost or ends just now: then that goes its own way
        return error.what
    return f"#{task_id} {told} and stays paused (let it go on: taskdeck resume {task_id})"
