"""`ctx.http`: the HTTP session of one attempt, through the route that it holds and through nothing else.

Owns when the session is made (at its first use; the library is imported in a thread, since that takes 0.4 s) and closed.
Must not choose a route, try another, or keep anything of a request but what `request_log` tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .. import ResourceFault
from ..edge.http import session, warm_up
from .attempts import Attempt
from .request_log import Passage, RequestLog

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientWebSocketResponse, TraceConfig

CLOSE_WITHIN = 1.0
"""Seconds in which connections may say goodbye."""

Answer = TypeVar("Answer")


class Http:
    """The verbs of aiohttp's session, with its options; `async with ctx.http.get(url) as response:` or `await …`.

    A request has 10 s in all unless its `timeout` (an `aiohttp.ClientTimeout`) says otherwise.
    """

    def __init__(self, attempt: Attempt, log: RequestLog, *, direct: bool) -> None:
        """`direct`: may requests leave without a route, where the attempt holds none?"""
        self._attempt = attempt
        self._log = log
        self._direct = direct
        self._making: asyncio.Task[ClientSession] | None = None
        self._closed = False

    async def session(self) -> ClientSession:
        """The aiohttp session itself, for libraries that want one; it is closed when the attempt ends."""
        if self._closed:
            raise RuntimeError("the attempt has ended, and its HTTP session with it")
        if self._making is None:
            self._making = asyncio.ensure_future(self._make())
        return await asyncio.shield(self._making)

    def request(self, method: str, url: str, **options: Any) -> Exchange[ClientResponse]:
        """One request; options as in `aiohttp.ClientSession.request`."""
        return Exchange(self, lambda made: made.request(method, url, **options))

    def get(self, url: str, **options: Any) -> Exchange[ClientResponse]:
        """GET."""
        return self.request("GET", url, **options)

    def head(self, url: str, **options: Any) -> Exchange[ClientResponse]:
        """HEAD, which follows no redirect unless told."""
        return self.request("HEAD", url, **{"allow_redirects": False, **options})

    def options(self, url: str, **options: Any) -> Exchange[ClientResponse]:
        """OPTIONS."""
        return self.request("OPTIONS", url, **options)

    def post(self, url: str, **options: Any) -> Exchange[ClientResponse]:
        """POST."""
        return self.request("POST", url, **options)

    def put(self, url: str, **options: Any) -> Exchange[ClientResponse]:
        """PUT."""
        return self.request("PUT", url, **options)

    def patch(self, url: str, **options: Any) -> Exchange[ClientResponse]:
        """PATCH."""
        return self.request("PATCH", url, **options)

    def delete(self, url: str, **options: Any) -> Exchange[ClientResponse]:
        """DELETE."""
        return self.request("DELETE", url, **options)

    def ws_connect(self, url: str, **options: Any) -> Exchange[ClientWebSocketResponse]:
        """A web socket."""
        return Exchange(self, lambda made: made.ws_connect(url, **options))

    async def close(self) -> None:
        """The attempt ends: close the connections and tell the requests that weren't told yet."""
        self._closed = True
        making, self._making = self._making, None
        if making is not None:
            await asyncio.wait({asyncio.ensure_future(_close(making))}, timeout=CLOSE_WITHIN)
        self._log.flush()

    async def _make(self) -> ClientSession:
        held = self._attempt.held
        if held.route is None and not self._direct:
            raise ResourceFault("the type demands a route and the attempt holds none")
        await asyncio.to_thread(warm_up)
        return session(held.exit, traces=[_trace(self._log, self._attempt.clock.monotonic)])


class Exchange(Generic[Answer]):
    """A request that is sent when it is awaited or entered."""

    def __init__(self, http: Http, begin: Callable[[ClientSession], Any]) -> None:
        self._http = http
        self._begin = begin
        self._context: Any = None

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._send().__await__()

    async def __aenter__(self) -> Answer:
        self._context = self._begin(await self._http.session())
        return await self._context.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._context.__aexit__(kind, error, traceback)

    async def _send(self) -> Answer:
        return await self._begin(await self._http.session())


async def _close(making: asyncio.Task[ClientSession]) -> None:
    await asyncio.wait({making})
    if not making.cancelled() and making.exception() is None:
        await making.result().close()


def _trace(log: RequestLog, now: Callable[[], float]) -> TraceConfig:
    """What aiohttp tells of each request, passed on to the log."""
    import aiohttp

    async def begin(_: Any, passage: Passage, __: Any) -> None:
        passage.began = now()

    async def connect(_: Any, passage: Passage, __: Any) -> None:
        passage.connected = False

    async def connected(_: Any, passage: Passage, __: Any) -> None:
        passage.connected = passage.fresh = True

    async def reused(_: Any, passage: Passage, __: Any) -> None:
        passage.connected, passage.fresh = True, False

    async def redirected(_: Any, passage: Passage, __: Any) -> None:
        passage.redirected = True

    async def answered(_: Any, passage: Passage, told: aiohttp.TraceRequestEndParams) -> None:
        log.answered(passage, told.method, told.response.url, told.response.status)

    async def failed(_: Any, passage: Passage, told: aiohttp.TraceRequestExceptionParams) -> None:
        log.failed(passage, told.method, told.url, told.exception)

    factory: Any = Passage
    trace: Any = aiohttp.TraceConfig(trace_config_ctx_factory=factory)
    trace.on_request_start.append(begin)
    trace.on_connection_create_start.append(connect)
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(reused)
    trace.on_request_redirect.append(redirected)
    trace.on_request_end.append(answered)
    trace.on_request_exception.append(failed)
    return trace
