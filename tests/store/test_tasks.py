from __future__ import annotations

import itertools
import sqlite3

import pytest

from taskdeck.engine.errors import IllegalTransition, NotFound, StaleLease
from taskdeck.engine.rules.tasks import TRANSITIONS, TaskState
from taskdeck.engine.store import tasks
from tests.faults import fault
from tests.scratch import ANN, Scratch

ALL_REASONS = sorted(
    {reason for row in TRANSITIONS.values() for reasons in row.values() for reason in reasons}
)


def test_a_new_task_is_pending_and_says_so_once(scratch: Scratch) -> None:
    task_id = scratch.add()
    assert scratch.state(task_id) is TaskState.PENDING
    assert scratch.events(task_id) == [("TASK_CREATED", "created")]


@fault("TF241")
def test_the_same_key_three_times_makes_one_task(scratch: Scratch) -> None:
    first = [scratch.add(key="order:7") for _ in range(3)]
    assert len(set(first)) == 1
    assert scratch.one("SELECT count(*) FROM task") == 1
    assert scratch.events(first[0]) == [("TASK_CREATED", "created")]


@fault("TF240")
def test_a_task_with_a_key_does_not_collide_with_itself_on_its_retry(scratch: Scratch) -> None:
    task = scratch.running(key="order:7")
    columns = tasks.wait_again({"priority": 100}, "2026-11-29T12:00:00.000000Z")
    scratch.do(tasks.transition, task, TaskState.RETRYING, "retryable_error", actor="engine", columns=columns)
    again = scratch.start(task["id"], scratch.worker("again"))
    assert again["attempt"] == 2


@pytest.mark.parametrize("state", list(TaskState))
def test_only_the_changes_of_the_table_are_made_from(state: TaskState, scratch: Scratch) -> None:
    task_id = scratch.add()
    worker = scratch.worker()
    force(scratch, task_id, state, worker)
    for to, reason in itertools.product(TaskState, ALL_REASONS):
        task = scratch.row(task_id)
        before = scratch.one("SELECT count(*) FROM event_log")
        allowed = reason in TRANSITIONS[state].get(to, ())
        lease = {"worker_id": worker, "lease_until_boot": 1.0} if to is TaskState.RUNNING else {}
        try:
            scratch.do(tasks.transition, task, to, reason, actor=ANN, columns=lease)
            assert allowed, (state, to, reason)
            assert scratch.state(task_id) is to
            changes = scratch.query("SELECT event_type FROM event_log WHERE event_id > ?", before)
            assert [row[0] for row in changes].count("TASK_STATE") == 1
            force(scratch, task_id, state, worker)
        except IllegalTransition:
            assert not allowed, (state, to, reason)
            assert scratch.state(task_id) is state
            assert scratch.one("SELECT count(*) FROM event_log") == before


def force(scratch: Scratch, task_id: int, state: TaskState, worker: int) -> None:
    """Put a row into a state from outside, as no code of ours may."""
    with sqlite3.connect(scratch.path) as connection:
        connection.execute(
            "UPDATE task SET state = ?, worker_id = ?, lease_until_boot = 1 WHERE id = ?",
            (state, worker, task_id),
        )
    connection.close()


def test_the_engine_may_not_do_what_only_a_person_may(scratch: Scratch) -> None:
    task = scratch.row(scratch.add())
    with pytest.raises(IllegalTransition):
        scratch.do(tasks.transition, task, TaskState.CANCELLED, "user_cancel", actor="engine")


@fault("TF004")
def test_of_many_claims_of_one_task_exactly_one_wins(scratch: Scratch) -> None:
    task_id = scratch.add()
    workers = [scratch.worker(f"w{number}", number) for number in range(8)]
    seen = scratch.do(tasks.get, task_id)  # all of them saw it waiting
    won = 0
    for worker in workers:
        try:
            wish = tasks.Claim(task_id, TaskState.PENDING, worker)
            scratch.do(tasks.claim, wish, seen, 300.0, resumes_at=0)
            won += 1
        except (IllegalTransition, StaleLease):
            continue
    assert won == 1
    assert [kind for kind, _ in scratch.events(task_id)].count("TASK_STATE") == 1


@fault("TF023")
def test_a_sweep_that_read_old_data_cannot_touch_a_task_that_has_succeeded(scratch: Scratch) -> None:
    seen = scratch.running()
    scratch.do(tasks.transition, seen, TaskState.SUCCESS, "done", actor="engine", columns=tasks.NO_LEASE)
    with pytest.raises(IllegalTransition):
        scratch.do(tasks.transition, seen, TaskState.LOST, "worker_lost", actor="engine")
    assert scratch.state(seen["id"]) is TaskState.SUCCESS


def test_a_stale_worker_no_longer_holds_the_task_after_a_takeover(scratch: Scratch) -> None:
    old = scratch.running()
    columns = {
        **tasks.wait_again(old, old["next_run_at"]),
        "fence": scratch.do(lambda tx: tx.next_fences(1)[0]),
    }
    scratch.do(tasks.transition, old, TaskState.LOST, "worker_lost", actor="engine", columns=columns)
    with pytest.raises(StaleLease):
        scratch.do(tasks.held, old["id"], old["fence"])


def test_a_fence_only_grows(scratch: Scratch) -> None:
    fences = [scratch.running()["fence"] for _ in range(5)]
    assert fences == sorted(set(fences))
    with sqlite3.connect(scratch.path) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("UPDATE task SET fence = 0 WHERE id = 5")
    connection.close()


def test_ids_are_never_used_twice(scratch: Scratch) -> None:
    first = scratch.add()
    with sqlite3.connect(scratch.path) as connection:
        connection.execute("DELETE FROM task")
    connection.close()
    assert scratch.add() > first


def test_an_unknown_task_is_named(scratch: Scratch) -> None:
    with pytest.raises(NotFound, match="#99"):
        scratch.do(tasks.get, 99)


def test_the_due_heads_of_a_lane_come_in_the_order_in_which_they_start(scratch: Scratch) -> None:
    late = scratch.add(scheduled_at="2026-11-29T11:59:59.000000Z")
    first = scratch.add(priority=1)
    early = scratch.add(scheduled_at="2026-11-29T11:00:00.000000Z")
    scratch.add(scheduled_at="2026-11-29T13:00:00.000000Z")
    assert [row.id for row in scratch.do(tasks.due, "fetch", 10)] == [first, early, late]
    assert scratch.do(tasks.next_due) == "2026-11-29T13:00:00.000000Z"


def test_lanes_are_found_by_jumping_through_the_index(scratch: Scratch) -> None:
    for name in ("b", "a", "c", "a"):
        scratch.add(name)
    assert scratch.do(tasks.lanes) == ["a", "b", "c"]


def test_a_task_that_waits_long_gains_priority_but_keeps_its_own(scratch: Scratch) -> None:
    old = scratch.add()
    scratch.clock.advance(700)
    young = scratch.add()
    assert scratch.do(tasks.age, 600.0) == 1
    assert (scratch.row(old)["effective_priority"], scratch.row(old)["priority"]) == (90, 100)
    assert scratch.row(young)["effective_priority"] == 100


@fault("TF017")
@fault("TF039")
def test_only_what_somebody_holds_counts_as_running(scratch: Scratch) -> None:
    task = scratch.running()
    scratch.running()
    scratch.do(tasks.transition, task, TaskState.SUCCESS, "done", actor="engine", columns=tasks.NO_LEASE)
    assert scratch.do(tasks.running_by_type) == {"fetch": 1}


def test_clones_share_the_scope_of_their_oldest_ancestor(scratch: Scratch) -> None:
    root = scratch.add()
    child = scratch.add(parent_id=root)
    grandchild = scratch.add(parent_id=child)
    assert {scratch.do(tasks.family_scope, each) for each in (root, child, grandchild)} == {f"task:{root}"}
