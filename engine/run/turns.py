"""In which order a worker's commands start: one at a time, and the next when the last is where it belongs.

A command that ends at once needs no group (cgroup), and to move one costs more than it to run. So while commands are as short
as that, each is given a moment to end before the next one starts; what lasts is moved in a thread, since the kernel may let
that wait. Where commands last there is nothing to wait for. Must not start or end anything.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Self

from .groups import AttemptGroups

MOMENT = 0.005
"""Seconds that a command is given to end before it is moved."""


class Turns:
    """The turns of one worker: `async with turns:` start a command; tell that it has, and its end. Loop thread only."""

    def __init__(self, groups: AttemptGroups, threads: Executor) -> None:
        self._groups = groups
        self._threads = threads
        self._turn = asyncio.Lock()
        self._last = 0
        """The pid of the command that was started last, until it has ended."""
        self._until = 0.0
        """When its moment is over, by the loop's clock."""
        self._over: asyncio.Future[None] | None = None
        """Set with its end, for whoever waits for that."""
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        await self._turn.acquire()
        if self._last and not self._groups.lasting:
            try:
                await self._moment()
            except BaseException:
                self._turn.release()
                raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._turn.release()

    def began(self, pid: int) -> None:
        """This command has started."""
        if not self._groups.is_made:
            return
        loop = asyncio.get_running_loop()
        self._last, self._until = pid, loop.time() + MOMENT
        if self._timer is None:
            self._timer = loop.call_at(self._until, self._settle, loop)

    def ended(self, pid: int) -> None:
        """This command has ended."""
        if pid == self._last:
            self._last = 0
            self._wake()

    async def _moment(self) -> None:
        """Until the command that was started last has ended, or had its moment."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._until:
            return
        self._over = loop.create_future()
        timer = loop.call_at(self._until, self._wake)
        try:
            await self._over
        finally:
            timer.cancel()
            self._over = None

    def _wake(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _settle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have who was started last moved, once it has had its moment."""
        self._timer = None
        if not self._last:
            return
        if loop.time() < self._until:
            self._timer = loop.call_at(self._until, self._settle, loop)
        elif self._groups.has_newcomer:
            loop.run_in_executor(self._threads, self._groups.settle)
