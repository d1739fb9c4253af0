"""The judge that checks of routes ask: gives back a nonce, tells the caller its address, answers nothing with 204.

Made to stand on the open internet: it keeps nothing, logs nobody, reads no body, and bounds how many connections there are
and for how long. Must not know of routes, tasks or configuration.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from aiohttp import web

from ..errors import Unavailable, UsageError
from ..rules.hosts import with_port
from ..rules.patterns import pattern
from .dialling import Socket, cut, end_listening, until_closed

if TYPE_CHECKING:
    from aiohttp.web_protocol import RequestHandler

HANDSHAKE = 5.0
"""Seconds for TLS."""
MOST_LINE = 4096
"""Bytes of the request's line, and of one header."""

_NONCE = pattern(r"[0-9A-Za-z_-]{1,128}")
_SILENT = logging.getLogger("taskdeck.judge")
_SILENT.setLevel(logging.CRITICAL + 1)  # what strangers send is no news

HELP = "this is a judge for taskdeck: /nonce?n=NONCE gives it back, /ip tells your address, /204 answers nothing\n"


class Listen(NamedTuple):
    """An address to listen at; port 0 = any free one."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Self:
        """`HOST:PORT`, `[IPv6]:PORT` or `:PORT` (all of IPv4). Raises `UsageError`."""
        found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]*):([0-9]{1,5})", text)
        if not found or int(found[2]) > 65535:
            raise UsageError(
                f"{text!r} is no address to listen at",
                "",
                "write HOST:PORT, such as 0.0.0.0:8443 or [::]:8443",
            )
        return cls(found[1].strip("[]") or "0.0.0.0", int(found[2]))


class JudgeServer:
    """Serves while its `async with` block runs.

    At most `most` connections at once, one more is closed at once; each ends after `longest` seconds, whatever is said on it.
    """

    def __init__(
        self,
        listens: list[Listen],
        tls: ssl.SSLContext | None = None,
        *,
        most: int = 1000,
        longest: float = 10.0,
    ) -> None:
        self._listens = listens
        self._tls = tls
        self._door = _Door(
            most,
            longest,
            access_log=None,
            logger=_SILENT,
            lingering_time=0.0,
            max_line_size=MOST_LINE,
            max_field_size=MOST_LINE,
        )
        self._servers: list[asyncio.Server] = []

    @property
    def places(self) -> list[Listen]:
        """The addresses as they are bound."""
        return [Listen(*sock.getsockname()[:2]) for server in self._servers for sock in server.sockets]

    @property
    def urls(self) -> list[str]:
        """The URL of each address."""
        return [f"{'https' if self._tls else 'http'}://{with_port(*each)}" for each in self.places]

    def url(self, path: str = "") -> str:
        """The URL of a path at the first address."""
        return self.urls[0] + path

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        timeout = HANDSHAKE if self._tls else None
        for host, port in self._listens:
            try:
                server = await loop.create_server(
                    self._door, host, port, ssl=self._tls, ssl_handshake_timeout=timeout
                )
            except OSError as error:
                await self.__aexit__()
                why = os.strerror(error.errno) if error.errno else str(error)
                raise Unavailable(
                    f"nothing can listen at {host} port {port}", why, "choose another --listen"
                ) from None
            self._servers.append(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            await end_listening(server)
        await self._door.shutdown(0)
        await self._door.end()


class _Door(web.Server):
    """aiohttp's server, with an end to each connection and to their number."""

    def __init__(self, most: int, longest: float, **options: Any) -> None:
        super().__init__(_answer, **options)
        self._most = most
        self._longest = longest
        self._open: dict[RequestHandler, tuple[asyncio.Transport, Socket]] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open[handler] = transport, transport.get_extra_info("socket")
        if len(self.connections) > self._most:
            transport.abort()
        else:
            asyncio.get_running_loop().call_later(self._longest, self._hang_up, handler)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open.pop(handler, None)

    def _hang_up(self, handler: RequestHandler) -> None:
        if handler in self._open:
            transport, sock = self._open[handler]
            transport.abort()
            # aiohttp may have closed it twice, and asyncio aborts no such connection where it is TLS.
            cut(sock)

    async def end(self) -> None:
        """End all connections at once, those too that are saying goodbye."""
        sockets = [sock for _, sock in self._open.values()]
        for handler in list(self._open):
            self._hang_up(handler)
        await until_closed(sockets)


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    response = _respond(request)
    response.headers.update({"Cache-Control": "no-store", "Server": "taskdeck"})
    response.force_close()
    return response


def _respond(request: web.BaseRequest) -> web.Response:
    if request.method not in ("GET", "HEAD"):
        return web.Response(status=405, text="only GET\n", headers={"Allow": "GET, HEAD"})
    if request.path == "/204":
        return web.Response(status=204)
    if request.path == "/ip":
        return web.Response(text=_caller(request))
    if request.path == "/nonce":
        nonce = request.query.get("n", "")
        if _NONCE.fullmatch(nonce):
            return web.Response(text=nonce)
        return web.Response(status=400, text="write /nonce?n=NONCE, 1 to 128 letters and digits\n")
    return web.Response(status=404, text=HELP)


def _caller(request: web.BaseRequest) -> str:
    """The address that the connection comes from; what headers claim counts for nothing."""
    peer = request.transport.get_extra_info("peername") if request.transport else None
    address = ipaddress.ip_address((peer or ("::",))[0].partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)


def server_tls(cert: str, key: str) -> ssl.SSLContext:
    """What a TLS server shows. `UsageError` where certificate and key can't be read or don't fit."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        why = (error.reason or "they are no PEM files").replace("_", " ").lower()
        raise UsageError(f"{cert} and {key} are no certificate with its key", why) from None
    except OSError as error:
        raise UsageError(f"{cert} or {key} can't be read", error.strerror or str(error)) from None
    return context


def renew(context: ssl.SSLContext, cert: str, key: str) -> None:
    """Read both anew into a context in use: the next connection is shown the new certificate. `UsageError` as above."""
    server_tls(cert, key)  # what doesn't fit would be half taken over
    context.load_cert_chain(cert, key)


def _no_password() -> str:
    raise OSError(0, "the key has a password: store it without one, readable by its owner only")
