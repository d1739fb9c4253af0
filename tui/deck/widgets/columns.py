"""Columns of a list: what a cell is, and how wide each column is in a given room. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from .cells import Align

Id = Hashable
"""What names a row: the id of a task, the name of a resource."""
Cell = tuple[str, str]
"""A text as it came, and a look (`looks.LOOKS`)."""
Provider = Callable[[Id], Mapping[str, Cell] | None]
"""Cells by column key; None where they aren't there yet."""


@dataclass(frozen=True)
class Column:
    """A column: `width` cells, or at least so many where `flex` lets it take what is left."""

    key: str
    title: str
    width: int
    align: Align = "left"
    flex: bool = False


def widths(columns: Sequence[Column], room: int) -> tuple[int, ...]:
    """The width of each column, one blank behind each: flexible ones share what the others leave."""
    left = max(room - sum(column.width + 1 for column in columns), 0)
    flexible = sum(column.flex for column in columns)
    found: list[int] = []
    for column in columns:
        share = -(-left // flexible) if column.flex else 0
        left, flexible = left - share, flexible - column.flex
        found.append(column.width + share)
    return tuple(found)
