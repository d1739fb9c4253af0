"""Framed messages between processes of one user on one host: what each end needs.

Owns the blocking end (the command line, threads of workers); the listening end and links in a loop are
re-exported from `serving`, imported when first used. Must not know what a message says.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
from collections import deque
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from ..crash import crash_at
from ..errors import NoEngine, NotPermitted, TaskdeckError, Unavailable
from .frames import BadFrame, Cutter, LinkError, LinkLost, frame
from .sockets import Peer, address, check_user, peer_of, remove_stale, socket_path

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from .serving import AsyncLink, Server, serve

__all__ = [
    "AsyncLink",
    "BadFrame",
    "Link",
    "LinkError",
    "LinkLost",
    "Peer",
    "Server",
    "connect",
    "open_link",
    "remove_stale",
    "serve",
    "socket_path",
]

READ_SIZE = 256 * 1024


def __getattr__(name: str) -> Any:
    """The loop's end, only when asked for: asyncio costs 60 ms that the quick verbs of the command line don't pay."""
    if name in ("AsyncLink", "Server", "serve"):
        return getattr(import_module(".serving", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Link:
    """A blocking link. Any thread may send; one at a time may receive."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._cutter = Cutter()
        self._inbox: deque[bytes] = deque()
        self._sending = threading.Lock()

    def send(self, body: bytes, timeout: float | None = None) -> None:
        """Send one message whole; `LinkLost` when the peer is gone or takes nothing for `timeout` seconds."""
        rest = memoryview(frame(body))
        crash_at("link_before_send")
        with self._sending:
            while rest:
                rest = rest[self._send_some(rest, timeout) :]
        crash_at("link_after_send")

    def receive(self, timeout: float | None = None) -> bytes | None:
        """The next message; None = the peer ended (a half-sent message is dropped).

        `Unavailable` after `timeout` seconds of silence (the link stays good); `BadFrame` closes the link.
        """
        while not self._inbox:
            data = self._receive_some(timeout)
            if not data:
                return None
            try:
                self._inbox.extend(self._cutter.feed(data))
            except BadFrame:
                self.close()
                raise
        crash_at("link_after_receive")
        return self._inbox.popleft()

    def peer(self) -> Peer:
        """Who is at the other end."""
        return peer_of(self._sock)

    def fileno(self) -> int:
        """The socket's descriptor, for poll; -1 once closed."""
        return self._sock.fileno()

    def detach(self) -> socket.socket:
        """Hand the bare socket over; this link is of no more use."""
        return self._sock

    def close(self) -> None:
        """End it; a thread that waits in `receive` wakes with None."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send_some(self, data: memoryview, timeout: float | None) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            if self._wait(select.POLLOUT, timeout):
                return 0
            self.close()  # part of a message may be out: nothing that follows would be understood
            raise LinkLost("the message was not sent", f"the peer took nothing for {timeout} s") from None
        except OSError as error:
            raise LinkLost("the message was not sent", error.strerror or str(error)) from None

    def _receive_some(self, timeout: float | None) -> bytes:
        while True:
            try:
                return self._sock.recv(READ_SIZE)
            except BlockingIOError:
                if not self._wait(select.POLLIN, timeout):
                    raise Unavailable("no answer", f"the peer was silent for {timeout} s") from None
            except OSError:  # reset by the peer, or closed by another thread of ours
                return b""

    def _wait(self, event: int, timeout: float | None) -> bool:
        fd = self._sock.fileno()
        if fd < 0:
            return True
        poll = select.poll()
        poll.register(fd, event)
        return bool(poll.poll(None if timeout is None else timeout * 1000))


def connect(path: str | os.PathLike[str], timeout: float) -> Link:
    """A link to the engine that listens at `path`, within `timeout` seconds.

    `NoEngine` where nobody listens, `NotPermitted` where another user does, `Unavailable` where it is
    overrun.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # A unix socket has no half-made connections: only this option bounds the wait for a place in the
        # queue.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(timeout))
        sock.connect(address(path))
        check_user(peer_of(sock), os.getuid())
    except BaseException as error:
        sock.close()
        raise _connect_error(error, path) from None
    return Link(sock)


async def open_link(
    path: str | os.PathLike[str], timeout: float = 5.0, aside: Executor | None = None
) -> AsyncLink:
    """`connect` for a loop, with the same errors; in a thread of `aside`, or one of the loop's own."""
    import asyncio

    from .serving import AsyncLink

    loop = asyncio.get_running_loop()
    link = await loop.run_in_executor(aside, connect, path, timeout)
    _, made = await loop.create_unix_connection(AsyncLink, sock=link.detach())
    return made


def _connect_error(error: BaseException, path: str | os.PathLike[str]) -> BaseException:
    what = f"no link to the engine at {os.fspath(path)}"
    match error:
        case TaskdeckError():
            return error
        case FileNotFoundError() | ConnectionRefusedError():
            return NoEngine(what, "nobody listens there", "start it with: taskdeck run")
        case PermissionError():
            return NotPermitted(what, "the socket belongs to another user")
        case BlockingIOError():
            return Unavailable(what, "it takes no connection now", "try again in a moment")
        case OSError():
            return Unavailable(what, error.strerror or str(error))
    return error


def _timeval(seconds: float) -> bytes:
    # All zero would mean "for ever".
    return struct.pack("ll", *divmod(max(1, round(seconds * 1_000_000)), 1_000_000))
