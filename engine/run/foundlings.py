"""Processes of dead workers that came to the engine or its supervisor, whose parents are gone: both are child subreapers.

A living worker adopts its own orphans, so whoever comes to us was left by one that has died, also who carries no mark, fled
from every session and was seen by nobody. What is not a worker's: who carries a mark (it is found by that, or is another
worker, a command, a sync handler), who is in our session or was there before the worker, and what the engine itself or a
person started out of it, whose environment says so. Must not end anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..edge import adoption, identity, trees
from ..edge.identity import Identity, Process

VARIABLE = "TASKDECK_ENGINE_PID"
"""In the environment of all that an engine starts, except for its workers."""
INIT = 1
"""To the first process of a system or a container everybody's orphans come, also those that a person left there."""


class Foundlings:
    """Those that this engine sees. `supervisor`: the pid of the living one above it, or None. Any thread."""

    def __init__(self, supervisor: Callable[[], int | None] = lambda: None) -> None:
        self._supervisor = supervisor
        self._adopts = False

    def begin(self) -> None:
        """From now on orphans come to this process. Where the kernel does not let us there are none."""
        os.environ[VARIABLE] = str(os.getpid())
        self._adopts = adoption.adopt_orphans()

    def left_by(self, worker: Identity) -> list[Identity]:
        """The living ones that this worker left, which must be dead; of several dead ones each is named all of them."""
        return [] if INIT in self._parents() else self._since(worker)

    def doubtful(self, worker: Identity) -> list[Identity]:
        """The living ones that this worker may have left, and a person as well: they can only be told of."""
        return self._since(worker) if INIT in self._parents() else []

    def reap(self) -> None:
        """Collect those that have ended."""
        if self._adopts:
            adoption.reap(one.identity.pid for one in adoption.orphans() if one.dead)

    def _parents(self) -> set[int | None]:
        return {os.getpid(), self._supervisor()}

    def _since(self, worker: Identity) -> list[Identity]:
        if not self._adopts or worker.boot_id != identity.boot_id():
            return []
        found = [*adoption.orphans(), *_of_supervisor(self._supervisor())]
        return [
            one.identity
            for one in found
            if not one.dead and one.identity.start_time >= worker.start_time and _is_unmarked(one.identity)
        ]


def _of_supervisor(pid: int | None) -> list[Process]:
    """Who came to the supervisor when an engine died. The engine itself, and what it started, is in its session."""
    above = identity.read(pid) if pid is not None else None
    if above is None:
        return []
    found = [identity.read(each) for each in adoption.children(above.identity.pid)]
    return [one for one in found if one is not None and one.session != above.session]


def _is_unmarked(one: Identity) -> bool:
    if trees.mark_of(one.pid) is not None:
        return False
    return not _started_by_engine(one.pid) and identity.alive(one)


def _started_by_engine(pid: int) -> bool:
    try:
        return f"\0{VARIABLE}=".encode() in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # another user's, which no engine starts for itself; or gone
        return False
