"""Reports that are written many at a time tell the same as those that are written one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.rules.declarations import ResourceDeclaration
from taskdeck.engine.rules.new_task import new_task
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.run import control
from taskdeck.engine.run.losing import take_all
from taskdeck.engine.run.messages import OperationBegin, Outcome, Save, Started
from taskdeck.engine.run.outcomes import Outcomes
from taskdeck.engine.run.recording import Recorder
from taskdeck.engine.store import attempts, batches, tasks
from taskdeck.engine.store.transaction import Transaction
from tests import replay
from tests.run.ticking import Engine
from tests.scratch import ANN, Scratch

Task = dict[str, Any]
LATER = "2027-01-01T00:00:00.000000Z"
RESULTS = ("", '{"rows":3}', "[1,2]", '"a text"', '{"password":"hunter2-secret"}')


def recorder_of(scratch: Scratch) -> Recorder:
    return Recorder(scratch.config, scratch.policies, Outcomes(scratch.policies, lambda low, high: low))


def some_of_each_kind(scratch: Scratch, sixth: str) -> tuple[Engine, list[Any]]:
    """Attempts of one worker, of which some are not plain, and their reports."""
    scratch.declare(ResourceDeclaration("browser-1", "browser"))
    for number in range(8):
        scratch.add(payload=str(number))
    scratch.add(needs='["browser"]')
    engine = Engine(scratch)
    engine.tick()
    rows = [scratch.row(row[0]) for row in scratch.query("SELECT id FROM task ORDER BY id")]
    scratch.do(control.cancel, rows[1], ANN, {})
    scratch.do(control.pause, rows[2], ANN, {})
    scratch.clock.advance(2.5)
    reports: list[Any] = [
        Started(row["id"], row["fence"], *((4711, 99) if row["id"] % 2 else ())) for row in rows
    ]
    for row, result in zip(rows, [*RESULTS, sixth, "", "", ""], strict=True):
        if row is rows[6]:
            reports.append(Outcome(row["id"], row["fence"] - 1, "succeeded"))  # of an attempt that is over
        elif row is rows[7]:
            reports.append(Outcome(row["id"], row["fence"], "succeeded", exit_code=0, tail="the last\nlines"))
        else:
            reports.append(Outcome(row["id"], row["fence"], "succeeded", result=result))
    return engine, reports


def told(scratch: Scratch) -> dict[str, list[Any]]:
    """All that the database says, but for the order of events of different tasks."""
    columns = "event_type, worker_id, level, reason, actor, message, payload_json, created_at"
    return {
        "task": scratch.query("SELECT * FROM task ORDER BY id"),
        "attempt": scratch.query("SELECT * FROM attempt ORDER BY id"),
        "slot": scratch.query("SELECT * FROM resource_slot ORDER BY id"),
        "request": scratch.query("SELECT * FROM request ORDER BY id"),
        "event": scratch.query(f"SELECT task_id, {columns} FROM event_log ORDER BY task_id, event_id"),
    }


def one_by_one(recorder: Recorder, tx: Transaction, worker_id: int, reports: list[Any]) -> None:
    for report in reports:
        recorder._one(tx, worker_id, report)


@pytest.mark.parametrize("sixth", ["", '{"broken'])
def test_many_at_once_tell_the_same_as_one_by_one(tmp_path: Path, sixth: str) -> None:
    found = []
    for name, writes in (("together", Recorder.record), ("known", Recorder.record), ("alone", one_by_one)):
        (tmp_path / name).mkdir()
        scratch = Scratch(tmp_path / name)
        engine, reports = some_of_each_kind(scratch, sixth)
        recorder = recorder_of(scratch)
        if name == "known":
            recorder.begun(engine.plain)
        scratch.do(partial(writes, recorder), engine.worker_id, reports)
        assert replay.check(scratch.path) == []
        found.append(told(scratch))
        scratch.close()
    assert found[0] == found[1] == found[2]
    assert [row[2] for row in found[0]["task"]].count(TaskState.SUCCESS) == (7 if sixth else 8)


def test_attempts_that_are_known_end_without_being_looked_up(scratch: Scratch) -> None:
    for number in range(5):
        scratch.add(payload=str(number))
    engine = Engine(scratch)
    runs = engine.tick()
    engine.recorder.begun(engine.plain)
    asked: list[str] = []
    scratch.tx.connection.set_trace_callback(asked.append)
    scratch.clock.advance(2.5)
    engine.tell(*(Outcome(run.task_id, run.fence, "succeeded", result="[1]") for run in runs))
    scratch.tx.connection.set_trace_callback(None)
    assert not [sql for sql in asked if "worker_id, attempt, retry_count, started_at FROM task" in sql]
    assert {scratch.row(run.task_id)["state"] for run in runs} == {TaskState.SUCCESS}
    assert scratch.query(
        "SELECT DISTINCT payload_json FROM event_log WHERE event_type = 'TASK_FINISHED'"
    ) == [('{"state":"SUCCESS","attempts":1,"retries":0,"seconds":2.5}',)]
    assert replay.check(scratch.path) == []


@pytest.mark.parametrize("act", ["cancelled", "wanted", "lost", "targeted"])
def test_what_became_of_a_known_attempt_is_seen_by_the_statement_that_ends_it(
    scratch: Scratch, act: str
) -> None:
    first, second = scratch.add(), scratch.add()
    engine = Engine(scratch)
    runs = {run.task_id: run for run in engine.tick()}
    engine.recorder.begun(engine.plain)
    if act == "cancelled":
        scratch.do(control.cancel, scratch.row(first), ANN, {})
    elif act == "lost":
        scratch.do(take_all, [scratch.row(first)], "it was lost", {runs[first].fence}, scratch.policies, 9)
    else:
        change = "wanted = 'pause'" if act == "wanted" else "target = 'example.org'"
        scratch.do(lambda tx: tx.connection.execute(f"UPDATE task SET {change} WHERE id = ?", (first,)))
    engine.tell(*(Outcome(run.task_id, run.fence, "succeeded") for run in runs.values()))
    ended = [("TASK_STATE", "done"), ("TASK_FINISHED", "done")]
    assert scratch.events(second)[-2:] == ended
    if act == "lost":
        assert scratch.row(first)["state"] == TaskState.PENDING
        assert ("STALE_WRITE", "stale_lease") in scratch.events(first)
    else:
        assert scratch.events(first)[-2:] == ended
    assert replay.check(scratch.path) == []


def test_a_plain_attempt_begins_and_ends_in_one_commit_with_its_three_events(scratch: Scratch) -> None:
    task_id = scratch.add()
    (run,) = Engine(scratch).tick()
    worker_id = scratch.row(task_id)["worker_id"]
    scratch.do(
        recorder_of(scratch).record,
        worker_id,
        [Started(task_id, run.fence), Outcome(task_id, run.fence, "succeeded")],
    )
    events = [(kind, reason) for kind, reason in scratch.events(task_id) if kind != "TASK_CREATED"]
    assert events == [("TASK_STATE", "dispatched"), ("TASK_STATE", "done"), ("TASK_FINISHED", "done")]
    assert scratch.query("SELECT started_at IS NOT NULL, outcome FROM attempt") == [(1, "succeeded")]


def test_what_comes_between_keeps_its_place(scratch: Scratch) -> None:
    task = scratch.running()
    name = task["id"], task["fence"]
    reports = [Started(*name), Save(1, *name, '{"page":1}'), Outcome(*name, "succeeded")]
    answers = scratch.do(recorder_of(scratch).record, task["worker_id"], reports)
    assert [answer.value for answer in answers] == [{"seq": 1}]
    assert [kind for kind, _ in scratch.events(task["id"])][-3:] == [
        "CHECKPOINT_SAVED",
        "TASK_STATE",
        "TASK_FINISHED",
    ]


def test_a_lost_attempt_among_many_changes_nothing_and_is_told_once(scratch: Scratch) -> None:
    rows = [scratch.running() for _ in range(3)]
    stale = Outcome(rows[1]["id"], rows[1]["fence"] + 99, "succeeded")
    reports = [Outcome(row["id"], row["fence"], "succeeded") for row in (rows[0], rows[2])]
    scratch.do(recorder_of(scratch).record, rows[0]["worker_id"], [reports[0], stale, reports[1], stale])
    assert [scratch.state(row["id"]) for row in rows] == [
        TaskState.SUCCESS,
        TaskState.RUNNING,
        TaskState.SUCCESS,
    ]
    assert [kind for kind, _ in scratch.events()].count("STALE_WRITE") == 1


def test_tasks_that_begin_together_have_fences_and_attempts_of_their_own(scratch: Scratch) -> None:
    ids = [scratch.add(payload=str(number)) for number in range(70)]
    runs = Engine(scratch).tick()
    rows = scratch.query("SELECT task_id, fence, id, number FROM attempt ORDER BY id")
    assert [(run.task_id, run.fence, run.attempt_id, run.attempt) for run in runs] == rows
    assert [run.task_id for run in runs] == ids[: len(runs)]
    assert [run.payload for run in runs] == [str(number) for number in range(len(runs))]
    assert len({run.fence for run in runs}) == len(runs)
    assert replay.check(scratch.path) == []


def path_of(task_id: int, number: int) -> str:
    return f"{task_id}.{number}.log"


def begin_together(
    tx: Transaction, ids: list[int], worker_id: int, lease: float, path_of: Callable[[int, int], str]
) -> list[batches.Begun]:
    return batches.begin_all(tx, [waiting(tx, task_id) for task_id in ids], worker_id, lease, path_of)


def waiting(tx: Transaction, task_id: int) -> tasks.Waiting:
    row = tasks.get(tx, task_id)
    return tasks.Waiting._make(row.get(column) for column in tasks.Waiting._fields)


def begin_one_by_one(
    tx: Transaction, ids: list[int], worker_id: int, lease: float, path_of: Callable[[int, int], str]
) -> None:
    for task_id in ids:
        claim = tasks.Claim(task_id, TaskState.PENDING, worker_id)
        row = tasks.claim(tx, claim, tasks.get(tx, task_id), lease, resumes_at=0)
        attempts.open_attempt(tx, row, path_of(task_id, row["attempt"]))


def test_tasks_that_begin_together_are_the_same_as_one_by_one(tmp_path: Path) -> None:
    found = []
    for name, begins in (("together", begin_together), ("alone", begin_one_by_one)):
        (tmp_path / name).mkdir()
        scratch = Scratch(tmp_path / name)
        ids = [scratch.add(payload=str(number)) for number in range(40)]
        for task_id in (3, 7, 7, 9):  # these were lost before, once or twice
            lost = scratch.start(task_id, scratch.worker(f"w-{scratch.one('SELECT count(*) FROM attempt')}"))
            scratch.do(take_all, [lost], "it was lost", {lost["fence"]}, scratch.policies, 9)
        worker_id = scratch.worker()
        scratch.clock.advance(2.5)
        scratch.do(begins, ids, worker_id, 300.0, path_of)
        assert replay.check(scratch.path) == []
        found.append(told(scratch))
        scratch.close()
    assert found[0] == found[1]
    assert scratch_numbers(found[0]) == {1: 37, 2: 2, 3: 1}


def scratch_numbers(found: dict[str, list[Any]]) -> dict[int, int]:
    """How many tasks run so many-th attempts."""
    latest = {row[1]: row[2] for row in found["attempt"]}
    return dict(Counter(latest.values()))


def test_tasks_with_a_checkpoint_do_not_begin_with_those_that_have_none(scratch: Scratch) -> None:
    saved, plain, other = (scratch.running() for _ in range(3))
    scratch.do(recorder_of(scratch).record, saved["worker_id"], [Save(1, saved["id"], saved["fence"], "{}")])
    rows = [scratch.row(each["id"]) for each in (saved, plain, other)]
    scratch.do(take_all, rows, "they were lost", {row["fence"] for row in rows}, scratch.policies, 3)
    ids = [saved["id"], other["id"]]
    begun = scratch.do(begin_together, ids, scratch.worker("w-other"), 300.0, path_of)
    assert [(each.row.id, each.plain.attempt) for each in begun] == [(other["id"], 2)]
    runs = {run.task_id: run for run in Engine(scratch).tick()}
    assert (runs[saved["id"]].attempt, runs[saved["id"]].checkpoint_seq) == (2, 1)
    assert (runs[plain["id"]].attempt, runs[plain["id"]].checkpoint_seq) == (2, 0)


def test_one_that_has_begun_meanwhile_is_left_out(scratch: Scratch) -> None:
    first, second = scratch.add(), scratch.add()
    scratch.start(first, scratch.worker("w-other"))
    before = scratch.row(first)
    worker_id = scratch.worker()
    begun = scratch.do(begin_together, [first, second], worker_id, 300.0, path_of)
    assert [each.row.id for each in begun] == [second]
    assert scratch.row(first) == before
    assert scratch.query("SELECT task_id, log_path FROM attempt WHERE id = ?", begun[0].attempt_id) == [
        (second, f"{second}.1.log")
    ]
    assert scratch.do(begin_together, [first, second], worker_id, 300.0, path_of) == []
    assert replay.check(scratch.path) == []


def test_payloads_of_events_are_the_json_that_the_long_way_writes(scratch: Scratch) -> None:
    scratch.add()
    (run,) = Engine(scratch).tick()
    (text,) = scratch.query("SELECT payload_json FROM event_log WHERE reason = 'dispatched'")[0]
    assert json.loads(text) == {
        "from": "PENDING",
        "to": "RUNNING",
        "attempt": 1,
        "fence": run.fence,
        "worker": scratch.row(run.task_id)["worker_id"],
        "resumes_at": 0,
    }


@pytest.mark.parametrize("run", [1, 3, 9, 35])
def test_tasks_that_are_handed_in_together_are_the_same_as_one_by_one(tmp_path: Path, run: int) -> None:
    payloads = ("{}", '{"a":"\\u0000 \\\\ \\"\u2028\U0001f600"}', "17", "null", '"text"')
    new = [
        new_task("fetch", payloads[number % 5], kind % 3, ("", LATER)[kind % 2], tags='["a"]', timeout=kind)
        for number in range(70)
        for kind in (number // run,)
    ]
    found = []
    for name, units in (("together", [new]), ("alone", [[each] for each in new])):
        (tmp_path / name).mkdir()
        scratch = Scratch(tmp_path / name)
        ids = [task_id for unit in units for task_id in scratch.do(tasks.create_all, unit, ANN)]
        assert ids == list(range(1, 71))
        assert scratch.do(tasks.create, new_task("fetch", "70", key="k"), ANN) == (71, True)
        assert replay.check(scratch.path) == []
        found.append(told(scratch))
        scratch.close()
    assert found[0] == found[1]
    payloads = {json.loads(row[7]).get("scheduled_at") for row in found[0]["event"]}
    assert payloads == {None, LATER}


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("kind", ["succeeded", "failed", "drained"])
def test_what_an_attempt_had_begun_and_its_worker_never_settled_is_in_doubt_however_it_ends(
    scratch: Scratch, kind: str, is_known: bool
) -> None:
    scratch.add()
    engine = Engine(scratch)
    (run,) = engine.tick()
    if is_known:
        engine.recorder.begun(engine.plain)
    engine.begin(run)
    engine.tell(OperationBegin(1, run.task_id, run.fence, "upload"))
    if kind == "failed":
        engine.fail(run)
    else:
        engine.end(run, kind)
    assert scratch.query("SELECT operation_key, state FROM operation") == [("upload", "IN_DOUBT")]
    told = "SELECT task_id FROM event_log WHERE event_type = 'OPERATION_IN_DOUBT'"
    assert scratch.query(told) == [(run.task_id,)]
