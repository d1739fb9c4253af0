"""The commands that this worker has started and not yet buried, so that none is left behind when the engine goes.

Owns the one lock under which commands are spawned: a sweep sees a command whole or prevents it. Must not judge how a
command ended.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock, Thread

from ..clock import Clock
from ..edge import identity, trees
from ..edge.cgroups import Group
from ..edge.identity import Identity
from ..edge.spawn import Child
from .families import Families
from .groups import AttemptGroups
from .kin import Kin
from .turns import Turns

FAREWELL_GRACE = 1.0
"""Seconds between TERM and KILL when the engine is gone."""

STANDING = frozenset({"T", "t", "Z", "X", None})
"""Kernel states of a process that does nothing now."""


class Closed(Exception):
    """No command is started any more: the engine is gone."""


class Commands:
    """Living commands by their mark."""

    def __init__(
        self, clock: Clock, group: Group | None = None, kin: Path | None = None, threads: int = 256
    ) -> None:
        self.clock = clock
        self._groups = AttemptGroups(group)
        self.families = Families(clock, self._groups, Kin(kin))
        self.threads = ThreadPoolExecutor(threads, thread_name_prefix="command")
        """For waits on processes: as many as commands may end at once, made when needed."""
        self.turns = Turns(self._groups, self.threads)
        """What everybody waits for who starts a command in a loop."""
        self._alive: dict[str, int] = {}
        """Marks and their sessions."""
        self._lock = Lock()
        self._closed = False

    def spawn(self, mark: str, start: Callable[[], Child], channel: int) -> Child:
        """Start a command under the lock; `channel` is the inode of the socket that it gets. Raises `Closed`, or what
        `start` raises."""
        with self._lock:
            if self._closed:
                raise Closed
            child = self.families.start(mark, start, channel)
            self._alive[mark] = child.pid
            return child

    def buried(self, mark: str) -> None:
        """Nothing of this command is left."""
        with self._lock:
            self._alive.pop(mark, None)
        self.families.leave(mark)
        self._groups.leave(mark)

    def end_all(self) -> None:
        """End every command and all that it started: TERM and CONT, KILL after a second. Any thread; blocks."""
        with self._lock:
            self._closed = True
            alive = list(self._alive.items())
        ends = [Thread(target=self.end_tree, args=(mark, sid, FAREWELL_GRACE)) for mark, sid in alive]
        for end in ends:
            end.start()
        for end in ends:
            end.join()

    def tree(self, mark: str, session: int) -> list[Identity]:
        """All that carries the mark, is in the session or the group, or has come to us from there."""
        return trees.find(mark, session, self._roots(mark))

    def end_tree(self, mark: str, session: int, grace: float) -> list[Identity]:
        """End all of it; returns what could not be ended. Blocks."""
        return trees.end_tree(
            mark,
            grace=grace,
            clock=self.clock,
            session=session,
            roots=partial(self._roots, mark),
            at_once=partial(self._groups.kill, mark),
        )

    def _roots(self, mark: str) -> list[Identity]:
        return [*self._groups.members(mark), *self.families.orphans(mark)]

    def stop_tree(self, mark: str, session: int) -> None:
        """SIGSTOP until a scan finds nothing that runs: a process may fork while others are being stopped."""
        for _ in range(10):
            running = [one for one in self.tree(mark, session) if identity.state(one.pid) not in STANDING]
            for one in running:
                identity.kill(one, signal.SIGSTOP)
            if not running:
                return

    def continue_tree(self, mark: str, session: int) -> None:
        """SIGCONT to all of it."""
        for one in self.tree(mark, session):
            identity.kill(one, signal.SIGCONT)
