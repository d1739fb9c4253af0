"""How things look as text: states, times, durations and tables that fit the screen by cell width.

Pure functions on read models; nothing is read or written here. Every text of a task goes through `tidy`.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from datetime import datetime

from taskdeck.engine.views import ScoreView, clean, parse_utc

GLYPHS = {
    "PENDING": "◦",
    "RUNNING": "▸",
    "PAUSED": "ǁ",
    "RETRYING": "↻",
    "SUCCESS": "✓",
    "FAILED": "✗",
    "DEAD": "✝",
    "CANCELLED": "⊘",
    "LOST": "⁇",
    "NEEDS_REVIEW": "⚑",
    "AVAILABLE": "○",
    "LEASED": "◐",
    "COOLDOWN": "◌",
    "FAULT": "✗",
    "DISABLED": "⊘",
}
"""One glyph a state of a task, resource or route, all of one cell in every terminal."""

COLOURS = {
    "RUNNING": "36",
    "PAUSED": "33",
    "RETRYING": "33",
    "SUCCESS": "32",
    "FAILED": "31",
    "DEAD": "31",
    "LOST": "35",
    "NEEDS_REVIEW": "1;33",
    "AVAILABLE": "32",
    "LEASED": "36",
    "COOLDOWN": "33",
    "FAULT": "31",
}
CUT = "»"


def state(name: str, *, colour: bool = False) -> str:
    """A state as glyph and word, e.g. `✗ failed`."""
    text = f"{GLYPHS.get(name, '?')} {name.lower().replace('_', ' ')}"
    return paint(text, COLOURS.get(name, "")) if colour else text


def paint(text: str, code: str) -> str:
    """`text` in an SGR colour; unchanged without one."""
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def tidy(text: str) -> str:
    """Text of a task on one line, safe for a terminal."""
    return " ".join(clean(text).split())


def local(text: str | None, *, now: datetime | None = None) -> str:
    """A stored time in the local zone; with `now` as short as today's date allows, else with date and zone."""
    if not text:
        return ""
    moment = here(parse_utc(text))
    if now is None:
        return f"{moment:%Y-%m-%d %H:%M:%S} {zone(moment)}"
    now = here(now)
    if moment.date() == now.date():
        return f"{moment:%H:%M:%S}"
    return f"{moment:%m-%d %H:%M}" if moment.year == now.year else f"{moment:%Y-%m-%d}"


def here(moment: datetime) -> datetime:
    """A moment in the local zone; in its own where that can't tell it: an hour after the year 9999, a TZ of days."""
    try:
        return moment.astimezone()
    except (ValueError, OverflowError):
        return moment


def zone(moment: datetime) -> str:
    """The name of the local zone at a moment, e.g. `CET` or `UTC`."""
    return here(moment).tzname() or "local"


def span(seconds: float) -> str:
    """A duration in one or two units, for people: `5s`, `3m20s`, `2h05m`, `3d4h`."""
    whole = int(max(seconds, 0))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def duration(seconds: float) -> str:
    """How long something took that is over, rounded: `2.0s` below ten seconds, else as `span`."""
    return f"{max(seconds, 0):.1f}s" if seconds < 9.95 else span(seconds + 0.5)


def cells(text: str) -> int:
    """How many cells of a terminal a text takes: 2 for wide characters, 0 for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_cell(c) for c in text)


def _cell(c: str) -> int:
    if unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


def cut(text: str, room: int) -> str:
    """`text` in at most `room` cells, its end marked where it was cut."""
    if cells(text) <= room:
        return text
    kept, used = [], 0
    for c in text:
        used += _cell(c)
        if used > room - 1:
            break
        kept.append(c)
    return "".join(kept) + CUT if room > 0 else ""


def pad(text: str, room: int) -> str:
    """`text` filled up with spaces to `room` cells."""
    return text + " " * (room - cells(text))


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int = 0,
    paints: dict[str, str] | None = None,
) -> list[str]:
    """Lines of a table with headers; the widest columns give way until it fits `width` cells (0 = no limit).

    `paints` maps a whole cell's text to its colour, applied after measuring.
    """
    columns = list(zip(headers, *rows, strict=True))
    rooms = [max(cells(text) for text in column) for column in columns]
    if width:
        _shrink(rooms, width - 2 * (len(rooms) - 1))
    return [_row(row, rooms, paints or {}) for row in [headers, *rows]]


def _shrink(rooms: list[int], available: int) -> None:
    while sum(rooms) > available:
        widest = max(range(len(rooms)), key=rooms.__getitem__)
        if rooms[widest] <= 1:
            return
        others = sorted(rooms)[-2] if len(rooms) > 1 else 0
        spare = sum(rooms) - available
        rooms[widest] = max(min(others, rooms[widest] - 1), rooms[widest] - spare, 1)


def _row(row: Sequence[str], rooms: list[int], paints: dict[str, str]) -> str:
    shown = []
    for place, (text, room) in enumerate(zip(row, rooms, strict=True)):
        fitted = cut(text, room)
        filled = fitted if place == len(rooms) - 1 else pad(fitted, room)
        shown.append(paint(filled, paints[text]) if text in paints else filled)
    return "  ".join(shown).rstrip()


def fields(pairs: Sequence[tuple[str, str]], *, width: int = 0) -> list[str]:
    """Lines of `name  value`, names aligned; pairs without a value are left out.

    A value's own lines stay lines; with `width` longer ones are wrapped. Both stand below the value's beginning.
    """
    kept = [(name, value) for name, value in pairs if value]
    room = max((cells(name) for name, _ in kept), default=0)
    found = []
    for name, value in kept:
        lines = [
            part
            for text in value.split("\n")
            for part in wrap(text, max(width - room - 2, 20) if width else 0)
        ]
        heads = [name, *[""] * (len(lines) - 1)]
        found += [f"{pad(head, room)}  {text}".rstrip() for head, text in zip(heads, lines, strict=True)]
    return found


def wrap(text: str, room: int) -> list[str]:
    """`text` in lines of at most `room` cells (0 = one line), broken at spaces, where there are none anywhere.

    The lines after the first are indented as it is, and a little more.
    """
    if not room or cells(text) <= room:
        return [text]
    indent = text[: len(text) - len(text.lstrip())][: room // 2]
    found, line = [], indent
    for word in text.split():
        for piece in _pieces(word, room - len(indent) - 2):
            empty = not line.strip()
            if not empty and cells(line) + 1 + cells(piece) > room:
                found.append(line)
                line, empty = indent + "  ", True
            line += piece if empty else f" {piece}"
    return [*found, line]


def _pieces(word: str, room: int) -> list[str]:
    """A word in pieces that fit."""
    found = [""]
    for c in word:
        if cells(found[-1]) + _cell(c) > max(room, 2):
            found.append("")
        found[-1] += c
    return found


def block(text: str) -> str:
    """Text of a task with its own lines and their indentation, safe for a terminal."""
    return "\n".join(line.rstrip() for line in clean(text).expandtabs(4).strip("\n").split("\n"))


def counted(number: int, what: str) -> str:
    """`1 route`, `2 routes`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def milliseconds(ms: float | None) -> str:
    """A latency for people."""
    return "" if ms is None else f"{ms:.0f} ms"


def breakdown(parts: ScoreView | None) -> str:
    """`100 − 5.3 − 15 − 10 = 69.7`; what lies outside 0 to 100 is told as well."""
    if parts is None:
        return "unknown: no result yet (ranks as 50)"
    off = (parts.latency, parts.failures, parts.timeouts)
    # The sum is rounded down and its parts up, so that the line adds up as it is read.
    terms = [_decimal(parts.base), *(_decimal(math.ceil(each * 10 - 1e-9) / 10) for each in off)]
    text = f"{' − '.join(terms)} = {_decimal(math.floor(parts.raw * 10 + 1e-9) / 10)}"
    return text if parts.raw == parts.value else f"{text}, counts as {_decimal(parts.value)}"


def _decimal(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0").replace("-", "−")
