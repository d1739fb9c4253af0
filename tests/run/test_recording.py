from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from taskdeck.engine.rules.declarations import declared_route
from taskdeck.engine.rules.failures import Failure, FailureClass
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.run import control
from taskdeck.engine.run.losing import lose
from taskdeck.engine.run.messages import (
    Note,
    OperationBegin,
    OperationEnd,
    Outcome,
    Progress,
    RouteResult,
    Save,
    Started,
)
from taskdeck.engine.run.outcomes import Outcomes
from taskdeck.engine.run.recording import Recorder
from taskdeck.engine.store import route_candidates
from tests.faults import fault
from tests.scratch import ANN, Scratch

Task = dict[str, Any]


@pytest.fixture
def recorder(scratch: Scratch) -> Recorder:
    outcomes = Outcomes(scratch.policies, lambda low, high: low)
    return Recorder(scratch.config, scratch.policies, outcomes)


def tell(scratch: Scratch, recorder: Recorder, task: Task, *messages: Any) -> list[Any]:
    return scratch.do(recorder.record, task["worker_id"], list(messages))


def end(scratch: Scratch, recorder: Recorder, task: Task, kind: str, **fields: Any) -> None:
    tell(scratch, recorder, task, Outcome(task["id"], task["fence"], kind, **fields))


def failure(class_: FailureClass, kind: str = "error", message: str = "it broke", **fields: Any) -> str:
    return msgspec.json.encode(Failure(class_, kind, message, "a test", **fields)).decode()


def save(task: Task, data: str, req: int = 1, **fields: Any) -> Save:
    return Save(req, task["id"], task["fence"], data, **fields)


def kept(scratch: Scratch) -> list[dict[str, Any]]:
    return [json.loads(row[0]) for row in scratch.query("SELECT data FROM checkpoint ORDER BY seq")]


def test_result_state_attempt_and_event_are_one_transaction(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    end(scratch, recorder, task, "succeeded", result='{"rows":3}', exit_code=0)
    row = scratch.row(task["id"])
    assert (row["state"], row["result"], row["worker_id"], row["lease_until"]) == (
        TaskState.SUCCESS,
        '{"rows":3}',
        None,
        None,
    )
    assert scratch.query("SELECT outcome, reason FROM attempt") == [("succeeded", "done")]
    assert scratch.events(task["id"])[-2:] == [("TASK_STATE", "done"), ("TASK_FINISHED", "done")]


def test_a_retryable_failure_waits_its_backoff_and_spends_a_retry(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    end(scratch, recorder, task, "failed", failure=failure(FailureClass.RETRYABLE))
    row = scratch.row(task["id"])
    assert (row["state"], row["retry_count"], row["next_run_at"]) == (
        TaskState.RETRYING,
        1,
        "2026-11-29T12:01:00.000000Z",
    )
    assert row["scheduled_at"] == "2026-11-29T12:00:00.000000Z"
    assert scratch.events(task["id"])[-1] == ("RETRY_SCHEDULED", "retryable")
    assert json.loads(row["error"]) == {
        "class": "retryable",
        "kind": "error",
        "message": "it broke",
        "rule": "a test",
    }


@fault("TF050")
def test_three_retries_are_four_executions_and_then_a_person(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running(max_retry=3)
    for number in range(1, 5):
        end(scratch, recorder, task, "failed", failure=failure(FailureClass.RETRYABLE))
        if number < 4:
            scratch.clock.advance(4000)
            task = scratch.start(task["id"], scratch.worker(f"r{number}"))
    row = scratch.row(task["id"])
    assert (row["state"], row["reason"]) == (TaskState.NEEDS_REVIEW, "retries_exhausted")
    assert (row["attempt"], row["retry_count"]) == (4, 3)


def test_a_fatal_failure_is_final_at_once(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    end(scratch, recorder, task, "failed", failure=failure(FailureClass.FATAL, "invalid_payload"))
    assert (scratch.state(task["id"]), scratch.row(task["id"])["reason"]) == (
        TaskState.FAILED,
        "invalid_payload",
    )


def test_a_drained_attempt_is_free_and_keeps_its_checkpoint(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    tell(scratch, recorder, task, save(task, '{"page":3}'))
    end(scratch, recorder, task, "drained")
    row = scratch.row(task["id"])
    assert (row["state"], row["reason"], row["retry_count"], row["losses"]) == (
        TaskState.PENDING,
        "drained",
        0,
        0,
    )
    assert kept(scratch) == [{"page": 3}]


@fault("TF225")
def test_a_cancelled_task_that_exits_with_an_error_is_cancelled_not_retried(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    scratch.do(control.cancel, scratch.row(task["id"]), ANN, {})
    end(scratch, recorder, task, "failed", failure=failure(FailureClass.RETRYABLE, "killed"), exit_code=143)
    assert scratch.state(task["id"]) is TaskState.CANCELLED
    assert scratch.query("SELECT outcome FROM request WHERE done_at IS NOT NULL") == [
        ("the attempt ended: CANCELLED",)
    ]


def test_work_that_was_done_before_the_cancel_arrived_stays_done(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    scratch.do(control.cancel, scratch.row(task["id"]), ANN, {})
    end(scratch, recorder, task, "succeeded", result="1")
    assert scratch.state(task["id"]) is TaskState.SUCCESS


@fault("TF038")
def test_ending_twice_equals_ending_once(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    end(scratch, recorder, task, "succeeded", result="1")
    before = scratch.row(task["id"])
    end(scratch, recorder, task, "cancelled")
    end(scratch, recorder, task, "succeeded", result="2")
    assert scratch.row(task["id"]) == before


def test_a_pause_overtaken_by_a_failure_still_holds(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    scratch.do(control.pause, scratch.row(task["id"]), ANN, {})
    end(scratch, recorder, task, "failed", failure=failure(FailureClass.RETRYABLE))
    assert scratch.state(task["id"]) is TaskState.PAUSED


def test_a_python_task_pauses_at_its_checkpoint_and_frees_its_lease(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    scratch.do(control.pause, scratch.row(task["id"]), ANN, {})
    end(scratch, recorder, task, "paused")
    row = scratch.row(task["id"])
    assert (row["state"], row["worker_id"], row["wanted"]) == (TaskState.PAUSED, None, None)


def test_a_suspended_command_keeps_its_lease_and_goes_on_in_memory(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    scratch.do(control.pause, scratch.row(task["id"]), ANN, {})
    end(scratch, recorder, task, "stopped")
    assert (scratch.state(task["id"]), scratch.row(task["id"])["worker_id"]) == (
        TaskState.PAUSED,
        task["worker_id"],
    )
    scratch.do(control.resume, scratch.row(task["id"]), ANN, {})
    end(scratch, recorder, task, "resumed")
    assert scratch.state(task["id"]) is TaskState.RUNNING
    end(scratch, recorder, task, "succeeded", result="1")
    assert scratch.one("SELECT count(*) FROM attempt") == 1


def test_an_outcome_of_a_suspended_attempt_is_resume_and_finish_in_one(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    scratch.do(control.pause, scratch.row(task["id"]), ANN, {})
    end(scratch, recorder, task, "stopped")
    end(scratch, recorder, task, "succeeded", result="1")
    moves = [reason for kind, reason in scratch.events(task["id"]) if kind == "TASK_STATE"]
    assert moves == ["dispatched", "user_pause", "resumed", "done"]


@fault("TF030")
def test_a_stale_worker_cannot_write_after_a_takeover(scratch: Scratch, recorder: Recorder) -> None:
    old = scratch.running()
    scratch.do(
        lose,
        scratch.row(old["id"]),
        "its lease ran out",
        started=True,
        policies=scratch.policies,
        max_losses=3,
    )
    new = scratch.start(old["id"], scratch.worker("new"))
    before = scratch.row(old["id"])
    answers = tell(
        scratch,
        recorder,
        old,
        save(old, '{"page":9}', req=4),
        OperationBegin(5, old["id"], old["fence"], "upload:1"),
        Progress(old["id"], old["fence"], 1, 2),
        Outcome(old["id"], old["fence"], "succeeded", result='"stale"'),
    )
    assert [(answer.req, answer.error) for answer in answers] == [(4, "stale"), (5, "stale")]
    assert scratch.row(old["id"]) == before
    assert kept(scratch) == []
    assert scratch.events(old["id"]).count(("STALE_WRITE", "stale_lease")) == 1
    end(scratch, recorder, new, "succeeded", result='"new"')
    assert scratch.row(old["id"])["result"] == '"new"'


def test_checkpoints_are_merged_and_only_the_last_few_are_kept(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    for page in range(1, 6):
        (answer,) = tell(scratch, recorder, task, save(task, json.dumps({"page": page, f"p{page}": True})))
        assert answer.value == {"seq": page}
    assert [data["page"] for data in kept(scratch)] == [3, 4, 5]
    assert kept(scratch)[-1] == {"page": 5, **{f"p{page}": True for page in range(1, 6)}}


@fault("TF210")
def test_integers_beyond_64_bits_are_kept_exactly(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    tell(scratch, recorder, task, save(task, '{"cursor": 18446708610539800576}'))
    assert scratch.one("SELECT data FROM checkpoint") == '{"cursor":18446708610539800576}'


@pytest.mark.parametrize("data", ["{", "NaN", "[1]", '{"a":1,"a":2}', "[" * 5000])
def test_a_bad_checkpoint_is_refused_with_the_reason_and_changes_nothing(
    scratch: Scratch, recorder: Recorder, data: str
) -> None:
    task = scratch.running()
    (answer,) = tell(scratch, recorder, task, save(task, data))
    assert answer.error
    assert kept(scratch) == []
    assert scratch.state(task["id"]) is TaskState.RUNNING


def test_an_operation_is_done_once_over_attempts(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    ids = (task["id"], task["fence"], "upload:42")
    (new,) = tell(scratch, recorder, task, OperationBegin(1, *ids))
    tell(scratch, recorder, task, OperationEnd(2, *ids, "DONE", result='{"id":7}'))
    end(scratch, recorder, task, "drained")
    again = scratch.start(task["id"], scratch.worker("again"))
    (done,) = tell(scratch, recorder, again, OperationBegin(1, again["id"], again["fence"], "upload:42"))
    assert (new.value["state"], done.value["state"], done.value["result"]) == ("new", "done", '{"id":7}')
    assert [kind for kind, _ in scratch.events(task["id"])].count("STEP_SUCCEEDED") == 1


def test_what_a_lost_attempt_had_begun_is_in_doubt_for_the_next(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    tell(scratch, recorder, task, OperationBegin(1, task["id"], task["fence"], "upload:42"))
    scratch.do(lose, scratch.row(task["id"]), "killed", started=True, policies=scratch.policies, max_losses=3)
    scratch.clock.advance(7)
    again = scratch.start(task["id"], scratch.worker("again"))
    (answer,) = tell(scratch, recorder, again, OperationBegin(1, again["id"], again["fence"], "upload:42"))
    assert (answer.value["state"], answer.value["age"]) == ("in_doubt", 7.0)
    tell(scratch, recorder, again, OperationEnd(2, again["id"], again["fence"], "upload:42", "NOT_DONE"))
    (fresh,) = tell(scratch, recorder, again, OperationBegin(3, again["id"], again["fence"], "upload:42"))
    assert fresh.value["state"] == "new"


def test_an_operation_that_another_attempt_is_doing_right_now_is_refused(
    scratch: Scratch, recorder: Recorder
) -> None:
    one, two = scratch.running(), scratch.running()
    tell(scratch, recorder, one, OperationBegin(1, one["id"], one["fence"], "k", scope="shared"))
    (answer,) = tell(scratch, recorder, two, OperationBegin(1, two["id"], two["fence"], "k", scope="shared"))
    assert "right now" in answer.error


@fault("TF179")
def test_an_event_of_a_handler_cannot_speak_for_the_engine(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    tell(
        scratch,
        recorder,
        task,
        Note(task["id"], task["fence"], "TASK_STATE", "mine", '{"from":"RUNNING","to":"SUCCESS"}'),
        Note(task["id"], task["fence"], "STEP_SUCCEEDED", "cleaned"),
    )
    kinds = [kind for kind, _ in scratch.events(task["id"])]
    assert kinds[-2:] == ["NOTE", "STEP_SUCCEEDED"]
    assert kinds.count("TASK_STATE") == 1


def test_a_start_is_noted_with_the_commands_pid(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    tell(scratch, recorder, task, Started(task["id"], task["fence"], 4711))
    assert scratch.one("SELECT command_pid FROM attempt") == 4711


@fault("TF172")
def test_no_secret_of_a_failure_is_kept(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    message = "curl -H 'Authorization: Bearer tok_12345678abcdef' timed out for https://u:hunter2pass@h/"
    end(
        scratch,
        recorder,
        task,
        "failed",
        failure=failure(FailureClass.RETRYABLE, message=message),
        tail=message,
    )
    dump = str([scratch.query(f"SELECT * FROM {table}") for table in ("task", "attempt", "event_log")])
    assert "tok_12345678" not in dump
    assert "hunter2" not in dump


def test_an_outcome_that_cannot_be_applied_is_shown_and_never_leaves_the_task_running(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    end(scratch, recorder, task, "succeeded", result="NaN")
    assert scratch.state(task["id"]) is TaskState.NEEDS_REVIEW
    assert ("ALERT_RAISED", "report_refused") in scratch.events(task["id"])
    assert scratch.one("SELECT count(*) FROM attempt WHERE ended_at IS NULL") == 0


def test_a_checkpoint_or_key_with_a_secret_is_refused_with_the_remedy(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    (saved,) = tell(scratch, recorder, task, save(task, '{"password": "hunter2pass"}'))
    (begun,) = tell(
        scratch, recorder, task, OperationBegin(1, task["id"], task["fence"], "mail:https://u:hunter2pass@h/")
    )
    assert "a secret stands in the checkpoint" in saved.error
    assert "a secret stands in the key" in begun.error
    assert kept(scratch) == []
    assert "hunter2" not in str(scratch.query("SELECT * FROM event_log"))


def test_of_the_target_that_a_worker_tells_only_the_host_is_kept(
    scratch: Scratch, recorder: Recorder
) -> None:
    scratch.declare(declared_route({"id": "eu-1", "url": "http://p.example.net:8080"}))
    task = scratch.running()
    scratch.do(route_candidates.claim_slot, "eu-1", task, 300.0, "a test")
    for target in ("https://ann:hunter2pass@shop.example/x?token=hunter2pass", "shop.example"):
        tell(scratch, recorder, task, RouteResult(task["id"], task["fence"], "eu-1", target, status=403))
    assert scratch.query("SELECT target, blocked FROM route_target") == [("shop.example", 2)]


def test_where_a_source_goes_on_is_no_secret(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    data = {"next_token": "CAEQAA9xyz77", "pageToken": "CAEQAA9xyz78", "cursor": "abc"}
    (answer,) = tell(scratch, recorder, task, save(task, json.dumps(data)))
    assert (answer.error, kept(scratch)) == ("", [data])


def test_a_result_with_a_secret_is_masked_and_an_event_says_so(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    end(scratch, recorder, task, "succeeded", result='{"password": "hunter2pass"}')
    assert scratch.row(task["id"])["result"] == '{"password":"***"}'
    assert ("SECRET_MASKED", "secret") in scratch.events(task["id"])


# ---- reports that come again --------------------------------------------------------------------------------------------


def numbered(
    scratch: Scratch, recorder: Recorder, task: Task, *reports: tuple[int, Any], lives: bool = True
) -> Any:
    return scratch.do(recorder.record_once, task["worker_id"], list(reports), worker_lives=lives)


@fault("TF030")
def test_a_report_whose_receipt_was_lost_is_applied_once_and_answered_again(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    reports = [(1, save(task, '{"n":1}', req=4)), (2, save(task, '{"n":2}', req=5))]
    first = numbered(scratch, recorder, task, *reports)
    before = scratch.events()
    again = numbered(scratch, recorder, task, *reports, (3, Outcome(task["id"], task["fence"], "succeeded")))
    assert [(each.req, each.error) for each in first] == [(4, ""), (5, "")]
    assert [(each.req, each.error) for each in again] == [(4, ""), (5, "")]
    assert kept(scratch) == [{"n": 1}, {"n": 2}]
    after = scratch.events()
    assert after[: len(before)] == before
    assert [kind for kind, _ in after[len(before) :]] == ["TASK_STATE", "TASK_FINISHED"]
    numbered(scratch, recorder, task, (3, Outcome(task["id"], task["fence"], "failed")))
    assert scratch.state(task["id"]) is TaskState.SUCCESS
    assert scratch.events() == after


def test_a_refusal_is_the_same_refusal_when_it_is_asked_for_again(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    reports = [(1, save(task, "[1]", req=4)), (2, OperationEnd(5, task["id"], task["fence"], "k", "DONE"))]
    first = numbered(scratch, recorder, task, *reports)
    assert all(each.error for each in first)
    assert numbered(scratch, recorder, task, *reports) == first


def test_a_beginning_that_was_never_answered_is_still_a_new_one(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    begin = (1, OperationBegin(4, task["id"], task["fence"], "upload:1"))
    for _ in range(2):
        (answer,) = numbered(scratch, recorder, task, begin)
        assert answer.value["state"] == "new"
    (answer,) = numbered(scratch, recorder, task, (2, begin[1]))  # asked anew by whoever had been answered
    assert answer.value["state"] == "in_doubt"


def test_what_a_dead_worker_had_kept_is_written_but_for_what_it_was_never_answered(
    scratch: Scratch, recorder: Recorder
) -> None:
    task = scratch.running()
    begin = OperationBegin(4, task["id"], task["fence"], "upload:1")
    numbered(scratch, recorder, task, (1, save(task, '{"n":1}', req=0)), (2, begin), lives=False)
    assert kept(scratch) == [{"n": 1}]
    assert scratch.query("SELECT * FROM operation") == []


def test_reports_count_the_attempts_that_a_worker_has_begun(scratch: Scratch, recorder: Recorder) -> None:
    task = scratch.running()
    started = (1, Started(task["id"], task["fence"], 99, 1234))
    for _ in range(2):
        numbered(scratch, recorder, task, started)
    assert scratch.query("SELECT tasks, recorded FROM worker") == [(1, 1)]
    assert scratch.query("SELECT command_pid, command_start_time FROM attempt") == [(99, 1234)]
