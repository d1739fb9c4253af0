"""The time limits of a check, and whether its loop kept up meanwhile.

Owns the budgets, the limit of one request and the meter of lag. Must not know what is checked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ..clock import Clock

if TYPE_CHECKING:
    from aiohttp import TraceConfig

BEAT = 0.02
"""Seconds between two looks at the loop's lag."""
MOST_LAG = 0.05
"""Seconds that the loop may be late before what was measured meanwhile says more about this machine than about the exit."""


class Budgets(Struct, frozen=True):
    """Seconds: `tcp` for stage 1, `connect` and `read` for stage 2, `exit` for stage 3, `total` for the whole check.

    `lag`: a loop that was later than this meanwhile has measured itself, so that the latency is dropped.
    """

    tcp: float = 3.0
    connect: float = 5.0
    read: float = 5.0
    exit: float = 5.0
    total: float = 15.0
    lag: float = MOST_LAG


class RequestLimit:
    """`connect` seconds until a request's connection stands, then `read` seconds for its whole answer, drips included.

    aiohttp's own limits know only the pause between two reads. Enter it for each request; `TimeoutError` ends it.
    """

    def __init__(self, connect: float, read: float) -> None:
        self._connect = connect
        self._read = read
        self._limit: asyncio.Timeout = asyncio.timeout(None)
        self.connected = False

    def trace(self) -> TraceConfig:
        """What the session must be given for this limit to learn of its connections."""
        import aiohttp

        trace = aiohttp.TraceConfig()
        trace.on_connection_create_end.append(self._stands)
        return trace

    async def __aenter__(self) -> Self:
        self.connected = False
        self._limit = asyncio.timeout(self._connect)
        await self._limit.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._limit.__aexit__(*error)

    async def _stands(self, *_: Any) -> None:
        self.connected = True
        self._limit.reschedule(asyncio.get_running_loop().time() + self._read)


class LagMeter:
    """How late the loop was at worst (`worst`, seconds) between entering and leaving."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.worst = 0.0

    def __enter__(self) -> Self:
        self._plan()
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.cancel()
        self._look()

    def _plan(self) -> None:
        self._due = self._clock.monotonic() + BEAT
        self._handle = self._loop.call_later(BEAT, self._beat)

    def _beat(self) -> None:
        self._look()
        self._plan()

    def _look(self) -> None:
        self.worst = max(self.worst, self._clock.monotonic() - self._due)
