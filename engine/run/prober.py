"""The prober: checks routes over real sockets when they are due, so that a dead exit is known before a task gets it.

One loop, at most so many checks at once and so many begun a second for each probe host. Each is claimed in the database
first; its result counts only under that claim, and only while the judge itself works (`freezing`). Decides nothing about a
route: that is `rules.route_cooldown`, written by `store.routes`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from ..clock import Clock
from ..config import Config
from ..credentials import NoCredential
from ..edge.exits import BadExit
from ..errors import StorageTrouble, TaskdeckError
from ..rules import routes as schedule
from ..rules.route_errors import ErrorType
from ..rules.route_health import Sample
from ..rules.route_settings import RouteSettings
from ..rules.routes import Control
from ..store import freezes, probe_urls, routes
from ..store.transaction import Transaction
from ..store.writer import Writer
from .checking import Checks
from .freezing import Freezes
from .passwords import Passwords

if TYPE_CHECKING:
    from ..edge.probe_results import ProbeResult

log = logging.getLogger("taskdeck.prober")

ONE_LOOK = 0.05
"""Seconds that two looks are apart at least: what may begin within them may begin at once."""
LONGEST_REST = 5.0
"""The prober looks again after so many seconds at the latest."""

Row = dict[str, Any]
MakeChecks = Callable[[RouteSettings, Clock, Passwords], Checks]


class Due(NamedTuple):
    """The checks to begin, the probe URLs in the order in which they are asked, and the groups that are frozen.

    `left`: seconds until the next look; None where only the end of a check can make one useful, or nothing is to be checked.
    """

    rows: list[Row]
    urls: list[str]
    frozen: list[str]
    left: float | None


class Unchecked(NamedTuple):
    """What is left of checks that somebody asked for: not begun yet, and begun but without a result."""

    ids: list[str]
    waiting: list[str]


class Prober:
    """Checks routes. `on_change` is called when a check may have freed a route."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        writer: Writer,
        passwords: Passwords,
        on_change: Callable[[], None],
        make_checks: MakeChecks = Checks,
    ) -> None:
        self.config = config
        self._clock = clock
        self._writer = writer
        self._passwords = passwords
        self._on_change = on_change
        self._make_checks = make_checks
        self._uniform = random.SystemRandom().uniform
        self._running: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._checks = make_checks(config.routing, clock, passwords)
        self._freezes = Freezes(clock, writer, self._control, self.wake)
        self._rest = LONGEST_REST
        self._next_start: dict[str, float] = {}
        self._next_retry: dict[str, float] = {}
        self._retrying: dict[str, asyncio.Task[None]] = {}
        self._mean_s = 1.0

    async def tick(self) -> None:
        """Start the checks that are due."""
        self._wake.clear()
        settings = self.config.routing
        if not settings.probe_urls:
            self._rest = LONGEST_REST
            if await self._writer.write(routes.return_unproven, settings, self._uniform):
                self._on_change()
            return
        due = await self._writer.write(self._look, settings, len(self._running))
        wait = 0.0
        for row in due.rows:
            wait = self._wait_for(due.urls[0], settings)
            if wait > 0:
                break
            if row["route_id"] not in self._running:
                await self._start(row, settings, due.urls)
        self._retry_frozen(due.frozen, settings)
        left = LONGEST_REST if due.left is None else due.left
        self._rest = min(LONGEST_REST, max(ONE_LOOK, left, wait))

    def _most(self, tx: Transaction, settings: RouteSettings) -> int:
        """How many checks may run at once."""
        return schedule.concurrency(routes.count(tx), self._mean_s, settings)

    def _look(self, tx: Transaction, settings: RouteSettings, running: int) -> Due:
        room = max(0, self._most(tx, settings) - running)
        urls = probe_urls.in_order(tx, settings.probe_urls)
        rows = routes.due_for_probe(tx, room) if room else []
        left = 0.0 if rows else routes.next_probe(tx) if room else None
        return Due(rows, urls, freezes.frozen(tx), left)

    def _wait_for(self, url: str, settings: RouteSettings) -> float:
        """Seconds until one more check may begin with this host; 0 takes the turn."""
        host, now, apart = urlsplit(url).netloc, self._clock.monotonic(), 1 / settings.starts_per_s
        turn = max(self._next_start.get(host, 0.0), now)
        if turn - now > max(0.0, ONE_LOOK - apart):
            return turn - now
        self._next_start[host] = turn + apart
        return 0.0

    async def rest(self) -> None:
        """Until the next check is due, or somebody asks for one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rest):
                await self._wake.wait()

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    async def check_now(
        self, route_ids: list[str], waiting: Sequence[str] = (), within: float | None = None
    ) -> Unchecked:
        """Check these routes now and wait for the results, as for those of `waiting`, whose checks were begun before.

        No more run at once than otherwise, however many are named; how many begin a second is for who asks to know. After
        `within` seconds it returns what is left.
        """
        settings, loop = self.config.routing, asyncio.get_running_loop()
        end = math.inf if within is None else loop.time() + within

        async def some(tasks: Iterable[asyncio.Task[None]], when: str) -> None:
            left = None if within is None else max(0.0, end - loop.time())
            if tasks := set(tasks):
                await asyncio.wait(tasks, timeout=left, return_when=when)

        rows, begun = await self._writer.write(routes.declared, route_ids), list(waiting)
        while rows:
            if len(self._running) < await self._writer.write(self._most, settings):
                row = rows.pop(0)
                begun.append(row["route_id"])
                if row["route_id"] not in self._running:
                    await self._start(row, settings, settings.probe_urls)
            elif loop.time() < end:
                await some(self._running.values(), asyncio.FIRST_COMPLETED)
            else:
                break
        await some((self._running[each] for each in begun if each in self._running), asyncio.ALL_COMPLETED)
        return Unchecked([row["route_id"] for row in rows], [each for each in begun if each in self._running])

    async def stop(self) -> None:
        """End all checks; an unfinished one counts for nothing."""
        tasks = [*self._running.values(), *self._retrying.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, row: Row, settings: RouteSettings, urls: Sequence[str]) -> None:
        token = secrets.token_hex(8)
        full = await self._writer.write(self._claim, row, token, settings)
        if full is None:
            return
        task = asyncio.get_running_loop().create_task(self._check(row, token, settings, full, urls))
        self._running[row["route_id"]] = task
        task.add_done_callback(lambda _: self._done(row["route_id"]))

    def _claim(self, tx: Transaction, row: Row, token: str, settings: RouteSettings) -> bool | None:
        """Claim the check of a route. None: not now; else whether the address at the other end is asked for as well."""
        route_id = row["route_id"]
        # A result may have to wait for a control: it still is the claim's then.
        if not routes.claim_probe(tx, route_id, token, settings.probe_claim_s + settings.control_retry_s):
            return None
        if not routes.prepare_probe(tx, route_id, settings):
            routes.put_off(tx, route_id, settings.interval_s)
            return None
        return routes.needs_exit_stage(tx, route_id, settings)

    def _done(self, route_id: str) -> None:
        self._running.pop(route_id, None)
        self._wake.set()
        self._on_change()

    async def _check(
        self, row: Row, token: str, settings: RouteSettings, full: bool, urls: Sequence[str]
    ) -> None:
        route_id, begun = row["route_id"], self._clock.monotonic()
        asked: Sequence[tuple[str, ErrorType | None]] = ()
        try:
            sample, details, asked = await self._probe(row, settings, full, urls)
            self._mean_s += (self._clock.monotonic() - begun - self._mean_s) / 20
            counts = await self._freezes.counts(row, sample, settings)
        except asyncio.CancelledError:
            with suppress(StorageTrouble):
                await self._writer.write(routes.drop_claim, route_id, token)
            raise
        except (NoCredential, BadExit) as error:  # as fatal as a login that the proxy refuses
            counts, sample = True, Sample(self._clock.boot(), ErrorType.PROXY_AUTH, stages=0)
            details = {"detail": str(error)}
        except Exception as error:  # one check ends here: our own mistake is no fault of the route
            log.exception("the check of route %s failed", route_id)
            counts, sample = True, Sample(self._clock.boot(), ErrorType.INTERNAL, stages=0)
            details = {"detail": str(error) if isinstance(error, TaskdeckError) else type(error).__name__}
        if counts:
            await self._writer.write(self._record, route_id, sample, token, settings, details, asked)
        else:
            await self._writer.write(self._discard, route_id, token, settings, details)

    def _record(
        self,
        tx: Transaction,
        route_id: str,
        sample: Sample,
        token: str,
        settings: RouteSettings,
        details: Mapping[str, Any],
        asked: Sequence[tuple[str, ErrorType | None]],
    ) -> None:
        probe_urls.note(tx, asked)
        routes.count_bytes(tx, route_id, details.get("bytes", 0))
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

    def _discard(
        self,
        tx: Transaction,
        route_id: str,
        token: str,
        settings: RouteSettings,
        details: Mapping[str, Any],
    ) -> None:
        routes.count_bytes(tx, route_id, details.get("bytes", 0))
        routes.drop_claim(tx, route_id, token)
        routes.put_off(tx, route_id, settings.fast_interval_s)

    async def _probe(
        self, row: Row, settings: RouteSettings, full: bool, urls: Sequence[str]
    ) -> tuple[Sample, dict[str, Any], Sequence[tuple[str, ErrorType | None]]]:
        if self._checks.settings != settings:
            self._checks = self._make_checks(settings, self._clock, self._passwords)
        result, region_source, advice = await self._checks.check(row, full=full, urls=urls)
        ms = {f"{stage.name}_ms": stage.ms for stage in result.stages if stage.ok}
        details = {
            "detail": "; ".join(filter(None, (result.detail, advice))),
            "exit_ip": result.exit_ip,
            "exit_region": result.exit_region,
            "region_source": region_source,
            "verified": result.verified,
            "bytes": result.bytes,
            **ms,
        }
        stages = 3 if result.ok else result.passed
        sample = Sample(self._clock.boot(), result.error_type, result.latency_ms, stages)
        return sample, details, [(each.url, each.error_type) for each in result.asked]

    # ---- when the judge itself is in doubt --------------------------------------------------------------------------

    async def _control(self, group: str) -> Control:
        """Ask the judge without the group's routes; where that is forbidden, another judge through the best of them."""
        settings, checks = self.config.routing, self._checks
        if not settings.ask_directly:
            return Control(second=await self._second(group, settings))
        (direct, *others), anchors = await asyncio.gather(
            asyncio.gather(*(checks.control(urls=[url]) for url in settings.probe_urls[:2])),
            asyncio.gather(*(self._reaches(place) for place in settings.control_anchors)),
        )
        answers = _answers(direct)
        return Control(
            answers, any(map(_answers, others)) if others else None, any(anchors) if anchors else None
        )

    async def _reaches(self, place: str) -> bool:
        host, _, port = place.rpartition(":")
        return await self._checks.anchor(host.strip("[]"), int(port)) is None

    async def _second(self, group: str, settings: RouteSettings) -> bool | None:
        if len(settings.probe_urls) < 2:
            return None
        row = await self._writer.write(freezes.witness, group)
        if row is None:
            return None
        return await self._passes(row, settings.probe_urls[1:])

    async def _passes(self, row: Row, urls: Sequence[str] = ()) -> bool:
        """Whether a judge can be asked through this route; its health learns nothing of it."""
        result = (await self._checks.check(row, full=False, urls=urls)).result
        await self._writer.write(routes.count_bytes, row["route_id"], result.bytes)
        return result.ok

    def _retry_frozen(self, groups: list[str], settings: RouteSettings) -> None:
        """Ask the judge of each frozen group again, every so often, beside all else."""
        now = self._clock.monotonic()
        for group in groups:
            if group in self._retrying or now < self._next_retry.get(group, 0.0):
                continue
            self._next_retry[group] = now + settings.control_retry_s
            task = asyncio.get_running_loop().create_task(self._retry(group))
            self._retrying[group] = task
            task.add_done_callback(lambda _, group=group: self._retrying.pop(group, None))

    async def _retry(self, group: str) -> None:
        """The judge again, and, since it may be only the way from here that is cut, the route that worked last."""
        if await self._freezes.retry(group):
            self._on_change()
            return
        row = await self._writer.write(freezes.witness, group)
        if row is not None and await self._passes(row):
            await self._freezes.thaw(group)
            self._on_change()


def _answers(result: ProbeResult) -> bool:
    return result.ok
