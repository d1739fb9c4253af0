"""Heartbeats of workers, written together: hundreds of workers cost one commit a second, a lone one is written at once.

Owns when they are written. What the engine decides by is in memory at once; leases last far longer than a beat waits here.
"""

from __future__ import annotations

import asyncio
import contextlib

from ..clock import Clock
from ..errors import StoreError, Unavailable
from ..rules.settings import EngineSettings
from ..store import processes, tasks
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from ..store.writer import Writer
from .messages import Beat

TOGETHER = 1.0
"""Seconds between two writes of heartbeats, where workers beat no faster."""


class Beats:
    """The heartbeats of one engine that are not written yet, one a worker. Loop thread only."""

    def __init__(self, writer: Writer, clock: Clock, settings: EngineSettings) -> None:
        self._writer = writer
        self._clock = clock
        self._lease = settings.lease
        self._every = min(TOGETHER, settings.heartbeat / 2)
        self._waiting: dict[int, Beat] = {}
        self._last = float("-inf")
        self.later: asyncio.Task[None] | None = None
        """Writes what waits, when it is time."""

    async def heard(self, worker_id: int, beat: Beat) -> None:
        """Have it written: now, where the last write was long enough ago, else with others."""
        self._waiting[worker_id] = beat
        if self.later is not None:
            return
        rest = self._last + self._every - self._clock.monotonic()
        if rest <= 0:
            await self._write()
        else:
            self.later = asyncio.create_task(self._write_after(rest), name="beats")

    async def stop(self) -> None:
        """Write no more: the engine ends."""
        if self.later is not None:
            self.later.cancel()
            await asyncio.gather(self.later, return_exceptions=True)

    async def _write_after(self, seconds: float) -> None:
        await self._clock.pause(seconds)
        self.later = None
        await self._write()

    async def _write(self) -> None:
        beats, self._waiting = self._waiting, {}
        self._last = self._clock.monotonic()
        with contextlib.suppress(
            StoreError, Unavailable
        ):  # the next ones say the same, once the disk takes them
            await self._writer.write(self._record, beats)

    def _record(self, tx: Transaction, beats: dict[int, Beat]) -> None:
        for worker_id, beat in beats.items():
            processes.beat(tx, worker_id, beat.rss)
            state = "DRAINING" if beat.closing else "READY"
            if processes.set_worker(tx, worker_id, state, only_from="SUSPECT"):
                tx.event("WORKER_READY", actor=ENGINE, worker_id=worker_id, reason="heartbeat", ours=True)
            tasks.renew(tx, worker_id, self._lease)
