"""One worker process as the engine sees it: who it is, what it runs, when it last gave a sign."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..edge.identity import Identity
from ..edge.link import AsyncLink, LinkError
from ..rules.selection import WorkerRoom
from .messages import TypeInfo, encode


@dataclass
class WorkerHandle:
    """In-memory view; the truth of what it holds is in the database. Times: monotonic seconds."""

    id: int
    incarnation: str
    identity: Identity
    process: subprocess.Popen[bytes]
    pidfd: int
    journal: Path
    slots: int
    started: float
    last_beat: float
    cpu_at_beat: float = 0.0
    lease_until: float = 0.0
    """On the boot clock."""
    link: AsyncLink | None = None
    types: dict[str, TypeInfo] = field(default_factory=dict)
    ready: bool = False
    suspect: bool = False
    alone: set[int] = field(default_factory=set)
    """Fences of suspects, which have the worker for themselves."""
    running: dict[int, int] = field(default_factory=dict)
    """Fence → task of what was sent to it and has not ended."""
    asked: dict[int, str] = field(default_factory=dict)
    """Fence → the wish that was passed on."""
    link_ended: asyncio.Event = field(default_factory=asyncio.Event)

    def room(self) -> WorkerRoom:
        """What the selection needs to know."""
        free = max(0, self.slots - len(self.running))
        return WorkerRoom(self.id, free, len(self.running), frozenset(self.types), bool(self.alone))

    def send(self, *messages: Any) -> bool:
        """Queue messages; False when the link is gone (then its end is being handled)."""
        if self.link is None:
            return False
        try:
            self.link.send(encode(list(messages)))
        except LinkError:
            return False
        return True

    def forget(self, fence: int) -> None:
        """The attempt has ended."""
        self.running.pop(fence, None)
        self.asked.pop(fence, None)
        self.alone.discard(fence)
