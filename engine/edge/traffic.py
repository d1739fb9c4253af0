"""How many bytes go over sockets, as a provider that sells them counts: handshakes and requests to the proxy as well.

Owns a socket that counts. Must not know what is sent.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

_TCP_INFO_RECEIVED, _TCP_INFO_SENT, _TCP_INFO = 128, 200, 208
"""Offsets of the two figures in the kernel's `struct tcp_info` (linux/tcp.h), and how much of it they need."""


class Traffic:
    """Bytes that passed so far, in both directions together."""

    def __init__(self) -> None:
        self.total = 0

    def socket(self, address: tuple[Any, ...]) -> socket.socket:
        """A new socket for aiohttp (`socket_factory`) whose bytes count here."""
        family, kind, protocol, *_ = address
        made = Counted(family, kind, protocol)
        made.traffic = self
        return made

    def taken_over(self, sock: socket.socket) -> socket.socket:
        """The same connection as a socket whose bytes count here; what has passed already too, where the kernel tells."""
        self.total += _passed(sock)
        made = Counted(fileno=sock.detach())
        made.setblocking(False)
        made.traffic = self
        return made


class Counted(socket.socket):
    """A socket that tells its `traffic` of each byte; the calls are those that asyncio makes."""

    __slots__ = ("traffic",)

    traffic: Traffic

    def __new__(cls, *args: Any, **options: Any) -> Self:
        made = super().__new__(cls, *args, **options)
        made.traffic = Traffic()
        return made

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        data = super().recv(bufsize, flags)
        self.traffic.total += len(data)
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        count = super().recv_into(buffer, nbytes, flags)
        self.traffic.total += count
        return count

    def send(self, data: Any, flags: int = 0, /) -> int:
        count = super().send(data, flags)
        self.traffic.total += count
        return count

    def sendmsg(self, buffers: Any, *more: Any) -> int:
        count = super().sendmsg(buffers, *more)
        self.traffic.total += count
        return count


def _passed(sock: socket.socket) -> int:
    """What an open connection has carried so far; 0 where the kernel does not tell (Linux before 4.19)."""
    try:
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO)
    except OSError:
        return 0
    if len(told) < _TCP_INFO:
        return 0
    return (
        struct.unpack_from("=Q", told, _TCP_INFO_RECEIVED)[0]
        + struct.unpack_from("=Q", told, _TCP_INFO_SENT)[0]
    )
