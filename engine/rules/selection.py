"""Which due tasks start now, on which worker, and why each other one waits.

Pure: the caller gives the candidates in order (effective priority, next_run_at, id; the heads of every lane, so that
blocked ones never hide ready ones) and the situation. The same function answers the scheduler, `taskdeck why` and the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

from msgspec import Struct, field

from . import holds

MOST_NAMED = 5
"""Suspects that are named in a reason; more are counted."""

FEWEST_TOGETHER = 64
"""Tasks of one type and priority that start at once, from which on neighbours go to the same worker."""

NOTHING: Mapping[str, int] = MappingProxyType({})

COMMAND_TYPE = "shell"
"""The built-in type of commands; every worker runs it."""


class Candidate(Struct, frozen=True):
    """A waiting task. `next_run_at` is UTC text of fixed width, compared as text."""

    id: int
    type: str
    state: str
    effective_priority: int
    next_run_at: str
    suspect: bool = False
    """Its worker died while it ran, perhaps by its doing: it must have its worker for itself."""
    needs: Mapping[str, int] = NOTHING
    """Pools that it leases from, with counts."""
    route: str = ""
    """The group or id of routes that it leases one of; empty = none."""
    allow_direct: bool = False
    target: str = ""
    """The host that it works on; empty = unknown."""
    fresh: bool = False
    """It may be that there is nothing to resume or to roll back; looked up when it begins."""

    @property
    def is_plain(self) -> bool:
        """Nothing is to be done for it but to let it begin."""
        return self.fresh and not (self.needs or self.route or self.suspect or self.target)

    @property
    def place(self) -> tuple[str, str]:
        """What its circuit is known by."""
        return (self.type, self.target)


_ORDER = attrgetter("effective_priority", "next_run_at", "id")
"""Smaller starts first."""


class WorkerRoom(Struct, frozen=True):
    """A worker that takes tasks: how many more fit, how many run, which types it knows (None = all)."""

    id: int
    free: int
    running: int = 0
    types: frozenset[str] | None = None
    alone: bool = False
    """It runs a suspect, which must have it for itself."""
    suspects: tuple[int, ...] = ()
    """Which tasks these are."""


class PoolRoom(Struct, frozen=True):
    """What is free of a pool (or a group of routes), of how many, and in words why no more."""

    free: int
    total: int
    words: str = ""
    out: bool = False
    """None is free, and none is in use or rests after use: all of them fail or are switched off."""


class Gate(Struct, frozen=True):
    """How many more attempts of one type may start at one target, and in words why no more."""

    free: int
    words: str = ""


def failed_to_load(problems: Sequence[str]) -> str:
    """`: failed to load: …`, to stand behind what came of it; empty where nothing failed."""
    return f": failed to load: {'; '.join(problems)}" if problems else ""


class Loaded(Struct, frozen=True):
    """What the last worker could run, since when it was ready (UTC text; "" = unknown), and what failed to load."""

    types: frozenset[str]
    at: str = ""
    problems: tuple[str, ...] = ()

    def lacks(self, kind: str) -> bool:
        """Had it no handler for this type?"""
        return kind != COMMAND_TYPE and kind not in self.types

    @property
    def failed(self) -> str:
        """What failed to load, to stand behind what came of it."""
        return failed_to_load(self.problems)


class Situation(Struct, frozen=True):
    """What decides at this moment. `caps` are the limits of types that have one; `held` maps scope → who holds it."""

    now: str
    max_running: int
    running: Mapping[str, int] = field(default_factory=dict)
    caps: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    workers: tuple[WorkerRoom, ...] = ()
    starting: str = ""
    """What the workers that are not ready yet do, in words; empty = unknown."""
    pools: Mapping[str, PoolRoom] = field(default_factory=dict)
    routes: Mapping[str, PoolRoom] = field(default_factory=dict)
    """By group and by id."""
    gates: Mapping[tuple[str, str], Gate] = field(default_factory=dict)
    """(type, target) whose circuit is not closed."""
    refused: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(group or id of routes, target) → when the first block ends, where the target refuses all of them."""
    engine: bool = True
    stopping: bool = False
    pause: str = ""
    """Why nothing new may start at all, with the remedy: what threatens the storage; empty = it may."""
    loaded: Loaded | None = None
    """None: nobody has told yet, or it does not matter here."""
    paused_by: Mapping[int, str] = field(default_factory=dict)
    """Tasks that a hold has paused → its scope."""


class Start(Struct, frozen=True):
    """Start this task on this worker."""

    candidate: Candidate
    worker_id: int


class Choice(Struct, frozen=True):
    """The starts, in order, and for every other candidate the reasons why it waits."""

    starts: tuple[Start, ...]
    waits: Mapping[int, tuple[str, ...]]


class _Left(dict[str, int]):
    """What is left of each pool or group, as far as it was asked for; of what there is not, nothing."""

    def __init__(self, rooms: Mapping[str, PoolRoom]) -> None:
        self._rooms = rooms

    def __missing__(self, name: str) -> int:
        room = self._rooms.get(name)
        return self.setdefault(name, 0 if room is None else room.free)


class _Worker(Struct):
    """What is left of a worker: `kept` are the suspects that it is for, where it is for them alone."""

    id: int
    free: int
    running: int
    types: frozenset[str] | None
    kept: tuple[int, ...] | None


class _Taken:
    """What this choice itself has handed out so far."""

    def __init__(self, situation: Situation) -> None:
        self.total = sum(situation.running.values())
        self.by_type = dict(situation.running)
        self.workers = {
            each.id: _Worker(
                each.id, each.free, each.running, each.types, each.suspects if each.alone else None
            )
            for each in situation.workers
        }
        self.pools = _Left(situation.pools)
        self.routes = _Left(situation.routes)
        self.gates = {place: gate.free for place, gate in situation.gates.items()}
        self._able: dict[str, list[_Worker]] = {}

    def able(self, kind: str) -> list[_Worker]:
        """The workers that can run this type."""
        able = self._able.get(kind)
        if able is None:
            able = self._able[kind] = [
                worker
                for worker in self.workers.values()
                if kind == COMMAND_TYPE or worker.types is None or kind in worker.types
            ]
        return able

    def take(self, candidate: Candidate, worker: _Worker) -> None:
        self.total += 1
        self.by_type[candidate.type] = self.by_type.get(candidate.type, 0) + 1
        worker.free -= 1
        worker.running += 1
        if candidate.suspect:
            worker.kept = (candidate.id,)
        if self.gates and candidate.place in self.gates:
            self.gates[candidate.place] -= 1
        for pool, count in candidate.needs.items():
            self.pools[pool] -= count
        if candidate.route and self.routes[candidate.route] > 0:
            self.routes[candidate.route] -= 1


def choose(candidates: Iterable[Candidate], situation: Situation) -> Choice:
    """Go through the candidates in order and start what nothing blocks."""
    taken = _Taken(situation)
    starts: list[Start] = []
    waits: dict[int, tuple[str, ...]] = {}
    for candidate in sorted(candidates, key=_ORDER):
        reasons = _blockers(candidate, situation, taken)
        if reasons:
            waits[candidate.id] = tuple(reasons)
            continue
        worker = _worker_for(candidate, taken)
        if worker is None:
            waits[candidate.id] = (_no_room(candidate, situation, taken),)
            continue
        taken.take(candidate, worker)
        starts.append(Start(candidate, worker.id))
    return Choice(tuple(starts), waits)


def side_by_side(starts: Sequence[Start]) -> list[Start]:
    """The same starts with as many on each worker, where those of one type and priority that stand together stay together.

    Each of these workers could have any of them. What lies side by side in the database is begun and ended with fewer pages
    if one worker has it. Few are left as they are, so that they begin in their order on all workers at the same time.
    """
    found = list(starts)
    alike: dict[tuple[str, int], list[int]] = {}
    for place, start in enumerate(starts):
        candidate = start.candidate
        if not candidate.suspect:
            alike.setdefault((candidate.type, candidate.effective_priority), []).append(place)
    for places in alike.values():
        if len(places) < FEWEST_TOGETHER:
            continue
        for place, worker_id in zip(places, sorted(starts[place].worker_id for place in places), strict=True):
            if worker_id != starts[place].worker_id:
                found[place] = Start(starts[place].candidate, worker_id)
    return found


def explain(
    candidate: Candidate, situation: Situation, ahead: int = 0, no_route: Callable[[], str] = str
) -> tuple[str, ...]:
    """Why this one waiting task does not run at this moment; `ahead` = due tasks that come before it.

    `no_route` says what keeps it from a route where the group has one free; it is asked last.
    """
    reasons = choose((candidate,), situation).waits.get(candidate.id, ())
    if reasons:
        return reasons
    if candidate.route and (why := no_route()):
        return (why,)
    if ahead:
        return (f"{ahead} due {'task comes' if ahead == 1 else 'tasks come'} before it",)
    return ("it is due and starts with the next tick",)


def no_handler(kind: str, loaded: Loaded) -> str:
    """What is told of a type that nobody can run, where no worker is there now."""
    at = f" (ready at {loaded.at})" if loaded.at else ""
    return f"the last worker{at} had no handler for type {kind}{loaded.failed} (see: taskdeck config check)"


def _blockers(candidate: Candidate, situation: Situation, taken: _Taken) -> list[str]:
    reasons = []
    if not situation.engine:
        reasons.append("no engine runs on this database (start one: taskdeck run)")
        if situation.loaded is not None and situation.loaded.lacks(candidate.type):
            reasons.append(no_handler(candidate.type, situation.loaded))
    if situation.stopping:
        reasons.append("the engine is stopping")
    if situation.pause:
        reasons.append(situation.pause)
    for scope in holds.over(candidate.type, candidate.needs) if situation.held else ():
        if scope in situation.held:
            who, resume = situation.held[scope], f"taskdeck resume {holds.target(scope)}"
            reasons.append(f"{holds.named(scope)} is held by {who} (let it go on: {resume})")
    if candidate.next_run_at > situation.now:
        why = "retries" if candidate.state == "RETRYING" else "is due"
        reasons.append(f"{why} at {candidate.next_run_at}")
    if taken.total >= situation.max_running:
        reasons.append(f"{taken.total} of {situation.max_running} attempts run (engine.max_running)")
    cap = situation.caps.get(candidate.type)
    if cap is not None and (count := taken.by_type.get(candidate.type, 0)) >= cap:
        reasons.append(f"{count} of {cap} of type {candidate.type} run (its concurrency)")
    if taken.gates and taken.gates.get(candidate.place, 1) < 1:
        reasons.append(situation.gates[candidate.place].words)
    return reasons + _missing(candidate, situation, taken) if candidate.needs or candidate.route else reasons


def _missing(candidate: Candidate, situation: Situation, taken: _Taken) -> list[str]:
    """What it needs and can't have now: each pool, and the route unless it may go without."""
    reasons = []
    for pool, count in candidate.needs.items():
        room = situation.pools.get(pool)
        if room is None:
            reasons.append(f"there is no pool {pool} (see: taskdeck resource list)")
        elif taken.pools[pool] < count:
            reasons.append(_shortage(f"pool {pool}", room, taken.pools[pool], count))
    if candidate.route and not candidate.allow_direct:
        room = situation.routes.get(candidate.route)
        if room is None:
            reasons.append(f"there is no route or group {candidate.route} (see: taskdeck route list)")
        elif taken.routes[candidate.route] < 1:
            reasons.append(_shortage(f"route {candidate.route}", room, taken.routes[candidate.route], 1))
        elif until := situation.refused.get((candidate.route, candidate.target)):
            reasons.append(f"{candidate.target} refuses all of route {candidate.route} until {until}")
    return reasons


def _shortage(what: str, room: PoolRoom, free: int, wanted: int) -> str:
    words = f": {room.words}" if room.words else ""
    return f"{what}: {free} of {room.total} usable, {wanted} needed{words}"


def _worker_for(candidate: Candidate, taken: _Taken) -> _Worker | None:
    """The least busy worker with room. A suspect gets one that runs nothing, and has it for itself."""
    able = taken.able(candidate.type)
    idlest = None
    for worker in able:
        if worker.free < 1 or worker.kept is not None:
            continue
        if idlest is None or (worker.running, worker.id) < (idlest.running, idlest.id):
            idlest = worker
    if idlest is None or not candidate.suspect or not idlest.running:
        return idlest
    shared = [worker for worker in able if worker.kept is None]
    if len(shared) > 1 or len(able) == 1:  # of several, one stays open to those who are no suspects
        idlest.kept = (candidate.id,)  # keep it free of others, so that it drains for the suspect
    return None


def _no_room(candidate: Candidate, situation: Situation, taken: _Taken) -> str:
    if not situation.workers:
        return f"no worker is ready yet{f': {situation.starting}' if situation.starting else ''}"
    able = taken.able(candidate.type)
    if not able:
        failed = situation.loaded.failed if situation.loaded is not None else ""
        return f"no worker has a handler for type {candidate.type}{failed} (see: taskdeck worker list)"
    if candidate.suspect:
        return "its worker was lost, so it waits for a worker of its own"
    kept = [worker.kept for worker in able if worker.kept is not None and worker.free > 0]
    if kept:
        return _kept_for(sorted({task_id for ids in kept for task_id in ids}))
    return "all workers are full (engine.slots)"


def _kept_for(suspects: list[int]) -> str:
    """Room is left, but only with those who must not share it."""
    if len(suspects) < 2:
        whose = f"#{suspects[0]}" if suspects else "a task"
        return f"the worker with room is kept for {whose}, whose worker was lost: it runs alone until it ends"
    more = len(suspects) - MOST_NAMED
    last = f"{more} more" if more > 0 else f"#{suspects[-1]}"
    named = ", ".join(f"#{each}" for each in suspects[: MOST_NAMED if more > 0 else -1])
    return f"the workers with room are kept for {named} and {last}, whose worker was lost: they run alone until they end"
