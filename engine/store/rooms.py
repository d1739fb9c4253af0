"""What is free of each pool, and of each group of routes or single route, and in words why no more. Reads only.

Of hundreds of routes most are asked for by nobody: the slots are read with the first question, and what they come to is put
together for whoever is asked for.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from ..rules.resource_states import BUSY, COOLDOWN, RESTING
from ..rules.selection import PoolRoom
from .slots import BOUND_ELSEWHERE, SPENT


class _Slot(NamedTuple):
    """What of a slot decides."""

    state: str
    drain: int
    pending: str | None
    task_id: int | None
    cooldown_until: str | None
    cooldown_reason: str | None
    spent: int
    bound: int


Members = Mapping[str, list[_Slot]]


class Rooms(Mapping[str, PoolRoom]):
    """The rooms by name. What is read is that of the first question, or of `load`."""

    def __init__(self, read: Callable[[], Members]) -> None:
        self._read = read
        self._members: Members | None = None
        self._known: dict[str, PoolRoom] = {}

    def load(self) -> Self:
        """Read now: the connection is not asked later."""
        if self._members is None:
            self._members = self._read()
        return self

    def _slots(self) -> Members:
        self.load()
        assert self._members is not None
        return self._members

    def __getitem__(self, name: str) -> PoolRoom:
        if name not in self._known:
            self._known[name] = _room(self._slots()[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._slots())

    def __len__(self) -> int:
        return len(self._slots())


def of_pools(connection: sqlite3.Connection, now: str) -> Rooms:
    """By pool."""

    def read() -> Members:
        members: dict[str, list[_Slot]] = defaultdict(list)
        for pool, *slot in _rows(connection, now, "resource", "p.pool", BOUND_ELSEWHERE):
            members[pool].append(_Slot(*slot))
        return dict(members)

    return Rooms(read)


def of_routes(connection: sqlite3.Connection, now: str) -> Rooms:
    """By group and by id; where a route has the name of a group, both are what is asked for by it."""

    def read() -> Members:
        members: dict[str, list[_Slot]] = defaultdict(list)
        for name, group, *rest in _rows(connection, now, "route", 'p.route_id, p."group"', "0"):
            slot = _Slot(*rest)
            members[name].append(slot)
            if group != name:
                members[group].append(slot)
        return dict(members)

    return Rooms(read)


def _rows(
    connection: sqlite3.Connection, now: str, parent: str, names: str, bound: str
) -> Iterable[tuple[Any, ...]]:
    columns = ", ".join(f"s.{column}" for column in _Slot._fields[:-2])
    sql = (
        f"SELECT {names}, {columns}, {SPENT.format(parent=parent)}, {bound} FROM {parent}_slot s"
        f" JOIN {parent} p USING ({parent}_id) WHERE p.removed_at IS NULL"
    )
    return connection.execute(sql, {"now": now})


def _room(slots: list[_Slot]) -> PoolRoom:
    idle = [slot for slot in slots if slot.state == "AVAILABLE" and not slot.drain and slot.pending is None]
    free = sum(not slot.spent and not slot.bound for slot in idle)
    holders = sorted({slot.task_id for slot in slots if slot.task_id is not None})
    words = [f"held by {', '.join(f'#{holder}' for holder in holders[:5])}"] if holders else []
    for state in ("COOLDOWN", "FAULT", "DISABLED"):
        those = [slot for slot in slots if slot.state == state]
        if those:
            until = min((slot.cooldown_until for slot in those if slot.cooldown_until), default=None)
            words.append(
                f"{len(those)} {state}" + (f" until {until}" if until and state == "COOLDOWN" else "")
            )
    if spent := sum(slot.spent for slot in idle):
        words.append(f"{spent} had all their uses or their time (see: taskdeck resource reset)")
    if bound := sum(slot.bound and not slot.spent for slot in idle):
        words.append(f"{bound} bound to a route that can't be had")
    return PoolRoom(free, len(slots), "; ".join(words), out=not free and not any(map(_comes_back, slots)))


def _comes_back(slot: _Slot) -> bool:
    """It is in use or rests after use: nothing is wrong with it."""
    rests = slot.state == COOLDOWN and slot.cooldown_reason in RESTING
    return slot.state in BUSY or slot.state == "AVAILABLE" or rests
