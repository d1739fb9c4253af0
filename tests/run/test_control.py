from __future__ import annotations

from typing import Any

import pytest

from taskdeck.engine.errors import Refused
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.run import control
from taskdeck.engine.run.messages import Outcome
from taskdeck.engine.run.outcomes import Outcomes
from taskdeck.engine.store import requests, tasks
from tests.faults import fault
from tests.scratch import ANN, Scratch


def act(scratch: Scratch, verb: str, task_id: int, **args: Any) -> str:
    return scratch.do(control.act, verb, scratch.row(task_id), ANN, args)


def ended(scratch: Scratch, task: dict[str, Any], kind: str) -> None:
    """The attempt of `task` has ended (or is suspended), as its worker tells it."""
    failure = '{"class_":"retryable","kind":"exit","message":"","rule":""}' if kind == "failed" else ""
    outcomes = Outcomes(scratch.policies, lambda low, high: low)
    outcome = Outcome(task["id"], task["fence"], kind, failure=failure)
    scratch.do(lambda tx: outcomes.apply(tx, tasks.held(tx, task["id"], task["fence"]), outcome))


def finish(scratch: Scratch, task: dict[str, Any], state: TaskState, reason: str) -> None:
    scratch.do(tasks.transition, task, state, reason, actor="engine", columns=tasks.NO_LEASE)


def test_pausing_a_waiting_task_is_done_at_once_and_twice_is_once(scratch: Scratch) -> None:
    task_id = scratch.add()
    assert act(scratch, "pause", task_id) == "paused"
    assert act(scratch, "pause", task_id) == "is paused already"
    assert scratch.state(task_id) is TaskState.PAUSED
    assert act(scratch, "resume", task_id) == "resumed"
    assert act(scratch, "resume", task_id) == "is not paused"
    assert scratch.state(task_id) is TaskState.PENDING


def test_what_is_wanted_of_a_running_task_stands_in_its_row_and_as_a_request(scratch: Scratch) -> None:
    task = scratch.running()
    act(scratch, "pause", task["id"])
    assert scratch.row(task["id"])["wanted"] == "pause"
    assert scratch.query("SELECT verb, actor, done_at FROM request") == [("pause", ANN, None)]


def test_cancel_replaces_a_pause_and_nothing_replaces_a_cancel(scratch: Scratch) -> None:
    task = scratch.running()
    act(scratch, "pause", task["id"])
    act(scratch, "cancel", task["id"])
    act(scratch, "pause", task["id"])
    assert scratch.row(task["id"])["wanted"] == "cancel"
    assert scratch.query("SELECT verb FROM request WHERE done_at IS NULL") == [("cancel",)]


def test_a_pause_on_its_way_is_withdrawn_by_resume(scratch: Scratch) -> None:
    task = scratch.running()
    act(scratch, "pause", task["id"])
    assert act(scratch, "resume", task["id"]) == "the pause is withdrawn"
    assert scratch.row(task["id"])["wanted"] is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [(TaskState.SUCCESS, "done"), (TaskState.FAILED, "fatal_error"), (TaskState.DEAD, "retries_exhausted")],
)
def test_what_has_finished_can_be_neither_cancelled_nor_paused(
    scratch: Scratch, state: TaskState, reason: str
) -> None:
    task = scratch.running()
    finish(scratch, task, state, reason)
    for verb in ("cancel", "pause", "resume"):
        with pytest.raises(Refused, match=r"has succeeded and|has failed and|is dead and"):
            act(scratch, verb, task["id"])
    assert scratch.state(task["id"]) is state


def test_retry_gives_a_failed_task_fresh_counters(scratch: Scratch) -> None:
    task = scratch.running()
    columns = {**tasks.NO_LEASE, "retry_count": 5, "losses": 2}
    scratch.do(
        tasks.transition, task, TaskState.NEEDS_REVIEW, "retries_exhausted", actor="engine", columns=columns
    )
    act(scratch, "retry", task["id"])
    row = scratch.row(task["id"])
    assert (row["state"], row["retry_count"], row["losses"], row["finished_at"]) == (
        TaskState.PENDING,
        0,
        0,
        None,
    )


def test_retry_now_of_a_retrying_task_keeps_its_count(scratch: Scratch) -> None:
    task = scratch.running()
    columns = {**tasks.wait_again(task, "2026-11-29T13:00:00.000000Z"), "retry_count": 2}
    scratch.do(tasks.transition, task, TaskState.RETRYING, "retryable_error", actor="engine", columns=columns)
    act(scratch, "retry", task["id"])
    row = scratch.row(task["id"])
    assert (row["state"], row["retry_count"]) == (TaskState.PENDING, 2)
    assert row["next_run_at"] < "2026-11-29T13"


def test_a_success_is_never_left_but_can_be_run_again_as_a_new_task(scratch: Scratch) -> None:
    task = scratch.running(payload='{"url": "x"}', target="shop.example.org", bandwidth=5e5)
    finish(scratch, task, TaskState.SUCCESS, "done")
    with pytest.raises(Refused, match="never run a second time"):
        act(scratch, "retry", task["id"])
    message = act(scratch, "retry", task["id"], again=True)
    assert message == "runs again as #2"
    (again,) = scratch.query("SELECT parent_id, payload, target, bandwidth FROM task WHERE id = 2")
    assert again == (task["id"], '{"url": "x"}', "shop.example.org", 5e5)
    assert scratch.state(task["id"]) is TaskState.SUCCESS


def test_discard_is_for_reviews_only(scratch: Scratch) -> None:
    task = scratch.running()
    with pytest.raises(Refused, match="is running"):
        act(scratch, "discard", task["id"])
    finish(scratch, task, TaskState.NEEDS_REVIEW, "in_doubt")
    assert act(scratch, "discard", task["id"]) == "discarded"
    assert act(scratch, "discard", task["id"]) == "is discarded already"


def test_a_stop_is_kept_as_a_wish_to_pause_and_a_kill_as_one_to_cancel(scratch: Scratch) -> None:
    stopped, killed = scratch.running(), scratch.running()
    assert act(scratch, "stop", stopped["id"]) == "asked to stop"
    assert act(scratch, "kill", killed["id"]) == "is killed"
    assert [wish["verb"] for wish in scratch.do(requests.wishes)] == ["stop", "kill"]
    assert [scratch.row(each["id"])["wanted"] for each in (stopped, killed)] == ["pause", "cancel"]


def test_a_stronger_wish_replaces_a_weaker_one_and_never_the_other_way_round(scratch: Scratch) -> None:
    task = scratch.running()
    for verb in ("pause", "stop", "cancel", "kill"):
        act(scratch, verb, task["id"])
        assert act(scratch, verb, task["id"]) == f"is asked to {verb} already"
    for verb in ("pause", "stop", "cancel"):
        assert act(scratch, verb, task["id"]) == "is asked to kill already"
    assert scratch.query("SELECT verb FROM request WHERE done_at IS NULL") == [("kill",)]


def test_a_stop_or_kill_of_what_waits_is_a_pause_or_a_cancel(scratch: Scratch) -> None:
    stopped, killed = scratch.add(), scratch.add()
    act(scratch, "stop", stopped)
    act(scratch, "kill", killed)
    assert (scratch.state(stopped), scratch.state(killed)) == (TaskState.PAUSED, TaskState.CANCELLED)
    assert act(scratch, "kill", killed) == "is cancelled already"


@pytest.mark.parametrize("verb", ["pause", "stop"])
def test_a_drained_attempt_of_a_task_that_shall_stand_still_leaves_it_paused_and_uncharged(
    scratch: Scratch, verb: str
) -> None:
    task = scratch.running()
    act(scratch, verb, task["id"])
    ended(scratch, task, "drained")
    row = scratch.row(task["id"])
    assert (row["state"], row["retry_count"], row["worker_id"]) == (TaskState.PAUSED, 0, None)
    assert [reason for kind, reason in scratch.events(task["id"]) if kind == "TASK_STATE"] == [
        "dispatched",
        "user_pause",
    ]


@pytest.mark.parametrize("verb", ["stop", ""])
@fault("TF227")
def test_a_suspended_attempt_that_is_ended_leaves_its_task_paused(scratch: Scratch, verb: str) -> None:
    task = scratch.running()
    act(scratch, "pause", task["id"])
    ended(scratch, task, "stopped")
    if verb:
        assert act(scratch, verb, task["id"]) == "asked to stop"
    ended(scratch, task, "drained")  # without a verb: its engine stops
    row = scratch.row(task["id"])
    assert (row["state"], row["worker_id"], row["wanted"]) == (TaskState.PAUSED, None, None)
    assert scratch.one("SELECT outcome FROM attempt") == "drained"
    act(scratch, "resume", task["id"])
    assert scratch.state(task["id"]) is TaskState.PENDING


def test_a_stopped_suspended_attempt_that_failed_meanwhile_does_not_start_again(scratch: Scratch) -> None:
    task = scratch.running()
    act(scratch, "pause", task["id"])
    ended(scratch, task, "stopped")
    act(scratch, "stop", task["id"])
    ended(scratch, task, "failed")
    assert scratch.state(task["id"]) is TaskState.PAUSED


def test_a_killed_task_is_cancelled_whatever_its_exit_code_says(scratch: Scratch) -> None:
    task = scratch.running()
    act(scratch, "kill", task["id"])
    ended(scratch, task, "failed")
    assert scratch.state(task["id"]) is TaskState.CANCELLED
    assert scratch.query("SELECT actor FROM event_log WHERE event_type = 'TASK_FINISHED'") == [(ANN,)]
