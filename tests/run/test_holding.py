from __future__ import annotations

from typing import Any

import pytest

from taskdeck.engine.errors import UsageError
from taskdeck.engine.rules.declarations import ResourceDeclaration
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.run import control, holding
from taskdeck.engine.store import holds, requests, slots, tasks
from tests.scratch import ANN, Scratch


def hold(scratch: Scratch, scope: str, running: str = "pause") -> dict[str, Any]:
    return scratch.do(holding.hold, {"scope": scope, "running": running}, ANN)


def release(scratch: Scratch, scope: str) -> dict[str, Any]:
    return scratch.do(holding.release, {"scope": scope}, ANN)


def is_paused(scratch: Scratch, task: dict[str, Any]) -> None:
    """The attempt of a task was asked to pause and has done so."""
    scratch.do(lambda tx: tasks.transition(tx, tasks.get(tx, task["id"]), TaskState.PAUSED, "user_pause", actor=ANN,
                                           columns=tasks.NO_LEASE))  # fmt: skip


def wanted(scratch: Scratch, *of: dict[str, Any]) -> list[str | None]:
    return [scratch.row(each["id"])["wanted"] for each in of]


def test_a_hold_stands_once_and_is_taken_back_once(scratch: Scratch) -> None:
    assert hold(scratch, "type:fetch")["changed"]
    assert not hold(scratch, "type:fetch")["changed"]
    assert scratch.do(holds.holds) == {"type:fetch": ANN}
    assert release(scratch, "type:fetch")["changed"]
    assert not release(scratch, "type:fetch")["changed"]
    assert scratch.events() == [("OPERATOR_HOLD", "hold"), ("OPERATOR_RELEASE", "release")]


def test_what_runs_in_a_held_type_is_asked_and_nothing_else(scratch: Scratch) -> None:
    fetch, mail = scratch.running(), scratch.running(type_name="mail")
    assert hold(scratch, "type:fetch")["tasks"] == [fetch["id"]]
    assert wanted(scratch, fetch, mail) == ["pause", None]
    assert hold(scratch, "all", "stop")["tasks"] == [fetch["id"], mail["id"]]
    assert [wish["verb"] for wish in scratch.do(requests.wishes)] == ["stop", "stop"]


def test_what_runs_may_go_on(scratch: Scratch) -> None:
    task = scratch.running()
    assert hold(scratch, "all", "")["tasks"] == []
    assert wanted(scratch, task) == [None]


def test_a_held_pool_asks_those_that_hold_some_of_it(scratch: Scratch) -> None:
    scratch.declare(ResourceDeclaration("b-1", pool="browser"), ResourceDeclaration("g-1", pool="gpu"))
    browser, other = scratch.running(), scratch.running()
    scratch.do(slots.take_from_pool, "browser", 1, browser, 300.0, "task")
    scratch.do(slots.take_from_pool, "gpu", 1, other, 300.0, "task")
    assert hold(scratch, "pool:browser")["tasks"] == [browser["id"]]


def test_a_release_lets_exactly_those_go_on_that_the_hold_had_paused(scratch: Scratch) -> None:
    by_hold, by_hand, then_by_hand = scratch.running(), scratch.running(), scratch.running()
    scratch.do(control.act, "pause", scratch.row(by_hand["id"]), ANN, {})
    is_paused(scratch, by_hand)
    hold(scratch, "type:fetch")
    for task in (by_hold, then_by_hand):
        is_paused(scratch, task)
    scratch.do(control.act, "pause", scratch.row(then_by_hand["id"]), ANN, {})
    assert release(scratch, "type:fetch")["tasks"] == [by_hold["id"]]
    states = [scratch.state(each["id"]) for each in (by_hold, by_hand, then_by_hand)]
    assert states == [TaskState.PENDING, TaskState.PAUSED, TaskState.PAUSED]


def test_a_release_before_the_pause_took_effect_withdraws_it(scratch: Scratch) -> None:
    task = scratch.running()
    hold(scratch, "all")
    release(scratch, "all")
    assert wanted(scratch, task) == [None]
    assert scratch.state(task["id"]) is TaskState.RUNNING


def test_what_another_hold_still_covers_stays_paused_until_that_one_goes(scratch: Scratch) -> None:
    task = scratch.running()
    hold(scratch, "all")
    is_paused(scratch, task)
    hold(scratch, "type:fetch")
    assert release(scratch, "all")["tasks"] == []
    assert scratch.state(task["id"]) is TaskState.PAUSED
    assert release(scratch, "type:fetch")["tasks"] == [task["id"]]


@pytest.mark.parametrize("scope", ["", "queue", "type:", "pool:", "task:3"])
def test_what_is_no_scope_is_refused(scratch: Scratch, scope: str) -> None:
    with pytest.raises(UsageError, match="can't be held"):
        hold(scratch, scope)


@pytest.mark.parametrize("scope", ["all", "type:fetch", "pool:lab"])
def test_a_retry_under_a_hold_names_it(scratch: Scratch, scope: str) -> None:
    task_id = scratch.add(needs='["lab"]')
    scratch.do(control.cancel, scratch.row(task_id), ANN, {})
    hold(scratch, scope)
    words = {"all": "everything", "type:fetch": "type fetch", "pool:lab": "pool lab"}[scope]
    wanted = (
        f"{words} is held by {ANN} (let it go on: taskdeck resume {'--all' if scope == 'all' else scope})"
    )
    for said in ("waits for its turn", "is pending already"):
        assert scratch.do(control.retry, scratch.row(task_id), ANN, {}) == f"{said}; {wanted}"
    hold(scratch, "type:other")
    release(scratch, scope)
    assert scratch.do(control.retry, scratch.row(task_id), ANN, {}) == "is pending already"
