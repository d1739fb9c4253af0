"""`ctx.http`: the HTTP session of one attempt, through the route that it holds and through nothing else.

Owns when the session is made (at its first use; the library is imported in a thread, since that takes 0.4 s) and closed.
Must not choose a route, try another, or keep anything of a request but what `request_log` tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .. import ResourceFault
from ..clock import Clock
from ..credentials import NoCredential
from ..edge.exits import BadExit, Exit, Scheme
from ..edge.http import session, warm_up
from ..edge.probe_errors import Verdict
from ..edge.probe_limits import LagMeter
from ..edge.tunnels import NoTunnel
from .attempts import Attempt
from .request_log import Passage, RequestLog
from .route_words import refused_by_forwarder
from .ways_out import blamed

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientWebSocketResponse, TraceConfig

OUTDATED = "_taskdeck_outdated_login"
"""Attribute of an answer or an exception that only says that the route has another login by now."""
CLOSE_WITHIN = 1.0
"""Seconds in which connections may say goodbye."""

Answer = TypeVar("Answer")


class Http:
    """The verbs of aiohttp's session, with its options; `async with ctx.http.get(url) as response:` or `await …`.

    A request has 10 s in all unless its `timeout` (an `aiohttp.ClientTimeout`) says otherwise.
    """

    def __init__(self, attempt: Attempt, log: RequestLog, *, direct: bool, closed: bool) -> None:
        """`direct`: may requests leave without a route, where the attempt holds none? `closed`: it has ended already."""
        self._attempt = attempt
        self._log = log
        self._direct = direct
        self._making: asyncio.Task[ClientSession] | None = None
        self._old: list[asyncio.Task[ClientSession]] = []
        """Sessions with a login that is refused by now; requests may still be under way in them."""
        self._renewing = asyncio.Lock()
        self._closed = closed

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
        """The attempt ends: close the connections."""
        self._closed = True
        made = [*self._old, *([self._making] if self._making is not None else [])]
        self._making, self._old = None, []
        if made:
            await asyncio.wait([asyncio.ensure_future(_close(one)) for one in made], timeout=CLOSE_WITHIN)

    async def renewed(self, used: ClientSession) -> bool:
        """The proxy refused the login of the session `used`: is there another session by now, with another login?"""
        async with self._renewing:
            making = self._making
            if self._closed or making is None or not making.done() or making.result() is not used:
                return not self._closed
            if not await self._attempt.passage.way_out.renew():
                return False
            self._old.append(making)
            self._making = None
            return True

    def kept_back(self, answer: Any) -> Verdict | None:
        """Why the local proxy answered in place of the target; None where it did not."""
        headers = getattr(answer, "headers", {}) if self._log.by_forwarder else {}
        return refused_by_forwarder(headers)

    async def _make(self) -> ClientSession:
        held = self._attempt.held
        if held.route is None and not self._direct:
            raise ResourceFault("the type demands a route and the attempt holds none")
        await asyncio.to_thread(warm_up)
        return session(await self._exit(), traces=[_trace(self._log, self._attempt.clock, self.renewed)])

    async def _exit(self) -> Exit:
        passage = self._attempt.passage
        try:
            exit = await passage.way_out.exit()
        except (NoCredential, BadExit) as error:
            self._log.unusable(error)
            raise
        if not passage.is_limited:
            return exit
        self._log.by_forwarder = True
        return Exit(Scheme.HTTP, "127.0.0.1", passage.port())


class Exchange(Generic[Answer]):
    """A request that is sent when it is awaited or entered."""

    def __init__(self, http: Http, begin: Callable[[ClientSession], Any]) -> None:
        self._http = http
        self._begin = begin
        self._context: Any = None

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._send(lambda context: context).__await__()

    async def __aenter__(self) -> Answer:
        return await self._send(lambda context: context.__aenter__())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._context.__aexit__(kind, error, traceback)

    async def _send(self, enter: Callable[[Any], Awaitable[Answer]]) -> Answer:
        """Send it; once more where it was refused for a login that the route's reference no longer leads to.

        A proxy that refuses a login has passed nothing on, so that nothing is done twice.
        """
        made = await self._http.session()
        self._context = self._begin(made)
        try:
            answer = await enter(self._context)
        except Exception as error:
            if not getattr(error, OUTDATED, False):
                raise
        else:
            if verdict := self._http.kept_back(answer):
                answer.release()  # type: ignore[attr-defined]
                raise blamed(NoTunnel(verdict))
            if not getattr(answer, OUTDATED, False):
                return answer
            answer.release()  # type: ignore[attr-defined]
        self._context = self._begin(await self._http.session())
        return await enter(self._context)


async def _close(making: asyncio.Task[ClientSession]) -> None:
    await asyncio.wait({making})
    if not making.cancelled() and making.exception() is None:
        await making.result().close()


def _trace(log: RequestLog, clock: Clock, renewed: Callable[[ClientSession], Awaitable[bool]]) -> TraceConfig:
    """What aiohttp tells of each request, passed on to the log. A login that is `renewed` is no news of the route."""
    import aiohttp

    async def begin(_: Any, passage: Passage, __: Any) -> None:
        passage.began = clock.monotonic()

    async def connect(_: Any, passage: Passage, __: Any) -> None:
        passage.connected = False
        passage.meter = LagMeter(clock).__enter__()

    async def connected(_: Any, passage: Passage, __: Any) -> None:
        passage.connected = passage.fresh = True

    async def reused(_: Any, passage: Passage, __: Any) -> None:
        passage.connected, passage.fresh = True, False

    async def redirected(_: Any, passage: Passage, __: Any) -> None:
        passage.redirected = True

    async def answered(used: Any, passage: Passage, told: aiohttp.TraceRequestEndParams) -> None:
        passage.measured()
        answer = told.response
        if log.by_forwarder and (verdict := refused_by_forwarder(answer.headers)):
            log.kept_back(told.method, answer.url, verdict)
        elif log.refuses_login(answer.url, answer.status) and await renewed(used):
            setattr(answer, OUTDATED, True)
        else:
            log.answered(passage, told.method, answer.url, answer.status, answer.headers.get("Retry-After"))

    async def failed(used: Any, passage: Passage, told: aiohttp.TraceRequestExceptionParams) -> None:
        passage.measured()
        if log.refuses_login(told.url, error=told.exception) and await renewed(used):
            setattr(told.exception, OUTDATED, True)
        else:
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
