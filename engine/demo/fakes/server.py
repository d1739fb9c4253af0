"""A listening server for fakes: ends with its block, closes what it accepted, and can leave and retake its port."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
from contextlib import suppress
from typing import Self
from weakref import WeakSet

from ...clock import SystemClock
from ...edge.dialling import end_listening

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Ends = tuple[Reader, Writer]
"""Both directions of one connection."""

CLOCK = SystemClock()
LAST_TURNS = 5
"""Turns of the loop in which who connected a moment ago is let in."""
DRIP_PAUSE = 0.02
"""Seconds between two bytes of a drip."""


class FakeServer:
    """Serves on 127.0.0.1 while its `async with` block runs; subclasses say how (`serve`).

    `host` is where it listens; set to `::1` or, for both, to `localhost` before the block.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.host = "127.0.0.1"
        self.port = 0
        self.connections = 0
        self.idle = asyncio.Event()
        """Set while nobody is connected."""
        self.idle.set()
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._holders: list[socket.socket] = []
        self._open: dict[asyncio.Task[None], Writer] = {}
        self._closing: WeakSet[asyncio.WriteTransport] = WeakSet()

    async def serve(self, reader: Reader, writer: Writer) -> None:
        """Handle one connection; it is closed afterwards."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        for _turn in range(LAST_TURNS):
            await CLOCK.pause(0)
        await self.leave()
        await self.hang_up()
        for transport in self._closing:  # TLS says goodbye and waits for an answer
            transport.abort()
        for holder in self._holders:
            holder.close()

    async def listen(self) -> None:
        """Take the port: any free one, and from then on the same again."""
        hosts = ["127.0.0.1", "::1"] if self.host == "localhost" else [self.host]
        if not self._holders:
            self._holders = _held_port(hosts)
            self.port = self._holders[0].getsockname()[1]
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accept, hosts, self.port, ssl=self._tls, reuse_address=True
            )

    async def leave(self) -> None:
        """Leave the port: who connects from now on is refused. Nobody else gets it meanwhile."""
        server, self._server = self._server, None
        if server is not None:
            await end_listening(server)

    async def hang_up(self) -> None:
        """End all connections."""
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: Reader, writer: Writer) -> None:
        """Not a coroutine: one that is cancelled before it has begun would leave the connection open."""
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open[task] = writer
        self.idle.clear()
        task.add_done_callback(self._ended)

    async def _serve(self, reader: Reader, writer: Writer) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await self.serve(reader, writer)

    def _ended(self, task: asyncio.Task[None]) -> None:
        writer = self._open.pop(task)
        if task.cancelled():
            writer.transport.abort()  # hung up
        writer.close()
        self._closing.add(writer.transport)
        if not self._open:
            self.idle.set()
        if not task.cancelled():
            task.result()  # a fault of the fake itself is told by the loop


def _held_port(hosts: list[str]) -> list[socket.socket]:
    """Sockets that have one free port and don't listen: beside them, a listener may come and go on the same port."""
    while True:
        holders: list[socket.socket] = []
        try:
            for host in hosts:
                holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                holders.append(holder)
                holder.bind((host, holders[0].getsockname()[1]))
        except OSError as error:
            for holder in holders:
                holder.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return holders


def reset(writer: Writer) -> None:
    """End the connection with a reset."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def drip(writer: Writer, beginning: bytes) -> None:
    """Send `beginning` and then an `x` again and again, a byte each, until the peer has gone."""
    while True:
        writer.write(beginning[:1] or b"x")
        beginning = beginning[1:]
        await writer.drain()
        await CLOCK.pause(DRIP_PAUSE)


async def until_gone(reader: Reader) -> None:
    """Take in whatever comes, say nothing, until the peer ends."""
    while await reader.read(65536):
        pass


async def join(one: Ends, other: Ends) -> None:
    """Pass bytes on in both directions until either side ends."""
    ways = [
        asyncio.create_task(_pass_on(one[0], other[1])),
        asyncio.create_task(_pass_on(other[0], one[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        other[1].close()


async def _pass_on(reader: Reader, writer: Writer) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
