"""TCP connections: to whichever address of a host answers first, and an end that leaves nothing open.

asyncio's own race of addresses loses the socket that has just won it where it is cancelled in that moment; that of aiohttp
does not, and costs a millisecond to import. Must not know what is said over them.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from asyncio.trsock import TransportSocket
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from ..clock import SystemClock

Socket = socket.socket | TransportSocket

HAPPY_EYEBALLS = 0.25
"""Seconds before a second address of a host is tried beside the first."""
_HANDING_OVER = 5
"""Turns of the loop after which a connection that was taken is handed over, with some to spare."""
_CLOSING = 10
"""Turns of the loop in which transports notice that they were cut off, at most: two or three, unless one is not read."""
_CLOCK = SystemClock()
_RESET = struct.pack("ii", 1, 0)
"""Linger for no time: what closes the socket resets the connection."""


async def dial(host: str, port: int) -> socket.socket:
    """An open socket that doesn't block. Raises `OSError`; cancelling leaves nothing open."""
    from aiohappyeyeballs import start_connection

    return await start_connection(await _addresses(host, port), happy_eyeballs_delay=HAPPY_EYEBALLS)


async def _addresses(host: str, port: int) -> Sequence[Any]:
    """What the name leads to; of an address itself nobody need be asked."""
    with suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def end_listening(server: asyncio.Server) -> None:
    """Close a server, with whoever was taken handed over: asyncio loses, and leaves open, a connection that it has taken and
    not yet handed over when its server closes.
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())  # nobody else is taken meanwhile
    for _turn in range(_HANDING_OVER):
        await _CLOCK.pause(0)
    server.close()


async def until_closed(sockets: Collection[Socket]) -> None:
    """Let the transports close that were cut off: a few turns of the loop, and no more where one stays."""
    for _turn in range(_CLOSING):
        if all(sock.fileno() < 0 for sock in sockets):
            return
        await _CLOCK.pause(0)


def cut(sock: Socket) -> None:
    """End a connection whatever its transport waits for: a handshake, the goodbye of a silent peer. It closes by itself then.

    To close the socket instead would take the descriptor from under a transport that still watches it.
    """
    if sock.fileno() < 0:
        return
    with suppress(OSError):  # it is not connected
        if _has_unread(sock):
            # To close it with this unread would reset it, but the transport reads it first: a peer that sends without end,
            # into a window that is full, would not learn for a minute that nobody is there.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        sock.shutdown(socket.SHUT_RDWR)


def _has_unread(sock: Socket) -> bool:
    (count,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4)))
    return count > 0
