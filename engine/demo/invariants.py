"""The nine things that are always true, each judged from a database that nobody works on any more.

The standard library alone, and none of the store's code: `stories` rebuilds everything from the audit, here stands what the
tables, the outside world and whoever used the database know beside it. Reads only.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from .holdings import Row, readable, rows
from .stories import ENDS, Stories

INVARIANTS = {
    1: "a slot of a resource or route is held by one attempt at a time",
    2: "each change of state has exactly one event, and the chain of events is whole",
    3: "no committed task is lost: each has ended, or waits for a person",
    4: "a stale worker changes nothing",
    5: "an operation's effect is recorded once, and doubt is shown",
    6: "one occurrence makes at most one task",
    7: "no secret is stored or shown",
    8: "the engine never leaves SUCCESS, FAILED, DEAD, CANCELLED",
    9: "two engines never work on one database",
}
"""The law, as the domain has it."""

AT_REST = (*ENDS, "NEEDS_REVIEW")
"""Where a task may be when nobody works any more."""


@dataclass
class Outside:
    """What is known without the database; whatever is empty is not judged."""

    acknowledged: Mapping[str, int] = field(default_factory=dict)
    """Each key that somebody was told a task for, and that task."""
    effects: Iterable[str] | None = None
    """The key of each business effect, as often as it happened; None = nobody counted."""
    at_rest: tuple[str, ...] = AT_REST
    """The states in which tasks may be."""
    told: Iterable[tuple[int, str]] = ()
    """Problems that others saw, with the invariant that each breaks."""


@dataclass
class Verdicts:
    """What was found: the problems by invariant, and how much was judged."""

    problems: dict[int, list[str]] = field(default_factory=lambda: {number: [] for number in INVARIANTS})
    tasks: dict[str, int] = field(default_factory=dict)
    """How many tasks are in which state."""
    events: int = 0
    attempts: int = 0
    operations: int = 0

    @property
    def hold(self) -> bool:
        """Do all nine hold?"""
        return not any(self.problems.values())

    def say(self, problem: str, invariant: int = 2) -> None:
        """Note a problem."""
        self.problems[invariant].append(problem)


def judge(database: Path, outside: Outside | None = None) -> Verdicts:
    """Judge a database that no engine works on. What can't be read at all is a problem too."""
    verdicts = Verdicts()
    uri = f"file:{quote(str(database.resolve()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)) as connection:
            connection.text_factory = readable
            connection.execute("BEGIN")
            _Judgement(connection, database, outside or Outside(), verdicts).run()
    except (OSError, sqlite3.Error) as error:
        verdicts.say(f"{database}: it can't be judged: {type(error).__name__}: {error}", 3)
    return verdicts


class _Judgement:
    """One judgement of one snapshot."""

    def __init__(
        self, connection: sqlite3.Connection, database: Path, outside: Outside, verdicts: Verdicts
    ) -> None:
        self._connection = connection
        self._outside = outside
        self._verdicts = verdicts
        self._say = verdicts.say
        self._stories = Stories(connection, database.with_name(f"{database.name}.anchors"), verdicts.say)
        self._rows = partial(rows, connection)

    def run(self) -> None:
        """All nine; a part that is too damaged to be judged is a problem, and the rest is judged all the same."""
        for problem_of, problem in self._outside.told:
            self._say(problem, problem_of)
        self._stories.check()
        part = self._stories.part
        part("the counts", self._count)
        part("the tasks at rest", self._at_rest)
        part("what was acknowledged", self._acknowledged)
        part("the operations", self._operations)
        part("the effects", self._effects)
        part("the occurrences", self._occurrences)
        part("the engines", self._engines)

    def _count(self) -> None:
        for row in self._rows("SELECT state, count(*) AS n FROM task GROUP BY state ORDER BY state"):
            self._verdicts.tasks[row["state"]] = row["n"]
        for name, table in (("events", "event_log"), ("attempts", "attempt"), ("operations", "operation")):
            setattr(self._verdicts, name, next(self._rows(f"SELECT count(*) AS n FROM {table}"))["n"])

    # ---- 3: nothing is lost --------------------------------------------------------------------------------------

    def _at_rest(self) -> None:
        for row in self._rows("SELECT id, state, reason, worker_id FROM task ORDER BY id"):
            if row["state"] not in self._outside.at_rest:
                self._say(
                    f"#{row['id']}: nobody works any more, and it is {row['state']} ({row['reason']})", 3
                )
            if row["state"] in AT_REST and row["worker_id"] is not None:
                self._say(f"#{row['id']}: {row['state']}, yet worker {row['worker_id']} holds it", 3)
        for row in self._rows("SELECT id, task_id FROM attempt WHERE ended_at IS NULL"):
            self._say(f"#{row['task_id']}: nobody works any more, and its attempt {row['id']} is open", 3)

    def _acknowledged(self) -> None:
        known = {row["idempotency_key"]: row["id"] for row in self._rows("SELECT * FROM task")}
        for key, number in self._outside.acknowledged.items():
            if key not in known:
                self._say(f"#{number} ({key}): it was acknowledged, and is not there", 3)
            elif known[key] != number:
                self._say(f"{key}: it was acknowledged as #{number}, and is #{known[key]}", 6)

    # ---- 5: once, or in doubt ------------------------------------------------------------------------------------

    def _operations(self) -> None:
        """DONE has one STEP_SUCCEEDED of its attempt or one word of a person, nothing else has; doubt has its event."""
        told = Counter[tuple[int, str]]()
        doubted: set[tuple[int, str]] = set()
        for event in self._rows(
            "SELECT * FROM event_log WHERE event_type IN"
            " ('STEP_SUCCEEDED','STEP_UNDONE','OPERATOR_OPERATION','OPERATION_IN_DOUBT')"
        ):
            payload = json.loads(event["payload_json"] or "{}")
            if event["event_type"] == "OPERATION_IN_DOUBT":
                doubted.add((event["task_id"], str(payload.get("key"))))
            elif "key" in payload:
                told[payload["fence"], payload["key"]] += _done(event, payload)
        for row in self._rows("SELECT * FROM operation ORDER BY id"):
            self._operation(row, told.pop((row["fence"], row["operation_key"]), 0), doubted)
        for fence, key in +told:
            self._say(f"operation {key!r}: done under fence {fence} by an event, and no row says so", 5)

    def _operation(self, row: Row, told: int, doubted: set[tuple[int, str]]) -> None:
        where = f"operation {row['operation_key']!r} of #{row['task_id']}"
        if row["state"] == "DONE" and told != 1:
            self._say(f"{where}: DONE, and {told} events tell of that", 5)
        if row["state"] != "DONE" and told:
            self._say(f"{where}: {row['state']}, though an event says that it is done", 5)
        if row["state"] == "BEGUN":
            self._say(f"{where}: begun, nobody works any more, and no doubt is shown", 5)
        if row["state"] == "IN_DOUBT" and (row["task_id"], row["operation_key"]) not in doubted:
            self._say(f"{where}: in doubt, and no event tells of it", 5)

    def _effects(self) -> None:
        """What happened outside, against what is recorded: never twice, and never with a wrong word about it."""
        if self._outside.effects is None:
            return
        happened = Counter(self._outside.effects)
        recorded = {row["operation_key"]: row["state"] for row in self._rows("SELECT * FROM operation")}
        for key, times in happened.items():
            if times > 1:
                self._say(f"effect {key!r}: it happened {times} times", 5)
            if recorded.get(key) not in ("DONE", "IN_DOUBT"):
                self._say(
                    f"effect {key!r}: it happened, and is recorded as {recorded.get(key, 'nothing')}", 5
                )
        for key, state in recorded.items():
            if state == "DONE" and key not in happened:
                self._say(f"operation {key!r}: recorded as done, and it never happened", 5)

    # ---- 6: occurrences ------------------------------------------------------------------------------------------

    def _occurrences(self) -> None:
        for row in self._rows(
            "SELECT idempotency_key AS occurrence, group_concat('#' || id, ' and ') AS tasks FROM task"
            " WHERE idempotency_key IS NOT NULL GROUP BY idempotency_key HAVING count(*) > 1"
        ):
            self._say(f"{row['occurrence']}: it made {row['tasks']}", 6)

    # ---- 9: one engine -------------------------------------------------------------------------------------------

    def _engines(self) -> None:
        """Engines follow each other: each ends once, and starts no worker after the next one has begun."""
        for row in self._rows("SELECT id, pid FROM engine WHERE ended_at IS NULL"):
            self._say(f"engine {row['id']} (pid {row['pid']}): at the end it still counts as alive", 9)
        for before, after in pairwise(self._rows("SELECT id, engine_id FROM worker ORDER BY id")):
            if after["engine_id"] < before["engine_id"]:
                self._say(
                    f"worker {after['id']}: engine {after['engine_id']} started it, after another had begun",
                    9,
                )
        self._lives()

    def _lives(self) -> None:
        """Once another engine has begun, the one before does nothing more: its end is told by others, and once."""
        told = Counter[str]()
        alive: list[str] = []
        for event in self._rows("SELECT * FROM event_log WHERE event_type LIKE 'ENGINE%' ORDER BY event_id"):
            name, where = _engine_of(event), f"event {event['event_id']}"
            if event["event_type"] == "ENGINE_STARTED":
                alive.append(name)
            elif event["event_type"] in ("ENGINE_LOST", "ENGINE_STOPPED"):
                told[name] += 1
                if name in alive[:-1] and event["event_type"] == "ENGINE_STOPPED":
                    self._say(f"{where}: {name} stops, and {alive[-1]} has begun before", 9)
                alive = [each for each in alive if each != name]
        for name, count in told.items():
            if count > 1:
                self._say(f"{name}: its end is told {count} times", 9)


def _engine_of(event: Row) -> str:
    """`engine 7`, as every message of an engine's life begins."""
    return " ".join(event["message"].split(",")[0].split()[:2])


def _done(event: Row, payload: Row) -> int:
    """By how much an event changes how often an operation is done."""
    if event["event_type"] == "STEP_UNDONE":
        return -int(payload.get("was") == "DONE")
    return int(event["event_type"] == "STEP_SUCCEEDED" or event["reason"] == "done")
