"""By what the attempts of one worker go out: passwords, local proxies, limits of bandwidth. One for each worker.

Must not know what an attempt does with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from ..clock import Clock
from .endings import SECRETS
from .messages import Run
from .metering import Metering
from .passwords import Passwords
from .ways_out import WayOut

if TYPE_CHECKING:
    from ..edge.probe_errors import Finding
    from .forwarding import Forwarding, Lent

Pids = Callable[[], Iterable[int]]


def nobody(_: Finding) -> None:
    """Hears nothing."""


def own_pid() -> Iterable[int]:
    """This process alone, where async handlers run."""
    return (os.getpid(),)


class Gateway:
    """What all attempts of this worker share."""

    def __init__(self, clock: Clock) -> None:
        self.passwords = Passwords(clock, SECRETS.learn)
        self._forwarding: Forwarding | None = None
        self._metering = Metering(clock)
        self._clock = clock

    def of(self, run: Run) -> Passage:
        """The way out of one attempt."""
        return Passage(run, self)

    def lend(self, run: Run, passage: Passage) -> tuple[Lent, int]:
        """Open a local proxy for an attempt; returns it with its port."""
        from .forwarding import Forwarding, Lent  # most workers never lend one

        if self._forwarding is None:
            self._forwarding = Forwarding(self._clock)
        lent = Lent(WayOut(run.route, self.passwords), self._clock, self._metering.of(run), passage)
        return lent, self._forwarding.open(lent)

    async def take_back(self, lent: Lent) -> None:
        """No byte passes by it any more."""
        if self._forwarding is not None:
            await self._forwarding.close(lent)


class Passage:
    """By what one attempt goes out. Its local proxy is opened for the first who asks."""

    def __init__(self, run: Run, gateway: Gateway) -> None:
        self._run = run
        self._gateway = gateway
        self._lent: Lent | None = None
        self._port = 0
        self.pids: Pids = own_pid
        """Who may use the local proxy."""
        self.tell: Callable[[Finding], None] = nobody
        """Hears what each connection by it came to, in its thread."""

    @cached_property
    def way_out(self) -> WayOut:
        """The route with its login."""
        return WayOut(self._run.route, self._gateway.passwords)

    @property
    def passwords(self) -> Passwords:
        """Where references are looked up."""
        return self._gateway.passwords

    @property
    def is_limited(self) -> bool:
        """Is there a limit of bandwidth? Then everything goes by the local proxy, which keeps it."""
        return bool(self._run.bandwidth or (self._run.route and self._run.route.bandwidth))

    @property
    def lent(self) -> Lent | None:
        """The local proxy, where anybody has asked for it."""
        return self._lent

    def port(self) -> int:
        """The port of the local proxy."""
        if self._lent is None:
            self._lent, self._port = self._gateway.lend(self._run, self)
        return self._port

    def url(self) -> str:
        """Where the local proxy listens."""
        return f"http://127.0.0.1:{self.port()}"

    async def close(self) -> None:
        """The attempt ends, or has lost its lease: nothing goes out any more."""
        if self._lent is not None:
            await self._gateway.take_back(self._lent)
