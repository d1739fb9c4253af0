"""The prober: checks routes over real sockets when they are due, so that a dead exit is known before a task gets it.

One loop, at most so many checks at once; each is claimed in the database first and its result counts only under that claim.
Decides nothing about a route: that is `rules.route_cooldown`, written by `store.routes`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from ..clock import Clock
from ..config import Config
from ..credentials import NoCredential
from ..edge.exits import BadExit
from ..errors import TaskdeckError
from ..rules import routes as schedule
from ..rules.route_errors import ErrorType
from ..rules.route_health import Sample
from ..rules.route_settings import RouteSettings
from ..store import routes
from ..store.transaction import Transaction
from ..store.writer import Writer
from .checking import Checks
from .passwords import Passwords

log = logging.getLogger("taskdeck.prober")

LONGEST_REST = 5.0
"""The prober looks again after so many seconds at the latest."""


class Prober:
    """Checks routes. `on_change` is called when a check may have freed a route."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        writer: Writer,
        passwords: Passwords,
        on_change: Callable[[], None],
    ) -> None:
        self.config = config
        self._clock = clock
        self._writer = writer
        self._passwords = passwords
        self._on_change = on_change
        self._uniform = random.SystemRandom().uniform
        self._running: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._checks = Checks(config.routing, clock, passwords)
        self._rest = LONGEST_REST

    async def tick(self) -> None:
        """Start the checks that are due."""
        self._wake.clear()
        settings = self.config.routing
        if not settings.probe_urls:
            self._rest = LONGEST_REST
            return
        room = schedule.concurrency(len(self.config.routes), 1.0, settings) - len(self._running)
        due = await self._writer.write(routes.due_for_probe, max(0, room))
        for row in due:
            if row["route_id"] not in self._running:
                await self._start(row, settings)
        left = await self._writer.write(routes.next_probe)
        self._rest = LONGEST_REST if left is None else min(LONGEST_REST, max(0.05, left))

    async def rest(self) -> None:
        """Until the next check is due, or somebody asks for one."""
        try:
            async with asyncio.timeout(self._rest):
                await self._wake.wait()
        except TimeoutError:
            return

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    async def check_now(self, route_ids: list[str]) -> None:
        """Check these routes now and wait for the results; one that is being checked is waited for."""
        settings = self.config.routing
        for row in await self._writer.write(routes.declared, route_ids):
            if row["route_id"] not in self._running:
                await self._start(row, settings)
        waiting = [self._running[route_id] for route_id in route_ids if route_id in self._running]
        if waiting:
            await asyncio.wait(waiting)

    async def stop(self) -> None:
        """End all checks; an unfinished one counts for nothing."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _start(self, row: dict[str, Any], settings: RouteSettings) -> None:
        token = secrets.token_hex(8)
        full = await self._writer.write(self._claim, row, token, settings)
        if full is None:
            return
        task = asyncio.get_running_loop().create_task(self._check(row, token, settings, full))
        self._running[row["route_id"]] = task
        task.add_done_callback(lambda _: self._done(row["route_id"]))

    def _claim(
        self, tx: Transaction, row: dict[str, Any], token: str, settings: RouteSettings
    ) -> bool | None:
        """Claim the check of a route. None: not now; else whether the address at the other end is asked for as well."""
        route_id = row["route_id"]
        if not routes.claim_probe(tx, route_id, token, settings.probe_claim_s):
            return None
        if not routes.prepare_probe(tx, route_id, settings):
            routes.put_off(tx, route_id, settings.interval_s)
            return None
        return routes.needs_exit_stage(tx, route_id, settings)

    def _done(self, route_id: str) -> None:
        self._running.pop(route_id, None)
        self._wake.set()
        self._on_change()

    async def _check(self, row: dict[str, Any], token: str, settings: RouteSettings, full: bool) -> None:
        try:
            sample, details = await self._probe(row, settings, full)
        except asyncio.CancelledError:
            raise
        except (NoCredential, BadExit) as error:  # as fatal as a login that the proxy refuses
            sample = Sample(self._clock.boot(), ErrorType.PROXY_AUTH, stages=0)
            details = {"detail": str(error)}
        except Exception as error:  # one check ends here: our own mistake is no fault of the route
            log.exception("the check of route %s failed", row["route_id"])
            sample = Sample(self._clock.boot(), ErrorType.INTERNAL, stages=0)
            details = {"detail": str(error) if isinstance(error, TaskdeckError) else type(error).__name__}
        await self._writer.write(self._record, row["route_id"], sample, token, settings, details)

    def _record(
        self,
        tx: Transaction,
        route_id: str,
        sample: Sample,
        token: str,
        settings: RouteSettings,
        details: Any,
    ) -> None:
        routes.record(
            tx,
            route_id,
            msgspec.structs.replace(sample, at=tx.boot),
            source="probe",
            settings=settings,
            uniform=self._uniform,
            token=token,
            details=details,
        )

    async def _probe(
        self, row: dict[str, Any], settings: RouteSettings, full: bool
    ) -> tuple[Sample, dict[str, Any]]:
        if self._checks.settings != settings:
            self._checks = Checks(settings, self._clock, self._passwords)
        result, region_source, advice = await self._checks.check(row, full=full)
        ms = {f"{stage.name}_ms": stage.ms for stage in result.stages}
        details = {
            "detail": "; ".join(filter(None, (result.detail, advice))),
            "exit_ip": result.exit_ip,
            "exit_region": result.exit_region,
            "region_source": region_source,
            "verified": result.verified,
            **ms,
        }
        stages = 3 if result.ok else result.passed
        return Sample(self._clock.boot(), result.error_type, result.latency_ms, stages), details
