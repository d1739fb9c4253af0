"""`demo --check`: judges a demo from its database, the site's ledger and the files it left, and from nothing else.

The standard library alone, and none of the store's code. Knows what must have come of each task from `plan`; what the audit
tells is the business of `stories` and `holdings`, what came of the tasks otherwise that of `outcomes`. Reads only, and never
stumbles: what is damaged beyond reading is a finding of its own, and the rest is still judged.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import plan
from .catalogue import orders
from .holdings import BUSY, Row, readable
from .outcomes import Outcomes
from .passwords import Passwords
from .stories import Stories

NOTED = {plan.RUN_FILE: {"chaos": bool, "kills": list}, plan.WORLD_FILE: {"proxies": list, "ledger": str}}
"""What must stand in the demo's own notes."""
FULL = re.compile(rb"no space left on device|disk (is )?full|disk_full|disk quota exceeded", re.IGNORECASE)
"""How a full disk is told of by the system, by SQLite and by the engine."""


@dataclass
class Line:
    """One kind of task in the summary."""

    kind: str
    count: int = 0
    expected: str = ""
    seen: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    retries: int = 0


@dataclass
class Findings:
    """What was found: the summary, and every problem in words. Without a problem the demo has proved itself."""

    problems: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    routes: list[Row] = field(default_factory=list)
    """Each with id, nature, state, score, exit_ip, leases and last_error."""
    resources: list[Row] = field(default_factory=list)
    """Each with id, state and leases."""
    uploads_expected: int = 0
    uploads_seen: int = 0
    uploads_duplicated: int = 0
    events: int = 0
    kills: list[Row] = field(default_factory=list)
    """What chaos killed: what, pid, how."""


def examine(database: Path, folder: Path, *known: str) -> Findings:
    """Judge the demo in `folder` that ran on `database`; what can't be read at all is a finding too.

    `known`: problems that the caller knows of. They come first; nothing but a full disk comes before them.
    """
    early = [*_full_disk(folder), *known]
    uri = f"file:{quote(str(database.resolve()))}?mode=ro"
    anchors = database.with_name(f"{database.name}.anchors")
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)) as connection:
            connection.text_factory = readable
            connection.execute("BEGIN")
            examination = Examination(connection, anchors, folder)
            examination.check()
        findings = examination.findings
    except (OSError, sqlite3.Error) as error:
        findings = Findings([f"{database}: it can't be judged: {type(error).__name__}: {error}"])
    findings.problems[:0] = early
    findings.problems += Passwords(database, folder).check()
    return findings


def folder_beside(database: Path) -> Path:
    """Where a demo on a named database keeps everything else."""
    return database.with_name(f"{database.name}.demo")


def folder_of(database: Path) -> Path | None:
    """The folder of the demo that ran on this database; None where there is none."""
    if (beside := folder_beside(database)).is_dir():
        return beside
    notes = (database.parent / plan.RUN_FILE, database.parent / plan.WORLD_FILE)
    return database.parent if any(note.is_file() for note in notes) else None


class Examination:
    """One judgement of one snapshot."""

    def __init__(self, connection: sqlite3.Connection, anchors: Path, folder: Path) -> None:
        self.findings = Findings()
        self._stories = Stories(connection, anchors, self._say)
        self._rows = self._stories.rows
        self._folder = folder
        self._found: list[tuple[plan.Planned, Row]] = []
        self._run: Mapping[str, Any] = {}
        self._world: Mapping[str, Any] = {}

    def check(self) -> None:
        """Everything that the database, the ledger and the files tell."""
        self._run, self._world = self._note(plan.RUN_FILE), self._note(plan.WORLD_FILE)
        self._stories.check()
        part = self._stories.part
        part("the audit", self._count)
        part("the tasks", self._ends)
        part("the resources and routes", self._inventory)
        part("the ledger", self._uploads)
        Outcomes(self._stories, self._folder, self._say, self._found).check()
        part("the kills", self._kills)

    def _note(self, name: str) -> Mapping[str, Any]:
        """One of the demo's own notes; empty where it is damaged."""
        try:
            found = json.loads((self._folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            found = type(error).__name__
        if isinstance(found, dict) and all(isinstance(found.get(key), of) for key, of in NOTED[name].items()):
            return found
        self._say(f"{name} is missing or damaged: what it told is taken as if there were nothing")
        return {}

    def _count(self) -> None:
        self.findings.events = next(self._rows("SELECT count(*) AS n FROM event_log"))["n"]

    def _say(self, problem: str, invariant: int = 0) -> None:
        self.findings.problems.append(problem)

    @property
    def _chaos(self) -> bool:
        return bool(self._run.get("chaos"))

    # ---- tasks ---------------------------------------------------------------------------------------------------

    def _ends(self) -> None:
        rows = {row["idempotency_key"]: row for row in self._rows("SELECT * FROM task ORDER BY id")}
        planned = {each.key: each for each in plan.in_order(chaos=self._chaos)}
        for key in sorted(planned.keys() - rows.keys()):
            self._say(f"{key}: the task is missing")
        for key in rows.keys() - planned.keys():
            self._say(f"#{rows[key]['id']}: nobody planned it")
        lines: dict[str, Line] = {}
        for key, each in planned.items():
            line = lines.setdefault(each.kind, Line(each.kind, expected=each.end))
            if key in rows:
                self._found.append((each, rows[key]))
                self._stories.part(key, partial(self._end, each, rows[key], line))
        self.findings.lines = list(lines.values())

    def _end(self, each: plan.Planned, row: Row, line: Line) -> None:
        line.count += 1
        line.seen[row["state"]] = line.seen.get(row["state"], 0) + 1
        line.attempts += row["attempt"]
        line.retries += row["retry_count"]
        where = f"#{row['id']} ({each.key})"
        if row["state"] != each.end:
            self._say(f"{where}: it should be {each.end}, it is {row['state']} ({row['reason']})")
        elif each.reason and row["reason"] != each.reason:
            self._say(f"{where}: {each.end} for {each.reason} was expected, it is for {row['reason']}")
        if row["attempt"] < each.least_attempts:
            self._say(
                f"{where}: {each.least_attempts} attempts at least were expected, there are {row['attempt']}"
            )

    # ---- resources and routes ------------------------------------------------------------------------------------

    def _inventory(self) -> None:
        leases = Counter(
            row["resource_id"] or row["route_id"]
            for row in self._rows("SELECT * FROM event_log WHERE event_type = 'RESOURCE_LEASED'")
        )
        for row in self._rows(
            "SELECT resource_id AS id, state FROM resource JOIN resource_slot USING (resource_id)"
            " WHERE removed_at IS NULL ORDER BY resource_id, number"
        ):
            self.findings.resources.append({**row, "leases": leases[row["id"]]})
        natures = {each["id"]: each["nature"] for each in self._world.get("proxies", ())}
        for row in self._rows(
            "SELECT route_id AS id, score, exit_ip, expected_ip, last_error_type AS last_error,"
            " (SELECT state FROM route_slot s WHERE s.route_id = route.route_id ORDER BY number LIMIT 1) AS state"
            " FROM route JOIN route_health USING (route_id) WHERE removed_at IS NULL ORDER BY route_id"
        ):
            row["state"] = row["state"] or "missing"
            row["score"] = row["score"] if isinstance(row["score"], float) else None
            route = {**row, "nature": natures.get(row["id"], ""), "leases": leases[row["id"]]}
            self.findings.routes.append(route)
            self._route(route)
        browsers = {f"{plan.BROWSER}-{n}": 1 for n in range(1, plan.BROWSERS + 1)}
        self._planned("resource", browsers)
        self._planned("route", dict.fromkeys(natures, plan.ROUTE_SLOTS))

    def _planned(self, kind: str, planned: Mapping[str, int]) -> None:
        """What was configured is there, no more and no less of it."""
        found = {
            row["name"]: row["capacity"]
            for row in self._rows(f"SELECT {kind}_id AS name, capacity FROM {kind} WHERE removed_at IS NULL")
        }
        for name in sorted(planned.keys() - found.keys()):
            self._say(f"{kind} {name} is missing")
        for name in sorted(found.keys() - planned.keys()):
            self._say(f"{kind} {name}: nobody planned it")
        for name in sorted(planned.keys() & found.keys()):
            if planned[name] != found[name]:
                self._say(f"{kind} {name}: it has {found[name]} slots, not {planned[name]}")

    def _route(self, route: Row) -> None:
        if (why := plan.NEVER_LEASED.get(route["id"])) is None:
            return
        if route["leases"]:
            self._say(f"route {route['id']}: leased {route['leases']} times, although {why}")
        if route["state"] in ("AVAILABLE", *BUSY):
            self._say(f"route {route['id']}: {route['state']}, although {why}")

    # ---- uploads -------------------------------------------------------------------------------------------------

    def _uploads(self) -> None:
        expected = {each["order_id"]: each for each in orders()}
        ledger = self._folder / Path(self._world.get("ledger", "ledger.jsonl")).name  # a copy has its own
        seen = Counter[str]()
        for number, record in _ledger(ledger):
            if record is None:
                self._say(f"ledger line {number}: it is torn or no record")
                continue
            row = str(record.get("row"))
            seen[row] += 1
            if row not in expected:
                self._say(f"ledger line {number}: row {row!r} is not in the batch")
            elif record.get("body") != expected[row]:
                self._say(f"ledger line {number}: row {row} arrived, but not as it was sent")
        for row in expected:
            if seen[row] != 1:
                self._say(f"upload {row}: it arrived {seen[row]} times, not once")
        self.findings.uploads_expected = len(expected)
        self.findings.uploads_seen = sum(seen.values())
        self.findings.uploads_duplicated = sum(1 for count in seen.values() if count > 1)

    # ---- kills ---------------------------------------------------------------------------------------------------

    def _kills(self) -> None:
        """Each kill that was reported is in the audit; under chaos there were enough, each of another process."""
        for kill in self._run.get("kills", ()):
            if isinstance(kill, dict) and {"what", "pid", "how"} <= kill.keys():
                self.findings.kills.append(kill)
            else:
                self._say(f"{plan.RUN_FILE}: one of its kills is none")
        lost = {
            json.loads(row["payload_json"] or "{}").get("pid")
            for row in self._rows(
                "SELECT * FROM event_log WHERE event_type IN ('WORKER_LOST', 'ENGINE_LOST')"
            )
        }
        for kill in self.findings.kills:
            if kill["pid"] not in lost:
                self._say(f"{kill['what']} {kill['pid']} was killed, and no event tells of it")
        if not self._chaos:
            return
        for what, least in plan.LEAST_KILLS.items():
            pids = {kill["pid"] for kill in self.findings.kills if kill["what"] == what}
            if len(pids) < least:
                self._say(f"chaos killed {len(pids)} {what}s, at least {least} were meant to die")
        if not any(kill["how"] == plan.FAULT_POINT for kill in self.findings.kills):
            self._say("nothing died between a request and its record")


def _ledger(path: Path) -> Iterator[tuple[int, Row | None]]:
    """Each line by its number; None where it is no record."""
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        yield number, record if isinstance(record, dict) else None


def _full_disk(folder: Path) -> list[str]:
    """What the engine said of a full disk, in the file it wrote to: one sentence, or none."""
    for file in (folder / plan.ENGINE_LOG, folder / "logs" / "engine.log", folder / "world.out"):
        try:
            with file.open("rb") as opened:
                full = any(FULL.search(line) for line in opened)
        except OSError:
            continue
        if full:
            return [
                f"the disk is full (or was): {file.relative_to(folder)} says so; make room, and run it again"
            ]
    return []
