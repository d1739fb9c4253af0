"""How states look in the deck: glyph, short word and look, in Unicode and in ASCII. Never colour alone.

Owns the choice of glyphs: only those that take one cell in every terminal, or plain ASCII where that was asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class Shape(NamedTuple):
    """One state. `look` is one of the lists' looks, or nothing."""

    glyph: str
    ascii: str
    word: str
    look: str


TASKS: Mapping[str, Shape] = {
    "PENDING": Shape("◦", ".", "WAIT", ""),
    "RUNNING": Shape("▸", ">", "RUN", "run"),
    "PAUSED": Shape("ǁ", "=", "PAUSE", "info"),
    "RETRYING": Shape("↻", "~", "RETRY", "warn"),
    "SUCCESS": Shape("✓", "+", "OK", "dim"),
    "FAILED": Shape("✗", "x", "FAIL", "bad"),
    "DEAD": Shape("✝", "#", "DEAD", "dead"),
    "CANCELLED": Shape("⊘", "/", "CANC", "dim"),
    "LOST": Shape("⁇", "?", "LOST", "lost"),
    "NEEDS_REVIEW": Shape("⚑", "!", "REVW", "review"),
}
SLOTS: Mapping[str, Shape] = {
    "AVAILABLE": Shape("◦", ".", "free", ""),
    "LEASED": Shape("›", "-", "leased", "run"),
    "RUNNING": Shape("▸", ">", "in use", "run"),
    "COOLDOWN": Shape("❄", "*", "rests", "warn"),
    "FAULT": Shape("✗", "x", "FAULT", "bad"),
    "DISABLED": Shape("⊘", "/", "off", "dim"),
}
UNKNOWN = Shape("?", "?", "?", "")

STYLES: Mapping[str, str] = {
    "dim": "dim",
    "strong": "bold",
    "title": "bold",
    "good": "$text-success",
    "info": "$text-accent",
    "warn": "$text-warning",
    "bad": "$text-error",
    "run": "bold $text-success",
    "dead": "bold $text-error",
    "lost": "bold $text-secondary",
    "review": "bold reverse $text-warning",
    "found": "reverse",
    "cursor": "bold",
    "focused cursor": "bold reverse",
}
"""What each look means, in lists and in texts alike; any other, and `""`, is plain."""

_ASCII = str.maketrans(
    {
        glyph: shape.ascii
        for glyph, shape in ((each.glyph, each) for each in (*TASKS.values(), *SLOTS.values()))
    }
)
_ASCII |= str.maketrans("»╌░·…—–−×⏎", ">-.." + ".---x|")


def wants_ascii(environ: Mapping[str, str] = os.environ) -> bool:
    """Does this terminal want plain ASCII? Asked for by `TASKDECK_ASCII`, or it is one that lacks the glyphs."""
    if asked := environ.get("TASKDECK_ASCII", ""):
        return asked != "0"
    return environ.get("TERM", "") in ("linux", "vt100", "vt102", "vt220", "ansi")


class Glyphs:
    """The glyphs of one screen."""

    def __init__(self, ascii_only: bool = False) -> None:
        self.ascii_only = ascii_only

    def task(self, state: str) -> tuple[str, str, str]:
        """Glyph, word and look of a task's state."""
        return self._of(TASKS.get(state, UNKNOWN))

    def slot(self, state: str) -> tuple[str, str, str]:
        """Glyph, word and look of a resource's or route's state."""
        return self._of(SLOTS.get(state, UNKNOWN))

    def _of(self, shape: Shape) -> tuple[str, str, str]:
        return (shape.ascii if self.ascii_only else shape.glyph), shape.word, shape.look

    def plain(self, text: str) -> str:
        """Our own text with its ornaments in ASCII, where only that can be shown; foreign text keeps its letters."""
        return text.translate(_ASCII) if self.ascii_only else text
