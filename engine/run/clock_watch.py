"""The watch over the clocks: a wall clock that is set, a host that was suspended, told of and made harmless.

Leases are judged on the boot clock and durations on the monotonic one, so that only what waits for a time of the wall clock
has to be looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..clock import Clock
from ..rules.clocks import Reading, slept, stepped
from ..rules.timing import format_duration
from ..store.clock_steps import restart_waits
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from ..store.writer import Writer

log = logging.getLogger("taskdeck.clock")

EVERY = 5.0
"""Seconds between two looks."""


class ClockWatch:
    """One for the life of an engine. `on_step(seconds)` is called when the wall clock was set."""

    def __init__(self, clock: Clock, writer: Writer, on_step: Callable[[float], None]) -> None:
        self._clock = clock
        self._writer = writer
        self._on_step = on_step
        self._last = self._read()

    async def tick(self) -> None:
        """Compare the clocks with the last look."""
        now, before = self._read(), self._last
        step, sleep = stepped(before, now), slept(before, now)
        if step or sleep:
            await self._writer.write(_record, step, sleep)
            log.warning("%s", _story(step, sleep))
        self._last = now  # only once it is on record
        if step:
            self._on_step(step)

    async def rest(self) -> None:
        """Until the next look."""
        await self._clock.pause(EVERY)

    def _read(self) -> Reading:
        return Reading(self._clock.utc(), self._clock.monotonic(), self._clock.boot())


def _record(tx: Transaction, step: float, sleep: float) -> None:
    tx.event(
        "CLOCK_STEPPED" if step else "HOST_SUSPENDED",
        actor=ENGINE,
        level="warning",
        reason="clock_set_back" if step < 0 else "clock_set_forward" if step else "suspended",
        message=_story(step, sleep),
        payload={"stepped_seconds": round(step, 3), "suspended_seconds": round(sleep, 3)},
        ours=True,
    )
    if step < 0:
        restart_waits(tx)


def _story(step: float, sleep: float) -> str:
    told = [f"the host was suspended for {format_duration(round(sleep))}"] if sleep else []
    if step:
        told.append(
            f"the wall clock was set {'back' if step < 0 else 'forward'} by {format_duration(round(abs(step)))}"
        )
    return "; ".join(told)
