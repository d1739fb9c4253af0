"""The worker's connection to whatever engine works: made, kept, and made again when that engine has gone.

A thread of its own. Hands on what arrives, in order; says hello to each engine with all that it must know of this worker.
Gives up after a time without any engine. Decides nothing about attempts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Protocol

import msgspec

from ..clock import Clock
from ..edge.link import Link, connect
from ..edge.locks import DatabaseLock
from ..errors import TaskdeckError
from . import messages
from .messages import Hello, Message, Recorded, Run, Welcome
from .uplink import Uplink

CONNECT_WITHIN = 2.0
FIRST_REST = 0.05
LONGEST_REST = 0.25
"""Seconds between two looks for an engine."""
IDLE_LIMIT = 30.0
"""Seconds without an engine after which a worker goes that has nothing to keep."""


class Owner(Protocol):
    """What the worker does with what the lifeline learns. Called in the lifeline's thread."""

    def hello(self) -> Hello:
        """Who this worker is, as things stand."""
        ...

    def arrived(self, messages: Sequence[Message]) -> None:
        """These came, in order; the lifeline itself deals with `Recorded`, for which nobody need wake up."""
        ...

    def is_idle(self) -> bool:
        """Does nothing run, and is nothing kept?"""
        ...

    def gave_up(self) -> float:
        """There was no engine for too long: end. Returns the seconds after which it must have ended."""
        ...

    def end_now(self) -> None:
        """End everything that this worker has started; blocks."""
        ...


class Lifeline:
    """Serves one worker for the whole of its life."""

    def __init__(self, socket: str, link: Link, uplink: Uplink, owner: Owner, clock: Clock) -> None:
        self._socket = socket
        self._link: Link | None = link
        self._uplink = uplink
        self._owner = owner
        self._clock = clock
        self._database = ""
        self._limit = 0.0
        self._lost_at: float | None = None
        """Since when no engine has welcomed us; None = one has."""
        self._ends_at = float("inf")
        self._rest = FIRST_REST

    def start(self) -> None:
        """Begin with the connection that is there."""
        Thread(target=self._live, name="lifeline", daemon=True).start()

    def _live(self) -> None:
        """Converse with one engine after the other, until there was none for too long."""
        while self._link is not None:
            self._converse(self._link)
            self._link.close()
            if not self._database:  # never welcomed: there is nothing to come back with
                break
            self._uplink.away()
            self._link = self._find()
        sys.setswitchinterval(0.0001)  # a handler that holds the interpreter must not hold this up
        self._owner.end_now()
        os._exit(0)

    def _converse(self, link: Link) -> None:
        """Say hello and hear what this engine says, until it is gone."""
        with suppress(TaskdeckError, msgspec.DecodeError, OSError):
            link.send(messages.encode([self._owner.hello()]))
            while (body := link.receive()) is not None:
                arrived = messages.to_peer(body)
                for message in arrived:
                    if isinstance(message, Run):
                        self._uplink.fences.add(message.fence)
                    else:
                        self._note(link, message)
                if others := [one for one in arrived if not isinstance(one, Recorded)]:
                    self._owner.arrived(others)

    def _note(self, link: Link, message: Message) -> None:
        match message:
            case Welcome():
                self._database, self._limit = message.database, message.away_limit
                self._lost_at, self._ends_at, self._rest = None, float("inf"), FIRST_REST
                self._uplink.back(link.send, message.recorded, message.fences)
            case Recorded():
                self._uplink.heard(message.upto)

    def _find(self) -> Link | None:
        """The next engine; None when this worker must have ended by now."""
        clock = self._clock
        self._lost_at = clock.monotonic() if self._lost_at is None else self._lost_at
        while clock.monotonic() < self._ends_at:
            clock.sleep(self._rest)
            self._rest = min(LONGEST_REST, self._rest * 1.5)
            with suppress(TaskdeckError, OSError, ValueError):
                return connect(self._place(), CONNECT_WITHIN)
            limit = min(self._limit, IDLE_LIMIT) if self._owner.is_idle() else self._limit
            if self._ends_at == float("inf") and clock.monotonic() - self._lost_at >= limit:
                self._ends_at = clock.monotonic() + self._owner.gave_up()
        return None

    def _place(self) -> Path:
        """Where the engine of our database listens: another environment may have moved it."""
        holder = DatabaseLock.holder(self._database)
        return Path(holder.socket if holder is not None and holder.socket else self._socket)
