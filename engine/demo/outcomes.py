"""What must have come of the planned tasks beside their state: attempts, leases, operations, results and files.

The standard library alone, and no word of the store. Reads; changes nothing. Each check names what is wrong by `say`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from . import plan
from .catalogue import lists, orders
from .holdings import Row
from .stories import Stories, Tale

LAST_OUTCOMES = {"SUCCESS": ("succeeded",), "FAILED": ("failed",), "NEEDS_REVIEW": ("failed", "lost")}
"""How the last attempt of a task went, by the task's end."""
OUTCOMES = ("succeeded", "failed", "lost", "never_started")


class Outcomes:
    """The planned tasks by their rows, against everything else that is told of them."""

    def __init__(
        self,
        stories: Stories,
        folder: Path,
        say: Callable[[str], None],
        found: Sequence[tuple[plan.Planned, Row]],
    ) -> None:
        self._stories = stories
        self._folder = folder
        self._say = say
        self._found = found
        self._attempts: dict[int, list[Row]] = {}

    def check(self) -> None:
        """Everything; a task that is too damaged is named, and the others are judged."""
        part = self._stories.part
        part("the attempts", self._read_attempts)
        part("the processes", self._processes)
        for each, row in self._found:
            where = f"#{row['id']} ({each.key})"
            part(where, partial(self._went, where, each, row))
            part(where, partial(self._held, where, each, row))
            part(where, partial(self._result, where, each, row))
        part("the operations", self._operations)
        part("the checkpoints", self._checkpoints)
        part("what people asked for", self._asked)
        part("the report", self._report)

    # ---- processes and attempts ----------------------------------------------------------------------------------

    def _read_attempts(self) -> None:
        for row in self._stories.rows("SELECT * FROM attempt ORDER BY task_id, number"):
            self._attempts.setdefault(row["task_id"], []).append(row)

    def _processes(self) -> None:
        """None is left at the end, and each attempt is of one that is known, within the time of the run."""
        for kind in ("engine", "worker"):
            for row in self._stories.rows(f"SELECT * FROM {kind}"):
                if row["ended_at"] is None:
                    self._say(f"{kind} {row['id']} (pid {row['pid']}): at the end it still counts as alive")
                elif row["ended_at"] < row["started_at"]:
                    self._say(f"{kind} {row['id']}: it ended before it started")
                if kind == "worker" and row["state"] not in ("LOST", "ENDED"):
                    self._say(f"worker {row['id']} (pid {row['pid']}): at the end it is {row['state']}")
        workers = {row["id"] for row in self._stories.rows("SELECT id FROM worker")}
        span = next(self._stories.rows("SELECT min(started_at) AS a, max(ended_at) AS z FROM engine"))
        for number, attempts in self._attempts.items():
            for row in attempts:
                self._attempt(f"#{number} attempt {row['number']}", row, workers, span)

    def _attempt(self, where: str, row: Row, workers: set[int], span: Row) -> None:
        if row["worker_id"] not in workers:
            self._say(f"{where}: worker {row['worker_id']} is not known")
        if row["outcome"] not in OUTCOMES:
            self._say(f"{where}: {row['outcome']} is no outcome")
        if row["outcome"] == "succeeded" and row["started_at"] is None:
            self._say(f"{where}: it succeeded, and was never started")
        if row["outcome"] == "never_started" and row["started_at"] is not None:
            self._say(f"{where}: never started, yet it started at {row['started_at']}")
        columns = (span["a"], row["dispatched_at"], row["started_at"], row["ended_at"], span["z"])
        times = [time for time in columns if time is not None]
        if times != sorted(times):
            self._say(f"{where}: its times are not in order, or not within the run")
        reason = self._stories.tales.get(row["task_id"], Tale()).left.get(row["fence"])
        if row["ended_at"] is not None and row["reason"] != reason:
            self._say(f"{where}: it ended for {row['reason']}, the audit says {reason}")

    def _went(self, where: str, each: plan.Planned, row: Row) -> None:
        """The last attempt fits the end, and no attempt before it had succeeded."""
        attempts = self._attempts.get(row["id"], [])
        if not attempts:
            self._say(f"{where}: {row['state']}, and it was never attempted")
            return
        *before, last = attempts
        if (outcomes := LAST_OUTCOMES.get(row["state"])) and last["outcome"] not in outcomes:
            self._say(f"{where}: {row['state']}, but its last attempt {last['outcome']}")
        if row["state"] in LAST_OUTCOMES and last["reason"] != row["reason"]:
            self._say(
                f"{where}: {row['state']} for {row['reason']}, but its last attempt for {last['reason']}"
            )
        for attempt in before:
            if attempt["outcome"] == "succeeded":
                self._say(f"{where}: attempt {attempt['number']} succeeded, and others came after it")
        if row["state"] == "SUCCESS" and row["finished_at"] != last["ended_at"]:
            self._say(f"{where}: SUCCESS at {row['finished_at']}, but its last attempt at {last['ended_at']}")
        if row["state"] == "SUCCESS" and "command" in each.spec and last["exit_code"] != 0:
            self._say(f"{where}: SUCCESS, but its command ended with {last['exit_code']}")
        if row["type"] != (type_ := each.spec.get("type", "shell")):
            self._say(f"{where}: it is a {row['type']}, and was to be a {type_}")

    def _held(self, where: str, each: plan.Planned, row: Row) -> None:
        """What it needs was leased to each of its attempts that ran; nothing is left of a lease of the task itself."""
        leased = self._stories.holdings.leased
        for attempt in self._attempts.get(row["id"], []):
            kinds = {kind for kind, _ in leased.get(attempt["fence"], ())}
            if attempt["started_at"] is not None and (missing := each.leases - kinds):
                self._say(
                    f"{where}: attempt {attempt['number']} ran without its {' and '.join(sorted(missing))}"
                )
        if row["state"] != "RUNNING":
            for column in ("worker_id", "lease_until", "lease_until_boot"):
                if row[column] is not None:
                    self._say(f"{where}: {row['state']}, yet its {column} still tells of a lease")
            if row["wanted"] is not None:
                self._say(f"{where}: {row['state']}, yet somebody still wants to {row['wanted']} it")

    # ---- operations and results ----------------------------------------------------------------------------------

    def _operations(self) -> None:
        """Each upload has its operation, DONE, of the task that had to send it, under a fence of an attempt of it."""
        found = {row["operation_key"]: row for row in self._stories.rows("SELECT * FROM operation")}
        for each, row in self._found:
            if each.spec.get("type") == "demo_upload":
                for order in orders()[each.payload["first"] - 1 : each.payload["last"]]:
                    self._operation(order["order_id"], found.pop(order["order_id"], None), row["id"])
        for key, row in found.items():
            self._say(f"operation {key!r} of #{row['task_id']}: nobody planned it")

    def _checkpoints(self) -> None:
        """Each is of an attempt of its task, under its fence."""
        for row in self._stories.rows("SELECT * FROM checkpoint ORDER BY id"):
            attempts = {attempt["fence"]: attempt["id"] for attempt in self._attempts.get(row["task_id"], ())}
            if attempts.get(row["fence"]) != row["attempt_id"]:
                self._say(
                    f"checkpoint {row['seq']} of #{row['task_id']}: saved under fence {row['fence']}, of no such attempt"
                )

    def _asked(self) -> None:
        """Nothing is held back or waits to be done."""
        for row in self._stories.rows("SELECT scope FROM hold"):
            self._say(f"{row['scope']} is still held back")
        for row in self._stories.rows("SELECT * FROM request WHERE done_at IS NULL"):
            self._say(f"request {row['id']} ({row['verb']}) was never done")

    def _operation(self, key: str, row: Row | None, task_id: int) -> None:
        if row is None:
            self._say(f"upload {key}: it has no operation")
            return
        where = f"operation {key!r} of #{row['task_id']}"
        if row["state"] != "DONE":
            self._say(f"{where}: {row['state']}, not DONE")
        if row["task_id"] != task_id:
            self._say(f"{where}: it was #{task_id} that had to do it")
        attempts = {attempt["fence"]: attempt["id"] for attempt in self._attempts.get(task_id, ())}
        if attempts.get(row["fence"]) != row["attempt_id"]:
            self._say(f"{where}: done under fence {row['fence']}, which is of no such attempt of #{task_id}")
        if row["ended_at"] is None or row["ended_at"] < row["begun_at"]:
            self._say(f"{where}: its end is not behind its beginning")
        result = json.loads(row["result"] or "null")
        if not isinstance(result, dict) or result.get("row") != key:
            self._say(f"{where}: its result is not the site's answer")

    def _result(self, where: str, each: plan.Planned, row: Row) -> None:
        """What a handler returned: how much it did, and for the fetches and the report what lies in the folder."""
        if row["state"] != "SUCCESS":
            return
        result, expected = json.loads(row["result"] or "null"), _expected(each)
        if not isinstance(result, dict | None) or any(
            (result or {}).get(name) != value for name, value in expected.items()
        ):
            self._say(f"{where}: its result is not {json.dumps(expected, ensure_ascii=False)}")
        if each.spec.get("type") == "demo_fetch":
            self._fetched(where, row["id"], each.payload["list"])

    # ---- files ---------------------------------------------------------------------------------------------------

    def _fetched(self, where: str, task_id: int, name: str) -> None:
        file = self._folder / "fetched" / f"{task_id}.json"
        if not file.is_file():
            self._say(f"{where}: fetched/{file.name} is missing")
        elif not _is(file, {"list": name, "items": list(lists()[name])}):
            self._say(f"{where}: fetched/{file.name} is not the list {name} as the site has it")

    def _report(self) -> None:
        file = self._folder / "report.html"
        if not file.is_file():
            self._say("report.html is missing")
            return
        text = file.read_text(encoding="utf-8", errors="replace")
        missing = sum(line not in text for line in _lines())
        if missing or not text.rstrip().endswith("</html>"):
            self._say(f"report.html is not whole: {missing} items are missing in it")


def _expected(each: plan.Planned) -> Mapping[str, Any]:
    payload = each.payload
    if each.spec.get("type") == "demo_fetch":
        return {"list": payload["list"], "items": len(lists()[payload["list"]])}
    if each.spec.get("type") == "demo_upload":
        return {"orders": len(orders()[payload["first"] - 1 : payload["last"]])}
    if each.spec.get("type") == "demo_report":
        return {"items": sum(map(len, lists().values()))}
    return {"status": 200} if each.spec.get("type") == "http" else {}


def _is(file: Path, expected: object) -> bool:
    try:
        return json.loads(file.read_text(encoding="utf-8")) == expected
    except ValueError:
        return False


def _lines() -> Iterator[str]:
    """How each item stands in the report."""
    for items in lists().values():
        for item in items:
            yield "".join(f"<td>{escape(item[name])}</td>" for name in ("name", "note", "price"))
