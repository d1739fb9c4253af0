"""`ctx.http` of sync handlers: requests that wait for their whole answer, through the leased route and nothing else.

Owns a loop in a thread of this process, made at the first request. The login of the route is not in this process: requests go
by the worker's local proxy. Must not judge the attempt.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from .. import ResourceFault
from ..clock import Clock
from ..edge.exits import DIRECT, Exit, Scheme
from ..edge.http import session
from ..edge.tunnels import NoTunnel
from .held import Held
from .route_words import refused_by_forwarder, told_by_forwarder
from .ways_out import blamed

if TYPE_CHECKING:
    from aiohttp import ClientSession

CLOSE_WITHIN = 1.0
"""Seconds in which connections may say goodbye."""
MOST = 64 * 1024 * 1024
"""Bytes of an answer's body; for more, use a library that reads piece by piece: the environment names the proxy."""


class SyncAnswer(Struct, frozen=True):
    """A whole answer. `headers` are found by names in any case; `url` is where redirects led."""

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes
    charset: str = "utf-8"

    @property
    def ok(self) -> bool:
        """Is the status below 400?"""
        return self.status < 400

    @property
    def text(self) -> str:
        """The body as text; what can't be read is replaced."""
        return self.body.decode(self.charset, "replace")

    def json(self) -> Any:
        """The body as JSON. Raises `ValueError`."""
        return json.loads(self.body)


class SyncHttp:
    """The verbs of HTTP; each waits for the whole answer. Options are those of `aiohttp.ClientSession.request`."""

    def __init__(self, held: Held, clock: Clock, tell: Callable[..., Any], *, direct: bool) -> None:
        """`direct`: may requests leave without a route? `tell` hears of each request."""
        self._held = held
        self._clock = clock
        self._tell = tell
        self._direct = direct
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: ClientSession | None = None
        self.host = ""
        """The host asked last."""

    def request(self, method: str, url: str, *, timeout: float = 10.0, **options: Any) -> SyncAnswer:
        """One request, within `timeout` seconds in all; raises what aiohttp does, `TimeoutError` among it."""
        self.host = urlsplit(url).hostname or ""
        began = self._clock.monotonic()
        try:
            answer = self._run(lambda: self._send(method, url, timeout, options))
        except Exception as error:
            if verdict := told_by_forwarder(error):
                raise blamed(NoTunnel(verdict)) from error
            self._tell(requested=url, method=method, error=type(error).__name__)
            raise
        ms = round((self._clock.monotonic() - began) * 1000, 1)
        if verdict := refused_by_forwarder(answer.headers) if self._held.proxy else None:
            raise blamed(NoTunnel(verdict))
        after = answer.headers.get("Retry-After", "")
        self._tell(requested=answer.url, method=method, status=answer.status, ms=ms, after=after)
        return answer

    def get(self, url: str, **options: Any) -> SyncAnswer:
        """GET."""
        return self.request("GET", url, **options)

    def head(self, url: str, **options: Any) -> SyncAnswer:
        """HEAD, which follows no redirect unless told."""
        return self.request("HEAD", url, **{"allow_redirects": False, **options})

    def post(self, url: str, **options: Any) -> SyncAnswer:
        """POST."""
        return self.request("POST", url, **options)

    def put(self, url: str, **options: Any) -> SyncAnswer:
        """PUT."""
        return self.request("PUT", url, **options)

    def patch(self, url: str, **options: Any) -> SyncAnswer:
        """PATCH."""
        return self.request("PATCH", url, **options)

    def delete(self, url: str, **options: Any) -> SyncAnswer:
        """DELETE."""
        return self.request("DELETE", url, **options)

    def close(self) -> None:
        """The handler has ended."""
        if self._loop is not None and self._session is not None:
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._session.close(), self._loop).result(CLOSE_WITHIN)

    def _run(self, act: Callable[[], Awaitable[SyncAnswer]]) -> SyncAnswer:
        """In the loop's thread, while this one waits; a stop that arrives meanwhile ends the request."""
        if self._held.route is None and not self._direct:
            raise ResourceFault("the type demands a route and the attempt holds none")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            Thread(target=self._loop.run_forever, name="http", daemon=True).start()

        async def acting() -> SyncAnswer:
            return await act()

        future = asyncio.run_coroutine_threadsafe(acting(), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise TimeoutError("the request was given up") from None
        finally:
            future.cancel()

    async def _send(self, method: str, url: str, timeout: float, options: dict[str, Any]) -> SyncAnswer:
        import aiohttp

        made = self._session = self._session or session(_exit(self._held))
        limit = aiohttp.ClientTimeout(total=timeout, ceil_threshold=math.inf)
        async with made.request(method, url, timeout=limit, **options) as response:
            body = bytearray()
            async for piece in response.content.iter_chunked(64 * 1024):
                body += piece
                if len(body) > MOST:
                    raise ValueError(f"the answer of {response.url.host} is larger than {MOST >> 20} MiB")
            return SyncAnswer(
                response.status, str(response.url), response.headers, bytes(body), response.charset or "utf-8"
            )


def _exit(held: Held) -> Exit:
    if not held.proxy:
        return DIRECT
    proxy = urlsplit(held.proxy)
    return Exit(Scheme.HTTP, proxy.hostname or "", proxy.port or 0)
