"""`demo --check`: judges a demo from its database, the site's ledger and the files it left, and from nothing else.

The standard library alone, and none of the store's code. Knows what must have come of each task from `plan`; what the audit
tells is the business of `stories`. Reads only.
"""

from __future__ import annotations

import base64
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import plan
from .catalogue import orders
from .stories import BUSY, Row, Stories

BLOCK = 1 << 20


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


def examine(database: Path, folder: Path) -> Findings:
    """Judge the demo in `folder` that ran on `database`. Raises `OSError` or `sqlite3.Error` where they can't be read."""
    run = json.loads((folder / plan.RUN_FILE).read_text(encoding="utf-8"))
    uri = f"file:{quote(str(database.resolve()))}?mode=ro"
    anchors = database.with_name(f"{database.name}.anchors")
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)) as connection:
        connection.execute("BEGIN")
        examination = Examination(Stories(connection, anchors), folder, run)
        examination.check()
    examination.findings.problems += _secrets(database, folder)
    return examination.findings


def examine_safely(database: Path, folder: Path) -> Findings:
    """As `examine`; what can't be read at all is a finding too."""
    try:
        return examine(database, folder)
    except (OSError, ValueError, KeyError, sqlite3.Error) as error:
        return Findings([f"{database}: it can't be judged: {type(error).__name__}: {error}"])


def folder_beside(database: Path) -> Path:
    """Where a demo on a named database keeps everything else."""
    return database.with_name(f"{database.name}.demo")


def folder_of(database: Path) -> Path | None:
    """The folder of the demo that ran on this database; None where there is none."""
    places = (folder_beside(database), database.parent)
    return next((each for each in places if (each / plan.RUN_FILE).is_file()), None)


class Examination:
    """One judgement of one snapshot."""

    def __init__(self, stories: Stories, folder: Path, run: Mapping[str, Any]) -> None:
        self.findings = Findings()
        self._stories = stories
        self._rows = stories.rows
        self._folder = folder
        self._run = run

    def check(self) -> None:
        """Everything that the database and the ledger tell."""
        self.findings.problems += self._stories.check()
        self.findings.events = next(self._rows("SELECT count(*) AS n FROM event_log"))["n"]
        self._ends()
        self._inventory()
        self._uploads()
        self._kills()

    def _say(self, problem: str) -> None:
        self.findings.problems.append(problem)

    # ---- tasks ---------------------------------------------------------------------------------------------------

    def _ends(self) -> None:
        rows = {row["idempotency_key"]: row for row in self._rows("SELECT * FROM task ORDER BY id")}
        planned = {each.key: each for each in plan.in_order(chaos=self._run["chaos"])}
        for key in sorted(planned.keys() - rows.keys()):
            self._say(f"{key}: the task is missing")
        for key in rows.keys() - planned.keys():
            self._say(f"#{rows[key]['id']}: nobody planned it")
        lines: dict[str, Line] = {}
        for key, each in planned.items():
            line = lines.setdefault(each.kind, Line(each.kind, expected=each.end))
            if key in rows:
                self._end(each, rows[key], line)
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
        natures = {each["id"]: each["nature"] for each in self._world().get("proxies", ())}
        for row in self._rows(
            "SELECT route_id AS id, score, exit_ip, expected_ip, last_error_type AS last_error,"
            " (SELECT state FROM route_slot s WHERE s.route_id = route.route_id ORDER BY number LIMIT 1) AS state"
            " FROM route JOIN route_health USING (route_id) WHERE removed_at IS NULL ORDER BY route_id"
        ):
            route = {**row, "nature": natures.get(row["id"], ""), "leases": leases[row["id"]]}
            self.findings.routes.append(route)
            self._route(route)
        if len(self.findings.routes) != len(natures):
            self._say(f"{len(natures)} proxies were announced, {len(self.findings.routes)} routes are known")

    def _route(self, route: Row) -> None:
        if (why := plan.NEVER_LEASED.get(route["id"])) is None:
            return
        if route["leases"]:
            self._say(f"route {route['id']}: leased {route['leases']} times, although {why}")
        if route["state"] in ("AVAILABLE", *BUSY):
            self._say(f"route {route['id']}: {route['state']}, although {why}")

    def _world(self) -> Mapping[str, Any]:
        path = self._folder / plan.WORLD_FILE
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    # ---- uploads -------------------------------------------------------------------------------------------------

    def _uploads(self) -> None:
        expected = {each["order_id"]: each for each in orders()}
        ledger = self._folder / Path(self._world().get("ledger", "ledger.jsonl")).name  # a copy has its own
        seen = Counter[str]()
        for number, record in _ledger(ledger):
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
        for row in self._rows("SELECT * FROM operation WHERE state <> 'DONE'"):
            self._say(f"operation {row['operation_key']!r} of #{row['task_id']}: {row['state']}, not DONE")

    # ---- kills ---------------------------------------------------------------------------------------------------

    def _kills(self) -> None:
        """Each kill that was reported is in the audit; under chaos there were enough, each of another process."""
        self.findings.kills = list(self._run.get("kills", ()))
        lost = {
            json.loads(row["payload_json"] or "{}").get("pid")
            for row in self._rows(
                "SELECT * FROM event_log WHERE event_type IN ('WORKER_LOST', 'ENGINE_LOST')"
            )
        }
        for kill in self.findings.kills:
            if kill["pid"] not in lost:
                self._say(f"{kill['what']} {kill['pid']} was killed, and no event tells of it")
        if not self._run["chaos"]:
            return
        for what, least in plan.LEAST_KILLS.items():
            pids = {kill["pid"] for kill in self.findings.kills if kill["what"] == what}
            if len(pids) < least:
                self._say(f"chaos killed {len(pids)} {what}s, at least {least} were meant to die")
        if not any(kill["how"] == plan.FAULT_POINT for kill in self.findings.kills):
            self._say("nothing died between a request and its record")


def _ledger(path: Path) -> Iterator[tuple[int, Row]]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        yield number, json.loads(line)


# ---- secrets ----------------------------------------------------------------------------------------------------------


def _secrets(database: Path, folder: Path) -> list[str]:
    """Each file of the demo, its database and its logs in which a proxy's password stands, in any of its spellings."""
    spellings = _spellings(folder)
    hidden = folder / plan.SECRETS
    files = {path for path in folder.rglob("*") if path.is_file() and hidden not in path.parents}
    files |= {path for path in database.parent.glob(f"{database.name}*") if path.is_file()}
    return [
        f"{path}: the password of {name} stands in it"
        for path in sorted(files)
        for name in _found(path, spellings)
    ]


def _spellings(folder: Path) -> dict[str, list[bytes]]:
    """By route: its password plainly, percent-encoded, and as a proxy is sent it."""
    found: dict[str, list[bytes]] = {}
    world = folder / plan.WORLD_FILE
    for each in json.loads(world.read_text(encoding="utf-8"))["proxies"] if world.exists() else ():
        if each.get("password_file"):
            password = (
                (folder / plan.SECRETS / Path(each["password_file"]).name).read_text(encoding="utf-8").strip()
            )
            login = base64.b64encode(f"{each['username']}:{password}".encode())
            found[each["id"]] = [password.encode(), quote(password, safe="").encode(), login]
    return found


def _found(path: Path, spellings: Mapping[str, Iterable[bytes]]) -> set[str]:
    longest = max((len(each) for many in spellings.values() for each in many), default=0)
    found: set[str] = set()
    rest = b""
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            window = rest + block
            found |= {name for name, many in spellings.items() if any(each in window for each in many)}
            rest = window[-longest:]
    return found
