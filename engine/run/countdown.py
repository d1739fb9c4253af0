"""The timeout of an attempt that can be suspended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..clock import Clock


class Countdown:
    """A timeout that stands still while it is stopped."""

    def __init__(self, clock: Clock, seconds: float | None, act: Callable[[], None]) -> None:
        self._clock = clock
        self._rest = seconds
        self._act = act
        self._since = 0.0
        self._timer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Go on with what is left."""
        if self._rest is not None and self._timer is None:
            self._since = self._clock.monotonic()
            self._timer = asyncio.ensure_future(self._run(self._rest))

    def stop(self) -> None:
        """Stand still."""
        if self._rest is not None and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._rest = max(0.0, self._rest - (self._clock.monotonic() - self._since))

    async def _run(self, seconds: float) -> None:
        await self._clock.pause(seconds)
        self._act()
