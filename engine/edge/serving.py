"""The listening end of links, and links in a loop.

Owns the socket file while it listens. Never waits for one peer at the cost of another, and bounds what each
may make us keep. Must not know what a message says.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from ..crash import crash_at
from ..errors import NotPermitted
from .frames import BadFrame, Cutter, LinkError, LinkLost, frame
from .paths import check_private_directory, make_private_directory
from .sockets import Peer, address, check_user, peer_of, remove_stale

HIGH_WATER = 2**20
"""Above this many unsent bytes `drain` waits."""
MAX_UNSENT = 64 * 2**20
"""Above this the peer is taken as deaf and the link is cut, so that it can't fill our memory."""
MAX_UNREAD = 32 * 2**20
"""Above this we stop reading until our own side has caught up."""
OVERHEAD = 64
"""What a waiting message costs beside its bytes, roughly."""


class AsyncLink(asyncio.Protocol):
    """A link in a loop. What one pass of the loop sends leaves in one write; one coroutine may receive."""

    def __init__(self, on_made: Callable[[AsyncLink], None] | None = None) -> None:
        self._on_made = on_made
        self._loop = asyncio.get_running_loop()
        self._cutter = Cutter()
        self._inbox: deque[bytes] = deque()
        self._outbox: list[bytes] = []
        self._unread = self._unsent = 0
        self._holds_back = False
        """Nothing is read until our own side has caught up."""
        self._arrived = asyncio.Event()
        self._tell: Callable[[], None] = self._arrived.set
        self._writable = asyncio.Event()
        self._is_behind = False
        """The peer has left more than `HIGH_WATER` bytes untaken."""
        self._ended = asyncio.Event()
        self._error: BadFrame | None = None
        self._transport: asyncio.Transport

    @property
    def closed(self) -> bool:
        """Has it ended, from either side?"""
        return self._ended.is_set() or self._transport.is_closing()

    def is_abandoned(self) -> bool:
        """Has the peer closed it? The kernel is asked: what the peer said before may be read first, much later."""
        if self._ended.is_set():
            return True
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), 0)
        return any(events & select.POLLHUP for _, events in poll.poll(0))

    @property
    def unsent(self) -> int:
        """Bytes that wait for the peer to take them."""
        return self._unsent + self._transport.get_write_buffer_size()

    def send(self, body: bytes, *, at_once: bool = False) -> None:
        """Queue one message; never waits. `LinkError` when the link has ended or the peer stopped taking.

        `at_once`: it leaves with all that is queued now, and not at the end of this pass of the loop.
        """
        data = frame(body)
        if self._ended.is_set() or self._transport.is_closing():
            raise self._error or LinkLost("the message was not sent", "the link is closed")
        if (self._is_behind or self._unsent > HIGH_WATER) and self.unsent + len(data) > MAX_UNSENT:
            self._transport.abort()
            raise LinkLost("the message was not sent", f"the peer left {self.unsent} bytes untaken")
        if not self._outbox and not at_once:
            self._loop.call_soon(self._flush)
        self._outbox.append(data)
        self._unsent += len(data)
        if at_once:
            self._flush()

    async def drain(self) -> None:
        """Wait until the peer has taken enough to go on sending, or the link has ended."""
        self._flush()
        await self._writable.wait()

    def on_arrival(self, call: Callable[[], None]) -> None:
        """From now on call this, instead of waking who waits in `receive`, when messages have come or the link has ended."""
        self._tell = call

    async def receive(self) -> bytes | None:
        """The next message; None = the link ended; `BadFrame` once where the peer broke it."""
        while not self._inbox:
            if self._ended.is_set():
                error, self._error = self._error, None
                if error:
                    raise error
                return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._taken()

    def received(self) -> bytes | None:
        """One more message that has come already, or None: whoever takes all of them at once works in larger steps."""
        return self._taken() if self._inbox else None

    def _taken(self) -> bytes:
        body = self._inbox.popleft()
        crash_at("engine_after_receive")
        self._unread -= len(body) + OVERHEAD
        if self._holds_back and self._unread <= MAX_UNREAD // 2 and not self.closed:
            self._holds_back = False
            self._transport.resume_reading()
        return body

    def peer(self) -> Peer:
        """Who is at the other end."""
        return peer_of(self._transport.get_extra_info("socket"))

    def close(self) -> None:
        """Send what is queued, then end; returns at once."""
        self._flush()
        self._transport.close()

    def cut(self) -> None:
        """End it at once; what is queued is not sent."""
        self._outbox, self._unsent = [], 0
        self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the last byte is out and the link has ended."""
        await self._ended.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        self._writable.set()
        if self._on_made:
            self._on_made(self)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._cutter.feed(data):
                self._inbox.append(body)
                self._unread += len(body) + OVERHEAD
        except BadFrame as error:
            self._error = error
            self._transport.abort()
        if self._unread > MAX_UNREAD:
            self._holds_back = True
            self._transport.pause_reading()
        self._tell()

    def eof_received(self) -> None:
        self._flush()  # the transport closes after this: let it take the last answers with it

    def pause_writing(self) -> None:
        self._is_behind = True
        self._writable.clear()

    def resume_writing(self) -> None:
        self._is_behind = False
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()
        self._tell()
        self._writable.set()

    def _flush(self) -> None:
        data, self._outbox, self._unsent = self._outbox, [], 0
        if data and not self.closed:
            crash_at("engine_before_send")
            self._transport.write(b"".join(data))
            crash_at("engine_after_send")


Handler = Callable[[AsyncLink], Awaitable[None] | None]


class Server:
    """The listening end. Made by `serve`."""

    def __init__(self, path: Path, on_connect: Handler, uid: int) -> None:
        self.path = path
        self.links: set[AsyncLink] = set()
        self._on_connect = on_connect
        self._uid = uid
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._file: os.stat_result | None = None

    def intact(self) -> bool:
        """Does the name still lead to our socket? If not, nobody finds us any more."""
        try:
            return self._file is not None and os.path.samestat(os.lstat(self.path), self._file)
        except OSError:
            return False

    async def move(self, path: Path) -> None:
        """Listen at `path` instead, which may be the same; links that stand are left alone.

        Raises what `serve` raises; then nobody is listened to until it is called again.
        """
        self.refuse()  # first: the old listener may remove what has its name and its number by then
        await self._listen(path)

    async def close(self) -> None:
        """Listen no more, send what is queued, end all links, remove the socket if it is still ours."""
        self.refuse()
        for link in self.links:
            link.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, path: Path) -> None:
        name = address(path)
        make_private_directory(path.parent)
        check_private_directory(path.parent)
        remove_stale(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.bind(name)
            os.chmod(path, 0o600)  # before `listen`, so that nobody can have connected under another mode
            self._listener = await asyncio.get_running_loop().create_unix_server(
                lambda: AsyncLink(self._welcome), sock=sock, backlog=1024
            )
            self.path, self._file = path, os.lstat(path)
        except BaseException:
            sock.close()
            raise

    def refuse(self) -> None:
        """Listen no more; links that stand are left alone."""
        if self._listener is not None:
            self._listener.close()
        with suppress(OSError):
            if self.intact():
                self.path.unlink()
        self._listener = self._file = None

    def _welcome(self, link: AsyncLink) -> None:
        try:
            check_user(link.peer(), self._uid)
        except (NotPermitted, OSError):
            link._transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(link))
        self.links.add(link)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, link: AsyncLink) -> None:
        try:
            served = self._on_connect(link)
            if served is not None:
                await served
                link.close()
            await link.wait_closed()
        except LinkError:
            pass  # this peer's fault or fate: the others are served on
        except Exception as error:  # a handler ends here: its mistake must not vanish
            report = {"message": "a link's handler failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(report)
        finally:
            link.close()
            self.links.discard(link)


async def serve(path: str | os.PathLike[str], on_connect: Handler, *, uid: int | None = None) -> Server:
    """Listen at `path` and give each link of user `uid` (None = ours) to `on_connect`; others are cut.

    The socket is 0600, in a directory that is ours alone. If `on_connect` is a coroutine function, its link
    is closed when it ends; its errors reach the loop's exception handler. `AlreadyRunning` where somebody
    answers already.
    """
    server = Server(Path(path), on_connect, os.getuid() if uid is None else uid)
    await server._listen(server.path)
    return server
