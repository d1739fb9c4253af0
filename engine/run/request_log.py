"""The requests of one attempt as they are told: HTTP_REQUEST events in batches, and what each says of the route.

Never holds more of a URL than its host. Must not send requests or judge the attempt.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from ..edge.exits import Exit, is_tunnelled
from ..edge.local_faults import local_fault
from ..edge.probe_errors import Circumstances, ErrorType, Finding, Verdict, classify
from ..edge.probe_limits import MOST_LAG, LagMeter
from ..rules.cleaning import clean
from ..rules.hosts import bare_host
from ..rules.retry_after import retry_after
from .attempts import Attempt
from .endings import safe
from .messages import RouteResult
from .route_words import told_by_forwarder
from .ways_out import BLAMED

EVERY = 1.0
"""Seconds between two HTTP_REQUEST events of one attempt."""
LONGEST_BLOCK = 86400.0
"""Seconds for which a target may ask to be left alone."""
MOST_LAG_SHARE = 0.1
"""Of the time that a request took, the share for which the loop may have stood still before a timeout is our own."""
MOST = 50
"""Requests told one by one in an event; of what goes beyond, only the number."""

ROUTE_FAULTS = frozenset(
    {
        ErrorType.DNS_PROXY,
        ErrorType.TCP_REFUSED,
        ErrorType.TCP_UNREACHABLE,
        ErrorType.TCP_TIMEOUT,
        ErrorType.PROXY_TLS,
        ErrorType.PROXY_PROTO,
        ErrorType.PROXY_AUTH,
        ErrorType.PROXY_DENIED,
        ErrorType.TUNNEL_FAILED,
        ErrorType.TUNNEL_TIMEOUT,
    }
)
"""What is the route's and not the target's. A bad certificate isn't here: unlike a judge's, a target's may really be bad."""


class Passage:
    """One request on its way. aiohttp makes one for each, with what the caller gave along."""

    def __init__(self, trace_request_ctx: Any = None) -> None:
        self.began = 0.0
        self.connected = False
        self.fresh = False
        """Was a connection made for it? Only then do its milliseconds say something of the route."""
        self.redirected = False
        self.meter: LagMeter | None = None
        self.lag = 0.0
        """Seconds by which the loop was late at worst since a connection was begun."""

    def measured(self) -> None:
        """It is over."""
        if self.meter is not None:
            self.meter.__exit__()
            self.lag, self.meter = self.meter.worst, None

    @property
    def lagged(self) -> bool:
        """Do its milliseconds say more of this worker than of the route?"""
        return self.lag > MOST_LAG


class Told(Struct, frozen=True):
    """A target's answer: its status, whether TLS vouches for it, milliseconds where they say something of the route."""

    status: int
    secure: bool = False
    ms: float | None = None
    after: str | None = None


class RequestLog:
    """Takes what the requests of `attempt` came to."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._waiting: list[dict[str, Any]] = []
        self._omitted = 0
        self._timer: asyncio.Task[None] | None = None
        self.host = ""
        """The host asked last."""
        self.by_forwarder = False
        """Do requests go by the local proxy? Then that one tells what it saw of the route."""

    def refuses_login(self, url: Any, status: int = 0, error: BaseException | None = None) -> bool:
        """Did the proxy refuse the login of the route, by an answer of its own or in its handshake?"""
        exit = self._attempt.held.exit
        if error is not None:
            when = Circumstances(exit, "probe", False, is_tunnelled(exit, str(url)))
            return exit.is_proxy and _verdict(error, when).error_type is ErrorType.PROXY_AUTH
        return exit.is_proxy and status == 407 and not is_tunnelled(exit, str(url))

    def answered(
        self, passage: Passage, method: str, url: Any, status: int, after: str | None = None
    ) -> None:
        """The headers of an answer are here; `after` is its Retry-After."""
        ms = self._ms(passage)
        self._add(method, url, status=status, ms=ms)
        if self.refuses_login(url, status):
            self._report(url.host, ErrorType.PROXY_AUTH, detail="the proxy refused the login")
            return
        if self.by_forwarder and url.scheme == "http":
            return
        telling = passage.fresh and not passage.redirected and not passage.lagged
        answer = Told(status, url.scheme == "https", ms if telling else None, after)
        self.told(url.host, answer)

    def told(self, host: str, answer: Told) -> None:
        """A target's answer, whoever asked for it."""
        delay = retry_after(answer.after, self._attempt.clock.utc(), LONGEST_BLOCK)
        self._report(host, status=answer.status, ms=answer.ms, secure=answer.secure, retry_after=delay)

    def failed(self, passage: Passage, method: str, url: Any, error: BaseException) -> None:
        """No answer came. Where that is the route's fault, the exception is marked with it."""
        exit = self._attempt.held.exit
        when = Circumstances(exit, "probe", passage.connected, is_tunnelled(exit, str(url)))
        told = told_by_forwarder(error) if self.by_forwarder else None
        verdict = told or self._judged(error, when, passage)
        is_routes = is_of_route(exit, verdict, connected=passage.connected)
        if is_routes:
            setattr(error, BLAMED, verdict)
        kind = str(verdict.error_type) if is_routes else type(error).__name__
        self._add(method, url, error=kind, ms=self._ms(passage))
        if self.host and not told:
            self._report_failure(self.host, verdict, connected=passage.connected)

    def told_by_process(self, said: dict[str, Any]) -> None:
        """A request that a sync handler's process made by the local proxy, which has told what it saw of the route."""
        parts = urlsplit(str(said["requested"]))
        facts = {key: said[key] for key in ("status", "error", "ms") if key in said}
        self._write(parts.hostname or "", str(said["method"]), facts)
        if "status" in said and parts.scheme == "https":
            answer = Told(int(said["status"]), True, float(said["ms"]), str(said["after"]))
            self.told(self.host, answer)

    def kept_back(self, method: str, url: Any, verdict: Verdict) -> None:
        """The local proxy answered in place of the target, and has told why."""
        self._add(method, url, error=str(verdict.error_type))

    def unusable(self, error: Exception) -> None:
        """The route's login can't be looked up: a fault of its configuration, told as a refused login is."""
        verdict = getattr(error, BLAMED, None)
        if verdict is not None:
            self._report("", verdict.error_type, detail=verdict.detail)

    def passed(self, finding: Finding) -> None:
        """What a connection by the local proxy came to; any thread. What TLS hides says nothing of the target."""
        if finding.verdict is not None:
            self._report_failure(finding.host, finding.verdict, connected=False)
        elif finding.status:
            self.told(finding.host, Told(finding.status, after=finding.retry_after))
        else:
            self._report("")

    def blocked(self, host: str, reason: str) -> None:
        """The target refuses this route, as the handler found out by itself (a captcha, a page of excuses)."""
        self._attempt.note("ROUTE_BLOCKED", f"{_shown(host)}: {clean(reason, limit=200)}")
        self._report(host, status=403, secure=True, detail=clean(reason, limit=200))

    def flush(self) -> None:
        """Tell what waits; after this the attempt may end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        run, told = self._attempt.run, self._waiting
        payload: dict[str, Any] = {"attempt": run.attempt, "route": self._attempt.held.route_id or None}
        payload["requests"] = told
        if self._omitted:
            payload["omitted"] = self._omitted
        self._waiting, self._omitted, count = [], 0, len(told) + self._omitted
        self._attempt.note("HTTP_REQUEST", _story(told, count), payload)

    def _add(self, method: str, url: Any, **facts: Any) -> None:
        self._write(_host_of(url), method, facts)

    def _write(self, host: str, method: str, facts: dict[str, Any]) -> None:
        self.host = host
        if len(self._waiting) < MOST:
            self._waiting.append({"host": _shown(self.host), "method": clean(method, limit=20), **facts})
        else:
            self._omitted += 1
        if self._timer is None:
            self._timer = asyncio.ensure_future(self._flush_later())

    async def _flush_later(self) -> None:
        await self._attempt.clock.pause(EVERY)
        self._timer = None
        self.flush()

    def _judged(self, error: BaseException, when: Circumstances, passage: Passage) -> Verdict:
        """A verdict that charges neither route nor target with what this host or this worker did."""
        verdict = _verdict(error, when)
        if ours := local_fault(error):
            return Verdict(ours, verdict.detail)
        took = self._attempt.clock.monotonic() - passage.began
        if verdict.error_type.timeout and passage.lag > MOST_LAG_SHARE * took:
            return Verdict(ErrorType.INTERNAL, f"the worker was busy for {passage.lag:.1f} s meanwhile")
        return verdict

    def _report_failure(self, host: str, verdict: Verdict, *, connected: bool) -> None:
        """What is not the route's went wrong behind it: the target's, where its connection stood; else it can't be told."""
        kind = verdict.error_type
        if not kind.neutral and not is_of_route(self._attempt.held.exit, verdict, connected=connected):
            kind = ErrorType.PROBE_TARGET_DOWN if connected else ErrorType.INTERNAL
        self._report(host, kind, detail=verdict.detail)

    def _report(
        self,
        host: str,
        kind: str = "",
        *,
        status: int = 0,
        ms: float | None = None,
        secure: bool = False,
        retry_after: float | None = None,
        detail: str = "",
    ) -> None:
        run, host = self._attempt.run, _shown(host)
        if run.route is not None:
            route_id = run.route.route_id
            self._attempt.uplink.post(
                RouteResult(
                    run.task_id,
                    run.fence,
                    route_id,
                    host,
                    str(kind),
                    status,
                    ms,
                    secure,
                    retry_after,
                    safe(detail),
                )
            )

    def _ms(self, passage: Passage) -> float:
        return round((self._attempt.clock.monotonic() - passage.began) * 1000, 1)


def _host_of(url: Any) -> str:
    try:
        return url.host or ""
    except ValueError:  # a name that is no IDNA: the request fails by itself
        return ""


def _verdict(error: BaseException, when: Circumstances) -> Verdict:
    if isinstance(error, asyncio.CancelledError):
        return Verdict(ErrorType.CANCELLED, "the request was cancelled")
    return classify(error, when)


def is_of_route(exit: Exit, verdict: Verdict, *, connected: bool = False) -> bool:
    """Is this the fault of the route? `connected`: did a connection to the target stand? Without a proxy nothing is."""
    kind = verdict.error_type
    cut_off = kind is ErrorType.TCP_RESET and not connected
    return exit.is_proxy and (kind in ROUTE_FAULTS or cut_off)


def _shown(host: str) -> str:
    return clean(bare_host(host), limit=253, keep="")


def _story(told: list[dict[str, Any]], count: int) -> str:
    hosts = list(dict.fromkeys(one["host"] for one in told))
    if count == 1:
        return f"{told[0]['method']} {hosts[0]} {told[0].get('status') or told[0]['error']}"
    more = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
    return f"{count} requests to {hosts[0]}{more}"
