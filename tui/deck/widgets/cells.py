"""Foreign text as cells of a terminal: harmless, on one line, and as wide as every terminal thinks it is.

Pure functions. Each text that a widget draws passes `shown` first and `fit` second; markup is never read.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from rich.cells import cell_len, set_cell_size

from taskdeck.engine.views import clean

LONGEST = 1_000
"""Characters of one text that are ever drawn."""

Align = Literal["left", "right"]

_UNSURE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u206a-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff]"
)
"""Joiners, selectors, skin tones and fillers: terminals disagree on their width, and on the width of what they join."""
_FLAGS = {0x1F1E6 + at: chr(ord("A") + at) for at in range(26)}


def shown(text: str, *, ascii: bool = False) -> str:
    """`text` on one line, safe for a terminal, at most `LONGEST` characters: newlines as `⏎`, or `\\n` with `ascii`."""
    if len(text) <= LONGEST and text.isascii() and text.isprintable():
        return text
    text = clean(text[: LONGEST * 8], keep="\n\t").replace("\t", "    ")
    text = text.replace("\n", "\\n" if ascii else "⏎")
    text = text if text.isascii() else _settled(text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + cut_mark(ascii)


def _settled(text: str) -> str:
    """Composed, without what no two terminals measure alike, and with one mark on a character at most."""
    text = _UNSURE.sub("", unicodedata.normalize("NFC", text)).translate(_FLAGS)
    kept: list[str] = []
    marked = True  # a mark at the beginning has nothing to stand on
    for character in text:
        is_mark = unicodedata.category(character) in ("Mn", "Me")
        if not (is_mark and marked):
            kept.append(character)
        marked = is_mark
    return "".join(kept)


def fit(text: str, width: int, align: Align = "left", *, ascii: bool = False) -> str:
    """`text`, as `shown` gives it, in exactly `width` cells; its end marked where it was cut."""
    if width <= 0:
        return ""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + cut_mark(ascii)
    blank = " " * (width - length)
    return blank + text if align == "right" else text + blank


def wrapped(text: str, width: int, most: int) -> list[str]:
    """`text`, as `shown` gives it, in 1 to `most` lines of at most `width` cells, broken at blanks where there are any; what
    has no room in them ends in ` ...`.
    """
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines = [*([*lines] if lines[-1] else lines[:-1]), *chopped(word, width)]
    if len(lines) > most:
        last = lines[most - 1]
        room = width - len(_MORE)
        lines = [
            *lines[: most - 1],
            (set_cell_size(last, room).rstrip() if cell_len(last) > room else last) + _MORE,
        ]
    return lines


_MORE = " ..."


def cut_mark(ascii: bool) -> str:
    """What stands where a text was cut."""
    return ">" if ascii else "»"


def chopped(text: str, width: int) -> list[str]:
    """`text` in pieces of at most `width` cells; at least one piece."""
    if cell_len(text) <= width or width < 2:
        return [text]
    pieces, piece, room = [], "", width
    for character in text:
        size = cell_len(character)
        if size > room:
            pieces.append(piece)
            piece, room = "", width
        piece, room = piece + character, room - size
    return [*pieces, piece] if piece else pieces
