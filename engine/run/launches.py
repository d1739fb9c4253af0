"""Launches that have only begun: a `taskdeck run`, or a deck, that has not come to its supervisor yet.

For some tenths of a second, while the interpreter loads, nothing about it is in any file. What it will work on can't be told
from its command line, so it is waited for, whatever database it means, until it has shown that by its supervisor.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..clock import SystemClock
from ..edge import adoption, identity
from ..edge.identity import Identity
from . import supervisors

YOUNG = 10.0
"""Seconds after which a launch that has shown nothing is waited for no longer."""
WITH_VALUE = ("--db", "--config")
"""Options of every verb that take the next word."""


class Launches:
    """Those that were under way when it was first asked; later ones are none of the asker's business."""

    def __init__(self) -> None:
        self._seen: list[Identity] | None = None

    def under_way(self) -> list[Identity]:
        """Those of them that have neither ended nor shown yet what they work on. None later than `YOUNG`."""
        if self._seen is None:
            self._seen = [one for pid in supervisors.pids() if _is_launch(pid) and (one := identity.of(pid))]
        self._seen = [one for one in self._seen if identity.alive(one) and not _has_shown(one)]
        return self._seen


def is_young(one: Identity) -> bool:
    """Was this process started so little ago that what it starts may still be on its way?"""
    return SystemClock().boot() - one.start_time / os.sysconf("SC_CLK_TCK") <= YOUNG


def _is_launch(pid: int) -> bool:
    words = supervisors.command_line(pid)
    program = next((n for n, word in enumerate(words[:4]) if _is_taskdeck(word)), None)
    if program is None or not supervisors.sees_our_files(pid):
        return False
    verb = _verb(words[program + 1 :])
    return verb == "run" or (not verb and Path(words[program]).name == "taskdeck")


def _is_taskdeck(word: str) -> bool:
    return os.path.basename(word) == "taskdeck" or "taskdeck.tui.cli" in word


def _verb(words: list[str]) -> str:
    rest = iter(words)
    for word in rest:
        if word in WITH_VALUE:
            next(rest, "")
        elif not word.startswith("-"):
            return word
    return ""


def _has_shown(one: Identity) -> bool:
    """It has become a supervisor, or started one, or a screen; or it is too old to be only starting."""
    if not is_young(one) or supervisors.is_supervisor(one.pid):
        return True
    children = adoption.children(one.pid)
    return any(
        supervisors.is_supervisor(pid) or "taskdeck.tui.deck" in supervisors.command_line(pid)
        for pid in children
    )
