"""Before routes are judged by failures that may be the judge's: control checks, and a freeze while the judge itself is down.

A check that fails past its proxy waits here until it is known whether the judge works. Where the control fails too, others
of the group are checked at once; if half of at least three fail, none of it counts: the group is frozen, one alert is raised,
and the judge is asked again until it answers. What is doubtful and what a control proves is decided in `rules.routes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..clock import Clock
from ..rules import routes as rules
from ..rules.route_errors import ErrorType
from ..rules.route_health import Sample
from ..rules.route_settings import FreezeSettings, RouteSettings
from ..rules.routes import Control
from ..store import freezes
from ..store.writer import Writer

Row = Mapping[str, Any]


class Doubt:
    """What one group's routes came to since the control failed; `settled` says whether it counts."""

    def __init__(self, settings: FreezeSettings) -> None:
        self.settings = settings
        self.cycle: dict[str, Sample] = {}
        self.settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def settle(self, counts: bool) -> None:
        if not self.settled.done():
            self.settled.set_result(counts)


class Freezes:
    """Says of each result whether it counts. `control` asks the judge without the group's routes."""

    def __init__(
        self,
        clock: Clock,
        writer: Writer,
        control: Callable[[str], Awaitable[Control]],
        on_change: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._writer = writer
        self._control = control
        self._on_change = on_change
        self._doubts: dict[str, Doubt] = {}
        self._passed_at: float | None = None
        self._asking: dict[str, asyncio.Task[Control]] = {}
        self._distrusted: dict[str, float] = {}

    async def counts(self, row: Row, sample: Sample, settings: RouteSettings) -> bool:
        """Whether this result of a check of the route `row` (with its `group_size`) counts; waits while that is unknown."""
        group = row["group"]
        if not rules.is_suspicious(sample):
            self._add(group, row["route_id"], sample)
            return True
        freeze = settings.freeze
        if row["group_size"] < freeze.least or self._is_distrusted(group) or self._works(freeze):
            return True
        control = await self._ask(group)
        broken = rules.verdict_of(control)
        if broken is None:
            self._passed_at = self._clock.monotonic()
        if broken is None or not rules.is_suspicious(sample, broken):
            return True
        return await self._doubt(row, sample, control, settings)

    async def retry(self, group: str) -> bool:
        """Ask the judge of a frozen group again. Returns whether the group goes on."""
        control = await self._ask(group)
        if rules.verdict_of(control) is not None:
            return False
        await self.thaw(group)
        return True

    async def thaw(self, group: str) -> None:
        """The judge answers again: what the routes come to counts from now on."""
        await self._writer.write(freezes.thaw, group)
        self._on_change()

    async def _doubt(self, row: Row, sample: Sample, control: Control, settings: RouteSettings) -> bool:
        group = row["group"]
        doubt = self._doubts.get(group)
        if doubt is None and group in await self._writer.write(freezes.frozen):
            return False  # it was under way when its group was frozen, and no others are checked any more
        doubt = self._doubts.get(group)
        if doubt is None:
            doubt = self._doubts[group] = Doubt(settings.freeze)
            await self._writer.write(freezes.ask_others, group, row["route_id"], settings.freeze.least)
            self._on_change()
        self._add(group, row["route_id"], sample)
        await self._judge(group, doubt, control)
        try:
            async with asyncio.timeout(settings.control_retry_s):
                return await asyncio.shield(doubt.settled)
        except TimeoutError:
            return True  # too few others answered to accuse the judge
        finally:
            if self._doubts.get(group) is doubt:
                del self._doubts[group]

    def _add(self, group: str, route_id: str, sample: Sample) -> None:
        """One more result; a pass may acquit the judge at once."""
        doubt = self._doubts.get(group)
        if doubt is None:
            return
        doubt.cycle[route_id] = sample
        cycle, settings = list(doubt.cycle.values()), doubt.settings
        if len(cycle) >= settings.least and not rules.is_doubtful(cycle, settings):
            self._distrusted[group] = self._clock.monotonic() + settings.distrusted_s
            doubt.settle(True)

    async def _judge(self, group: str, doubt: Doubt, control: Control) -> None:
        _, broken = rules.accepted(list(doubt.cycle.values()), control, doubt.settings)
        if broken is not None and not doubt.settled.done():
            doubt.settle(False)
            await self._freeze(group, broken)

    async def _freeze(self, group: str, broken: ErrorType) -> None:
        await self._writer.write(freezes.freeze, group, broken)
        self._on_change()

    def _is_distrusted(self, group: str) -> bool:
        return self._clock.monotonic() < self._distrusted.get(group, 0.0)

    def _works(self, settings: FreezeSettings) -> bool:
        at = self._passed_at
        return at is not None and self._clock.monotonic() - at < settings.trusted_s

    async def _ask(self, group: str) -> Control:
        """One control at a time for each group, whoever waits for it."""
        task = self._asking.get(group)
        if task is None:
            task = self._asking[group] = asyncio.ensure_future(self._control(group))
            task.add_done_callback(lambda _: self._asking.pop(group, None))
        return await asyncio.shield(task)
