"""The ids of a long list, of which only some stretches have been read: the rows in sight, the first and the last.

Pure. A place without an id holds an `Unread`; who shows the list asks for what is around it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import neg
from typing import NamedTuple, overload


class Unread(NamedTuple):
    """A row of which nothing is known but its place, counted from 0."""

    place: int


class Stretch(NamedTuple):
    """Ids that follow each other, the newest first; `place` is that of the first."""

    place: int
    ids: Sequence[int]

    @property
    def end(self) -> int:
        """The place behind the last."""
        return self.place + len(self.ids)


class NewestFirst(Sequence[int | Unread]):
    """`length` descending ids, of which some stretches are known; those don't overlap and stand in order."""

    def __init__(self, length: int, stretches: Sequence[Stretch]) -> None:
        self._stretches = [each for each in stretches if each.ids]
        self._length = max(length, self._stretches[-1].end if self._stretches else 0)

    @property
    def is_whole(self) -> bool:
        """Is every id known?"""
        return sum(len(each.ids) for each in self._stretches) == self._length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> int | Unread: ...
    @overload
    def __getitem__(self, place: slice) -> list[int | Unread]: ...
    def __getitem__(self, place: int | slice) -> int | Unread | list[int | Unread]:
        if isinstance(place, slice):
            return [self._at(each) for each in range(*place.indices(self._length))]
        if not -self._length <= place < self._length:
            raise IndexError(place)
        return self._at(place % self._length)

    def _at(self, place: int) -> int | Unread:
        for each in self._stretches:
            if each.place <= place < each.end:
                return each.ids[place - each.place]
        return Unread(place)

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """Where a known id stands; by halving, since ids descend. Raises ValueError."""
        if isinstance(value, int):
            for each in self._stretches:
                found = bisect_left(each.ids, -value, key=neg)
                if found < len(each.ids) and each.ids[found] == value:
                    return each.place + found
        raise ValueError(f"{value} is not among what is known")

    def __contains__(self, value: object) -> bool:
        try:
            return self.index(value) >= 0
        except ValueError:
            return False

    def __iter__(self) -> Iterator[int | Unread]:
        return (self._at(place) for place in range(self._length))
