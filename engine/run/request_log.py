"""The requests of one attempt as they are told: HTTP_REQUEST events in batches, and what each says of the route.

Never holds more of a URL than its host. Must not send requests or judge the attempt.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ..edge.judging import is_tunnelled
from ..edge.probe_errors import Circumstances, ErrorType, Verdict, classify
from ..rules.cleaning import clean
from ..rules.hosts import bare_host
from .attempts import Attempt
from .held import BLAMED
from .messages import RouteResult

EVERY = 1.0
"""Seconds between two HTTP_REQUEST events of one attempt."""
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


class RequestLog:
    """Takes what the requests of `attempt` came to."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._waiting: list[dict[str, Any]] = []
        self._omitted = 0
        self._timer: asyncio.Task[None] | None = None
        self.host = ""
        """The host asked last."""

    def answered(self, passage: Passage, method: str, url: Any, status: int) -> None:
        """The headers of an answer are here."""
        ms = self._ms(passage)
        self._add(method, url, status=status, ms=ms)
        if self._attempt.run.route:
            by_proxy = status == 407 and not is_tunnelled(self._attempt.held.exit, str(url))
            kind = ErrorType.PROXY_AUTH if by_proxy else ""
            telling = passage.fresh and not passage.redirected
            self._report(url.host, kind, status, ms if telling and not kind else None)

    def failed(self, passage: Passage, method: str, url: Any, error: BaseException) -> None:
        """No answer came. Where that is the route's fault, the exception is marked with it."""
        exit = self._attempt.held.exit
        when = Circumstances(exit, "probe", passage.connected, is_tunnelled(exit, str(url)))
        verdict = _verdict(error, when)
        is_routes = exit.is_proxy and _is_routes(verdict.error_type, passage)
        if is_routes:
            setattr(error, BLAMED, verdict)
        told = str(verdict.error_type) if is_routes else type(error).__name__
        self._add(method, url, error=told, ms=self._ms(passage))
        if self._attempt.run.route and self.host:
            neutral = ErrorType.PROBE_TARGET_DOWN if passage.connected else ErrorType.INTERNAL
            if verdict.error_type is ErrorType.CANCELLED:
                neutral = ErrorType.CANCELLED
            self._report(self.host, verdict.error_type if is_routes else neutral)

    def blocked(self, host: str, reason: str) -> None:
        """The target refuses this route, as the handler found out by itself (a captcha, a page of excuses)."""
        self._attempt.note("ROUTE_BLOCKED", f"{_shown(host)}: {clean(reason, limit=200)}")
        if self._attempt.run.route:
            self._report(host, status=403)

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
        self.host = _host_of(url)
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

    def _report(self, host: str, kind: str = "", status: int = 0, ms: float | None = None) -> None:
        run = self._attempt.run
        route = self._attempt.held.route_id
        result = RouteResult(run.task_id, run.fence, route, _shown(host), str(kind), status, ms)
        self._attempt.uplink.post(result)

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


def _is_routes(kind: ErrorType, passage: Passage) -> bool:
    return kind in ROUTE_FAULTS or (kind is ErrorType.TCP_RESET and not passage.connected)


def _shown(host: str) -> str:
    return clean(bare_host(host), limit=253, keep="")


def _story(told: list[dict[str, Any]], count: int) -> str:
    hosts = list(dict.fromkeys(one["host"] for one in told))
    if count == 1:
        return f"{told[0]['method']} {hosts[0]} {told[0].get('status') or told[0]['error']}"
    more = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
    return f"{count} requests to {hosts[0]}{more}"
