"""The state machines hold to the tables of docs/states.md: every state and reason, and nothing that stands not there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.errors import IllegalTransition
from taskdeck.engine.rules import resource_states, tasks
from taskdeck.engine.rules.resource_states import CooldownReason, Kind, ResourceEvent, ResourceState
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.store.tasks import NO_LEASE, get, transition
from tests import stated
from tests.seeded import Seed

TASKS = stated.moves("Tasks")
SLOTS = stated.moves("Resources and routes")
LEGAL = sorted((came, to, reason) for came, row in TASKS.items() for to, why in row.items() for reason in why)
HELD = {"RUNNING", "LOST"}
FINAL = {"SUCCESS", "FAILED", "DEAD", "CANCELLED"}


@pytest.fixture
def seed(tmp_path: Path) -> Iterator[Seed]:
    made = Seed(tmp_path / "taskdeck.db")
    yield made
    made.close()


@pytest.fixture
def lease(seed: Seed) -> dict[str, Any]:
    """What a task has while somebody holds it."""
    return {"worker_id": seed.worker(), "lease_until_boot": 1e9}


def actor_for(reason: str) -> str:
    return "cli:ann" if reason in stated.persons_acts() else "engine"


def is_allowed_to_a_task(came: str, to: str, reason: str, actor: str) -> bool:
    try:
        tasks.check(1, TaskState(came), TaskState(to), reason, actor)
    except IllegalTransition:
        return False
    return True


# ---- tasks ------------------------------------------------------------------------------------------------------------


def test_the_page_names_every_state_there_is() -> None:
    assert set(TASKS) == {state.value for state in TaskState}
    assert set(SLOTS) == {state.value for state in ResourceState}


@pytest.mark.parametrize("came", TASKS)
def test_a_task_changes_for_the_reasons_on_the_page_and_for_no_other(came: str) -> None:
    for to, reason in itertools.product(TASKS, [*stated.reasons_of(TASKS), "nobody_knows"]):
        listed = reason in TASKS[came].get(to, ())
        assert is_allowed_to_a_task(came, to, reason, actor_for(reason)) is listed, (came, to, reason)
        if reason in stated.persons_acts():
            assert not is_allowed_to_a_task(came, to, reason, "engine"), (came, to, reason)


def test_the_engine_leaves_no_end_by_itself() -> None:
    for came in FINAL:
        assert all(reason.startswith("user_") for why in TASKS[came].values() for reason in why)


def test_each_change_on_the_page_is_one_row_and_one_event(seed: Seed, lease: dict[str, Any]) -> None:
    for came, to, reason in LEGAL:
        task_id = seed.task(state=came, **lease if came in HELD else {})
        columns = lease if to in HELD else NO_LEASE
        with seed.writing() as tx:
            transition(tx, get(tx, task_id), TaskState(to), reason, actor=actor_for(reason), columns=columns)
        row = seed.tx.row("SELECT state, reason FROM task WHERE id = ?", task_id)
        told = seed.tx.rows("SELECT * FROM event_log WHERE task_id = ? ORDER BY event_id", task_id)
        kinds = ["TASK_CREATED", "TASK_STATE"] + ["TASK_FINISHED"] * (to in FINAL)
        assert row == {"state": to, "reason": reason}
        assert ([each["event_type"] for each in told], told[1]["reason"]) == (kinds, reason)


def test_whatever_is_not_on_the_page_is_refused_without_a_trace(seed: Seed, lease: dict[str, Any]) -> None:
    rows = {came: seed.task(state=came, **lease if came in HELD else {}) for came in TASKS}
    before = list(seed.tx.connection.iterdump())
    with seed.writing() as tx:
        for came, to, reason in itertools.product(TASKS, TASKS, stated.reasons_of(TASKS)):
            if (came, to, reason) not in LEGAL:
                with pytest.raises(IllegalTransition, match=f"#{rows[came]} is {came}"):
                    transition(tx, get(tx, rows[came]), TaskState(to), reason, actor="cli:ann")
    assert list(seed.tx.connection.iterdump()) == before


# ---- resources and routes ---------------------------------------------------------------------------------------------


def is_listed_for_a_slot(came: str, to: str, event: str, kind: Kind, reason: str | None) -> bool:
    """What the page says, in its own words."""
    narrower, reasons = stated.narrower(), stated.cooldown_reasons()
    if event not in SLOTS[came].get(to, ()):
        return False
    if kind is Kind.UNIT and event in narrower["for routes only"]:
        return False
    if kind is Kind.ROUTE and to == "AVAILABLE" and event not in narrower["bring a route back to AVAILABLE"]:
        return False
    if to != "COOLDOWN":
        return reason is None
    return reason in reasons[event] and (kind is Kind.ROUTE or reason in stated.unit_reasons())


def is_allowed_to_a_slot(came: str, to: str, event: str, kind: Kind, reason: str | None, actor: str) -> bool:
    why = CooldownReason(reason) if reason else None
    try:
        resource_states.check(
            "x", ResourceState(came), ResourceState(to), ResourceEvent(event), kind, why, actor
        )
    except IllegalTransition:
        return False
    return True


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("came", SLOTS)
def test_a_slot_changes_by_the_events_on_the_page_and_by_no_other(came: str, kind: Kind) -> None:
    reasons = [None, *(reason.value for reason in CooldownReason)]
    for to, event, reason in itertools.product(SLOTS, [each.value for each in ResourceEvent], reasons):
        listed = is_listed_for_a_slot(came, to, event, kind, reason)
        found = is_allowed_to_a_slot(came, to, event, kind, reason, "cli:ann")
        assert found is listed, (came, to, event, kind, reason)
        if event.startswith("user_"):
            assert not is_allowed_to_a_slot(came, to, event, kind, reason, "engine")


def test_the_page_names_every_event_and_every_reason() -> None:
    assert set(stated.reasons_of(SLOTS)) == {event.value for event in ResourceEvent}
    named = {reason for reasons in stated.cooldown_reasons().values() for reason in reasons}
    assert named == {reason.value for reason in CooldownReason}
    assert stated.unit_reasons() == {reason.value for reason in resource_states.RESTING}
