"""TCP connections: to whichever address of a host answers first, and an end that leaves nothing open.

asyncio's own race of addresses loses the socket that has just won it where it is cancelled in that moment; that of aiohttp
does not, and costs a millisecond to import. Must not know what is said over them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

HAPPY_EYEBALLS = 0.25
"""Seconds before a second address of a host is tried beside the first."""


async def dial(host: str, port: int) -> socket.socket:
    """An open socket that doesn't block. Raises `OSError`; cancelling leaves nothing open."""
    from aiohappyeyeballs import start_connection

    return await start_connection(await _addresses(host, port), happy_eyeballs_delay=HAPPY_EYEBALLS)


async def _addresses(host: str, port: int) -> Sequence[Any]:
    """What the name leads to; of an address itself nobody need be asked."""
    with suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def cut(sock: socket.socket) -> None:
    """End a connection whatever its transport waits for: a handshake, the goodbye of a silent peer. It closes by itself then.

    To close the socket instead would take the descriptor from under a transport that still watches it.
    """
    with suppress(OSError):  # not connected, or closed already
        sock.shutdown(socket.SHUT_RDWR)
