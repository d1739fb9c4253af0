"""The replay check: rebuilds every task from `event_log` alone and compares with what the tables say.

Shares no code with the engine or its store (standard library only; its own table of moves, its own hash), so that a mistake
there can't hide here. Reads in one read-only transaction, also while an engine works. Changes nothing.

usage: python -m tests.replay DB        prints one problem a line; exit 0 = the database tells one consistent story, 1 = not
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

FINAL = {"SUCCESS", "FAILED", "DEAD", "CANCELLED"}
"""What the engine never leaves."""

MOVES = {  # typed from the task table of the domain page
    ("PENDING", "RUNNING"): "dispatched",
    ("PENDING", "PAUSED"): "user_pause blocked_by_alert",
    ("PENDING", "CANCELLED"): "user_cancel upstream_failed expired superseded",
    ("RUNNING", "SUCCESS"): "done",
    ("RUNNING", "FAILED"): "fatal_error invalid_payload check_failed",
    ("RUNNING", "RETRYING"): "retryable_error delayed_error timeout lease_expired",
    ("RUNNING", "NEEDS_REVIEW"): "retries_exhausted resource_faults_exhausted worker_lost in_doubt",
    ("RUNNING", "DEAD"): "retries_exhausted",
    ("RUNNING", "PAUSED"): "user_pause",
    ("RUNNING", "CANCELLED"): "user_cancel expired",
    ("RUNNING", "LOST"): "worker_lost",
    ("RUNNING", "PENDING"): "drained resource_fault",
    ("PAUSED", "RUNNING"): "resumed",
    ("PAUSED", "PENDING"): "user_resume",
    ("PAUSED", "CANCELLED"): "user_cancel",
    ("RETRYING", "RUNNING"): "dispatched",
    ("RETRYING", "PENDING"): "user_retry",
    ("RETRYING", "PAUSED"): "user_pause",
    ("RETRYING", "NEEDS_REVIEW"): "retries_exhausted",
    ("RETRYING", "DEAD"): "retries_exhausted",
    ("RETRYING", "CANCELLED"): "user_cancel expired",
    ("LOST", "RUNNING"): "worker_returned",
    ("LOST", "PENDING"): "taken_over",
    ("LOST", "RETRYING"): "taken_over",
    ("LOST", "NEEDS_REVIEW"): "retries_exhausted",
    ("LOST", "DEAD"): "retries_exhausted",
    ("LOST", "CANCELLED"): "user_cancel",
    ("NEEDS_REVIEW", "PENDING"): "user_retry",
    ("NEEDS_REVIEW", "DEAD"): "user_discard",
    ("NEEDS_REVIEW", "CANCELLED"): "user_cancel",
    ("FAILED", "PENDING"): "user_retry",
    ("DEAD", "PENDING"): "user_retry",
    ("CANCELLED", "PENDING"): "user_retry",
}

HASHED = (
    *("event_id", "task_id", "resource_id", "route_id", "worker_id", "event_type", "level", "reason"),
    *("actor", "message", "payload_json", "created_at"),
)
"""The columns under an event's hash, in their order."""

BY_HOLDER = {"CHECKPOINT_SAVED", "STEP_STARTED", "STEP_SUCCEEDED", "STEP_NOT_DONE"}
"""What only the attempt that holds the task may write; where the event names a fence, it must be that attempt's."""

Row = Mapping[str, Any]


@dataclass
class Claim:
    """One dispatch as its event tells it."""

    number: int
    fence: int
    worker: int
    at: str


@dataclass
class Story:
    """A task as its events tell it."""

    state: str
    reason: str = "created"
    attempt: int = 0
    fence: int = 0
    holder: Claim | None = None
    checkpoint: int = 0
    last_at: str = ""
    moved_at: str = ""
    ended: int = 0
    finishes: int = 0
    claims: list[Claim] = field(default_factory=list)
    ends: set[str] = field(default_factory=set)
    """When an attempt of it may have ended: at each move, and where a suspended attempt was lost."""


def check(path: str | Path) -> list[str]:
    """All that is wrong with the database at `path`, each naming its row; empty = all is well."""
    uri = f"file:{quote(str(Path(path).resolve()))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")
        return Replay(connection).run()


class Replay:
    """One check of one snapshot."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._problems: list[str] = []
        self._stories: dict[int, Story] = {}
        self._highest_fence = 0
        self._held: dict[tuple[str, int], int] = {}
        """Fence by slot of a resource or route, as the events tell."""
        self._done: Counter[tuple[int, str]] = Counter()
        """How often each operation was recorded as done: by (fence, key)."""

    def run(self) -> list[str]:
        self._chain()
        for event in self._rows("SELECT * FROM event_log ORDER BY event_id"):
            self._event(event)
        self._tasks()
        self._attempts()
        self._fences()
        self._checkpoints()
        self._operations()
        self._rollbacks()
        self._slots()
        return self._problems

    def _rows(self, sql: str) -> Iterable[Row]:
        return (dict(row) for row in self._connection.execute(sql))

    def _say(self, problem: str) -> None:
        self._problems.append(problem)

    # ---- the chain -----------------------------------------------------------------------------------------------

    def _chain(self) -> None:
        last, previous = 0, ""
        for event in self._rows("SELECT * FROM event_log ORDER BY event_id"):
            number = event["event_id"]
            if number != last + 1:
                self._say(f"event {last + 1}: missing, the next one is {number}")
            text = json.dumps([event[name] for name in HASHED], ensure_ascii=False, separators=(",", ":"))
            if hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest() != event["hash"]:
                self._say(f"event {number}: its hash does not follow from it and the one before")
            last, previous = number, event["hash"]
        count = self._connection.execute("SELECT count(*) FROM event_log").fetchone()[0]
        head = self._connection.execute("SELECT event_id, count, hash FROM event_head").fetchall()
        if [tuple(row) for row in head] != [(last, count, previous)]:
            self._say(
                f"event_head: it says {[tuple(row)[:2] for row in head]}, the chain ends at {(last, count)}"
            )

    # ---- slots: invariant 1 --------------------------------------------------------------------------------------

    def _slot(self, event: Row) -> None:
        """A slot of a resource or route is leased by one attempt at a time, and released under the fence that took it."""
        name = event["resource_id"] or event["route_id"]
        if event["event_type"] not in ("RESOURCE_LEASED", "RESOURCE_RELEASED"):
            return
        payload = json.loads(event["payload_json"] or "{}")
        slot, fence = (str(name), payload.get("slot", 1)), payload.get("fence")
        where = f"event {event['event_id']} ({name}, slot {slot[1]})"
        if event["event_type"] == "RESOURCE_LEASED":
            if slot in self._held:
                self._say(f"{where}: leased under fence {fence} while fence {self._held[slot]} holds it")
            self._held[slot] = fence
        elif self._held.pop(slot, None) != fence:
            self._say(f"{where}: released under fence {fence}, which did not hold it")

    def _slots(self) -> None:
        """The tables hold what the events say is held, and no slot outlives its attempt."""
        open_fences = {row["fence"] for row in self._rows("SELECT fence FROM attempt WHERE ended_at IS NULL")}
        tables = {}
        for parent in ("resource", "route"):
            sql = f"SELECT {parent}_id AS name, number, fence FROM {parent}_slot WHERE task_id IS NOT NULL"
            tables |= {(row["name"], row["number"]): row["fence"] for row in self._rows(sql)}
        if tables != self._held:
            self._say(f"slots: the tables hold {tables}, the events say {self._held}")
        for slot, fence in tables.items():
            if fence not in open_fences:
                self._say(f"slot {slot[0]}/{slot[1]}: held under fence {fence}, whose attempt has ended")

    # ---- events → stories ----------------------------------------------------------------------------------------

    def _event(self, event: Row) -> None:
        self._slot(event)
        task_id = event["task_id"]
        if task_id is None:
            return
        where = f"event {event['event_id']} (#{task_id} {event['event_type']})"
        story = self._stories.get(task_id)
        if event["event_type"] == "TASK_CREATED":
            if story is not None:
                self._say(f"{where}: the task was created before")
                return
            self._stories[task_id] = Story(
                "PENDING", last_at=event["created_at"], moved_at=event["created_at"]
            )
            return
        if story is None:
            self._say(f"{where}: the task was never created")
            story = self._stories[task_id] = Story("PENDING")
        if event["created_at"] < story.last_at:
            self._say(f"{where}: at {event['created_at']}, before the event before it ({story.last_at})")
        story.last_at = event["created_at"]
        self._tell(where, story, event)

    def _tell(self, where: str, story: Story, event: Row) -> None:
        try:
            payload = json.loads(event["payload_json"] or "{}")
        except ValueError:
            self._say(f"{where}: its payload is no JSON")
            return
        if event["event_type"] == "TASK_STATE":
            self._move(where, story, event, payload)
        elif event["event_type"] == "TASK_FINISHED":
            story.finishes += 1
            if payload.get("state") != story.state or story.state not in FINAL:
                self._say(f"{where}: it says {payload.get('state')}, the task is {story.state}")
        elif event["event_type"] in ("ATTEMPT_LOST", "ATTEMPT_STOPPED"):
            story.ends.add(event["created_at"])
            story.holder = None
        elif event["event_type"] == "OPERATOR_OPERATION":
            self._done[(payload["fence"], payload["key"])] += event["reason"] == "done"
        elif event["event_type"] == "STEP_UNDONE":
            self._done[(payload["fence"], payload["key"])] -= payload["was"] == "DONE"
        elif event["event_type"] == "CHECKPOINT_CHOSEN":
            self._checkpoint(where, story, payload)
        elif event["event_type"] in BY_HOLDER and "fence" in payload:
            self._write(where, story, event, payload)

    def _move(self, where: str, story: Story, event: Row, payload: Row) -> None:
        came, to, reason = payload.get("from"), payload.get("to"), event["reason"]
        if came != story.state:
            self._say(f"{where}: it leaves {came}, but the task was {story.state}")
        if reason not in MOVES.get((str(came), str(to)), "").split():
            self._say(f"{where}: {came} may not become {to} ({reason})")
        if (came in FINAL or str(reason).startswith("user_")) and not _is_a_person(event["actor"]):
            self._say(f"{where}: {reason} is a person's act, not {event['actor']}'s")
        if reason == "dispatched":
            self._claim(where, story, event, payload)
        else:
            self._keep(where, story, payload)
        if to not in ("RUNNING", "PAUSED"):
            story.holder = None
        story.state, story.reason = str(to), str(reason)
        story.ended += to in FINAL
        story.moved_at = event["created_at"]
        story.ends.add(event["created_at"])

    def _claim(self, where: str, story: Story, event: Row, payload: Row) -> None:
        number, fence, worker = payload.get("attempt"), payload.get("fence"), payload.get("worker")
        if number != story.attempt + 1:
            self._say(f"{where}: attempt {number} follows attempt {story.attempt}")
        if not isinstance(fence, int) or fence <= max(self._highest_fence, story.fence):
            self._say(f"{where}: fence {fence} is not above all before it ({self._highest_fence})")
            fence = story.fence
        if worker is None or worker != event["worker_id"]:
            self._say(f"{where}: worker {worker} in it, worker {event['worker_id']} on it")
        story.attempt += 1
        story.fence = fence
        story.holder = Claim(story.attempt, fence, worker or 0, event["created_at"])
        story.claims.append(story.holder)
        self._highest_fence = max(self._highest_fence, fence)

    def _keep(self, where: str, story: Story, payload: Row) -> None:
        """A move that starts nothing: same attempt, a fence that stays or grows."""
        fence = payload.get("fence")
        if payload.get("attempt") != story.attempt:
            self._say(f"{where}: it speaks of attempt {payload.get('attempt')}, the last was {story.attempt}")
        if not isinstance(fence, int) or fence < story.fence:
            self._say(f"{where}: fence {fence} is below the task's {story.fence}")
            return
        if fence != story.fence:
            story.holder = None
        story.fence = fence
        self._highest_fence = max(self._highest_fence, fence)

    def _write(self, where: str, story: Story, event: Row, payload: Row) -> None:
        holder = story.holder
        if story.state not in ("RUNNING", "PAUSED") or holder is None or payload["fence"] != holder.fence:
            self._say(f"{where}: written under fence {payload['fence']}, which does not hold the task")
        elif event["worker_id"] != holder.worker:
            self._say(f"{where}: written by worker {event['worker_id']}, held by worker {holder.worker}")
        if event["event_type"] == "CHECKPOINT_SAVED":
            self._checkpoint(where, story, payload)
        elif event["event_type"] == "STEP_SUCCEEDED" and "key" in payload:
            self._done[(payload["fence"], payload["key"])] += 1

    def _checkpoint(self, where: str, story: Story, payload: Row) -> None:
        if payload.get("seq") != story.checkpoint + 1:
            self._say(f"{where}: checkpoint {payload.get('seq')} follows checkpoint {story.checkpoint}")
        story.checkpoint += 1

    # ---- stories against tables ----------------------------------------------------------------------------------

    def _tasks(self) -> None:
        rows = {row["id"]: row for row in self._rows("SELECT * FROM task ORDER BY id")}
        for task_id in self._stories.keys() - rows.keys():
            self._say(f"task #{task_id}: it has events and no row")
        for task_id, row in rows.items():
            story = self._stories.get(task_id)
            if story is None:
                self._say(f"task #{task_id}: it has a row and no events")
            else:
                self._task(f"task #{task_id}", row, story)

    def _task(self, where: str, row: Row, story: Story) -> None:
        for name in ("state", "reason", "attempt"):
            if row[name] != getattr(story, name):
                self._say(f"{where}: {name} is {row[name]}, its events say {getattr(story, name)}")
        if story.ended != story.finishes:
            self._say(f"{where}: it ended {story.ended} times, {story.finishes} TASK_FINISHED")
        if row["fence"] < story.fence:
            self._say(f"{where}: fence {row['fence']} is below {story.fence} of its events")
        finished_at = story.moved_at if story.state in FINAL else None
        if row["state"] == story.state and row["finished_at"] != finished_at:
            self._say(f"{where}: finished_at is {row['finished_at']}, its events say {finished_at}")
        if row["state"] not in ("RUNNING", "PAUSED") and row["worker_id"] is not None:
            self._say(f"{where}: {row['state']}, yet held by worker {row['worker_id']}")

    def _attempts(self) -> None:
        by_task: dict[int, list[Row]] = {}
        for row in self._rows("SELECT * FROM attempt ORDER BY task_id, number"):
            by_task.setdefault(row["task_id"], []).append(row)
        tasks = {row["id"]: row for row in self._rows("SELECT id, state, fence, worker_id FROM task")}
        alive = {row["id"] for row in self._rows("SELECT id FROM worker WHERE ended_at IS NULL")}
        for task_id in sorted(self._stories.keys() | by_task.keys()):
            attempts = by_task.get(task_id, [])
            story = self._stories.get(task_id, Story("PENDING"))
            self._compare(task_id, attempts, story)
            self._overlaps(task_id, attempts)
            if task_id in tasks:
                self._holding(tasks[task_id], [row for row in attempts if row["ended_at"] is None], alive)

    def _compare(self, task_id: int, attempts: list[Row], story: Story) -> None:
        numbers = [row["number"] for row in attempts]
        if numbers != list(range(1, len(story.claims) + 1)):
            self._say(
                f"task #{task_id}: attempts {numbers} in the table, {len(story.claims)} dispatches in its events"
            )
            return
        for row, claim in zip(attempts, story.claims, strict=True):
            where = f"attempt {row['id']} (#{task_id} number {row['number']})"
            for name, found, told in (
                ("fence", row["fence"], claim.fence),
                ("worker", row["worker_id"], claim.worker),
                ("dispatched_at", row["dispatched_at"], claim.at),
            ):
                if found != told:
                    self._say(f"{where}: {name} is {found}, its event says {told}")
            if row["ended_at"] is not None and row["ended_at"] not in story.ends:
                self._say(f"{where}: it ended at {row['ended_at']} and no event tells of it")

    def _overlaps(self, task_id: int, attempts: list[Row]) -> None:
        for before, after in pairwise(attempts):
            if before["ended_at"] is None or before["ended_at"] > after["dispatched_at"]:
                self._say(
                    f"attempt {after['id']} (#{task_id} number {after['number']}): it began at {after['dispatched_at']},"
                    f" while number {before['number']} ran until {before['ended_at'] or 'now'}"
                )

    def _holding(self, task: Row, open_attempts: list[Row], alive: set[int]) -> None:
        """Who holds a task has its one open attempt on a worker that is not known to have ended; nobody else has one."""
        held = task["state"] == "RUNNING" or (task["state"] == "PAUSED" and task["worker_id"] is not None)
        where = f"task #{task['id']}"
        if not held:
            for row in open_attempts:
                self._say(
                    f"{where}: {task['state']}, yet attempt {row['id']} (number {row['number']}) is open"
                )
            return
        found = [(row["fence"], row["worker_id"]) for row in open_attempts]
        if found != [(task["fence"], task["worker_id"])]:
            self._say(f"{where}: {task['state']}, its open attempts are {found} (fence, worker)")
        if task["worker_id"] not in alive:
            self._say(f"{where}: {task['state']} on worker {task['worker_id']}, which has ended")

    def _fences(self) -> None:
        fences = Counter(row["fence"] for row in self._rows("SELECT fence FROM attempt"))
        for fence in (fence for fence, count in fences.items() if count > 1):
            self._say(f"attempts with fence {fence}: there are {fences[fence]}")
        drawn = self._connection.execute("SELECT value FROM sequence WHERE name = 'fence'").fetchone()
        highest = max(self._highest_fence, *fences, 0)
        if drawn is None or drawn[0] < highest:
            self._say(f"sequence fence: {drawn and drawn[0]}, but {highest} was drawn already")

    def _checkpoints(self) -> None:
        kept: dict[int, list[int]] = {}
        for row in self._rows("SELECT task_id, seq FROM checkpoint ORDER BY task_id, seq"):
            kept.setdefault(row["task_id"], []).append(row["seq"])
        for task_id, story in self._stories.items():
            found = kept.get(task_id, [])
            if found != list(range(story.checkpoint - len(found) + 1, story.checkpoint + 1)) or (
                story.checkpoint and not found
            ):
                self._say(
                    f"task #{task_id}: checkpoints {found} are kept, its events saved up to {story.checkpoint}"
                )

    def _operations(self) -> None:
        """DONE has exactly one STEP_SUCCEEDED of the attempt that did it, or one word of a person; nothing else has one."""
        done: Counter[tuple[int, str]] = Counter()
        rows = list(self._rows("SELECT * FROM operation"))
        for row in rows:
            if row["state"] == "DONE":
                done[(row["fence"], row["operation_key"])] += 1
        names = {
            (row["fence"], row["operation_key"]): f"operation {row['id']} (#{row['task_id']})" for row in rows
        }
        for fence, key in sorted(done.keys() | self._done.keys()):
            recorded, told = done[(fence, key)], self._done[(fence, key)]
            if recorded != told:
                name = names.get((fence, key), "operation")
                self._say(f"{name} {key!r} under fence {fence}: done {recorded} times, {told} STEP_SUCCEEDED")

    def _rollbacks(self) -> None:
        """Nothing ends without success while something is left to undo, and no end is held for nothing."""
        for row in self._rows(
            "SELECT id, state, ending, (SELECT count(*) FROM rollback_step WHERE task_id = task.id"
            " AND rollback_step.state = 'REGISTERED') AS steps FROM task"
        ):
            if row["state"] in FINAL - {"SUCCESS"} and row["steps"]:
                self._say(f"task #{row['id']}: {row['state']}, yet {row['steps']} steps are not rolled back")
            if row["state"] in FINAL and row["ending"] is not None:
                self._say(f"task #{row['id']}: {row['state']}, yet an end is held for it")


def _is_a_person(actor: str) -> bool:
    return actor not in ("", "engine") and not actor.startswith("worker:")


def main(arguments: list[str]) -> int:
    """Print the problems of one database."""
    if len(arguments) != 1 or not Path(arguments[0]).exists():
        print("usage: python -m tests.replay DB (an existing database)", file=sys.stderr)
        return 2
    problems = check(arguments[0])
    print("\n".join(problems) or "one consistent story")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
