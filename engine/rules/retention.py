"""Retention: which ages are long enough, how an archive is named, and sets of event ids as text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from .timing import add_seconds

EVENTS_A_FILE = 50_000
"""Events of one archive, cut from the table in one transaction: about a quarter of a second."""
FAMILIES_A_FILE = 2_000
"""Tasks of one archive, their retries and clones not counted."""


class Ages(msgspec.Struct, frozen=True):
    """How old, in seconds, what has ended must be to go; 0 = it never goes."""

    tasks: float = 0.0
    events: float = 0.0

    def tasks_before(self, now: str) -> str | None:
        """Tasks that ended before this moment go (UTC text)."""
        return add_seconds(now, -self.tasks) if self.tasks else None

    def events_before(self, now: str) -> str | None:
        """Events before this moment go (UTC text)."""
        return add_seconds(now, -self.events) if self.events else None


class ArchiveRow(msgspec.Struct, frozen=True, kw_only=True):
    """One archive as the database knows it. `kept`: events of it that stay in the table, as text of ranges."""

    id: int = 0
    kind: str
    file: str
    first: int
    last: int
    count: int
    previous: str = ""
    hash: str = ""
    sha256: str = ""
    bytes: int = 0
    kept: str = ""
    created_at: str = ""


def archive_name(stem: str, kind: str, first: int, last: int, now: str, number: int = 1) -> str:
    """`taskdeck-events-000000000001-000000050000-20261130.jsonl.gz`; `number` tells apart those of one name."""
    again = f"-{number}" if number > 1 else ""
    return f"{stem}-{kind}-{first:012d}-{last:012d}-{now[:10].replace('-', '')}{again}.jsonl.gz"


def as_ranges(ids: Iterable[int]) -> str:
    """Ascending ids as `1-5,9`."""
    parts: list[list[int]] = []
    for number in ids:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in parts)


def of_ranges(text: str) -> Iterator[int]:
    """The ids of `1-5,9`, ascending."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def row_of(values: dict[str, Any]) -> ArchiveRow:
    """An `archive` row of the database."""
    return msgspec.convert({key: values[key] for key in ArchiveRow.__struct_fields__}, ArchiveRow)
