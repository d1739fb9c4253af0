"""When the scheduler looks again: when something has changed, when the next task is due, and after some seconds anyway.

Loop thread only. Must not know what a look does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ..clock import Clock
from ..edge.alarm import Alarm
from ..rules.timing import parse_utc

NOT_YET = 0.001
"""Seconds until it is looked again at what is due and could not be had."""
LONGEST_REST = 5.0
"""It is looked again after so many seconds at the latest, since the wall clock may step."""


class Looks:
    """The looks of one engine. Holds a timer of the kernel's, once it has rested, until `close`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wake = asyncio.Event()
        self._alarm: Alarm | None = None
        """Made in the loop, at the first rest."""
        self._next: str | None = None

    def begin(self) -> None:
        """A look begins. What comes from here on it may not see any more, so that no time that was told before counts."""
        self._wake.clear()
        self._next = None

    def end(self, next_at: str | None) -> None:
        """The look is over and told when the next one is needed (UTC text); None = not before something changes."""
        self._next = next_at

    def now(self) -> None:
        """Something changed: look now."""
        self._wake.set()

    def by(self, due: Iterable[str]) -> None:
        """Tasks came that are due then (UTC text; "" = now): look now, unless the next look comes in time anyway."""
        first = min(due, default=None)
        if first is not None and (self._next is None or self._next > first):
            self.now()

    async def rest(self) -> None:
        """Until the next look."""
        seconds = LONGEST_REST
        if self._next is not None:
            due_in = (parse_utc(self._next) - self._clock.utc()).total_seconds()
            seconds = min(seconds, due_in if due_in > 0 else NOT_YET)
        if self._alarm is None:
            self._alarm = Alarm(self.now)
        self._alarm.set(seconds)
        await self._wake.wait()
        self._alarm.stop()

    def close(self) -> None:
        """Give the timer back."""
        if self._alarm is not None:
            self._alarm.close()
