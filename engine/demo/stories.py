"""What the audit tells, rebuilt event by event and held against the tables: tasks, fences, who held what, the chain.

The standard library alone, and no word of the store: a mistake there can't hide here. Reads; changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from .holdings import OF_SLOTS, Holdings, Row, rows

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
hashed = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=repr).encode
"""How they are written for the hash: made once, since `json.dumps` makes such an encoder for each event."""

ENDS = ("SUCCESS", "FAILED", "DEAD", "CANCELLED")
"""States whose beginning TASK_FINISHED tells of, and which only a person leaves."""
OF_HOLDER = ("CHECKPOINT_SAVED", "STEP_STARTED", "STEP_SUCCEEDED", "STEP_NOT_DONE")
"""What only the attempt that holds the task may write; where the event names a fence, it must be that attempt's."""
ANCHOR = re.compile(r"(\d{1,18}) \d+ ([0-9a-f]{64}|-?) ?\S+Z")
"""Event, count, hash and time; only the audit without an event has no hash."""


class Say(Protocol):
    """Takes a problem in words, and the number of the invariant that it breaks."""

    def __call__(self, problem: str, invariant: int = 2) -> None: ...


UNREADABLE = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    *(OSError, sqlite3.Error),
)
"""What damaged rows and files can lead to. Each is a finding of its own, and the rest is still judged."""


@dataclass
class Tale:
    """A task so far."""

    state: str = "PENDING"
    attempt: int = 0
    fence: int = 0
    ended: str = ""
    """An end whose TASK_FINISHED is still to come."""
    left: dict[int, str] = field(default_factory=dict)
    """Why the task left RUNNING, by the fence of the attempt."""
    holder: tuple[int, int | None] | None = None
    """Fence and worker of the attempt that holds it."""


class Stories:
    """One pass over the audit of an open database. `say` takes each thing that is wrong and the invariant that it breaks."""

    def __init__(self, connection: sqlite3.Connection, anchors: Path, say: Say) -> None:
        self._connection = connection
        self._anchors = anchors
        self._say = say
        self.tales: dict[int, Tale] = {}
        self.holdings = Holdings(connection, partial(say, invariant=1), self._fence_of)
        self._fence = 0
        self._anchored = 0
        self._stepped_back = False
        """Did the wall clock ever go back? Then times tell nothing about what came first."""

    def check(self) -> None:
        """Everything."""
        self.part("the chain of the audit", self._chain)
        self.part("the resources and routes", self.holdings.begin)
        self.part("the audit", self._events)
        self.part("the table of tasks", self._tasks)
        self.part("the table of attempts", self._attempts)
        self.part("the tables of slots", self.holdings.tables)
        self.part("the sequence of fences", self._sequence)

    def part(self, what: str, judge: Callable[[], None]) -> None:
        """Judge one part; where it is too damaged for that, say so, and never quote what stands in it."""
        try:
            judge()
        except UNREADABLE as error:
            why = f": {error}" if isinstance(error, sqlite3.Error | OSError) else ""
            self._say(f"{what}: it can't be judged to its end ({type(error).__name__}{why})")

    def rows(self, sql: str, *args: object) -> Iterator[Row]:
        """Rows of a query by name."""
        return rows(self._connection, sql, *args)

    def _fence_of(self, task: int) -> int | None:
        return self.tales[task].fence if task in self.tales else None

    # ---- the chain -----------------------------------------------------------------------------------------------

    def _chain(self) -> None:
        last, previous, at = 0, "", ""
        noted = self._noted()
        for event in self.rows("SELECT * FROM event_log ORDER BY event_id"):
            if noted.pop(event["event_id"], event["hash"]) != event["hash"]:
                self._say(f"event {event['event_id']}: the audit was another when it was anchored outside")
            if event["event_id"] != last + 1:
                self._say(f"event {last + 1} is missing: the next one is {event['event_id']}")
            text = hashed([event[name] for name in HASHED])
            if hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest() != event["hash"]:
                self._say(
                    f"event {event['event_id']}: the chain breaks here, it or the one before was changed"
                )
            self._stepped_back |= event["created_at"] < at
            last, previous, at = event["event_id"], event["hash"], event["created_at"]
        head = [(row["event_id"], row["hash"]) for row in self.rows("SELECT * FROM event_head")]
        if head != [(last, previous)]:
            self._say(f"the chain ends at event {last}, its head says {[number for number, _ in head]}")
        if noted:
            self._say(f"event {min(noted)} was anchored outside, and is not there")
        if last and self._anchored != last:
            self._say(
                f"the audit ends at event {last}, but was anchored outside up to event {self._anchored}"
            )

    def _noted(self) -> dict[int, str]:
        """Hashes by event that were noted outside the database: lines of event, count, hash, time."""
        noted: dict[int, str] = {}
        if not self._anchors.is_file():
            self._say(f"{self._anchors.name} is missing: nothing outside the database vouches for the audit")
        else:
            text = self._anchors.read_text(encoding="utf-8", errors="replace")
            for number, line in enumerate(text.splitlines(), 1):
                if found := ANCHOR.fullmatch(line):
                    noted[int(found[1])] = found[2]
                else:
                    self._say(f"{self._anchors.name} line {number}: it is no anchor")
        self._anchored = max(noted, default=0)
        return {event: noted for event, noted in noted.items() if event}

    # ---- events --------------------------------------------------------------------------------------------------

    def _events(self) -> None:
        for event in self.rows("SELECT * FROM event_log ORDER BY event_id"):
            self.part(f"event {event['event_id']}", partial(self._event, event))
        for number, tale in self.tales.items():
            if tale.ended:
                self._say(f"#{number}: it ended as {tale.ended}, and no TASK_FINISHED tells of it")

    def _event(self, event: Row) -> None:
        try:
            payload = json.loads(event["payload_json"] or "{}")
        except ValueError:
            self._say(f"event {event['event_id']}: its payload is no JSON")
            return
        where = f"event {event['event_id']}"
        if event["event_type"] == "TASK_CREATED":
            if event["task_id"] in self.tales:
                self._say(f"{where}: #{event['task_id']} is created a second time")
            self.tales[event["task_id"]] = Tale()
        elif event["event_type"] == "TASK_STATE":
            self._move(where, event, payload)
        elif event["event_type"] == "TASK_FINISHED":
            self._finished(where, event["task_id"], payload)
        elif event["event_type"] in OF_HOLDER and "fence" in payload:
            self._written(where, event, payload)
        elif event["event_type"] == "ATTEMPT_LOST" and event["task_id"] in self.tales:
            self.tales[event["task_id"]].holder = None
        elif event["event_type"] in OF_SLOTS and "to" in payload:
            self.holdings.event(where, event, payload)

    def _finished(self, where: str, number: int, payload: Row) -> None:
        tale = self.tales.get(number, Tale())
        if not tale.ended or payload.get("state") != tale.ended:
            self._say(
                f"{where}: #{number} is told to have finished as {payload.get('state')}, but it did not then"
            )
        tale.ended = ""

    def _move(self, where: str, event: Row, payload: Row) -> None:
        number, came, to = event["task_id"], payload.get("from"), payload.get("to")
        where = f"{where} (#{number} {came} → {to}, {event['reason']})"
        tale = self.tales.get(number)
        if tale is None:
            self._say(f"{where}: the task was never created")
            tale = self.tales[number] = Tale()
        if came != tale.state:
            self._say(f"{where}: the task was {tale.state}, so a change has no event, or an event no change")
        if to not in MOVES.get(str(came), "").split():
            self._say(f"{where}: this move is not allowed")
        if came in ENDS and is_no_person(event["actor"]):
            self._say(f"{where}: {event['actor']} left an end, which only a person may", 8)
        if came == "RUNNING":
            tale.left[tale.fence] = str(event["reason"])
        if event["reason"] == "dispatched":
            self._dispatched(where, tale, event, payload)
        elif (fence := payload.get("fence", tale.fence)) < tale.fence:
            self._say(f"{where}: fence {fence} is below {tale.fence}, which the task had before", 4)
        else:
            tale.fence = fence
            self._fence = max(self._fence, fence)
        if tale.ended:
            self._say(f"{where}: it ended as {tale.ended} before, and no TASK_FINISHED tells of it")
        if to not in ("RUNNING", "PAUSED"):
            tale.holder = None
        elif came == "LOST":
            tale.holder = tale.fence, event["worker_id"]  # its worker came back
        tale.state, tale.ended = str(to), str(to) if to in ENDS else ""

    def _dispatched(self, where: str, tale: Tale, event: Row, payload: Row) -> None:
        fence = payload.get("fence") or 0
        if payload.get("attempt") != tale.attempt + 1:
            self._say(f"{where}: attempt {payload.get('attempt')} follows attempt {tale.attempt}")
        if fence <= self._fence:
            self._say(f"{where}: fence {fence} does not grow, {self._fence} was drawn before", 4)
        tale.attempt, tale.fence = tale.attempt + 1, fence
        tale.holder = fence, event["worker_id"]
        self._fence = max(self._fence, fence)

    def _written(self, where: str, event: Row, payload: Row) -> None:
        """What a worker wrote, it wrote while its attempt held the task."""
        tale = self.tales.get(event["task_id"], Tale())
        where = f"{where} (#{event['task_id']} {event['event_type']})"
        if (
            tale.holder is None
            or tale.state not in ("RUNNING", "PAUSED")
            or payload["fence"] != tale.holder[0]
        ):
            self._say(f"{where}: written under fence {payload['fence']}, which does not hold the task", 4)
        elif event["worker_id"] != tale.holder[1]:
            self._say(f"{where}: written by worker {event['worker_id']}, held by worker {tale.holder[1]}", 4)

    # ---- tables --------------------------------------------------------------------------------------------------

    def _tasks(self) -> None:
        tasks = {row["id"]: row for row in self.rows("SELECT id, state, attempt, fence FROM task")}
        for number in sorted(self.tales.keys() ^ tasks.keys()):
            gone = number in self.tales
            self._say(f"#{number}: it has {'events and no row' if gone else 'a row and no events'}", 2 + gone)
        for number in sorted(self.tales.keys() & tasks.keys()):
            row, tale = tasks[number], self.tales[number]
            for name in ("state", "attempt"):
                if row[name] != getattr(tale, name):
                    self._say(f"#{number}: {name} is {row[name]}, its events say {getattr(tale, name)}")
            if row["fence"] < tale.fence:
                self._say(f"#{number}: fence {row['fence']} is below {tale.fence} of its events", 4)

    def _attempts(self) -> None:
        """Attempts of one task follow each other, and in the order of dispatch their fences grow."""
        by_task: dict[int, list[Row]] = {}
        highest = 0
        for row in self.rows("SELECT * FROM attempt ORDER BY id"):
            if row["fence"] <= highest:
                self._say(
                    f"#{row['task_id']} attempt {row['number']}: fence {row['fence']} does not grow, {highest} was before",
                    4,
                )
            highest = max(highest, row["fence"])
            by_task.setdefault(row["task_id"], []).append(row)
        self._fence = max(self._fence, highest)
        for number, attempts in by_task.items():
            numbers = [row["number"] for row in attempts]
            tale = self.tales.get(number, Tale())
            if numbers != list(range(1, tale.attempt + 1)):
                self._say(f"#{number}: attempts {numbers}, its events started {tale.attempt}")
            for before, after in pairwise(attempts):
                late = not self._stepped_back and (before["ended_at"] or "") > after["dispatched_at"]
                if late or before["ended_at"] is None:
                    self._say(
                        f"#{number}: attempts {before['number']} and {after['number']} ran at the same time",
                        4,
                    )
            still = [row["number"] for row in attempts if row["ended_at"] is None]
            if still and tale.state not in ("RUNNING", "PAUSED"):
                self._say(f"#{number}: {tale.state}, yet attempt {still[0]} has not ended", 3)

    def _sequence(self) -> None:
        drawn = next(self.rows("SELECT value FROM sequence WHERE name = 'fence'"), {"value": 0})["value"]
        if drawn < self._fence:
            self._say(f"the fence sequence stands at {drawn}, but {self._fence} was drawn", 4)


def is_no_person(actor: str) -> bool:
    """Is it the engine or a worker that acts?"""
    return actor in ("", "engine") or actor.startswith("worker:")
