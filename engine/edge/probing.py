"""One check of one exit over real sockets: TCP, a probe of a judge, the address seen from outside.

Owns the three stages, which judge is asked when another fails, and what is measured. Must not keep anything between checks,
judge an exit's health, or start a check by itself. Whatever an exit does, a check ends within its total budget.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ..clock import Clock, SystemClock
from ..rules.route_errors import ErrorType
from .asking import ask
from .dialling import dial
from .exits import Exit, is_tunnelled
from .http import Timeouts, session
from .judging import Address, Judge, Outside, read_address
from .probe_errors import Circumstances, Verdict, classify
from .probe_limits import Budgets, LagMeter, RequestLimit
from .probe_results import Asked, ProbeResult, Stage
from .traffic import Traffic

if TYPE_CHECKING:
    from aiohttp import ClientSession

__all__ = ["Budgets", "Judge", "Outside", "ProbeResult", "Stage", "probe"]

LAST_TICKS = 0.1
"""Seconds that a check over its budget gets for closing its sockets before it is left to itself."""


async def probe(
    exit: Exit,
    judges: Sequence[Judge],
    outside: Outside | None = None,
    *,
    budgets: Budgets | None = None,
    tls: ssl.SSLContext | None = None,
    clock: Clock | None = None,
) -> ProbeResult:
    """Check an exit once; every failure is a result, only cancelling raises. Without `outside` there is no stage 3.

    `judges`, at least one, are asked in turn until one answers rightly or what fails is the exit's own fault.
    `tls` as in `http.session`. Import aiohttp in a thread first (`http.warm_up`), or the first check stalls the loop.
    """
    check = _Check(exit, judges, outside, budgets or Budgets(), tls, clock or SystemClock())
    task = asyncio.create_task(check.run(), name="check of an exit")
    try:
        with LagMeter(check.clock) as lag:
            # Not wait_for: that waits for a cancelled task to end, and a library may be slow to let go.
            await asyncio.wait({task}, timeout=check.budgets.total)
        task.cancel()
        await asyncio.wait({task}, timeout=LAST_TICKS)
    finally:
        _leave(task)
    return check.result(lag.worst)


async def connect(exit: Exit, seconds: float) -> Verdict | None:
    """Stage 1 alone, also for any host and port of no proxy: a TCP connection, closed again. None = it stands in time."""
    try:
        async with asyncio.timeout(seconds):
            sock = await dial(exit.host, exit.port)
    except Exception as error:
        return classify(error, Circumstances(exit, "tcp"))
    sock.close()
    return None


_left: set[asyncio.Task[None]] = set()


def _leave(task: asyncio.Task[None]) -> None:
    """Cancel it without waiting; its end, whatever it is, is noticed by nobody."""
    task.cancel()
    _left.add(task)
    task.add_done_callback(_left.discard)


class _Check(Struct):
    """A check under way. It writes down what it finds at once, so that it can be left at any point."""

    exit: Exit
    judges: Sequence[Judge]
    outside: Outside | None
    budgets: Budgets
    tls: ssl.SSLContext | None
    clock: Clock
    stages: list[Stage] = field(default_factory=list)
    current: str = "tcp"
    since: float = 0.0
    answered_ms: float | None = None
    exit_ip: str | None = None
    exit_region: str | None = None
    asked: list[Asked] = field(default_factory=list)
    verified: bool = False
    traffic: Traffic = field(default_factory=Traffic)
    complete: bool = False

    async def run(self) -> None:
        self._begin(self.current)
        try:
            await self._run_stages()
        except Exception as error:
            self._write(classify(error, Circumstances(self.exit, self.current)))
            self.complete = True

    async def _run_stages(self) -> None:
        """Stage by stage until one fails. The last is complete before the session closes: that isn't the exit's time."""
        if self.exit.is_proxy and not await self._stage("tcp", partial(connect, self.exit, self.budgets.tcp)):
            self.complete = True
            return
        limit = RequestLimit(self.budgets.connect, self.budgets.read)
        timeouts = Timeouts(None, self.budgets.connect, self.budgets.read)
        async with session(
            self.exit,
            timeouts=timeouts,
            tls=self.tls,
            traces=[limit.trace()],
            fresh=True,
            traffic=self.traffic,
        ) as http:
            if await self._stage("probe", partial(self._ask_judges, http, limit)) and self.outside:
                await self._stage("exit", partial(self._look_outside, http, limit, self.outside))
            self.complete = True

    async def _stage(self, name: str, work: Callable[[], Coroutine[Any, Any, Verdict | None]]) -> bool:
        self._begin(name)
        verdict = await work()
        self._write(verdict)
        return verdict is None

    def _begin(self, name: str) -> None:
        self.current, self.since, self.answered_ms = name, self.clock.monotonic(), None

    def _write(self, verdict: Verdict | None) -> None:
        ms = self._elapsed() if self.answered_ms is None or verdict else self.answered_ms
        kind, detail = (verdict.error_type, verdict.detail) if verdict else (None, "")
        self.stages.append(Stage(self.current, verdict is None, ms, kind, detail))

    def _elapsed(self) -> float:
        return (self.clock.monotonic() - self.since) * 1000

    async def _ask_judges(self, http: ClientSession, limit: RequestLimit) -> Verdict | None:
        """The first right answer, or the verdict: an exit's own fault as soon as one shows, else that of the first judge."""
        first: Verdict | None = None
        for judge in self.judges:
            self._begin(self.current)
            verdict = await self._ask_judge(judge, http, limit)
            self.asked.append(Asked(judge.url, verdict.error_type if verdict else None))
            if verdict is None or not verdict.error_type.of_target:
                return verdict
            first = first or verdict
        return first

    async def _ask_judge(self, judge: Judge, http: ClientSession, limit: RequestLimit) -> Verdict | None:
        nonce = secrets.token_hex(8)
        self.verified = judge.is_secure
        try:
            answer = await ask(http, judge.asked(nonce), limit, self._answered)
        except Exception as error:
            return classify(error, self._circumstances(limit, judge.url))
        return judge.judge(self.exit, answer.status, answer.body, nonce)

    def _answered(self) -> None:
        self.answered_ms = self._elapsed()

    async def _look_outside(
        self, http: ClientSession, limit: RequestLimit, outside: Outside
    ) -> Verdict | None:
        """The address that the first service to tell one tells, judged; where none does, the verdict on the first."""
        first: Verdict | None = None
        for url in outside.urls:
            self._begin(self.current)
            found = await self._ask_address(url, http, limit)
            if not isinstance(found, Verdict):
                self.exit_ip = str(found)
                self.exit_region, verdict = outside.judge_region(found)
                return await outside.judge_address(self.exit, found) or verdict
            first = first or found
        return first

    async def _ask_address(self, url: str, http: ClientSession, limit: RequestLimit) -> Address | Verdict:
        try:
            async with asyncio.timeout(self.budgets.exit):
                answer = await ask(http, url, limit)
        except Exception as error:
            return classify(error, self._circumstances(limit, url))
        self._answered()
        return read_address(self.exit, answer.status, answer.body)

    def _circumstances(self, limit: RequestLimit, url: str) -> Circumstances:
        return Circumstances(self.exit, self.current, limit.connected, is_tunnelled(self.exit, url))

    def result(self, lag: float) -> ProbeResult:
        """What is known now; a check that isn't complete is over its budget."""
        if not self.complete:
            self._write(Verdict(ErrorType.BUDGET_EXCEEDED, f"not through within {self.budgets.total:g} s"))
        last = self.stages[-1]
        took = next((stage.ms for stage in self.stages if stage.name == "probe"), None)
        return ProbeResult(
            ok=last.ok,
            stages=tuple(self.stages),
            error_type=last.error_type,
            detail=last.detail,
            latency_ms=took if last.ok and lag <= self.budgets.lag else None,
            exit_ip=self.exit_ip,
            exit_region=self.exit_region,
            verified=self.verified,
            asked=tuple(self.asked),
            lag_ms=lag * 1000,
            bytes=self.traffic.total,
        )
