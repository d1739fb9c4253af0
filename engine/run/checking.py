"""Checks of routes as the configuration wants them: judges, addresses of this host, regions, trust. No schedule, no database.

What is dear is made once, in a thread, and kept as long as the settings stand: the libraries, the TLS context, the region
data. Whoever wants another exit, a control probe or an anchor asked does it here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..clock import Clock
from ..edge.exits import DIRECT, Exit, Scheme
from ..errors import TaskdeckError
from ..rules.route_errors import ErrorType
from ..rules.route_settings import RouteSettings
from .messages import LeasedRoute
from .passwords import Passwords
from .ways_out import WayOut

if TYPE_CHECKING:
    from ..edge.judging import Judge, Outside
    from ..edge.own_addresses import OwnAddresses
    from ..edge.probe_errors import Verdict
    from ..edge.probe_limits import Budgets
    from ..edge.probe_results import ProbeResult
    from ..edge.regions import Regions

    FindRegions = Callable[[Path | None], Regions]


class Checked(NamedTuple):
    """A check's result, and what else is told with it: whose word the region is, and advice for a person."""

    result: ProbeResult
    region_source: str | None = None
    advice: str = ""


class Checks:
    """All checks under one `[routing]`; another one needs another instance (`settings` tells)."""

    def __init__(
        self,
        settings: RouteSettings,
        clock: Clock,
        passwords: Passwords,
        find_regions: FindRegions | None = None,
    ) -> None:
        """`find_regions` opens the region data in place of `edge.regions.open_regions`."""
        self.settings = settings
        self._clock = clock
        self._passwords = passwords
        self._find_regions = find_regions
        self._ready: asyncio.Task[_Ready] | None = None
        self._silences: dict[tuple[str, int], int] = {}
        self._advice: dict[tuple[str, int], str] = {}

    async def check(self, row: Mapping[str, Any], *, full: bool, urls: Sequence[str] = ()) -> Checked:
        """Check a route (a row of `route`), with its password resolved now; `full`: the address outside too.

        `urls`: the probe URLs to ask, in this order; those of the settings where empty. Raises what a password raises.
        """
        ready = await self._made()
        way_out = way_out_of(row, self._passwords)
        exit = await way_out.exit()
        outside = await self._outside(row, ready) if full and self.settings.ip_urls else None
        begun = self._clock.monotonic()
        result = await ready.probe(exit, self._judges(urls), outside)
        if result.error_type is ErrorType.PROXY_AUTH and await way_out.renew():
            exit = await way_out.exit()
            result = await ready.probe(exit, self._judges(urls), outside)
        advice = await self._advise(row, exit, result, ready, self._clock.monotonic() - begun)
        known = ready.regions if result.exit_region is not None else None
        return Checked(result, known.source if known else None, advice)

    async def control(self, exit: Exit = DIRECT, urls: Sequence[str] = ()) -> ProbeResult:
        """Stage 2 alone, without a route or through another one: does the judge answer at all?"""
        return await (await self._made()).probe(exit, self._judges(urls), None)

    async def anchor(self, host: str, port: int) -> Verdict | None:
        """A TCP connection to a host that is always there; None = it stands."""
        from ..edge.probing import connect

        await self._made()
        return await connect(Exit(Scheme.HTTP, host, port), self.settings.tcp_timeout_s)

    def _judges(self, urls: Sequence[str]) -> list[Judge]:
        from ..edge.judging import Judge

        expected = self.settings.probe_expect
        pattern = expected.removeprefix("re:") if expected.startswith("re:") else None
        text = expected or "{nonce}"
        asked = urls or self.settings.probe_urls
        return [Judge(url, self.settings.probe_status, text, pattern) for url in asked]

    async def _outside(self, row: Mapping[str, Any], ready: _Ready) -> Outside:
        from ..edge.judging import Outside

        await ready.own.learn()
        return Outside(
            self.settings.ip_urls,
            ready.own.has,
            row["expected_ip"],
            frozenset(msgspec.json.decode(row["expected_regions"])),
            ready.regions.region if ready.regions else ready.no_regions,
            self.settings.unknown_region == "allow",
        )

    async def _advise(
        self, row: Mapping[str, Any], exit: Exit, result: ProbeResult, ready: _Ready, took: float
    ) -> str:
        """Where tunnels time out again and again though the port is open, it may speak another protocol: tried once."""
        from ..edge.siblings import spoken

        declared = (row["route_id"], row["config_rev"])
        if result.error_type is not ErrorType.TUNNEL_TIMEOUT:
            self._silences.pop(declared, None)
            return ""
        self._silences[declared] = self._silences.get(declared, 0) + 1
        if self._silences[declared] == self.settings.siblings_after:
            left = self.settings.budget_s - took
            judge = self._judges(())[0]
            found = await spoken(exit, judge, left, tls=ready.tls, clock=self._clock)
            self._advice[declared] = f"its port speaks {found}: write {found}:// in its url" if found else ""
        return self._advice.get(declared, "")

    async def _made(self) -> _Ready:
        if self._ready is None:
            self._ready = asyncio.create_task(self._make(), name="what checks need")
        try:
            return await asyncio.shield(self._ready)
        except Exception:
            self._ready = None  # tried again with the next check: a file may be there by then
            raise

    async def _make(self) -> _Ready:
        return await asyncio.to_thread(_Ready, self.settings, self._clock, self._find_regions)


class _Ready:
    """The dear things, made in a thread."""

    def __init__(self, settings: RouteSettings, clock: Clock, find_regions: FindRegions | None) -> None:
        from ..edge import http
        from ..edge.own_addresses import OwnAddresses

        http.warm_up()  # importing it stalls the loop for 0.3 s
        self.clock = clock
        self.tls = http.trust(settings.ca_file)
        self.budgets = budgets_of(settings)
        self.own: OwnAddresses = OwnAddresses(
            settings.ip_urls if settings.ask_directly else (),
            clock,
            given=settings.own_ips,
            budgets=self.budgets,
            tls=self.tls,
        )
        self.regions: Regions | None = None
        self._why_no_regions: TaskdeckError | None = None
        from ..edge.regions import open_regions

        try:
            self.regions = (find_regions or open_regions)(settings.geo_db)
        except TaskdeckError as error:
            self._why_no_regions = error

    def no_regions(self, address: str) -> str | None:
        """The lookup where there is none: says why, to whom it matters."""
        raise self._why_no_regions or AssertionError(address)

    async def probe(self, exit: Exit, judges: Sequence[Judge], outside: Outside | None) -> ProbeResult:
        from ..edge.probing import probe

        return await probe(exit, judges, outside, budgets=self.budgets, tls=self.tls, clock=self.clock)


def budgets_of(settings: RouteSettings) -> Budgets:
    """The time limits that the settings name."""
    from ..edge.probe_limits import Budgets

    return Budgets(
        settings.tcp_timeout_s,
        settings.connect_timeout_s,
        settings.read_timeout_s,
        settings.read_timeout_s,
        settings.budget_s,
        settings.max_lag_s,
    )


def way_out_of(row: Mapping[str, Any], passwords: Passwords) -> WayOut:
    """The way out that a row of `route` describes."""
    reference = row["secret_ref"] or ""
    leased = LeasedRoute(row["route_id"], row["scheme"], row["host"], row["port"], row["username"], reference)
    return WayOut(leased, passwords)
