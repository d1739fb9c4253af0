"""A proxy on loopback that leads out by one exit, for programs that can speak neither SOCKS nor a login.

Owns the protocol with its clients: CONNECT, and plain HTTP in absolute form, one request a connection. What it can't pass on
by the exit it refuses; there is no other way. Who may use it, the exit's login and what becomes of its findings is told from
outside. Must not keep a URL, a header or a byte of what passes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Protocol

from ..clock import Clock
from ..rules.route_errors import ErrorType
from .dialling import end_listening
from .exits import WEB, Exit
from .probe_errors import Finding, Verdict
from .proxy_requests import (
    CLOSE,
    ERROR_HEADER,
    LAST_CHUNK,
    ProxyRequest,
    Unclear,
    chunk_size,
    header,
    onward_headers,
    read_request,
    status_of,
)
from .tunnels import MOST_HEAD, NoTunnel, Stream, login_header, open_tunnel, reach_proxy

PIECE = 64 * 1024
HEAD_WITHIN = 30.0
"""Seconds in which a client must have said what it wants."""
MOST_TRAILERS = 100
LINGER = 5.0
"""Seconds for which the other direction may go on when the target has ended its own."""


class Surroundings(Protocol):
    """What a forwarder asks of whoever opened it. All of it is called in the forwarder's loop."""

    async def exit(self) -> Exit:
        """The exit with its login as it is now."""
        ...

    async def renew(self) -> bool:
        """The login was refused: is there another one by now?"""
        ...

    async def admits(self, theirs: tuple[str, int], ours: tuple[str, int]) -> bool:
        """May this peer use it?"""
        ...

    def took(self, count: int) -> float:
        """So many bytes came; returns the seconds to wait before more may come."""
        ...

    def found(self, finding: Finding) -> None:
        """Take what a connection came to."""
        ...


class Forwarder:
    """Serves one listening socket until it is closed. `within`: seconds until a way to the target stands."""

    def __init__(
        self,
        around: Surroundings,
        clock: Clock,
        within: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.around = around
        self.clock = clock
        self.within = within
        self.tls = tls
        self.connections = 0
        self.received = 0
        """Bytes that came from targets."""
        self.sent = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._closed = False

    async def serve(self, listener: socket.socket) -> None:
        """Begin; the listener is ours from here on."""
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=MOST_HEAD)
        if self._closed:
            await self.close()

    async def close(self) -> None:
        """End at once: no byte passes any more when it returns."""
        self._closed = True
        if self._server is not None:
            await end_listening(self._server)
        ends = list(self._open)
        for one in ends:
            one.cancel()
        await asyncio.gather(*ends, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if not self._closed:
                self.connections += 1
                await self._client(Stream(reader, writer))
        except (asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._open.discard(task)
            writer.close()

    async def _client(self, client: Stream) -> None:
        theirs, ours = (client.writer.get_extra_info(name)[:2] for name in ("peername", "sockname"))
        try:
            async with asyncio.timeout(HEAD_WITHIN):
                head = await client.reader.readuntil(b"\r\n\r\n")
        except (asyncio.LimitOverrunError, TimeoutError):
            return await _refuse(client, 400, "BAD_REQUEST", "this is no request to a proxy")
        if not await self.around.admits(theirs, ours):
            return await _refuse(
                client, 403, "NOT_YOURS", "this proxy serves one attempt of a task, and not you"
            )
        try:
            await self._serve(client, read_request(head))
        except Unclear as unclear:
            await _refuse(client, unclear.status, "BAD_REQUEST", str(unclear))
        except NoTunnel as error:
            status = 504 if error.verdict.error_type.timeout else 502
            await _refuse(client, status, error.verdict.error_type, error.verdict.detail)

    async def _serve(self, client: Stream, request: ProxyRequest) -> None:
        """Pass it on; once more where a proxy answers that it wants another login than it was sent, and there is one."""
        for again in (True, False):
            exit, onward = await self.around.exit(), None
            try:
                onward = await self._onward(exit, request)
                return await self._pass(client, onward, request)
            except NoTunnel as error:
                refused = error.verdict.error_type is ErrorType.PROXY_AUTH
                whole = onward is None or request.body == 0  # none of the body is under way
                if not (refused and whole and again and await self.around.renew()):
                    self.around.found(Finding(request.host, error.verdict))
                    raise
            finally:
                if onward is not None:
                    onward.writer.transport.abort()

    async def _onward(self, exit: Exit, request: ProxyRequest) -> Stream:
        """The way to the target."""
        if request.tunnels or exit.scheme not in WEB:
            return await open_tunnel(exit, request.host, request.port, within=self.within, tls=self.tls)
        request.login, request.absolute = login_header(exit), True
        return await reach_proxy(exit, within=self.within, tls=self.tls)

    async def _pass(self, client: Stream, onward: Stream, request: ProxyRequest) -> None:
        if request.tunnels:
            client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            ways = [self._upload(client, onward), self._download(onward, client, request.host)]
        else:
            onward.writer.write(request.onward())
            ways = [self._body(client, onward, request.body), self._answer(onward, client, request)]
        upload, download = (asyncio.ensure_future(way) for way in ways)
        try:
            await asyncio.wait({upload, download}, return_when=asyncio.FIRST_COMPLETED)
            unclear = upload.done() and isinstance(upload.exception(), Unclear)
            if request.tunnels or not (download.done() or unclear):  # a plain answer that is whole is the end
                # Who has ended one direction waits for the other: for long where the target was told, else for a while.
                told = upload.done() and request.tunnels and onward.writer.can_write_eof()
                await asyncio.wait({upload, download}, timeout=None if told else LINGER)
        finally:
            for way in (upload, download):
                way.cancel()
            results = await asyncio.gather(upload, download, return_exceptions=True)
        for result in reversed(results):
            if isinstance(result, NoTunnel | Unclear):
                raise ConnectionAbortedError if request.answered else result

    async def _upload(self, client: Stream, onward: Stream) -> None:
        """All that the client sends, as it is."""
        while data := await client.reader.read(PIECE):
            await self._send(onward, data)
        if onward.writer.can_write_eof():
            with suppress(OSError):
                onward.writer.write_eof()

    async def _body(self, client: Stream, onward: Stream, length: int | None) -> None:
        """The body of the client's one request. One that is cut off is cut off for the target as well."""
        with suppress(asyncio.IncompleteReadError):
            await (self._chunks(client, onward) if length is None else self._copy(client, onward, length))
        while await client.reader.read(PIECE):
            pass  # a second request of a connection that ends with the first: only its end is of interest

    async def _copy(self, client: Stream, onward: Stream, length: int) -> None:
        while length > 0:
            data = await client.reader.read(min(PIECE, length))
            if not data:
                raise asyncio.IncompleteReadError(b"", length)
            length -= len(data)
            await self._send(onward, data)

    async def _chunks(self, client: Stream, onward: Stream) -> None:
        """A body in chunks, which are written anew: both ends agree on where it ends. Trailers are dropped."""
        while size := chunk_size(await _line(client)):
            onward.writer.write(b"%x\r\n" % size)
            await self._copy(client, onward, size)
            if await client.reader.readexactly(2) != b"\r\n":
                raise Unclear(400, "a chunk of the body is longer than it says")
            onward.writer.write(b"\r\n")
        for _ in range(MOST_TRAILERS):
            if await _line(client) == b"\r\n":
                onward.writer.write(LAST_CHUNK)
                return await onward.writer.drain()
        raise Unclear(400, "the body has too many trailers")

    async def _send(self, onward: Stream, data: bytes) -> None:
        self.sent += len(data)
        onward.writer.write(data)
        await onward.writer.drain()

    async def _answer(self, onward: Stream, client: Stream, request: ProxyRequest) -> None:
        """A plain HTTP answer: its status is told, and that the connection ends with it."""
        head = b"HTTP/1.1 100 "
        while status_of(head) // 100 == 1:
            try:
                head = await onward.reader.readuntil(b"\r\n\r\n")
            except (asyncio.LimitOverrunError, asyncio.IncompleteReadError, OSError) as error:
                raise NoTunnel(_broken(error, request)) from None
            if status_of(head) == 100 and request.lines[0].endswith(b"HTTP/1.1"):
                client.writer.write(head)  # it may wait for this before it sends its body
        status = status_of(head)
        if not status:
            raise NoTunnel(_broken(ValueError(), request))
        if request.absolute and status == 407:
            raise NoTunnel(Verdict(ErrorType.PROXY_AUTH, "the proxy refused the login"))
        self.received += len(head)
        lines = head[:-4].split(b"\r\n")
        self.around.found(Finding(request.host, None, status, header(lines, b"retry-after")[:100]))
        request.answered = True
        client.writer.write(b"\r\n".join([lines[0], *onward_headers(lines), *CLOSE]))
        await self._download(onward, client, "")

    async def _download(self, onward: Stream, client: Stream, host: str) -> None:
        """What comes from the target, as fast as it may; with a `host` its first bytes are told."""
        while data := await onward.reader.read(PIECE):
            if host:
                self.around.found(Finding(host, None))
                host = ""
            self.received += len(data)
            client.writer.write(data)
            await client.writer.drain()
            if (wait := self.around.took(len(data))) > 0:
                await self.clock.pause(wait)
        with suppress(OSError):
            await client.writer.drain()
            client.writer.write_eof()


async def _line(client: Stream) -> bytes:
    """One line of the client's, with its end. Raises `Unclear` for one of any length."""
    try:
        return await client.reader.readuntil(b"\r\n")
    except asyncio.LimitOverrunError:
        raise Unclear(400, "the chunks of the body can't be read") from None


def _broken(error: Exception, request: ProxyRequest) -> Verdict:
    """No whole head of an answer: the proxy's fault where it answers in its own name, else the target's."""
    if not request.absolute:
        return Verdict(ErrorType.PROBE_TARGET_DOWN, "the target's answer is not HTTP, or was cut off")
    if isinstance(error, OSError):
        return Verdict(ErrorType.TCP_RESET, "the connection was cut off")
    return Verdict(ErrorType.PROXY_PROTO, "the proxy's answer is not HTTP")


async def _refuse(client: Stream, status: int, kind: str, why: str) -> None:
    """An answer of our own, in words and (for programs) in a header."""
    body = f"taskdeck: {why}\n".encode()
    head = f"HTTP/1.1 {status} {kind}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    client.writer.write(f"{head}{ERROR_HEADER}: {kind}\r\nConnection: close\r\n\r\n".encode("latin-1") + body)
    with suppress(OSError):
        await client.writer.drain()
