"""Asks resources whether they are ready, when a task wants one: never two checks of one at a time, never in the loop's way.

Decides nothing about a resource: that is `rules.readiness`, written by `store.readiness`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from secrets import token_hex

from ..clock import Clock
from ..config import Config
from ..edge import spawn, trees
from ..edge.paths import database_hash
from ..edge.ready_checks import run_check
from ..rules.declarations import ResourceDeclaration
from ..rules.readiness import parse_check
from ..store import readiness
from ..store.writer import Writer

log = logging.getLogger("taskdeck.readiness")

AT_ONCE = 8
LONGEST_REST = 5.0
"""It looks again after so many seconds at the latest."""
SLACK = 10.0
"""Seconds beyond a check's time for which it is claimed: what it leaves behind is ended in them."""


class Readiness:
    """Checks resources. `on_change` is called when a check may have freed one."""

    def __init__(self, config: Config, clock: Clock, writer: Writer, on_change: Callable[[], None]) -> None:
        self.config = config
        self._clock = clock
        self._writer = writer
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._wanted: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._mark = f"{database_hash(config.db)}:ready:"
        self._stop, self._given_up = os.pipe2(os.O_CLOEXEC)

    async def begin(self) -> None:
        """End what an engine that was killed left running."""
        if self._checked():
            await asyncio.to_thread(trees.end_tree, self._mark, grace=0.0, clock=self._clock)

    def want(self, pool: str) -> None:
        """A task wants one of this pool, and none is known to be ready. Any thread."""
        self._loop.call_soon_threadsafe(self._want, pool)

    def _want(self, pool: str) -> None:
        self._wanted.add(pool)
        self._wake.set()

    async def tick(self) -> None:
        """Begin the checks that are wanted and due."""
        self._wake.clear()
        wanted, self._wanted = self._wanted, set()
        checked = self._checked()
        room = AT_ONCE - len(self._running)
        if not checked or room <= 0:
            return
        seconds = {name: each.ready_timeout + SLACK for name, each in checked.items()}
        for name in await self._writer.write(readiness.claim, wanted, room, seconds):
            if name not in self._running:
                self._running[name] = asyncio.create_task(self._check(checked[name]), name=f"check of {name}")

    async def rest(self) -> None:
        """Until somebody wants one, or a while."""
        try:
            async with asyncio.timeout(LONGEST_REST):
                await self._wake.wait()
        except TimeoutError:
            return

    async def stop(self) -> None:
        """End all checks, and what they started."""
        os.write(self._given_up, b"x")
        for one in self._running.values():
            one.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _checked(self) -> dict[str, ResourceDeclaration]:
        return {each.id: each for each in self.config.resources if each.ready}

    async def _check(self, resource: ResourceDeclaration) -> None:
        env = spawn.command_environment(
            os.environ, self.config.shell.environment, {"TASKDECK_RESOURCE": resource.id}
        )
        asking = asyncio.ensure_future(
            run_check(
                parse_check(resource.ready, resource.id),
                within=resource.ready_timeout,
                env=env,
                mark=f"{self._mark}{token_hex(4)}",
                stop=self._stop,
                clock=self._clock,
            )
        )
        try:
            answer = await asyncio.shield(asking)
            await self._writer.write(
                readiness.record, resource.id, answer.ok, answer.detail, resource.readiness
            )
        except asyncio.CancelledError:
            await asyncio.wait({asking})  # a command is ended before anybody may ask again
            raise
        except Exception as error:
            log.error("the check of %s failed: %s", resource.id, type(error).__name__)
        finally:
            self._running.pop(resource.id, None)
            self._wake.set()
            self._on_change()
