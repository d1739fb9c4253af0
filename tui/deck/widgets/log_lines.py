"""Lines of a log by number, however many there are; their levels; and how bytes become lines.

Numbers never change while a log is open: what is trimmed at the front takes its numbers along, what comes before the
first line goes on downwards. Nothing here draws, and nothing reads a file.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

MOST = 10_000
"""Lines held in memory."""
LONGEST = 64 * 1024
"""Bytes of a line without an end that are kept together."""

LEVELS = ("", "info", "warn", "error")
"""What a log can be narrowed to, each level with all above it; `""` shows everything."""
_WORDS = {
    "trace": 0,
    "debug": 0,
    "info": 1,
    "notice": 1,
    "warn": 2,
    "warning": 2,
    "err": 3,
    "error": 3,
    "fatal": 3,
    "critical": 3,
    "panic": 3,
    "alert": 3,
}
_NAMES = "|".join(_WORDS)
_LEVEL = re.compile(
    rf"\b({_NAMES.upper()})\b|\b[Ll]evel[\"']?[=:]\s?[\"']?({_NAMES})\b|[\[<]({_NAMES})[\]>]|^({_NAMES})\b"
)
_FAILURE = re.compile(r"Traceback \(most recent|(?:\w+\.)*\w*(?:Error|Exception)(?::|$)")
LOOKED_AT = 160
"""Where in a line its level has to stand (characters)."""


def level_of(line: str, before: int = 1) -> int:
    """The level of a line (0 debug to 3 error) by its words; an indented one without any belongs to the line `before`."""
    start = line[:LOOKED_AT]
    if found := _LEVEL.search(start):
        return _WORDS[next(word for word in found.groups() if word).lower()]
    if _FAILURE.match(start):
        return 3
    return before if start[:1] in (" ", "\t") else 1


class Lines(Protocol):
    """Lines by number, from `first` to before `end`."""

    @property
    def first(self) -> int: ...

    @property
    def end(self) -> int: ...

    def line(self, number: int) -> str:
        """The text of a line."""
        ...


class Ring:
    """The newest lines of a growing log, `most` of them."""

    def __init__(self, lines: Iterable[str] = (), most: int = MOST) -> None:
        self.first = 0
        self._most = most
        self._held = list(lines)
        self._trim(0)

    @property
    def end(self) -> int:
        """The number that the next line gets."""
        return self.first + len(self._held)

    def line(self, number: int) -> str:
        """The text of a line."""
        return self._held[number - self.first]

    def append(self, lines: Iterable[str]) -> None:
        """Lines at the end; the oldest go, a hundredth of all at a time."""
        self._held.extend(lines)
        self._trim(self._most // 100)

    def prepend(self, lines: Sequence[str]) -> None:
        """Lines before the first, held in addition until the log grows."""
        self._held[:0] = lines
        self.first -= len(lines)

    def _trim(self, spare: int) -> None:
        if (over := len(self._held) - self._most) > spare:
            del self._held[:over]
            self.first += over


class Indexed:
    """Lines that stand elsewhere and are read one by one: any sequence."""

    first = 0

    def __init__(self, source: Sequence[str]) -> None:
        self._source = source

    @property
    def end(self) -> int:
        """How many there are by now."""
        return len(self._source)

    def line(self, number: int) -> str:
        """The text of a line."""
        return self._source[number]


class Narrowed:
    """The numbers of the lines of a level, kept up as the lines grow."""

    def __init__(self, lines: Lines, level: int) -> None:
        self._lines, self._level = lines, level
        self._numbers: list[int] = []
        self._seen = lines.first
        self._before = 1
        self.update()

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers in order."""
        return self._numbers

    def is_of(self, lines: Lines, level: int) -> bool:
        """Are these its lines, and this its level?"""
        return self._lines is lines and self._level == level

    def update(self) -> None:
        """Take in what has come and let go of what was trimmed."""
        del self._numbers[: bisect_left(self._numbers, self._lines.first)]
        for number in range(max(self._seen, self._lines.first), self._lines.end):
            self._before = level_of(self._lines.line(number), self._before)
            if self._before >= self._level:
                self._numbers.append(number)
        self._seen = self._lines.end


class LineFeed:
    """Makes lines of chunks of bytes, in bounded memory: what a carriage return overwrote is left out."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that have ended by now."""
        *lines, self._held = (self._held + chunk).split(b"\n")
        if len(self._held) > LONGEST:
            lines.append(self._held)
            self._held = b""
        return [_text(line) for line in lines]

    def rest(self) -> list[str]:
        """The last line, where it has no end."""
        held, self._held = self._held, b""
        return [_text(held)] if held else []

    def all(self, chunks: Iterable[bytes]) -> Iterator[str]:
        """Every line of a log that has ended."""
        for chunk in chunks:
            yield from self.feed(chunk)
        yield from self.rest()


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
