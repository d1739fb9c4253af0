"""An engine that holds its database and does not answer: what is known of it, what to do, and who hears of it.

`commands.silence_of` finds it. Owns the words; must not look for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple


class Silence(NamedTuple):
    """One engine that did not say how it is when it was asked."""

    pid: int
    is_stopped: bool
    """Stopped (SIGSTOP) or traced, as the kernel tells: somebody looks at it, so no supervisor touches it."""
    is_supervised: bool

    @property
    def what(self) -> str:
        """What it does instead of answering, as far as can be told."""
        return "it is stopped" if self.is_stopped else "it begins, or hangs"

    @property
    def remedy(self) -> str:
        """What ends the silence."""
        if self.is_stopped:
            return f"kill -CONT {self.pid} lets it go on; nothing else does"
        if self.is_supervised:
            return "its supervisor ends one that hangs after 30 s"
        return f"no supervisor would end one that hangs: kill -KILL {self.pid}"

    def __str__(self) -> str:
        return f"{self.what} ({self.remedy})"


on_silence: ContextVar[Callable[[Silence], object]] = ContextVar("on_silence", default=lambda _: None)
"""Hears, once for each call, that its answer is waited for in vain so far. A call that is made elsewhere has none."""
