"""The connector for SOCKS exits, made so that every wait in it can be ended.

Owns how aiohttp and python-socks are joined. It replaces one step of aiohttp-socks: there, a target that is silent after the
proxy's grant held a request for 60 s whatever its timeouts, since the stream's close waited for the TLS handshake it had to
end. Imported late, by `http`: it brings aiohttp with it. Must not be used for http and https proxies.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from typing import TYPE_CHECKING, Any

from aiohttp_socks import ProxyConnector
from python_socks import ProxyType
from python_socks.async_.asyncio import Proxy

from .exits import SOCKS5, Exit, Scheme

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler

UNBOUNDED = 24 * 3600.0
"""Seconds; without a limit of its own python-socks takes 60, against the word of who set none."""


def connector(exit: Exit, **options: Any) -> SocksConnector:
    """The connector for one SOCKS exit; `options` are those of aiohttp's TCPConnector."""
    return SocksConnector(
        host=exit.host,
        port=exit.port,
        proxy_type=ProxyType.SOCKS5 if exit.scheme in SOCKS5 else ProxyType.SOCKS4,
        username=exit.username,
        password=exit.password,
        rdns=exit.scheme is not Scheme.SOCKS4,
        **options,
    )


class SocksConnector(ProxyConnector):
    """One SOCKS proxy. Cancelling or timing out ends the socket at once, in whatever step."""

    async def _connect_via_proxy(
        self, host: str, port: int, ssl: tls.SSLContext | None = None, timeout: float | None = None
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        proxy = Proxy(
            proxy_type=self._proxy_type,
            host=self._proxy_host,
            port=self._proxy_port,
            username=self._proxy_username,
            password=self._proxy_password,
            rdns=self._rdns,
        )
        async with asyncio.timeout(timeout):
            sock = await proxy.connect(host, port, timeout=UNBOUNDED)
            try:
                return await self._loop.create_connection(
                    self._factory,
                    sock=sock,
                    ssl=ssl,
                    server_hostname=host.rstrip(".") if ssl else None,
                )
            except BaseException:
                sock.close()
                raise
