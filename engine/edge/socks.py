"""The connector for SOCKS exits, made so that every wait in it can be ended.

Owns how aiohttp and python-socks are joined. It replaces one step of aiohttp-socks: there, a target that is silent after the
proxy's grant held a request for 60 s whatever its timeouts, since the stream's close waited for the TLS handshake it had to
end. Imported late, by `http`: it brings aiohttp with it. Must not be used for http and https proxies.
"""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiohttp_socks import ProxyConnector

from .dialling import cut
from .exits import Exit
from .traffic import Traffic
from .tunnels import socks_socket

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler


class SocksConnector(ProxyConnector):
    """One SOCKS proxy. Cancelling or timing out ends the socket at once, in whatever step."""

    def __init__(
        self,
        exit: Exit,
        traffic: Traffic | None = None,
        made: Callable[[socket.socket], object] = bool,
        **options: Any,
    ) -> None:
        """`options` are those of aiohttp's TCPConnector; `traffic` counts what passes, `made` is told of each socket."""
        super().__init__(exit.host, exit.port, **options)
        self._exit = exit
        self._traffic = traffic
        self._made = made

    async def _connect_via_proxy(
        self, host: str, port: int, ssl: tls.SSLContext | None = None, timeout: float | None = None
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        async with asyncio.timeout(timeout):
            sock = await socks_socket(self._exit, host, port)
            sock = self._traffic.taken_over(sock) if self._traffic else sock
            self._made(sock)
            protocols: list[ResponseHandler] = []

            def protocol() -> ResponseHandler:
                protocols.append(self._factory())
                return protocols[0]

            try:
                return await self._loop.create_connection(
                    protocol,
                    sock=sock,
                    ssl=ssl,
                    server_hostname=host.rstrip(".") if ssl else None,
                )
            except BaseException:
                cut(sock)
                if not protocols:  # else there is a transport, which closes it
                    sock.close()
                raise
