"""Who held which slot of which resource or route, rebuilt from the audit and held against the tables.

Fed event by event by `stories`. The standard library alone, and no word of the store. Reads; changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

BUSY = ("LEASED", "RUNNING")
OF_SLOTS = ("RESOURCE_LEASED", "RESOURCE_RELEASED", "RESOURCE_STATE", "ROUTE_STATE")
SLOT_MOVES = {
    "AVAILABLE": "LEASED COOLDOWN FAULT DISABLED",
    "LEASED": "RUNNING AVAILABLE COOLDOWN FAULT DISABLED",
    "RUNNING": "AVAILABLE COOLDOWN FAULT DISABLED",
    "COOLDOWN": "AVAILABLE COOLDOWN FAULT DISABLED",
    "FAULT": "AVAILABLE COOLDOWN DISABLED",
    "DISABLED": "AVAILABLE COOLDOWN",
}
"""Where a slot may go from where: the table of the resources and routes, typed anew."""
LEASE_COLUMNS = ("task_id", "lease_owner", "lease_until", "lease_until_boot", "pending")
"""What is empty on a slot that nobody holds."""


@dataclass
class Holding:
    """One slot so far: its state, and who holds it under which fence."""

    state: str = "AVAILABLE"
    holder: int | None = None
    fence: int = 0


class Holdings:
    """All slots. `say` takes each problem, `fence_of` tells a task's fence at that moment, None = never created."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        say: Callable[[str], None],
        fence_of: Callable[[int], int | None],
    ) -> None:
        self._connection = connection
        self._say = say
        self._fence_of = fence_of
        self._slots: dict[tuple[str, str, int], Holding] = {}
        self._capacity: dict[tuple[str, str], int] = {}
        self.leased: dict[int, set[tuple[str, str]]] = {}
        """What was leased under each fence: kind and name."""

    def begin(self) -> None:
        """Learn how many slots everything may have."""
        for kind in ("resource", "route"):
            for row in rows(self._connection, f"SELECT {kind}_id AS name, capacity FROM {kind}"):
                self._capacity[kind, row["name"]] = row["capacity"]

    def event(self, where: str, event: Row, payload: Mapping[str, Any]) -> None:
        """One change of one slot."""
        kind = "resource" if event["resource_id"] is not None else "route"
        name, number = event[f"{kind}_id"], payload.get("slot", 1)
        where = f"{where} ({kind} {name}{f'/{number}' if 'slot' in payload else ''})"
        if not 1 <= number <= self._capacity.get((kind, name), 0):
            self._say(f"{where}: there is no slot {number}, it has {self._capacity.get((kind, name), 0)}")
        slot = self._slots.setdefault((kind, name, number), Holding())
        self._move(where, event["event_type"], payload)
        if event["event_type"] == "RESOURCE_LEASED":
            self._leased(where, (kind, name), slot, event, payload)
        elif slot.state in BUSY and payload.get("fence") != slot.fence:
            self._say(f"{where}: it is held under fence {slot.fence}, not {payload.get('fence')}")
        if payload.get("from") != slot.state:
            self._say(f"{where}: it leaves {payload.get('from')}, but was {slot.state}")
        slot.state = str(payload["to"])
        if slot.state not in BUSY:
            slot.holder = None

    def _move(self, where: str, event_type: str, payload: Mapping[str, Any]) -> None:
        came, to = str(payload.get("from")), str(payload["to"])
        if payload.get("event") == "user_disable" and to == came and came in BUSY:
            return  # it is drained: disabled when its attempt ends
        legal = to in SLOT_MOVES.get(came, "").split()
        if event_type == "RESOURCE_RELEASED":
            legal = legal and came in BUSY and to not in BUSY
        if not legal or (to == "LEASED") != (event_type == "RESOURCE_LEASED"):
            self._say(f"{where}: {event_type} from {came} to {to} is not allowed")

    def _leased(
        self, where: str, what: tuple[str, str], slot: Holding, event: Row, payload: Mapping[str, Any]
    ) -> None:
        task, fence = event["task_id"], payload.get("fence") or 0
        held = [each for key, each in self._slots.items() if key[:2] == what and each.holder is not None]
        if slot.holder is not None:
            self._say(f"{where}: two holders at once, #{slot.holder} and #{task}")
        elif held and len(held) >= self._capacity.get(what, 0):
            holders = ", ".join(f"#{each.holder}" for each in held)
            self._say(
                f"{where}: {'two' if len(held) == 1 else len(held) + 1} holders at once, {holders} and #{task}"
            )
        if fence <= slot.fence:
            self._say(f"{where}: fence {fence} does not grow, {slot.fence} was the last")
        slot.holder, slot.fence = task, fence
        self.leased.setdefault(fence, set()).add(what)
        if self._fence_of(task) != fence:
            self._say(f"{where}: leased to #{task} under fence {fence}, which does not hold that task")

    # ---- the tables ----------------------------------------------------------------------------------------------

    def tables(self) -> None:
        """Slots as they are, none beyond what its resource or route may have, none missing, none held by nobody."""
        fences = {
            row["fence"]: row["task_id"] for row in self._rows("SELECT * FROM attempt WHERE ended_at IS NULL")
        }
        for kind in ("resource", "route"):
            seen: set[tuple[str, str, int]] = set()
            holders: dict[str, list[int]] = {}
            for row in self._rows(f"SELECT *, {kind}_id AS name FROM {kind}_slot ORDER BY id"):
                seen.add((kind, row["name"], row["number"]))
                self._row(kind, row, fences)
                if row["task_id"] is not None:
                    holders.setdefault(row["name"], []).append(row["task_id"])
            for name, found in holders.items():
                if len(found) > self._capacity.get((kind, name), 0):
                    self._say(
                        f"{kind} {name}: two holders at once, {' and '.join(f'#{each}' for each in found)}"
                    )
            self._missing(kind, seen)

    def _row(self, kind: str, row: Row, fences: Mapping[int, int]) -> None:
        name, number = row["name"], row["number"]
        capacity = self._capacity.get((kind, name), 0)
        told = self._slots.get((kind, name, number), Holding())
        where = f"{kind} {name}" if capacity == 1 else f"{kind} {name}/{number}"
        if not 1 <= number <= capacity:
            self._say(f"{where}: slot {number} of {capacity}")
        if (row["state"], row["task_id"]) != (told.state, told.holder):
            self._say(
                f"{where}: {_held(row['state'], row['task_id'])}, its events say {_held(told.state, told.holder)}"
            )
        if row["fence"] != told.fence:
            than = "below" if row["fence"] < told.fence else "above"
            self._say(f"{where}: fence {row['fence']} is {than} {told.fence} of its events")
        if row["task_id"] is not None and fences.get(row["fence"]) != row["task_id"]:
            self._say(f"{where}: held by #{row['task_id']}, which has no open attempt with its fence")
        if row["state"] in BUSY:
            self._say(f"{where}: {row['state']} at the end, when nobody works any more")
        elif left := [column for column in LEASE_COLUMNS if row[column] is not None]:
            self._say(f"{where}: {row['state']}, yet its {' and '.join(left)} still tells of a lease")

    def _missing(self, kind: str, seen: set[tuple[str, str, int]]) -> None:
        for (of, name), capacity in self._capacity.items():
            for number in range(1, capacity + 1):
                if of == kind and (kind, name, number) not in seen:
                    self._say(f"{kind} {name}: its slot {number} of {capacity} is missing")

    def _rows(self, sql: str) -> Iterator[Row]:
        return rows(self._connection, sql)


def rows(connection: sqlite3.Connection, sql: str, *args: object) -> Iterator[Row]:
    """Rows of a query by name."""
    cursor = connection.execute(sql, args)
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, values, strict=True)) for values in cursor)


def readable(text: bytes) -> str:
    """A text of the database, also where it is damaged: as its `text_factory`, since it is asked for each value."""
    return text.decode("utf-8", "replace")


def _held(state: str, holder: int | None) -> str:
    return state if holder is None else f"{state} by #{holder}"
