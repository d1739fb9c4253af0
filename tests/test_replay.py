"""The replay check passes a real story and names the row of every damage done to a copy of it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskdeck.engine.rules.failures import Failure, FailureClass
from taskdeck.engine.run import control
from taskdeck.engine.run.losing import lose
from taskdeck.engine.run.messages import OperationBegin, OperationEnd, Outcome, Save
from taskdeck.engine.run.outcomes import Outcomes
from taskdeck.engine.run.recording import Recorder
from taskdeck.engine.store import processes, tasks
from tests import replay
from tests.scratch import ANN, Scratch

ROOT = Path(__file__).parent.parent


class Teller:
    """Tells a story to a scratch database, one second a sentence."""

    def __init__(self, folder: Path) -> None:
        self.scratch = Scratch(folder)
        outcomes = Outcomes(self.scratch.policies, lambda low, high: low)
        self.recorder = Recorder(self.scratch.config, self.scratch.policies, outcomes)
        self.workers = [self.scratch.worker("w1", 101), self.scratch.worker("w2", 102)]

    def start(self, task_id: int, worker: int) -> dict[str, Any]:
        self.scratch.clock.advance(1)
        return self.scratch.start(task_id, self.workers[worker])

    def tell(self, task: dict[str, Any], *messages: Any) -> None:
        self.scratch.clock.advance(1)
        self.scratch.do(self.recorder.record, task["worker_id"], list(messages))

    def save(self, task: dict[str, Any], row: int) -> None:
        self.tell(task, Save(1, task["id"], task["fence"], json.dumps({"row": row})))

    def begin(self, task: dict[str, Any], key: str) -> None:
        self.tell(task, OperationBegin(1, task["id"], task["fence"], key))

    def end(self, task: dict[str, Any], key: str, state: str = "DONE") -> None:
        self.tell(
            task,
            OperationEnd(1, task["id"], task["fence"], key, state, result="" if state != "DONE" else "7"),
        )

    def outcome(self, task: dict[str, Any], kind: str, class_: FailureClass | None = None) -> None:
        failure = (
            msgspec.json.encode(Failure(class_, "error", "it broke", "a test")).decode() if class_ else ""
        )
        self.tell(task, Outcome(task["id"], task["fence"], kind, failure=failure))

    def act(self, verb: str, task_id: int) -> None:
        self.scratch.clock.advance(1)
        self.scratch.do(lambda tx: control.VERBS[verb](tx, tasks.get(tx, task_id), ANN, {}))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a story of each kind, in one file that may be copied."""
    teller = Teller(tmp_path_factory.mktemp("story"))
    scratch = teller.scratch
    well, retried, lost, cancelled, running, paused, fatal = (scratch.add() for _ in range(7))

    task = teller.start(well, 0)  # attempt 1
    teller.save(task, 1)
    teller.begin(task, "row-1")
    teller.end(task, "row-1")
    teller.save(task, 2)
    teller.outcome(task, "succeeded")

    teller.outcome(teller.start(retried, 0), "failed", FailureClass.RETRYABLE)  # attempt 2
    teller.act("retry", retried)
    teller.outcome(teller.start(retried, 1), "succeeded")  # attempt 3

    task = teller.start(lost, 1)  # attempt 4
    teller.save(task, 1)
    teller.begin(task, "row-2")
    scratch.clock.advance(1)
    scratch.do(processes.end_worker, teller.workers[1], "LOST", "killed")
    scratch.do(
        lambda tx: lose(
            tx, tasks.get(tx, lost), "killed", started=True, policies=scratch.policies, max_losses=3
        )
    )
    task = teller.start(lost, 0)  # attempt 5
    teller.begin(task, "row-2")
    teller.end(task, "row-2", "NOT_DONE")
    teller.begin(task, "row-2")
    teller.end(task, "row-2")
    teller.outcome(task, "succeeded")

    task = teller.start(cancelled, 0)  # attempt 6
    teller.act("cancel", cancelled)
    teller.outcome(task, "cancelled")
    teller.act("retry", cancelled)

    teller.save(teller.start(running, 0), 1)  # attempt 7
    teller.act("pause", paused)
    teller.outcome(teller.start(fatal, 0), "failed", FailureClass.FATAL)  # attempt 8
    scratch.close()
    return scratch.path


def test_a_good_database_tells_one_consistent_story(good: Path) -> None:
    assert replay.check(good) == []


def test_the_check_shares_no_code_with_what_it_checks() -> None:
    source = Path(replay.__file__).read_text()
    imported = re.findall(r"^\s*(?:from|import) (\w+)", source, re.MULTILINE)
    assert set(imported) <= sys.stdlib_module_names | {"__future__"}


def test_it_looks_without_leaving_a_trace(good: Path) -> None:
    before = good.read_bytes()
    replay.check(good)
    assert good.read_bytes() == before


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A copy of the good database that may be damaged: no trigger and no check holds anybody back."""
    shutil.copy(good, tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "copy.db", isolation_level=None)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("PRAGMA ignore_check_constraints = 1")
        yield connection


def problems(connection: sqlite3.Connection) -> list[str]:
    return replay.check(connection.execute("PRAGMA database_list").fetchone()[2])


def rehash(connection: sqlite3.Connection) -> None:
    """Number and chain the events anew, as somebody would who hides a change."""
    previous, count = "", 0
    rows = connection.execute(
        f"SELECT {', '.join(replay.HASHED)} FROM event_log ORDER BY event_id"
    ).fetchall()
    connection.execute("DELETE FROM event_log")
    for count, row in enumerate(rows, 1):
        text = json.dumps([count, *row[1:]], ensure_ascii=False, separators=(",", ":"))
        previous = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
        marks = ", ".join("?" * (len(row) + 1))
        connection.execute(
            f"INSERT INTO event_log({', '.join(replay.HASHED)}, hash) VALUES ({marks})",
            (count, *row[1:], previous),
        )
    connection.execute("UPDATE event_head SET event_id = ?, count = ?, hash = ?", (count, count, previous))


SET = "UPDATE event_log SET payload_json = json_set(payload_json, '$.{key}', {value}) WHERE task_id = {task} AND {where}"
MOVE = "event_type = 'TASK_STATE' AND json_extract(payload_json, '$.{end}') = '{state}'"


def change(task: int, where: str, key: str, value: object) -> str:
    return SET.format(task=task, where=where, key=key, value=value)


def to(state: str) -> str:
    return MOVE.format(end="to", state=state)


DAMAGED_CHAINS = {
    "a changed message": (
        "UPDATE event_log SET message = 'x' WHERE event_id = 5",
        r"event 5: its hash does not follow",
    ),
    "a changed actor": ("UPDATE event_log SET actor = 'cli:eve' WHERE event_id = 1", r"event 1: its hash"),
    "a changed hash": ("UPDATE event_log SET hash = 'x' WHERE event_id = 9", r"event 9: its hash"),
    "a removed event": ("DELETE FROM event_log WHERE event_id = 9", r"event 9: missing, the next one is 10"),
    "the first event removed": ("DELETE FROM event_log WHERE event_id = 1", r"event 1: missing"),
    "a swapped pair": (
        "UPDATE event_log SET event_id = -9 WHERE event_id = 9;"
        "UPDATE event_log SET event_id = 9 WHERE event_id = 10;"
        "UPDATE event_log SET event_id = 10 WHERE event_id = -9",
        r"event 9: its hash",
    ),
    "a tail cut off": (
        "DELETE FROM event_log WHERE event_id > 20",
        r"event_head: .*the chain ends at \(20, 20\)",
    ),
    "an added event": (
        "INSERT INTO event_log(event_id, event_type, level, actor, message, created_at, hash)"
        " SELECT max(event_id) + 1, 'NOTE', 'info', 'cli:eve', '', created_at, hash FROM event_log",
        r"event_head: ",
    ),
    "a head that says more": ("UPDATE event_head SET count = count + 1", r"event_head: "),
    "no head": ("DELETE FROM event_head", r"event_head: it says \[\]"),
}


@pytest.mark.parametrize(("damage", "expected"), DAMAGED_CHAINS.values(), ids=DAMAGED_CHAINS)
def test_a_damaged_chain_is_named(copy: sqlite3.Connection, damage: str, expected: str) -> None:
    copy.executescript(damage)
    assert any(re.search(expected, each) for each in problems(copy)), problems(copy)


DAMAGED_STORIES = {
    "a move that no event tells": (
        "DELETE FROM event_log WHERE task_id = 7 AND " + to("FAILED"),
        r"#7.*FAILED",
    ),
    "a move told twice": (
        "INSERT INTO event_log SELECT 10000, task_id, resource_id, route_id, worker_id, event_type, level, reason, actor,"
        " message, payload_json, created_at, hash FROM event_log WHERE task_id = 6 AND " + to("PAUSED"),
        r"event \d+ \(#6 TASK_STATE\): it leaves PENDING, but the task was PAUSED",
    ),
    "a move that is not allowed": (
        change(1, to("SUCCESS"), "to", "'DEAD'"),
        r"#1 TASK_STATE\): RUNNING may not become DEAD",
    ),
    "a reason that is not allowed": (
        "UPDATE event_log SET reason = 'guess' WHERE task_id = 1 AND " + to("SUCCESS"),
        r"#1 TASK_STATE\): RUNNING may not become SUCCESS \(guess\)",
    ),
    "the engine leaves CANCELLED": (
        "UPDATE event_log SET actor = 'engine' WHERE task_id = 4 AND reason = 'user_retry'",
        r"#4 TASK_STATE\): user_retry is a person's act, not engine's",
    ),
    "a fence that falls": (
        change(3, "reason = 'done'", "fence", 1),
        r"#3 TASK_STATE\): fence 1 is below the task's",
    ),
    "a claim under an old fence": (
        change(2, "reason = 'dispatched'", "fence", 2),
        r"#2 TASK_STATE\): fence 2 is not above all before it",
    ),
    "an attempt skipped": (
        change(1, "reason = 'dispatched'", "attempt", 2),
        r"#1 TASK_STATE\): attempt 2 follows attempt 0",
    ),
    "time that goes back": (
        "UPDATE event_log SET created_at = '2026-11-29T11:00:00.000000Z' WHERE task_id = 1 AND reason = 'done'",
        r"#1 TASK_STATE\): at 2026-11-29T11.*before the event before it",
    ),
    "a checkpoint of an attempt that lost the task": (
        "INSERT INTO event_log SELECT 10000, 3, NULL, NULL, worker_id, event_type, level, reason, actor, message,"
        " json_set(payload_json, '$.seq', 2), '2026-11-30T00:00:00.000000Z', hash FROM event_log"
        " WHERE task_id = 3 AND event_type = 'CHECKPOINT_SAVED'",
        r"#3 CHECKPOINT_SAVED\): written under fence \d+, which does not hold the task",
    ),
    "an operation told twice": (
        "UPDATE event_log SET event_type = 'STEP_SUCCEEDED' WHERE task_id = 1 AND event_type = 'STEP_STARTED'",
        r"operation 1 \(#1\) 'row-1' .*done 1 times, 2 STEP_SUCCEEDED",
    ),
    "a task without a beginning": (
        "DELETE FROM event_log WHERE task_id = 5 AND event_type = 'TASK_CREATED'",
        r"#5 TASK_STATE\): the task was never created",
    ),
    "a task created twice": (
        "INSERT INTO event_log SELECT 10000, task_id, resource_id, route_id, worker_id, event_type, level, reason, actor,"
        " message, payload_json, created_at, hash FROM event_log WHERE task_id = 6 AND event_type = 'TASK_CREATED'",
        r"#6 TASK_CREATED\): the task was created before",
    ),
    "an end that is not told": (
        "DELETE FROM event_log WHERE task_id = 1 AND event_type = 'TASK_FINISHED'",
        r"task #1: it ended 1 times, 0 TASK_FINISHED",
    ),
    "a payload that is no JSON": (
        "UPDATE event_log SET payload_json = '{' WHERE task_id = 1 AND reason = 'done' AND event_type = 'TASK_STATE'",
        r"#1 TASK_STATE\): its payload is no JSON",
    ),
}


@pytest.mark.parametrize(("damage", "expected"), DAMAGED_STORIES.values(), ids=DAMAGED_STORIES)
def test_a_story_that_can_not_be_is_named_although_its_chain_was_mended(
    copy: sqlite3.Connection, damage: str, expected: str
) -> None:
    copy.executescript(damage)
    rehash(copy)
    found = problems(copy)
    assert any(re.search(expected, each) for each in found), found
    assert not any("hash" in each for each in found)


DAMAGED_TABLES = {
    "a state without an event": (
        "UPDATE task SET state = 'SUCCESS' WHERE id = 7",
        r"task #7: state is SUCCESS, .*FAILED",
    ),
    "a reason without an event": ("UPDATE task SET reason = 'done' WHERE id = 7", r"task #7: reason is done"),
    "a removed task": ("DELETE FROM task WHERE id = 2", r"task #2: it has events and no row"),
    "an added task": (
        "INSERT INTO task(type, state, reason, scheduled_at, next_run_at, payload, created_at, updated_at)"
        " SELECT type, 'PENDING', 'created', scheduled_at, next_run_at, payload, created_at, updated_at FROM task LIMIT 1",
        r"task #8: it has a row and no events",
    ),
    "a lowered fence": (
        "UPDATE task SET fence = 1 WHERE id = 3",
        r"task #3: fence 1 is below \d+ of its events",
    ),
    "a lowered count of attempts": (
        "UPDATE task SET attempt = 1 WHERE id = 3",
        r"task #3: attempt is 1, its events say 2",
    ),
    "an end that is forgotten": (
        "UPDATE task SET finished_at = NULL WHERE id = 1",
        r"task #1: finished_at is None",
    ),
    "a removed attempt": (
        "DELETE FROM attempt WHERE id = 2",
        r"task #2: attempts \[2\] in the table, 2 dispatches",
    ),
    "an added attempt": (
        "INSERT INTO attempt(task_id, number, worker_id, fence, dispatched_at)"
        " VALUES (5, 2, 1, 999, '2026-11-30T12:00:00.000000Z')",
        r"task #5: attempts \[1, 2\] in the table, 1 dispatches",
    ),
    "attempts that overlap": (
        "UPDATE attempt SET ended_at = '2026-11-30T12:00:00.000000Z' WHERE id = 2",
        r"attempt 3 \(#2 number 2\): it began .*while number 1 ran until 2026-11-30",
    ),
    "an attempt that was opened again": (
        "UPDATE attempt SET ended_at = NULL WHERE id = 4",
        r"task #3: SUCCESS, yet attempt 4 \(number 1\) is open",
    ),
    "an attempt that ended unseen": (
        "UPDATE attempt SET ended_at = '2026-11-30T12:00:00.000000Z' WHERE id = 7",
        r"attempt 7 \(#5 number 1\): it ended at .*no event tells of it",
    ),
    "a running task without an attempt": (
        "UPDATE attempt SET ended_at = dispatched_at WHERE id = 7",
        r"task #5: RUNNING, its open attempts are \[\]",
    ),
    "a running task whose worker ended": (
        "UPDATE worker SET ended_at = started_at WHERE id = 1",
        r"task #5: RUNNING on worker 1, which has ended",
    ),
    "a task held after its end": (
        "UPDATE task SET worker_id = 1 WHERE id = 1",
        r"task #1: SUCCESS, yet held by worker 1",
    ),
    "an attempt by another worker": (
        "UPDATE attempt SET worker_id = 2 WHERE id = 1",
        r"attempt 1 \(#1 number 1\): worker is 2",
    ),
    "another fence on an attempt": (
        "UPDATE attempt SET fence = 900 WHERE id = 1",
        r"attempt 1 \(#1 number 1\): fence is 900",
    ),
    "fences drawn again": ("UPDATE sequence SET value = 3", r"sequence fence: 3, but \d+ was drawn"),
    "a removed checkpoint": (
        "DELETE FROM checkpoint WHERE task_id = 1 AND seq = 2",
        r"task #1: checkpoints \[1\] are kept, its events saved up to 2",
    ),
    "a checkpoint out of nowhere": (
        "UPDATE checkpoint SET seq = 9 WHERE task_id = 5",
        r"task #5: checkpoints \[9\]",
    ),
    "an operation that was never done": (
        "UPDATE operation SET state = 'BEGUN' WHERE id = 1",
        r"operation 1 \(#1\) 'row-1'",
    ),
    "a removed operation": (
        "DELETE FROM operation WHERE id = 2",
        r"operation 'row-2' .*done 0 times, 1 STEP_SUCCEEDED",
    ),
}


@pytest.mark.parametrize(("damage", "expected"), DAMAGED_TABLES.values(), ids=DAMAGED_TABLES)
def test_a_table_that_says_something_else_is_named(
    copy: sqlite3.Connection, damage: str, expected: str
) -> None:
    copy.executescript(damage)
    assert any(re.search(expected, each) for each in problems(copy)), problems(copy)


def test_two_attempts_under_one_fence_are_named(copy: sqlite3.Connection) -> None:
    copy.executescript(
        "CREATE TABLE plain AS SELECT * FROM attempt; DROP TABLE attempt; ALTER TABLE plain RENAME TO attempt;"
        "UPDATE attempt SET fence = (SELECT fence FROM attempt WHERE id = 1) WHERE id = 2"
    )
    assert any(re.search(r"attempts with fence \d+: there are 2", each) for each in problems(copy))


def test_run_as_a_program_it_ends_with_1_where_something_is_wrong(
    good: Path, copy: sqlite3.Connection
) -> None:
    damaged = copy.execute("PRAGMA database_list").fetchone()[2]
    copy.execute("UPDATE task SET state = 'SUCCESS' WHERE id = 7")
    for path, code, told in ((good, 0, "one consistent story"), (damaged, 1, "task #7"), ("/none", 2, "")):
        done = subprocess.run(
            [sys.executable, "-m", "tests.replay", str(path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code
        assert told in done.stdout
