"""The watch over the engine's socket: a name that leads to it no more makes the engine deaf, though it works on.

A session manager removes `$XDG_RUNTIME_DIR` at the last logout, a cleaner of /tmp what looks old. The engine then listens
anew, and the lock file says where: clients and workers look there. Links that stand are left alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..clock import Clock
from ..edge.link import Server, socket_path
from ..edge.locks import DatabaseLock
from ..errors import StorageTrouble, TaskdeckError, Unavailable
from ..store.writer import Writer
from . import engine_rows as rows

log = logging.getLogger("taskdeck.engine")

EVERY = 2.0
"""Seconds between two looks: below the ten for which a command tries."""
REASON = "socket_gone"


class Listening:
    """One for the life of an engine. `on_moved` hears where it listens now."""

    def __init__(
        self,
        server: Server,
        database: Path,
        lock: DatabaseLock,
        clock: Clock,
        writer: Writer,
        on_moved: Callable[[Path], None],
    ) -> None:
        self._server = server
        self._database = database
        self._lock = lock
        self._clock = clock
        self._writer = writer
        self._on_moved = on_moved
        self._deaf = False
        self._unwritten: list[tuple[str, str]] = []

    async def tick(self) -> None:
        """Look whether the socket's name still leads to us; else listen anew, and tell of it."""
        if not self._server.intact():
            await self._listen_anew()
        while self._unwritten:
            with suppress(StorageTrouble, Unavailable):
                await self._writer.write(rows.record_alert_change, REASON, *self._unwritten[0])
                del self._unwritten[0]
                continue
            return  # at the next tick

    async def rest(self) -> None:
        """Until the next look."""
        await self._clock.pause(EVERY)

    def refuse(self) -> None:
        """Take no more connections; those that stand are served on."""
        self._server.refuse()

    async def close(self) -> None:
        """Listen no more."""
        await self._server.close()

    async def _listen_anew(self) -> None:
        """Where an engine that started now would listen, else in /tmp."""
        gone, why = self._server.path, ""
        for path in dict.fromkeys((socket_path(self._database, os.environ), socket_path(self._database, {}))):
            try:
                await self._server.move(path)
            except (OSError, TaskdeckError) as error:
                why = why or str(error)
                continue
            self._lock.sign(path)
            self._on_moved(path)
            if not self._deaf:
                self._tell("ALERT_RAISED", f"the socket {gone} was removed: nobody could reach the engine")
            self._deaf = False
            self._tell("ALERT_CLEARED", f"the engine listens anew at {path}")
            return
        if not self._deaf:
            self._deaf = True
            message = (
                f"the socket {gone} was removed, and the engine can't listen anew: nobody can reach it: {why}"
            )
            self._tell("ALERT_RAISED", message)

    def _tell(self, event_type: str, message: str) -> None:
        log.log(logging.ERROR if self._deaf else logging.WARNING, "%s", message)
        self._unwritten.append((event_type, message))
