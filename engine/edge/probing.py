"""One check of one exit over real sockets: TCP, a probe of a judge, the address seen from outside.

Owns the three stages and what is measured. Must not keep anything between checks, judge an exit's health, or start a check by
itself. Whatever an exit does, a check ends within its total budget.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..clock import Clock, SystemClock
from ..rules.route_errors import ErrorType
from .exits import Exit
from .http import Timeouts, session
from .judging import MOST_BODY, Judge, Outside, is_tunnelled, read_address
from .probe_errors import Circumstances, Verdict, classify
from .probe_limits import Budgets, LagMeter, RequestLimit
from .probe_results import ProbeResult, Stage

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

__all__ = ["Budgets", "Judge", "Outside", "ProbeResult", "Stage", "probe"]

MOST_LAG = 0.05
"""Seconds that the loop may be late during a check before its time says more about this machine than about the exit."""
LAST_TICKS = 0.1
"""Seconds that a check over its budget gets for closing its sockets before it is left to itself."""
HAPPY_EYEBALLS = 0.25
"""Seconds before a second address of the proxy is tried beside the first."""

_REQUEST: dict[str, Any] = {"allow_redirects": False, "headers": {"Accept-Encoding": "identity"}}


async def probe(
    exit: Exit,
    judge: Judge,
    outside: Outside | None = None,
    *,
    budgets: Budgets | None = None,
    tls: ssl.SSLContext | None = None,
    clock: Clock | None = None,
) -> ProbeResult:
    """Check an exit once; every failure is a result, only cancelling raises. Without `outside` there is no stage 3.

    `tls` as in `http.session`. Import aiohttp in a thread first (`http.warm_up`), or the first check stalls the loop.
    """
    check = _Check(exit, judge, outside, budgets or Budgets(), tls, clock or SystemClock())
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


_left: set[asyncio.Task[None]] = set()


def _leave(task: asyncio.Task[None]) -> None:
    """Cancel it without waiting; its end, whatever it is, is noticed by nobody."""
    task.cancel()
    _left.add(task)
    task.add_done_callback(_left.discard)


@dataclass
class _Check:
    """A check under way. It writes down what it finds at once, so that it can be left at any point."""

    exit: Exit
    judge: Judge
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
        if self.exit.is_proxy and not await self._stage("tcp", self._connect):
            self.complete = True
            return
        limit = RequestLimit(self.budgets.connect, self.budgets.read)
        timeouts = Timeouts(None, self.budgets.connect, self.budgets.read)
        async with session(
            self.exit, timeouts=timeouts, tls=self.tls, traces=[limit.trace()], fresh=True
        ) as http:
            if await self._stage("probe", partial(self._ask_judge, http, limit)) and self.outside:
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

    async def _connect(self) -> Verdict | None:
        try:
            async with asyncio.timeout(self.budgets.tcp):
                transport, _ = await asyncio.get_running_loop().create_connection(
                    asyncio.Protocol, self.exit.host, self.exit.port, happy_eyeballs_delay=HAPPY_EYEBALLS
                )
        except Exception as error:
            return classify(error, Circumstances(self.exit, "tcp"))
        transport.abort()
        return None

    async def _ask_judge(self, http: ClientSession, limit: RequestLimit) -> Verdict | None:
        nonce = secrets.token_hex(8)
        try:
            async with limit, http.get(self.judge.asked(nonce), **_REQUEST) as response:
                self.answered_ms = self._elapsed()
                return self.judge.judge(self.exit, response.status, await _body(response), nonce)
        except Exception as error:
            return classify(error, self._circumstances(limit, self.judge.url))

    async def _look_outside(
        self, http: ClientSession, limit: RequestLimit, outside: Outside
    ) -> Verdict | None:
        try:
            async with (
                asyncio.timeout(self.budgets.exit),
                limit,
                http.get(outside.url, **_REQUEST) as response,
            ):
                found = read_address(self.exit, response.status, await _body(response))
        except Exception as error:
            return classify(error, self._circumstances(limit, outside.url))
        if isinstance(found, Verdict):
            return found
        self.exit_ip = str(found)
        self.exit_region, verdict = outside.find_region(found)
        return outside.judge_address(self.exit, found) or verdict

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
            latency_ms=took if last.ok and lag <= MOST_LAG else None,
            exit_ip=self.exit_ip,
            exit_region=self.exit_region,
            verified=self.judge.is_secure,
            lag_ms=lag * 1000,
        )


async def _body(response: ClientResponse) -> bytes:
    """The body, or its beginning one byte over the limit."""
    body = b""
    while len(body) <= MOST_BODY and (more := await response.content.read(MOST_BODY + 1 - len(body))):
        body += more
    return body
