"""What attempts and workers left running when their process died: found by the mark in their environment, and ended."""

from __future__ import annotations

from pathlib import Path

from ..clock import Clock
from ..edge import trees
from ..edge.paths import database_hash


def worker_mark(database: Path, incarnation: str) -> str:
    """The environment mark of a worker; what Python handlers start inherits it (commands get the mark of their task)."""
    return f"{database_hash(database)}:worker-{incarnation}:0"


def end_leftovers(database: Path, incarnation: str, task_ids: list[int], clock: Clock) -> list[str]:
    """End every process that these attempts left running, whatever session it fled into. Names what could not be ended.

    An empty `incarnation` leaves the worker itself, and what its Python handlers started, alone.
    """
    marks = [
        *([worker_mark(database, incarnation)] if incarnation else []),
        *(f"{database_hash(database)}:{task_id}:" for task_id in task_ids),
    ]
    left = [process for mark in marks for process in trees.end_tree(mark, grace=0.0, clock=clock)]
    return [f"process {process.pid} could not be ended" for process in left]
