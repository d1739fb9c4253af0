"""HTTP sessions that go out through an exit.

Owns which library carries which scheme (http and https by aiohttp itself, SOCKS by the connector of `socks`) and the
limits of requests. aiohttp is imported late: it takes 0.3 s. Must not fall back to another way out.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from msgspec import Struct

from ..errors import Unavailable
from . import tls_in_tls
from .dialling import cut, until_closed
from .exits import SOCKS4, SOCKS5, WEB, Exit, Scheme, secret_url
from .traffic import Traffic

if TYPE_CHECKING:
    from aiohttp import (
        BaseConnector,
        ClientRequest,
        ClientResponse,
        ClientSession,
        ClientTimeout,
        TraceConfig,
    )


class Timeouts(Struct, frozen=True):
    """Limits of one request in seconds; None = none.

    `connect` covers all up to a usable connection: name, TCP, the proxy's answer, TLS. `read` is the longest silence.
    """

    total: float | None = 10.0
    connect: float | None = 5.0
    read: float | None = 5.0


def session(
    exit: Exit,
    *,
    timeouts: Timeouts | None = None,
    tls: ssl.SSLContext | None = None,
    traces: Sequence[TraceConfig] = (),
    fresh: bool = False,
    family: socket.AddressFamily = socket.AF_UNSPEC,
    traffic: Traffic | None = None,
) -> ClientSession:
    """An aiohttp session whose every request leaves through `exit`; call it in a running loop, close it after use.

    The environment's proxies are ignored. `tls` (None = the usual authorities) serves a TLS proxy and the target alike:
    aiohttp knows one for both. With `fresh`, each request has a new connection, no cookies, its body as sent, and is sent
    once; otherwise aiohttp sends what HTTP calls idempotent (all but POST and PATCH) again where a connection breaks.
    `family` restricts the addresses that are connected to; SOCKS takes no notice of it. `traffic` counts what passes.
    """
    import aiohttp

    return aiohttp.ClientSession(
        connector=_connector(exit, tls, fresh, family, traffic),
        proxy=secret_url(exit) if exit.scheme in WEB else None,
        timeout=_client_timeout(timeouts or Timeouts()),
        trace_configs=list(traces),
        cookie_jar=aiohttp.DummyCookieJar() if fresh else None,
        auto_decompress=not fresh,
        middlewares=[_send_once] if fresh else [],
        trust_env=False,
    )


async def _send_once(
    request: ClientRequest, send: Callable[[ClientRequest], Awaitable[ClientResponse]]
) -> ClientResponse:
    """A middleware that turns the errors which aiohttp answers with a second try into one which it doesn't."""
    import aiohttp

    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError("the connection was cut off") from error


def warm_up() -> None:
    """Import what sessions need: about 0.4 s of work, so a loop calls it in a thread before its first session."""
    import_module(".socks", __package__)


def trust(ca_file: Path | None) -> ssl.SSLContext | None:
    """A context for `session` that trusts this file's authorities besides the usual ones; None without a file.

    It takes a tenth of a second: make it once, in a thread. `Unavailable` where the file can't be read.
    """
    if ca_file is None:
        return None  # aiohttp keeps one of its own
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:  # SSLError is one
        why = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror or ""
        raise Unavailable(f"{ca_file} can't be read", why, "correct ca_file of [routing]") from None
    return context


def _connector(
    exit: Exit,
    tls: ssl.SSLContext | None,
    fresh: bool,
    family: socket.AddressFamily,
    traffic: Traffic | None,
) -> BaseConnector:
    sockets: WeakSet[socket.socket] = WeakSet()
    if exit.scheme in SOCKS4 | SOCKS5:
        from .socks import SocksConnector

        made: BaseConnector = SocksConnector(
            exit, traffic, made=sockets.add, ssl=tls or True, force_close=fresh
        )
    else:
        import aiohttp

        if exit.scheme is Scheme.HTTPS:
            tls_in_tls.mend()
        made = aiohttp.TCPConnector(
            ssl=tls or True,
            force_close=fresh,
            family=family,
            socket_factory=partial(_made, sockets, traffic.socket if traffic else _socket),
        )
    if fresh:
        _end_all_with(made, sockets)
    return made


def _socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, *_ = address
    return socket.socket(family, kind, protocol)


def _made(sockets: WeakSet[socket.socket], make: Callable[..., socket.socket], address: Any) -> socket.socket:
    """A new socket for this address, which is remembered as long as it lives."""
    sock = make(address)
    sockets.add(sock)
    return sock


def _end_all_with(connector: BaseConnector, sockets: WeakSet[socket.socket]) -> None:
    """Whatever was connected ends with the connector, in whatever step it was given up. A TLS connection says goodbye, and
    a silent peer could hold it for another half minute; a handshake that was cancelled before it began goes on.
    """
    close = connector.close

    async def close_all(**options: Any) -> None:
        for sock in sockets:
            cut(sock)
        await close(**options)
        await until_closed(sockets)

    connector.close = close_all


def _client_timeout(timeouts: Timeouts) -> ClientTimeout:
    import aiohttp

    # aiohttp rounds what is over `ceil_threshold` up to a whole second of the loop's clock. Only `connect` bounds
    # the wait for a proxy's answer; `sock_connect` is what the SOCKS connector is given.
    return aiohttp.ClientTimeout(
        total=timeouts.total,
        connect=timeouts.connect,
        sock_connect=timeouts.connect,
        sock_read=timeouts.read,
        ceil_threshold=math.inf,
    )
