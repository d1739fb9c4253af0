"""One stream of bytes to a target through an exit of any kind; and to an HTTP proxy itself, for requests in absolute form.

The one place that knows how each kind is asked for a connection (CONNECT, SOCKS by its library, none at all) where no
HTTP library does it. Imports nothing heavy until the first SOCKS exit. Must not retry, judge an exit's health, or go
another way than told.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from ..rules.hosts import with_port
from ..rules.route_errors import ErrorType
from .dialling import dial
from .exits import SOCKS4, SOCKS5, WEB, Exit, Scheme
from .local_faults import local_fault
from .probe_errors import Circumstances, Verdict, classify, connect_verdict
from .proxy_requests import status_of

MOST_HEAD = 64 * 1024
"""Bytes of a proxy's answer to CONNECT."""
UNBOUNDED = 24 * 3600.0
"""Seconds; without a limit of its own python-socks takes 60, against the word of who set another."""


class Stream(NamedTuple):
    """Both directions of an open connection. Close the writer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class NoTunnel(Exception):
    """There is no way to the target by this exit; `verdict` says whose fault that is. Its text holds no secret."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(f"{verdict.error_type}: {verdict.detail}")
        self.verdict = verdict


async def open_tunnel(
    exit: Exit, host: str, port: int, *, within: float, tls: ssl.SSLContext | None = None
) -> Stream:
    """A stream to `host:port` through `exit`, within so many seconds; names are resolved by the exit, but for `socks4`.

    `tls` (None = the usual authorities) is for the leg to a TLS proxy; TLS with the target is the caller's
    (`writer.start_tls`). Raises `NoTunnel`; cancelling and failing leave nothing open.
    """
    if exit.scheme in SOCKS4 | SOCKS5:
        return await _judged(exit, "probe", _socks(exit, host, port), within)
    if not exit.is_proxy:
        return await _judged(exit, "probe", _dial(host, port), within)
    deadline = asyncio.get_running_loop().time() + within
    stream = await reach_proxy(exit, within=within, tls=tls)
    left = deadline - asyncio.get_running_loop().time()
    try:
        return await _judged(exit, "probe", _connect(exit, stream, host, port), left)
    except BaseException:
        stream.writer.transport.abort()
        raise


async def reach_proxy(exit: Exit, *, within: float, tls: ssl.SSLContext | None = None) -> Stream:
    """A stream to an http or https proxy itself. Raises `NoTunnel`."""
    assert exit.scheme in WEB, exit.scheme
    deadline = asyncio.get_running_loop().time() + within
    stream = await _judged(exit, "tcp", _dial(exit.host, exit.port), within)
    if exit.scheme is Scheme.HTTP:
        return stream
    try:
        trusted = tls or await asyncio.to_thread(_usual_authorities)  # 0.15 s the first time
        left = deadline - asyncio.get_running_loop().time()
        handshake = stream.writer.start_tls(trusted, server_hostname=exit.host)
        await _judged(exit, "probe", handshake, left, tls=True)
    except BaseException:
        stream.writer.transport.abort()
        raise
    return stream


def login_header(exit: Exit) -> str:
    """The value of Proxy-Authorization, or empty: never for a text that is kept."""
    if exit.username is None and exit.password is None:
        return ""
    login = f"{exit.username or ''}:{exit.password or ''}".encode("latin-1")
    return f"Basic {base64.b64encode(login).decode()}"


async def _judged(exit: Exit, stage: str, step: Any, within: float, *, tls: bool = False) -> Any:
    """The result of one step; what it raises becomes a verdict."""
    try:
        async with asyncio.timeout(within):
            return await step
    except NoTunnel:
        raise
    except Exception as error:
        raise NoTunnel(_verdict(error, exit, stage, tls=tls)) from None


def _verdict(error: Exception, exit: Exit, stage: str, *, tls: bool) -> Verdict:
    if ours := local_fault(error):
        return Verdict(ours, f"this host can't do it now: {getattr(error, 'strerror', '') or 'no network'}")
    verdict = classify(error, Circumstances(exit, stage))
    if tls and isinstance(error, ssl.SSLError):
        return Verdict(ErrorType.PROXY_TLS, verdict.detail)
    return verdict


async def _dial(host: str, port: int) -> Stream:
    return Stream(*await asyncio.open_connection(sock=await dial(host, port), limit=MOST_HEAD))


async def _connect(exit: Exit, stream: Stream, host: str, port: int) -> Stream:
    place = with_port(host, port)
    login = login_header(exit)
    head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n"
    head += f"Proxy-Authorization: {login}\r\n" if login else ""
    stream.writer.write(f"{head}\r\n".encode("latin-1"))
    try:
        status = status_of(await stream.reader.readuntil(b"\r\n\r\n"))
    except asyncio.LimitOverrunError:
        status = 0
    if not 100 <= status <= 599:
        raise NoTunnel(Verdict(ErrorType.PROXY_PROTO, "the proxy's answer is not HTTP"))
    if not 200 <= status <= 299:
        raise NoTunnel(connect_verdict(status))
    return stream


async def socks_socket(exit: Exit, host: str, port: int) -> socket.socket:
    """A socket to `host:port` through a SOCKS exit, with no limit of time of its own. Raises what python-socks raises."""
    proxy_type, proxy = _socks_library()
    asked = proxy(
        proxy_type=proxy_type.SOCKS5 if exit.scheme in SOCKS5 else proxy_type.SOCKS4,
        host=exit.host,
        port=exit.port,
        username=exit.username,
        password=exit.password,
        rdns=exit.scheme is not Scheme.SOCKS4,
    )
    return await asked.connect(host, port, timeout=UNBOUNDED)


async def _socks(exit: Exit, host: str, port: int) -> Stream:
    await asyncio.to_thread(_socks_library)
    sock = await socks_socket(exit, host, port)
    try:
        return Stream(*await asyncio.open_connection(sock=sock, limit=MOST_HEAD))
    except BaseException:
        with suppress(OSError):
            sock.close()
        raise


@cache
def _socks_library() -> tuple[Any, Any]:
    """Its import takes a fifth of a second. Of its two APIs the first, which gives a bare socket: any wait on it can end."""
    from python_socks import ProxyType
    from python_socks.async_.asyncio import Proxy

    return ProxyType, Proxy


@cache
def _usual_authorities() -> ssl.SSLContext:
    return ssl.create_default_context()
