"""Words that the engine tells a person on the terminal: counts, and how a run ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping

REMEDIES = ("NEEDS_REVIEW", "FAILED", "DEAD")
"""States that a person should look at, the most urgent first."""


def counted(number: int, one: str, many: str) -> str:
    """`1 task waits`, `2 tasks wait`."""
    return f"{number} {one if number == 1 else many}"


def summary(ended: Mapping[str, int]) -> str:
    """How many tasks ended how, and where to look at those that did not succeed."""
    if not ended:
        return "no task ended in this run"
    bad = [state.lower() for state in REMEDIES if ended.get(state)]
    see = f" (see: taskdeck list state:{','.join(bad)})" if bad else ""
    return ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in ended.items()) + see
