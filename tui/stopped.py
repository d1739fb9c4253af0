"""What a stop ended, on the command line and in the deck alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

BEHIND = (
    ("workers", "what outlived it was ended"),
    ("processes", "what dead workers had left running was ended"),
)


def story(done: Mapping[str, Any]) -> str:
    """An engine, a supervisor that was about to start one, and what outlived one; `done` as `commands.stop` returns it."""
    if done["engine"]:
        what = "the engine stopped"
    elif done["supervisors"]:
        what = (
            f"the engine had died; its supervisor was ended before another came: {_pids(done['supervisors'])}"
        )
    else:
        what = "the engine was not running"
    ended = [f"{told}: {_pids(pids)}" for key, told in BEHIND if (pids := done["outlived"].get(key))]
    return "; ".join([what, *ended])


def withstood(done: Mapping[str, Any]) -> str:
    """What could not be ended; nothing where all was."""
    left = done["outlived"].get("left")
    return f"still there, could not be ended: {', '.join(left)}" if left else ""


def _pids(pids: Sequence[int]) -> str:
    return f"pid {', '.join(map(str, pids))}"
