"""Words that the engine tells a person on the terminal: counts, and how a run ended. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..rules.cleaning import clean
from ..rules.payloads import decode

ERROR_LENGTH = 120
"""Characters of an error that is told by the way."""

REMEDIES = ("NEEDS_REVIEW", "FAILED", "DEAD")
"""States that a person should look at, the most urgent first."""


def counted(number: int, one: str, many: str) -> str:
    """`1 task waits`, `2 tasks wait`."""
    return f"{number} {one if number == 1 else many}"


def handlers_named(handlers: Sequence[str]) -> str:
    """The handlers that a worker loads, for a message: `its handlers (tasks.py, more.py)`."""
    return f"its handlers ({', '.join(handlers)})" if handlers else "its handlers"


def short_error(stored: str | None, redact: Callable[[str], str] = str) -> str:
    """The message of a stored error (JSON) in one short line that is harmless on a terminal; empty where there is none.

    `redact` comes before anything is cut off: half a secret would not be known as one.
    """
    if not stored:
        return ""
    error = decode(stored, where="error")
    told = str(error.get("message") or error.get("kind") or "") if isinstance(error, dict) else str(error)
    return clean(" ".join(redact(told).split()), limit=ERROR_LENGTH)


def summary(ended: Mapping[str, int], reviews: int = 0) -> str:
    """How many tasks ended how, and where to look at those that did not succeed; `reviews` are all that wait for a person."""
    told = [f"{count} {state.replace('_', ' ')}" for state, count in ended.items()]
    told = told or ["no task ended in this run"]
    older = max(0, reviews - ended.get("NEEDS_REVIEW", 0))
    if older:
        told.append(counted(older, "from before waits for a person", "from before wait for a person"))
    bad = [state for state in REMEDIES if ended.get(state) or (older and state == "NEEDS_REVIEW")]
    return ", ".join(told) + (f" (see: taskdeck list state:{','.join(bad).lower()})" if bad else "")
