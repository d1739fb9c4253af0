"""What attempts and workers left running when they ended: found by the mark in their environment, and ended."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..clock import Clock
from ..edge import identity, trees
from ..edge.identity import Identity
from ..edge.paths import database_hash
from .messages import Left


def worker_mark(database: Path, incarnation: str) -> str:
    """The environment mark of a worker; what Python handlers start inherits it (commands get the mark of their task)."""
    return f"{database_hash(database)}:worker-{incarnation}:0"


def end_leftovers(database: Path, incarnation: str, task_ids: list[int], clock: Clock) -> list[Left]:
    """End every process that these attempts left running, whatever session it fled into. Returns what could not be ended.

    An empty `incarnation` leaves the worker itself, and what its Python handlers started, alone.
    """
    marks: list[tuple[int | None, str]] = [
        *([(None, worker_mark(database, incarnation))] if incarnation else []),
        *((task_id, f"{database_hash(database)}:{task_id}:") for task_id in task_ids),
    ]
    return [
        left_of(process, task_id)
        for task_id, mark in marks
        for process in trees.end_tree(mark, grace=0.0, clock=clock)
    ]


def end_all(database: Path, clock: Clock) -> list[Left]:
    """End every process of this database, whichever task or worker it is of. Returns what could not be ended.

    Also where the database can't tell any more who they are; its engine and supervisor carry no mark.
    """
    prefix = f"{database_hash(database)}:"
    return [left_of(process) for process in trees.end_tree(prefix, grace=0.0, clock=clock)]


def left_of(process: Identity, task_id: int | None = None) -> Left:
    """A process that withstands, with its name as the kernel knows it."""
    return Left(process.pid, process.start_time, identity.name(process.pid), task_id)


def story(left: Iterable[Left]) -> str:
    """`pid 77 (sleep), pid 78 (sh) could not be ended`."""
    return f"{', '.join(f'pid {one.pid} ({one.name})' for one in left)} could not be ended"
