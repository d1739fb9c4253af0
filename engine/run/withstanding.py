"""Processes that could not be ended (stuck in the kernel, of another user), as the database keeps them until they are gone.

Their task is not run again by itself, and what its attempt had leased goes to no other.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..edge import identity
from ..edge.identity import Identity
from ..store import leftovers
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from .leftovers import left_of, story
from .messages import Left


def record(tx: Transaction, left: Iterable[Left], worker_id: int | None) -> None:
    """Note what could not be ended, each process once, with the event that a person should hear of."""
    for one in left:
        _note(tx, one, worker_id, "could_not_be_ended", story([one]))


def record_doubtful(tx: Transaction, found: Iterable[Identity], worker_id: int) -> None:
    """Note those that the dead worker may have left, or a person: nobody ends them but a person."""
    for one in map(left_of, found):
        told = f"pid {one.pid} ({one.name}) may be left of worker {worker_id}, and is not ended: to pid 1 come all orphans"
        _note(tx, one, worker_id, "origin_unknown", told)


def _note(tx: Transaction, one: Left, worker_id: int | None, reason: str, told: str) -> None:
    columns = {"pid": one.pid, "start_time": one.start_time, "boot_id": identity.boot_id()}
    more = {"name": tx.redactor.text(one.name), "task_id": one.task_id, "worker_id": worker_id}
    if leftovers.add(tx, **columns, **more):
        tx.event(
            "PROCESS_LEFT",
            actor=ENGINE,
            task_id=one.task_id,
            worker_id=worker_id,
            level="error",
            reason=reason,
            message=told,
            payload={"pid": one.pid, "start_time": one.start_time},
        )


def of_task(tx: Transaction, task_id: int) -> str:
    """The story of what is left of a task and lives; "" where nothing is."""
    alive = [row for row in leftovers.still_there(tx, task_id) if identity.alive(identity.named_by(row))]
    return story(Left(row["pid"], row["start_time"], row["name"], task_id) for row in alive) if alive else ""


def look(tx: Transaction) -> int:
    """Note those that have gone meanwhile. Returns how many are still there."""
    rows = leftovers.still_there(tx)
    ended = [row for row in rows if not identity.alive(identity.named_by(row))]
    for row in ended:
        leftovers.gone(tx, row["id"])
        tx.event(
            "PROCESS_GONE",
            actor=ENGINE,
            task_id=row["task_id"],
            worker_id=row["worker_id"],
            reason="ended",
            message=f"pid {row['pid']} ({row['name']}) has ended",
        )
    return len(rows) - len(ended)
