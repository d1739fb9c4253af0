"""`taskdeck stop`: nothing works on the database afterwards, and nothing comes back by itself.

An engine is asked, and ends in order. But one that was killed has a supervisor above it which starts it again: as long as
that lives, "no engine" is a pause. So what outlived an engine is ended only where neither engine nor supervisor is left.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..clock import Clock
from ..config import Config
from ..edge import identity, trees
from ..edge.identity import Identity
from ..edge.locks import DatabaseLock
from ..errors import NoEngine, Unavailable
from . import supervisors
from .launches import Launches
from .outlived import Outlived

SLACK = 15.0
"""Seconds beyond the stop's own grace within which everything must be gone."""
RESTS = 0.3
"""Seconds without any child after which a supervisor rests between two engines: till then it may be on its way out, and a
signal would spoil its exit code."""
STARTS_WITHIN = 10.0
"""Seconds in which an engine that starts takes the database: till then it is waited for, to be stopped in order."""
_PAUSE = 0.03


class Stopped(msgspec.Struct, frozen=True):
    """What a stop ended: an engine, supervisors that were told to themselves (pids), and what had outlived an engine."""

    engine: bool
    supervisors: list[int]
    outlived: Outlived = Outlived()


def stop(
    config: Config, ask: Callable[[], object], end_outlived: Callable[[], Outlived | None], clock: Clock
) -> Stopped:
    """Block until nothing works on the database any more.

    `ask` asks the engine that holds it (`NoEngine`: it has gone). `end_outlived` takes the lock for itself, looks once more
    for a supervisor, and ends what is there; None: somebody was there. Raises `Unavailable` for an engine or a supervisor
    that doesn't go within the stop's grace.
    """
    run = _Stop(config, ask, clock)
    while True:
        holder = DatabaseLock.holder(config.db)
        if holder is not None and holder.role == "engine":
            run.ask_engine(holder.identity)
        elif living := supervisors.living(config.db):
            run.end_supervisors(living)
        elif run.asked and not run.told:
            return Stopped(True, [])  # it ended what it ran, in order
        elif starting := run.launches.under_way():
            run.let_start(starting)
        elif (ended := end_outlived()) is not None:
            return Stopped(bool(run.asked), sorted(one.pid for one in run.told), ended)
        run.wait()


class _Stop:
    """One stop under way: whom it has asked, and since when it waits for whom."""

    def __init__(self, config: Config, ask: Callable[[], object], clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._patience = config.engine.stop_grace + SLACK
        self._deadline = clock.monotonic() + self._patience
        self._waits_for = "the database is held by another command"
        self._seen: dict[Identity, float] = {}
        self._busy: dict[Identity, float] = {}
        self.launches = Launches()
        self.asked: set[Identity] = set()
        self.told: set[Identity] = set()

    def ask_engine(self, engine: Identity) -> None:
        """Ask it, once; its time counts from then."""
        self._waits_for = f"the engine (pid {engine.pid}) is still there"
        self._seen.clear()
        self._busy.clear()
        if engine in self.asked:
            return
        try:
            self._ask()
        except NoEngine:  # it ended between the look and the call
            return
        except Unavailable:
            if identity.alive(engine):
                raise
            return  # it died over the question: whoever comes after it is asked anew
        self.asked.add(engine)
        self._deadline = self._clock.monotonic() + self._patience

    def end_supervisors(self, living: list[Identity]) -> None:
        """Let an engine come or go; a supervisor that has none, or one that doesn't come, is told to end."""
        now = self._clock.monotonic()
        rests = (
            STARTS_WITHIN if self.asked else RESTS
        )  # after an engine that ended as it was asked it goes by itself
        for one in living:
            self._waits_for = f"the supervisor (pid {one.pid}) is still there"
            if one in self.told:
                continue
            first_seen = self._seen.setdefault(one, now)
            if supervisors.children(one):
                self._busy[one] = now
            if now - self._busy.get(one, first_seen) >= rests or now - first_seen >= STARTS_WITHIN:
                trees.ask([one])
                self.told.add(one)

    def let_start(self, launches: list[Identity]) -> None:
        """Whoever typed `run` before `stop` means this one to end it, though it has not shown yet what it works on."""
        self._waits_for = f"what was started a moment ago (pid {launches[0].pid}) has not come up yet"

    def wait(self) -> None:
        """A moment. Raises `Unavailable` once the time is over."""
        if self._clock.monotonic() >= self._deadline:
            raise Unavailable(
                self._waits_for,
                f"it was waited for {self._patience:g} s",
                "taskdeck stop --now, or see: taskdeck status",
            )
        self._clock.sleep(_PAUSE)
