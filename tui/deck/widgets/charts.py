"""Figures as a few cells of text in one style: a line over time, and how full something is.

Pure functions. Braille has one cell in every terminal, block glyphs have not; a single style keeps an update small.
"""

from __future__ import annotations

from collections.abc import Sequence

LEVELS = 4
"""Heights that a column of braille dots can show."""
_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_ASCII = " .:-=#"


def sparkline(values: Sequence[float | None], width: int, *, most: float = 0, ascii: bool = False) -> str:
    """`values`, the newest at the right, in `width` cells: two to a cell, or one with `ascii`.

    The highest, or `most` where that is more, fills the height; nothing and 0 are blank, anything else shows. Of more
    values than there is room for, neighbours become their highest.
    """
    if width <= 0:
        return ""
    columns = _columns(values, width if ascii else 2 * width)
    top = max(most, *columns)
    if ascii:
        return "".join(_ASCII[_level(value, top, len(_ASCII) - 1)] for value in columns)
    levels = [_level(value, top, LEVELS) for value in columns]
    pairs = zip(levels[::2], levels[1::2], strict=True)
    return "".join(
        chr(0x2800 + _LEFT[left] + _RIGHT[right]) if left or right else " " for left, right in pairs
    )


def bar(share: float | None, width: int) -> str:
    """How full, 0 to 1, as `###.....`; blank where that can't be said. Anything above 0 shows, and only 1 is full."""
    if share is None or width <= 0:
        return " " * width
    full = round(min(max(share, 0.0), 1.0) * width)
    if share > 0:
        full = max(full, 1)
    if share < 1:
        full = min(full, width - 1)
    return "#" * full + "." * (width - full)


def _columns(values: Sequence[float | None], room: int) -> list[float]:
    """Exactly `room` values, blank ones before the first."""
    known = [value or 0.0 for value in values]
    if len(known) > room:
        size = -(-len(known) // room)
        known = known[len(known) % size :]  # of the oldest neighbours some are gone already
        known = [max(known[at : at + size]) for at in range(0, len(known), size)]
    return [0.0] * (room - len(known)) + known


def _level(value: float, top: float, levels: int) -> int:
    if value <= 0 or top <= 0:
        return 0
    return max(1, min(levels, round(value / top * levels)))
