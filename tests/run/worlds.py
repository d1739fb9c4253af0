"""A world for the prober without sockets: what each route, the judge and the network come to, and when it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from taskdeck.engine.clock import Clock, ManualClock
from taskdeck.engine.edge.probe_errors import Verdict
from taskdeck.engine.edge.probe_results import Asked, ProbeResult, Stage
from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.rules.route_settings import RouteSettings
from taskdeck.engine.run.checking import Checked

STAGES = ("tcp", "probe", "exit")


def result(
    error: ErrorType | None = None, ms: float = 100.0, asked: Sequence[Asked] = (), bytes: int = 0
) -> ProbeResult:
    passed = 3 if error is None else min(error.stages) - 1
    stages = [Stage(name, True, ms) for name in STAGES[:passed]]
    if error is not None:
        stages.append(Stage(STAGES[passed], False, ms, error))
    latency = None if error else ms
    return ProbeResult(
        error is None, tuple(stages), error, "", latency, None, None, True, 0.0, tuple(asked), bytes
    )


class World:
    """Routes pass unless `errors` says otherwise. `judge_down` and `net_down` hit every check and every control."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.errors: dict[str, ErrorType] = {}
        self.judge_down = False
        self.net_down = False
        self.direct_is_cut = False
        self.asked: list[tuple[float, str]] = []
        self.controls = 0
        self.bytes = 0
        """What each check costs."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.gates: dict[str, asyncio.Event] = {}
        """Those of single routes."""
        self.settings = RouteSettings()

    def make(self, settings: RouteSettings, clock: Clock, passwords: Any) -> Any:
        self.settings = settings
        return self

    async def check(self, row: Mapping[str, Any], *, full: bool, urls: Sequence[str] = ()) -> Checked:
        self.asked.append((self.clock.boot(), row["route_id"]))
        await self.gates.get(row["route_id"], self.gate).wait()
        return Checked(self._result(self.errors.get(row["route_id"]), urls))

    async def control(self, exit: Any = None, urls: Sequence[str] = ()) -> ProbeResult:
        self.controls += 1
        return self._result(ErrorType.PROBE_TIMEOUT if self.direct_is_cut else None, urls)

    async def anchor(self, host: str, port: int) -> Verdict | None:
        return Verdict(ErrorType.TCP_UNREACHABLE, "no way") if self.net_down else None

    def _result(self, error: ErrorType | None, urls: Sequence[str]) -> ProbeResult:
        if self.net_down:
            error = ErrorType.TCP_UNREACHABLE
        elif self.judge_down:
            error = error or ErrorType.PROBE_TIMEOUT
        return result(error, asked=[Asked(url, error) for url in urls[:1]], bytes=self.bytes)
