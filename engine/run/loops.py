"""A loop of the engine: calls its tick again and again, survives and reports its errors, stops idempotently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ..clock import Clock

PAUSE_AFTER_ERROR = 1.0
"""Seconds to rest after a tick that failed, so that a lasting fault neither ends the loop nor spins it (TF044)."""


class Loop:
    """`tick()` does one pass, `rest()` waits until the next is due. `on_error` hears of a failing pass once in a row."""

    def __init__(
        self,
        name: str,
        tick: Callable[[], Awaitable[None]],
        rest: Callable[[], Awaitable[None]],
        clock: Clock,
        on_error: Callable[[str, Exception], None],
    ) -> None:
        self.name = name
        self._tick = tick
        self._rest = rest
        self._clock = clock
        self._on_error = on_error
        self._last = clock.monotonic()
        self._failing: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._passing = asyncio.Lock()

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """End it, wherever it is; harmless when it has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def finish(self) -> None:
        """End it after the pass that is under way."""
        async with self._passing:
            await self.stop()

    def age(self) -> float:
        """Seconds since the last pass that went well."""
        return self._clock.monotonic() - self._last

    async def _run(self) -> None:
        while True:
            try:
                async with self._passing:
                    await self._tick()
            except Exception as error:  # a loop ends here: its fault is reported, never its end
                self._report(error)
                await self._clock.pause(PAUSE_AFTER_ERROR)
                continue
            self._last = self._clock.monotonic()
            self._failing = None
            await self._rest()

    def _report(self, error: Exception) -> None:
        if repr(error) != self._failing:
            self._failing = repr(error)
            self._on_error(self.name, error)
