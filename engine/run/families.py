"""Which processes belong to which attempt of this worker, also those that cleared their environment and fled by two forks.

The worker is a child subreaper: whoever lost its parent becomes its child. What an orphan is told by, the surest first: it
is in the group (cgroup) of a command, it was seen below one before, it is in a session that one of these made, it holds a
pipe or socket that only one attempt has, or only one attempt was there when it was born. Where several could be meant it is
ended with the last of them. Owns the reaping of orphans; must not end anything itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from threading import Event, Lock, Thread

from msgspec import Struct, field

from ..clock import Clock
from ..edge import adoption, identity, trees
from ..edge.identity import Identity, Process
from ..edge.spawn import Child
from .groups import AttemptGroups
from .kin import Kin

EVERY = 0.5
"""Seconds between two looks while commands run …"""
SHARE = 50.0
"""… and at least so many times as long as the last look took."""


class _Family(Struct):
    """A living command and what was seen of its descendants."""

    child: Identity
    channels: set[str]
    sessions: set[int]
    members: set[Identity] = field(default_factory=set)


class Families:
    """All of one worker. Any thread."""

    def __init__(self, clock: Clock, groups: AttemptGroups, kin: Kin) -> None:
        self._clock = clock
        self._groups = groups
        self._kin = kin
        self._session = os.getsid(0)
        self._adopts_all = adoption.adopts_all()
        self._families: dict[str, _Family] = {}
        self._lock = Lock()
        self._some = Event()
        self._saw_none = False
        """Was nobody adopted when it was looked last, and nothing started since?"""
        self._thread: Thread | None = None
        groups.alone = lambda: not self.others_run()
        self.others_run: Callable[[], bool] = lambda: False
        """Do handlers run in this process itself, whose own children are none of our business?"""

    def start(self, mark: str, start: Callable[[], Child], channel: int) -> Child:
        """Start a command, which gets the socket of this inode; under the lock, so that it is never taken for an orphan.

        Raises what `start` raises.
        """
        with self._lock:
            self._saw_none = False
            child = self._groups.start(mark, start)
            held = {f"socket:[{channel}]"}
            if child.stdout is not None:
                held.add(f"pipe:[{os.fstat(child.stdout).st_ino}]")
            self._families[mark] = _Family(child.identity, held, {child.pid})
            if self._thread is None:
                self._thread = Thread(target=self._watch, name="families", daemon=True)
                self._thread.start()
        self._some.set()
        return child

    def leave(self, mark: str) -> None:
        """The command is buried."""
        with self._lock:
            self._families.pop(mark, None)
            last = not self._families
            if last:
                self._some.clear()
        if last and not self._saw_none:  # while others run, the watch collects what has ended
            self._reap()

    def orphans(self, mark: str) -> list[Identity]:
        """The adopted processes that belong to this attempt; who descends from them is found through them."""
        with self._lock:
            self._look()
            return [
                one.identity for one in self._adopted() if not one.dead and self._owner(one, mark) == mark
            ]

    def nothing_is_left(self) -> bool:
        """Is certainly nothing left of a command that has ended? What outlives one has come to us before its end is told.

        False where that can't be known by one look at our own children: then everybody must be asked (`trees.find`).
        """
        if not self._adopts_all:
            return False
        with self._lock:
            found = list(self._adopted())
            self._saw_none = not found
            return all(one.dead for one in found)

    def _watch(self) -> None:
        pause = EVERY
        while True:
            self._some.wait()
            self._clock.sleep(pause)
            begun = self._clock.monotonic()
            with self._lock:
                self._look()
                self._write_down()
            self._reap()
            pause = max(EVERY, SHARE * (self._clock.monotonic() - begun))

    def _look(self) -> None:
        """Remember who is below each command now, and the sessions they made."""
        for family in self._families.values():
            waiting = [family.child.pid, *(one.pid for one in family.members if identity.alive(one))]
            family.members = set()
            seen: set[int] = set()
            while waiting:
                pid = waiting.pop()
                if pid in seen or (one := identity.read(pid)) is None:
                    continue
                seen.add(pid)
                family.members.add(one.identity)
                family.sessions.add(one.session)
                waiting += adoption.children(pid)
            family.sessions -= {self._session, 0}

    def _write_down(self) -> None:
        """Who carries no mark is known only to us; should we be killed, it is found by what stands there."""
        seen = {mark: set(family.members) for mark, family in self._families.items()}
        for one in self._adopted():
            if not one.dead:
                seen.setdefault(self._owner(one, "") or "", set()).add(one.identity)
        self._kin.keep(set().union(*seen.values()))
        for mark, members in seen.items():
            self._kin.note(mark, members)

    def _adopted(self) -> Iterator[Process]:
        """Our children that are neither commands nor a handler's own, which stay in our session."""
        commands = {family.child.pid for family in self._families.values()}
        for pid in adoption.adopted():
            one = identity.read(pid) if pid not in commands else None
            if one is not None and one.session != self._session:
                yield one

    def _owner(self, one: Process, asking: str) -> str | None:
        """The mark of the attempt that an orphan belongs to; None where that can't be told (yet)."""
        if (known := self._known(one)) is not None:
            return known
        if (marked := trees.mark_of(one.identity.pid)) is not None:
            return marked if marked in self._families else None
        held = adoption.channels(one.identity.pid)
        for mark, family in self._families.items():
            if held & family.channels:
                return mark
        if self.others_run():
            return None
        born = one.identity.start_time
        there = [mark for mark, family in self._families.items() if family.child.start_time <= born]
        return there[0] if len(there) == 1 else None if there else asking

    def _known(self, one: Process) -> str | None:
        if (grouped := self._groups.owner(one.identity.pid)) is not None:
            return grouped
        for mark, family in self._families.items():
            if one.identity in family.members or one.session in family.sessions:
                return mark
        return None

    def _reap(self) -> None:
        """Collect orphans that have ended: a handler's own child is never one of a session that a command made."""
        with self._lock:
            alone = not self.others_run()
            ended = [one for one in self._adopted() if one.dead]
            adoption.reap(one.identity.pid for one in ended if alone or self._known(one) is not None)
