from __future__ import annotations

from typing import Any

import pytest

from taskdeck.engine.errors import NotFound, Refused, UsageError
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.run import control, dated
from taskdeck.engine.store import requests, tasks
from tests.scratch import ANN, Scratch


def ask(scratch: Scratch, verb: str, task_id: int, delay: float = 5.0, **args: Any) -> str:
    return scratch.do(lambda tx: dated.ask(tx, verb, tasks.get(tx, task_id), ANN, {"delay": delay, **args}))


def due(scratch: Scratch, seconds: float = 5.0) -> int:
    scratch.clock.advance(seconds)
    return scratch.do(dated.apply_due)


def outcomes(scratch: Scratch) -> list[str]:
    return [row[0] for row in scratch.query("SELECT outcome FROM request ORDER BY id")]


def test_an_act_that_waits_is_done_when_its_time_comes_and_once(scratch: Scratch) -> None:
    task_id = scratch.add()
    assert ask(scratch, "cancel", task_id) == "cancel in 5 s"
    assert due(scratch, 4.0) == 0
    assert scratch.do(dated.settle, {"ids": [task_id]}, ANN) == []
    assert scratch.state(task_id) is TaskState.PENDING
    assert due(scratch, 1.0) == 1
    assert due(scratch) == 0
    assert scratch.state(task_id) is TaskState.CANCELLED
    assert outcomes(scratch) == ["cancelled"]
    (told,) = scratch.do(dated.settle, {"ids": [task_id]}, ANN)
    assert told == {"id": task_id, "ok": True, "message": "cancelled", "state": "CANCELLED"}


def test_a_cancel_of_what_runs_reaches_its_attempt_when_it_is_due(scratch: Scratch) -> None:
    task = scratch.running()
    ask(scratch, "cancel", task["id"])
    assert scratch.do(requests.wishes) == []
    due(scratch)
    assert [wish["verb"] for wish in scratch.do(requests.wishes)] == ["cancel"]


def test_what_is_taken_back_never_happens(scratch: Scratch) -> None:
    first, second, third = (scratch.add() for _ in "123")
    ask(scratch, "cancel", first)
    scratch.clock.advance(1)
    scratch.do(
        lambda tx: [
            dated.ask(tx, "cancel", tasks.get(tx, each), ANN, {"delay": 5}) for each in (second, third)
        ]
    )
    assert scratch.do(dated.take_back, {}, ANN) == {"verb": "cancel", "ids": [second, third]}
    due(scratch)
    assert scratch.state(first) is TaskState.CANCELLED
    assert scratch.state(second) is scratch.state(third) is TaskState.PENDING
    with pytest.raises(NotFound, match="nothing to take back"):
        scratch.do(dated.take_back, {}, ANN)


def test_nobody_takes_back_what_another_asked_for(scratch: Scratch) -> None:
    ask(scratch, "cancel", scratch.add())
    with pytest.raises(NotFound):
        scratch.do(dated.take_back, {}, "cli:bob")


def test_what_could_not_be_done_now_is_refused_now_and_nothing_is_kept(scratch: Scratch) -> None:
    task = scratch.running()
    with pytest.raises(Refused, match="is running"):
        ask(scratch, "retry", task["id"])
    ask(scratch, "cancel", task["id"])
    assert scratch.row(task["id"])["wanted"] is None
    assert [kind for kind, _ in scratch.events(task["id"])].count("OPERATOR_REQUEST") == 1


def test_what_became_impossible_meanwhile_is_told(scratch: Scratch) -> None:
    task = scratch.running()
    ask(scratch, "cancel", task["id"])
    scratch.do(tasks.transition, task, TaskState.SUCCESS, "done", actor="engine", columns=tasks.NO_LEASE)
    due(scratch)
    assert scratch.state(task["id"]) is TaskState.SUCCESS
    assert "has succeeded" in outcomes(scratch)[0]
    (told,) = scratch.do(dated.settle, {"ids": [task["id"]]}, ANN)
    assert (told["ok"], told["state"], told["message"][:2]) == (False, "SUCCESS", "#1")
    assert scratch.query("SELECT level FROM event_log WHERE message LIKE '%has succeeded%'") == [("warning",)]


def test_the_end_of_an_attempt_does_not_lose_what_waits(scratch: Scratch) -> None:
    task = scratch.running()
    ask(scratch, "cancel", task["id"])
    columns = tasks.wait_again(task, "2026-11-29T13:00:00.000000Z")
    scratch.do(tasks.transition, task, TaskState.RETRYING, "retryable_error", actor="engine", columns=columns)
    scratch.do(requests.close_all_of, task["id"], "the attempt ended")
    due(scratch)
    assert scratch.state(task["id"]) is TaskState.CANCELLED


def test_a_later_act_on_the_same_task_replaces_the_one_that_waits(scratch: Scratch) -> None:
    task = scratch.running()
    scratch.do(
        tasks.transition, task, TaskState.NEEDS_REVIEW, "in_doubt", actor="engine", columns=tasks.NO_LEASE
    )
    ask(scratch, "discard", task["id"])
    ask(scratch, "retry", task["id"])
    assert due(scratch) == 1
    assert scratch.state(task["id"]) is TaskState.PENDING


@pytest.mark.parametrize(
    ("verb", "delay"), [("kill", 5.0), ("cancel", -1.0), ("cancel", 1e9), ("discard", float("nan"))]
)
def test_a_kill_does_not_wait_and_nothing_waits_for_ever(scratch: Scratch, verb: str, delay: float) -> None:
    with pytest.raises(UsageError, match="can't wait"):
        ask(scratch, verb, scratch.add(), delay)


def test_a_person_who_acts_at_once_has_his_way_and_the_waiting_act_comes_after(scratch: Scratch) -> None:
    task_id = scratch.add()
    ask(scratch, "cancel", task_id)
    scratch.do(control.act, "cancel", scratch.row(task_id), ANN, {})
    due(scratch)
    assert outcomes(scratch) == ["is cancelled already"]
