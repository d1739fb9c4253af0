"""The workers of one engine as it sees them in memory: who they are, what they run, when they last gave a sign.

The truth of what they hold is in the database; this is what the loop needs to choose, to send and to watch. Starting and
burying them is the warden's, listening to them the reception's.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ..edge.identity import Identity
from ..edge.link import AsyncLink, LinkError
from ..rules.selection import WorkerRoom
from .messages import Ask, Farewell, Run, TypeInfo, encode

FORCE_SLACK = 3.0
"""Seconds beyond an attempt's own limit in which the worker itself must have ended it; then the engine does."""
BLOCKED_AFTER = 3.0
"""Seconds after which a worker that has not begun what it was sent gets no more."""


class WorkerHandle(Struct):
    """One worker process. Times: monotonic seconds."""

    id: int
    incarnation: str
    identity: Identity
    process: subprocess.Popen[bytes] | None
    """None: an earlier engine started it, and how it exits can't be known."""
    pidfd: int
    journal: Path
    slots: int
    started: float
    last_beat: float
    cpu_at_beat: float = 0.0
    lease_until: float = 0.0
    """On the boot clock."""
    link: AsyncLink | None = None
    types: dict[str, TypeInfo] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """What of its handlers failed to load, each with where and why."""
    ready: bool = False
    outdated: str = ""
    """Why it must get nothing new, e.g. since it runs other code than this engine; empty = it need not."""
    retiring: bool = False
    """It takes no more and ends when its attempts have; another has its place."""
    away: bool = False
    """That its link is gone while it lives is on record."""
    begun_tasks: int = 0
    recycle_after: int = 0
    """How many attempts it may begin in its life; 0 = any number."""
    rss: int = 0
    said_bye: bool = False
    buried: bool = False
    """It counts as gone, and what it held was taken over."""
    end_by: float = float("inf")
    """When it must have ended, since it speaks another protocol."""
    suspect: bool = False
    alone: set[int] = field(default_factory=set)
    """Fences of suspects, which have the worker for themselves."""
    running: dict[int, int] = field(default_factory=dict)
    """Fence → task of what was sent to it and has not ended."""
    leaving: set[int] = field(default_factory=set)
    """Those among them whose end has arrived and is being recorded: the worker has room for others already."""
    asked: dict[int, str] = field(default_factory=dict)
    """Fence → the wish that was passed on."""
    unstarted: dict[int, float] = field(default_factory=dict)
    """Fence → when it was sent and not begun yet: a worker that doesn't begin is blocked."""
    timeouts: dict[int, float] = field(default_factory=dict)
    """Fence → the timeout of an attempt that has one, in seconds."""
    deadlines: dict[int, tuple[float, str]] = field(default_factory=dict)
    """Fence → until when the attempt must have ended, and as what (`timeout` or a verb) the engine ends it then."""
    doomed: bool = False
    """It was killed, and its death is awaited."""
    forced_by: list[int] = field(default_factory=list)
    """Tasks that would not end, for which the engine ended the worker: the others in it are not charged."""
    link_ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def lasts(self) -> bool:
        """Does it fill one of the places that the configuration asks for?"""
        return not (self.retiring or self.outdated or self.doomed)

    @property
    def takes_more(self) -> bool:
        """May it be sent attempts?"""
        return self.ready and self.lasts

    def return_with(self, link: AsyncLink, running: dict[int, int], alone: set[int]) -> None:
        """Its link is here (again): it runs these attempts, fence → task, some of them alone. Wishes are passed on anew."""
        self.link, self.link_ended, self.away = link, asyncio.Event(), False
        self.running, self.alone = running, alone
        self.leaving.clear()
        self.unstarted.clear()
        self.asked.clear()
        for fence in self.deadlines.keys() - running.keys():
            del self.deadlines[fence]

    def room(self) -> WorkerRoom:
        """What the selection needs to know."""
        busy = len(self.running) - len(self.leaving)
        free = 0 if self.doomed else max(0, self.slots - busy)
        if self.recycle_after:
            free = min(free, max(0, self.recycle_after - self.begun_tasks))
        suspects = tuple(task_id for fence, task_id in self.running.items() if fence in self.alone)
        return WorkerRoom(self.id, free, busy, frozenset(self.types), bool(self.alone), suspects)

    def send(self, *messages: Any) -> bool:
        """Queue messages; False when the link is gone (then its end is being handled)."""
        if self.link is None:
            return False
        try:
            self.link.send(encode(list(messages)))
        except LinkError:
            return False
        return True

    def forget(self, fences: Sequence[int]) -> None:
        """These attempts have ended."""
        for kept in (self.running, self.asked, self.unstarted, self.timeouts, self.deadlines):
            if kept:
                for fence in fences:
                    kept.pop(fence, None)
        self.leaving.difference_update(fences)
        self.alone.difference_update(fences)

    def leave(self, fences: Sequence[int]) -> None:
        """These attempts have ended for the worker, and that is being recorded."""
        self.leaving.update(self.running.keys() & set(fences) - self.alone)

    def begun(self, fence: int, now: float, slack: float) -> None:
        """The attempt has begun (or goes on): from now on its timeout counts, and the engine's own after it."""
        self.unstarted.pop(fence, None)
        if fence in self.timeouts and fence in self.running:
            self.deadlines.setdefault(fence, (now + self.timeouts[fence] + slack, "timeout"))

    def is_blocked(self, now: float) -> bool:
        """Something was sent a while ago and has not begun: its loop is busy with something else."""
        return any(now - sent > BLOCKED_AFTER for sent in self.unstarted.values())


class Workforce:
    """All live workers, by id."""

    def __init__(self) -> None:
        self._workers: dict[int, WorkerHandle] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self.published = asyncio.Event()
        """Set once a worker has said what it can run."""
        self.draining = False
        """All shall end; a worker that connects only now is told so at once."""
        self._grace = 0.0
        self.on_full: Callable[[WorkerHandle], None] = lambda handle: None
        """Called when a worker has been sent as many attempts as it may begin."""

    def __iter__(self) -> Iterator[WorkerHandle]:
        return iter(list(self._workers.values()))

    def add(self, handle: WorkerHandle) -> None:
        """A worker was started."""
        self._workers[handle.id] = handle
        self._empty.clear()

    def remove(self, handle: WorkerHandle) -> None:
        """A worker is gone and settled."""
        self._workers.pop(handle.id, None)
        if not self._workers:
            self._empty.set()

    async def all_gone(self, seconds: float | None) -> bool:
        """Wait until there is none left, `seconds` at most. Returns whether there is none."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def rooms(self, now: float) -> tuple[WorkerRoom, ...]:
        """The workers that take tasks; one that is blocked takes none."""
        return tuple(handle.room() for handle in self if handle.takes_more and not handle.is_blocked(now))

    @property
    def lasting(self) -> int:
        """How many fill a place for good."""
        return sum(handle.lasts for handle in self)

    @property
    def running(self) -> int:
        """How many attempts are with workers."""
        return sum(len(handle.running) for handle in self)

    @property
    def types(self) -> set[str]:
        """The types that ready workers can run."""
        return {name for handle in self if handle.ready for name in handle.types}

    @property
    def problems(self) -> list[str]:
        """What of the handlers failed to load, each once."""
        return list(dict.fromkeys(each for handle in self if handle.ready for each in handle.problems))

    def able(self, type_name: str) -> WorkerHandle | None:
        """A ready worker that knows this type."""
        return next((handle for handle in self if handle.takes_more and type_name in handle.types), None)

    def dispatch(self, worker_id: int, runs: list[Run], suspects: set[int], now: float) -> list[Run]:
        """Send claimed attempts. Returns those that could not be sent, since the worker went away meanwhile."""
        handle = self._workers.get(worker_id)
        if handle is None or not handle.takes_more or not handle.send(*runs):
            return runs
        handle.begun_tasks += len(runs)
        if 0 < handle.recycle_after <= handle.begun_tasks:
            self.on_full(handle)
        handle.running.update({run.fence: run.task_id for run in runs})
        handle.unstarted.update({run.fence: now for run in runs})
        handle.timeouts.update({run.fence: run.timeout for run in runs if run.timeout})
        if suspects:
            handle.alone.update(run.fence for run in runs if run.task_id in suspects)
        return []

    def pass_on(self, wishes: list[dict[str, Any]], graces: Mapping[str, float], now: float) -> None:
        """Tell workers what people want of running attempts, once each; a withdrawn pause is told as well.

        `graces`: seconds that an attempt has to end by itself, by verb (none: it has as long as it takes).
        """
        asked_of = {wish["fence"]: wish["verb"] for wish in wishes}
        for handle in self:
            if handle.link is None or handle.link.closed:
                continue  # told when it is back
            for fence, task_id in handle.running.items():
                verb = asked_of.get(fence)
                if verb is None and handle.asked.get(fence) == "pause":
                    verb = "resume"
                if verb is not None and handle.asked.get(fence) != verb:
                    handle.asked[fence] = verb
                    grace = graces.get(verb, 0.0)
                    if verb in graces:
                        handle.deadlines[fence] = (now + grace + FORCE_SLACK, verb)
                    handle.send(Ask(task_id, fence, verb, grace))

    def drain(self, grace: float, *, now: bool = False) -> None:
        """Ask every attempt to reach its next checkpoint within `grace` seconds, and every worker to end after that."""
        self.draining, self._grace = True, grace
        for handle in self:
            self.drain_one(handle, now=now)

    def drain_one(self, handle: WorkerHandle, *, now: bool = False) -> None:
        """As `drain`, for one that has only now come (back)."""
        for fence, task_id in handle.running.items():
            handle.send(Ask(task_id, fence, "drain", self._grace))
        handle.send(Farewell(now))
