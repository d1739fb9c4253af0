"""The local proxies of a worker's attempts: one for each that asks, served by a thread of its own.

It is no handler's loop, so that none can hold a command's requests up. A proxy lives while its attempt does, and ends before
the attempt's route is given back. With the worker it dies, and who was told of it then reaches nobody: nothing goes out by
another way. Must not know what an attempt does.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from threading import Lock, Thread
from typing import Protocol

from ..clock import Clock
from ..credentials import NoCredential
from ..edge.exits import BadExit, Exit
from ..edge.forwarder import Forwarder
from ..edge.peers import holder, peer_of
from ..edge.probe_errors import Finding, Verdict
from ..edge.tunnels import NoTunnel
from ..rules.route_errors import ErrorType
from .metering import Meter
from .ways_out import BLAMED, WayOut


class Forwarding:
    """The thread that serves all forwarders of this process; started by the first of them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._loop = asyncio.new_event_loop()
        self._starting = Lock()
        self._thread: Thread | None = None

    def open(self, lent: Lent) -> int:
        """Listen for `lent`; returns the port. Any thread may call."""
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        with self._starting:
            if self._thread is None:
                self._thread = Thread(target=self._loop.run_forever, name="forwarding", daemon=True)
                self._thread.start()
        asyncio.run_coroutine_threadsafe(lent.forwarder.serve(listener), self._loop)
        return listener.getsockname()[1]

    async def close(self, lent: Lent) -> None:
        """End it; when this returns no byte passes any more. Any loop may call."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(lent.forwarder.close(), self._loop))


class Owner(Protocol):
    """Whose forwarder it is. Both may change while it lives."""

    pids: Callable[[], Iterable[int]]
    """The processes that may use it."""
    tell: Callable[[Finding], None]
    """Hears what each connection came to."""


class Lent:
    """What the forwarder of one attempt asks; its methods run in the forwarding thread."""

    def __init__(self, way_out: WayOut, clock: Clock, meter: Meter, owner: Owner) -> None:
        self.way_out = way_out
        self.meter = meter
        self.owner = owner
        self.last: Verdict | None = None
        """Why the last connection failed; None = it did not."""
        self.forwarder = Forwarder(self, clock)

    async def exit(self) -> Exit:
        try:
            return await self.way_out.exit()
        except (NoCredential, BadExit) as error:
            raise NoTunnel(getattr(error, BLAMED, Verdict(ErrorType.PROXY_AUTH, str(error)))) from None

    async def renew(self) -> bool:
        return await self.way_out.renew()

    async def admits(self, theirs: tuple[str, int], ours: tuple[str, int]) -> bool:
        """Reads /proc, so not in the loop."""
        return await asyncio.to_thread(self._admits, theirs, ours)

    def _admits(self, theirs: tuple[str, int], ours: tuple[str, int]) -> bool:
        peer = peer_of(theirs, ours)
        return (
            peer is not None and peer.uid == os.getuid() and holder(peer.inode, self.owner.pids()) is not None
        )

    def took(self, count: int) -> float:
        return self.meter.took(count)

    def found(self, finding: Finding) -> None:
        self.last = finding.verdict
        self.owner.tell(finding)
