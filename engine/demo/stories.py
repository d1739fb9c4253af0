"""What the audit tells, rebuilt event by event and held against the tables: tasks, fences, who held what, the chain.

The standard library alone, and no word of the store: a mistake there can't hide here. Reads; changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

Row = dict[str, Any]

MOVES = {
    "PENDING": "RUNNING PAUSED CANCELLED",
    "RUNNING": "SUCCESS FAILED RETRYING NEEDS_REVIEW DEAD PAUSED CANCELLED LOST PENDING",
    "PAUSED": "RUNNING PENDING CANCELLED",
    "RETRYING": "RUNNING PENDING PAUSED NEEDS_REVIEW DEAD CANCELLED",
    "LOST": "RUNNING PENDING RETRYING NEEDS_REVIEW DEAD CANCELLED",
    "NEEDS_REVIEW": "PENDING DEAD CANCELLED",
    "FAILED": "PENDING",
    "DEAD": "PENDING",
    "CANCELLED": "PENDING",
}
"""Where a task may go from where: the table of the domain, typed anew."""

HASHED = (
    *("event_id", "task_id", "resource_id", "route_id", "worker_id", "event_type", "level", "reason"),
    *("actor", "message", "payload_json", "created_at"),
)
"""What an event's hash covers, in this order, behind the hash of the one before."""

BUSY = ("LEASED", "RUNNING")
OF_SLOTS = ("RESOURCE_LEASED", "RESOURCE_RELEASED", "RESOURCE_STATE", "ROUTE_STATE")


@dataclass
class Tale:
    """A task so far."""

    state: str = "PENDING"
    attempt: int = 0
    fence: int = 0


@dataclass
class Holding:
    """One slot of a resource or route so far: its state, and who holds it under which fence."""

    state: str = "AVAILABLE"
    holder: int | None = None
    fence: int = 0


class Stories:
    """One pass over the audit of an open database. `problems` names each thing that is wrong."""

    def __init__(self, connection: sqlite3.Connection, anchors: Path) -> None:
        self._connection = connection
        self._anchors = anchors
        self.problems: list[str] = []
        self._tales: dict[int, Tale] = {}
        self._slots: dict[tuple[str, str, int], Holding] = {}
        self._fence = 0

    def check(self) -> list[str]:
        """Everything; returns the problems."""
        self._chain()
        for event in self.rows("SELECT * FROM event_log ORDER BY event_id"):
            self._event(event)
        self._tasks()
        self._attempts()
        for kind in ("resource", "route"):
            self._slot_table(kind)
        self._sequence()
        return self.problems

    def rows(self, sql: str, *args: object) -> Iterator[Row]:
        """Rows of a query by name."""
        cursor = self._connection.execute(sql, args)
        names = [column[0] for column in cursor.description]
        return (dict(zip(names, values, strict=True)) for values in cursor)

    def _say(self, problem: str) -> None:
        self.problems.append(problem)

    # ---- the chain -----------------------------------------------------------------------------------------------

    def _chain(self) -> None:
        last, previous = 0, ""
        noted = self._noted()
        for event in self.rows("SELECT * FROM event_log ORDER BY event_id"):
            if noted.pop(event["event_id"], event["hash"]) != event["hash"]:
                self._say(f"event {event['event_id']}: the audit was another when it was anchored outside")
            if event["event_id"] != last + 1:
                self._say(f"event {last + 1} is missing: the next one is {event['event_id']}")
            text = json.dumps([event[name] for name in HASHED], ensure_ascii=False, separators=(",", ":"))
            if hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest() != event["hash"]:
                self._say(
                    f"event {event['event_id']}: the chain breaks here, it or the one before was changed"
                )
            last, previous = event["event_id"], event["hash"]
        head = [(row["event_id"], row["hash"]) for row in self.rows("SELECT * FROM event_head")]
        if head != [(last, previous)]:
            self._say(f"the chain ends at event {last}, its head says {[number for number, _ in head]}")

        if noted:
            self._say(f"event {min(noted)} was anchored outside, and is not there")

    def _noted(self) -> dict[int, str]:
        """Hashes by event that were noted outside the database: lines of event, count, hash, time."""
        if not self._anchors.exists():
            return {}
        lines = [line.split() for line in self._anchors.read_text(encoding="utf-8").splitlines()]
        return {int(line[0]): line[2] for line in lines if len(line) == 4 and int(line[0])}

    # ---- events --------------------------------------------------------------------------------------------------

    def _event(self, event: Row) -> None:
        try:
            payload = json.loads(event["payload_json"] or "{}")
        except ValueError:
            self._say(f"event {event['event_id']}: its payload is no JSON")
            return
        where = f"event {event['event_id']}"
        if event["event_type"] == "TASK_CREATED":
            if event["task_id"] in self._tales:
                self._say(f"{where}: #{event['task_id']} is created a second time")
            self._tales[event["task_id"]] = Tale()
        elif event["event_type"] == "TASK_STATE":
            self._move(where, event, payload)
        elif event["event_type"] in OF_SLOTS and "to" in payload:
            self._slot(where, event, payload)

    def _move(self, where: str, event: Row, payload: Row) -> None:
        number, came, to = event["task_id"], payload.get("from"), payload.get("to")
        where = f"{where} (#{number} {came} → {to}, {event['reason']})"
        tale = self._tales.get(number)
        if tale is None:
            self._say(f"{where}: the task was never created")
            tale = self._tales[number] = Tale()
        if came != tale.state:
            self._say(f"{where}: the task was {tale.state}, so a change has no event, or an event no change")
        if to not in MOVES.get(str(came), "").split():
            self._say(f"{where}: this move is not allowed")
        if event["reason"] == "dispatched":
            self._dispatched(where, tale, payload)
        elif (fence := payload.get("fence", tale.fence)) < tale.fence:
            self._say(f"{where}: fence {fence} is below {tale.fence}, which the task had before")
        else:
            tale.fence = fence
            self._fence = max(self._fence, fence)
        tale.state = str(to)

    def _dispatched(self, where: str, tale: Tale, payload: Row) -> None:
        fence = payload.get("fence") or 0
        if payload.get("attempt") != tale.attempt + 1:
            self._say(f"{where}: attempt {payload.get('attempt')} follows attempt {tale.attempt}")
        if fence <= self._fence:
            self._say(f"{where}: fence {fence} does not grow, {self._fence} was drawn before")
        tale.attempt, tale.fence = tale.attempt + 1, fence
        self._fence = max(self._fence, fence)

    # ---- who holds what ------------------------------------------------------------------------------------------

    def _slot(self, where: str, event: Row, payload: Row) -> None:
        kind = "resource" if event["resource_id"] is not None else "route"
        name, number = event[f"{kind}_id"], payload.get("slot", 1)
        slot = self._slots.setdefault((kind, name, number), Holding())
        where = f"{where} ({kind} {name}{f'/{number}' if 'slot' in payload else ''})"
        if event["event_type"] == "RESOURCE_LEASED":
            self._leased(where, slot, event, payload)
        elif slot.state in BUSY and payload.get("fence") != slot.fence:
            self._say(f"{where}: it is held under fence {slot.fence}, not {payload.get('fence')}")
        if payload.get("from") != slot.state:
            self._say(f"{where}: it leaves {payload.get('from')}, but was {slot.state}")
        slot.state = payload["to"]
        if slot.state not in BUSY:
            slot.holder = None

    def _leased(self, where: str, slot: Holding, event: Row, payload: Row) -> None:
        fence = payload.get("fence") or 0
        if slot.holder is not None:
            self._say(f"{where}: two holders at once, #{slot.holder} and #{event['task_id']}")
        if fence <= slot.fence:
            self._say(f"{where}: fence {fence} does not grow, {slot.fence} was the last")
        slot.holder, slot.fence = event["task_id"], fence
        if (tale := self._tales.get(event["task_id"])) is None or tale.fence != fence:
            self._say(
                f"{where}: leased to #{event['task_id']} under fence {fence}, which does not hold that task"
            )

    def _slot_table(self, kind: str) -> None:
        """Slots as they are, and no slot beyond what its resource or route may have."""
        open_fences = {
            row["fence"]: row["task_id"] for row in self.rows("SELECT * FROM attempt WHERE ended_at IS NULL")
        }
        holders: dict[str, list[int]] = {}
        capacity = {row[f"{kind}_id"]: row["capacity"] for row in self.rows(f"SELECT * FROM {kind}")}
        for row in self.rows(f"SELECT * FROM {kind}_slot ORDER BY id"):
            name = row[f"{kind}_id"]
            told = self._slots.get((kind, name, row["number"]), Holding())
            where = f"{kind} {name}" if capacity.get(name) == 1 else f"{kind} {name}/{row['number']}"
            if row["number"] > capacity.get(name, 0):
                self._say(f"{where}: slot {row['number']} of {capacity.get(name, 0)}")
            if (row["state"], row["task_id"]) != (told.state, told.holder):
                self._say(
                    f"{where}: {_held(row['state'], row['task_id'])}, its events say {_held(told.state, told.holder)}"
                )
            if row["fence"] < told.fence:
                self._say(f"{where}: fence {row['fence']} is below {told.fence} of its events")
            if row["task_id"] is not None:
                holders.setdefault(name, []).append(row["task_id"])
                if open_fences.get(row["fence"]) != row["task_id"]:
                    self._say(f"{where}: held by #{row['task_id']}, which has no open attempt with its fence")
        for name, found in holders.items():
            if len(found) > capacity.get(name, 0):
                self._say(f"{kind} {name}: two holders at once, {' and '.join(f'#{each}' for each in found)}")

    # ---- tables --------------------------------------------------------------------------------------------------

    def _tasks(self) -> None:
        tasks = {row["id"]: row for row in self.rows("SELECT id, state, attempt, fence FROM task")}
        for number in sorted(self._tales.keys() ^ tasks.keys()):
            self._say(
                f"#{number}: it has {'events and no row' if number in self._tales else 'a row and no events'}"
            )
        for number in sorted(self._tales.keys() & tasks.keys()):
            row, tale = tasks[number], self._tales[number]
            for name in ("state", "attempt"):
                if row[name] != getattr(tale, name):
                    self._say(f"#{number}: {name} is {row[name]}, its events say {getattr(tale, name)}")
            if row["fence"] < tale.fence:
                self._say(f"#{number}: fence {row['fence']} is below {tale.fence} of its events")

    def _attempts(self) -> None:
        """Attempts of one task follow each other, and in the order of dispatch their fences grow."""
        by_task: dict[int, list[Row]] = {}
        highest = 0
        for row in self.rows("SELECT * FROM attempt ORDER BY id"):
            if row["fence"] <= highest:
                self._say(
                    f"#{row['task_id']} attempt {row['number']}: fence {row['fence']} does not grow, {highest} was before"
                )
            highest = max(highest, row["fence"])
            by_task.setdefault(row["task_id"], []).append(row)
        self._fence = max(self._fence, highest)
        for number, attempts in by_task.items():
            numbers = [row["number"] for row in attempts]
            tale = self._tales.get(number, Tale())
            if numbers != list(range(1, tale.attempt + 1)):
                self._say(f"#{number}: attempts {numbers}, its events started {tale.attempt}")
            for before, after in pairwise(attempts):
                if before["ended_at"] is None or before["ended_at"] > after["dispatched_at"]:
                    self._say(
                        f"#{number}: attempts {before['number']} and {after['number']} ran at the same time"
                    )
            still = [row["number"] for row in attempts if row["ended_at"] is None]
            if still and tale.state not in ("RUNNING", "PAUSED"):
                self._say(f"#{number}: {tale.state}, yet attempt {still[0]} has not ended")

    def _sequence(self) -> None:
        drawn = next(self.rows("SELECT value FROM sequence WHERE name = 'fence'"), {"value": 0})["value"]
        if drawn < self._fence:
            self._say(f"the fence sequence stands at {drawn}, but {self._fence} was drawn")


def _held(state: str, holder: int | None) -> str:
    return state if holder is None else f"{state} by #{holder}"
