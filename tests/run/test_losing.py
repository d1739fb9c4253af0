from __future__ import annotations

from typing import Any

import msgspec
import pytest

from taskdeck.engine.errors import Refused, StorageTrouble
from taskdeck.engine.rules.settings import TypeSettings
from taskdeck.engine.rules.tasks import PENDING, TaskState
from taskdeck.engine.run import control
from taskdeck.engine.run.losing import fall_back, lose, take_all
from taskdeck.engine.store import attempts, checkpoints, operations, tasks
from tests.faults import fault
from tests.scratch import ANN, Scratch


def lost(scratch: Scratch, task: dict[str, Any], *, started: bool = True) -> str:
    """Lose the attempt of `task` (its row as it is now)."""
    now = scratch.row(task["id"])
    return scratch.do(lose, now, "worker 1 killed", started=started, policies=scratch.policies, max_losses=3)


def save(scratch: Scratch, task: dict[str, Any], data: str = '{"page": 3}') -> None:
    def unit(tx: Any) -> None:
        attempt = attempts.of_fence(tx, task["fence"])
        assert attempt
        checkpoints.add(tx, task["id"], attempt["id"], task["fence"], data, version=1, stage="", keep=3)
        tasks.forgive_losses(tx, task["id"])

    scratch.do(unit)


def again(scratch: Scratch, task: dict[str, Any]) -> dict[str, Any]:
    return scratch.start(task["id"], scratch.worker(f"again-{scratch.row(task['id'])['attempt']}"))


def test_a_lost_task_is_taken_over_and_the_events_tell_the_story_in_order(scratch: Scratch) -> None:
    task = scratch.running()
    save(scratch, task)
    assert lost(scratch, task) == f"#{task['id']} resumes at checkpoint 1"
    assert scratch.state(task["id"]) is TaskState.PENDING
    assert [reason for kind, reason in scratch.events(task["id"]) if kind == "TASK_STATE"] == [
        "dispatched",
        "worker_lost",
        "taken_over",
    ]
    assert scratch.one("SELECT outcome FROM attempt") == "lost"


def test_a_loss_charges_one_loss_and_no_retry(scratch: Scratch) -> None:
    task = scratch.running()
    lost(scratch, task)
    row = scratch.row(task["id"])
    assert (row["losses"], row["losses_total"], row["retry_count"], row["attempt"]) == (1, 1, 0, 1)


@fault("TF040")
def test_three_losses_without_progress_need_a_person(scratch: Scratch) -> None:
    task = scratch.running()
    for _ in range(2):
        lost(scratch, task)
        task = again(scratch, task)
    lost(scratch, task)
    row = scratch.row(task["id"])
    assert (row["state"], row["reason"], row["attempt"]) == (TaskState.NEEDS_REVIEW, "worker_lost", 3)
    assert "worker 1 killed" in row["error"]


def test_a_checkpoint_between_losses_shows_that_the_task_is_not_the_poison(scratch: Scratch) -> None:
    task = scratch.running()
    for _ in range(10):
        save(scratch, task)
        lost(scratch, task)
        assert scratch.state(task["id"]) is TaskState.PENDING
        task = again(scratch, task)


def test_even_with_progress_a_task_is_not_lost_for_ever(scratch: Scratch) -> None:
    task = scratch.running()
    for losses in range(1, 31):
        save(scratch, task)
        lost(scratch, task)
        if losses < 30:
            task = again(scratch, task)
    assert scratch.state(task["id"]) is TaskState.NEEDS_REVIEW


def test_a_dispatch_that_never_started_is_free(scratch: Scratch) -> None:
    task = scratch.running()
    lost(scratch, task, started=False)
    row = scratch.row(task["id"])
    assert (row["state"], row["reason"], row["losses"]) == (TaskState.PENDING, "drained", 0)
    assert scratch.one("SELECT outcome FROM attempt") == "never_started"


def die(scratch: Scratch, held: list[dict[str, Any]]) -> dict[int, int]:
    """Their worker dies by itself; who is suspect then, by task."""
    rows = [scratch.row(each["id"]) for each in held]
    fences = {row["fence"] for row in rows}
    scratch.do(take_all, rows, "worker 1 exit code 3", fences, scratch.policies, 3, suspected=True)
    return {row["id"]: scratch.row(row["id"])["suspect"] for row in rows}


def test_who_had_saved_a_checkpoint_goes_on_beside_others_after_a_shared_death(scratch: Scratch) -> None:
    worker = scratch.worker("shared")
    saved, unsaved = (scratch.start(scratch.add(), worker) for _ in range(2))
    save(scratch, saved)
    assert die(scratch, [saved, unsaved]) == {saved["id"]: 0, unsaved["id"]: 1}


@fault("TF040")
def test_who_kills_its_worker_behind_a_checkpoint_is_found_with_the_next_death(scratch: Scratch) -> None:
    poison = scratch.running()
    save(scratch, poison)
    seen = [die(scratch, [poison])[poison["id"]]]
    while scratch.state(poison["id"]) is TaskState.PENDING:
        poison = again(scratch, poison)
        seen.append(die(scratch, [poison])[poison["id"]])
    assert scratch.state(poison["id"]) is TaskState.NEEDS_REVIEW
    assert seen == [0, 1, 1], "it saves nothing new, since it resumes where it kills"


def test_a_task_that_must_not_run_twice_unasked_goes_to_review(scratch: Scratch) -> None:
    task = scratch.running(on_lost="review")
    lost(scratch, task)
    assert scratch.row(task["id"])["reason"] == "worker_lost"
    assert scratch.state(task["id"]) is TaskState.NEEDS_REVIEW


def test_a_cancel_that_was_asked_before_the_loss_still_holds(scratch: Scratch) -> None:
    task = scratch.running()
    scratch.do(control.cancel, scratch.row(task["id"]), ANN, {})
    lost(scratch, task)
    assert scratch.state(task["id"]) is TaskState.CANCELLED
    assert scratch.query(
        "SELECT actor FROM event_log WHERE reason = 'user_cancel' AND event_type = 'TASK_STATE'"
    ) == [(ANN,)]


@fault("TF227")
def test_a_pause_that_was_asked_before_the_loss_still_holds(scratch: Scratch) -> None:
    task = scratch.running()
    scratch.do(control.pause, scratch.row(task["id"]), ANN, {})
    lost(scratch, task)
    assert scratch.state(task["id"]) is TaskState.PAUSED


def test_a_suspended_attempt_that_is_lost_ends_and_the_task_stays_paused(scratch: Scratch) -> None:
    task = scratch.running()
    scratch.do(tasks.transition, task, TaskState.PAUSED, "user_pause", actor=ANN)
    assert scratch.row(task["id"])["worker_id"] is not None
    lost(scratch, task)
    row = scratch.row(task["id"])
    assert (row["state"], row["worker_id"], row["losses_total"]) == (TaskState.PAUSED, None, 1)
    assert scratch.one("SELECT outcome FROM attempt") == "lost"


@pytest.mark.parametrize("wanted", [None, "pause", "resume"])
def test_a_suspended_attempt_of_which_nobody_knows_how_it_ended_needs_a_person(
    scratch: Scratch, wanted: str | None
) -> None:
    task = scratch.running()
    scratch.do(tasks.transition, task, TaskState.PAUSED, "user_pause", actor=ANN, columns={"wanted": wanted})
    told = "what its worker had kept can't be read"
    scratch.do(take_all, [task], "worker 1 was killed", {task["fence"]}, scratch.policies, 3, doubt=told)
    row = scratch.row(task["id"])
    assert (row["state"], row["wanted"], row["worker_id"]) == (TaskState.NEEDS_REVIEW, None, None)
    assert told in row["error"]


def test_a_cancel_of_a_suspended_attempt_holds_whatever_became_of_it(scratch: Scratch) -> None:
    task = scratch.running()
    scratch.do(
        tasks.transition, task, TaskState.PAUSED, "user_pause", actor=ANN, columns={"wanted": "cancel"}
    )
    scratch.do(take_all, [task], "it was killed", {task["fence"]}, scratch.policies, 3, doubt="nobody knows")
    assert scratch.state(task["id"]) is TaskState.CANCELLED


def test_what_was_begun_and_not_recorded_is_in_doubt(scratch: Scratch) -> None:
    task = scratch.running()
    scratch.do(operations.begin, "task:1", "upload:42", task["id"], 1, task["fence"])
    lost(scratch, task)
    assert scratch.one("SELECT state FROM operation") == "IN_DOUBT"
    assert ("OPERATION_IN_DOUBT", "worker_lost") in scratch.events(task["id"])


@fault("TF246")
@fault("TF033")
def test_taking_over_twice_is_one_continuation(scratch: Scratch) -> None:
    task = scratch.running()
    seen = [scratch.row(task["id"])]
    first = scratch.do(take_all, seen, "worker 1 killed", {task["fence"]}, scratch.policies, 3)
    before = scratch.events()
    second = scratch.do(take_all, seen, "worker 1 killed", {task["fence"]}, scratch.policies, 3)
    assert (len(first), second) == (1, [])
    assert scratch.events() == before


@fault("TF014")
@fault("TF016")
def test_every_held_task_is_found_by_its_own_row(scratch: Scratch) -> None:
    ids = [scratch.running()["id"] for _ in range(40)]
    scratch.do(lambda tx: tx.connection.execute("PRAGMA defer_foreign_keys = ON"))
    assert [row["id"] for row in scratch.do(tasks.all_held)] == ids


def crash(scratch: Scratch, *running: dict[str, Any]) -> None:
    """The worker of all of these died by itself, while its engine lived."""
    scratch.do(
        take_all,
        [scratch.row(each["id"]) for each in running],
        "worker 1 killed by SIGSEGV",
        {each["fence"] for each in running},
        scratch.policies,
        3,
        suspected=True,
    )


@fault("TF040")
def test_who_was_in_a_worker_with_the_poison_is_not_charged_and_the_poison_ends_in_review(
    scratch: Scratch,
) -> None:
    worker = scratch.worker()
    poison, others = scratch.add(), [scratch.add() for _ in range(3)]
    crash(scratch, *(scratch.start(each, worker) for each in (poison, *others)))
    for each in (poison, *others):
        row = scratch.row(each)
        assert (row["state"], row["losses"], row["losses_total"], row["suspect"]) == (
            TaskState.PENDING,
            0,
            1,
            1,
        )
    for _ in range(3):  # each is alone in its worker now
        crash(scratch, again(scratch, {"id": poison}))
    row = scratch.row(poison)
    assert (row["state"], row["reason"], row["attempt"]) == (TaskState.NEEDS_REVIEW, "worker_lost", 4)
    assert "SIGSEGV" in row["error"]
    assert [scratch.row(each)["losses"] for each in others] == [0, 0, 0]


def test_one_that_had_begun_beside_others_that_had_not_is_charged(scratch: Scratch) -> None:
    worker = scratch.worker()
    begun, waiting = (scratch.start(scratch.add(), worker) for _ in "12")
    rows = [scratch.row(each["id"]) for each in (begun, waiting)]
    scratch.do(take_all, rows, "worker 1 exit code 3", {begun["fence"]}, scratch.policies, 3, suspected=True)
    assert (scratch.row(begun["id"])["losses"], scratch.row(waiting["id"])["losses"]) == (1, 0)
    assert scratch.row(waiting["id"])["suspect"] == 0


@pytest.mark.parametrize("type_name", ["shell", "http"])
def test_a_configuration_says_for_the_built_in_types_what_becomes_of_a_lost_attempt(
    scratch: Scratch, type_name: str
) -> None:
    own = {type_name: TypeSettings(on_lost="review")}
    scratch.policies.config = msgspec.structs.replace(scratch.config, types=own)
    asks, runs = scratch.running(type_name=type_name), scratch.running(type_name=type_name, on_lost="rerun")
    lost(scratch, asks)
    lost(scratch, runs)
    assert scratch.state(asks["id"]) is TaskState.NEEDS_REVIEW
    assert scratch.state(runs["id"]) is TaskState.PENDING


DAMAGED = '{"x":1}'


def damage(scratch: Scratch, task_id: int, column: str = "ending", text: str = DAMAGED) -> None:
    scratch.do(
        lambda tx: tx.connection.execute(f"UPDATE task SET {column} = ? WHERE id = ?", (text, task_id))
    )


def test_a_row_that_can_not_be_read_is_left_to_a_person_and_the_others_are_taken_over(
    scratch: Scratch,
) -> None:
    worker = scratch.worker()
    held = [scratch.start(scratch.add(), worker) for _ in range(3)]
    damage(scratch, held[1]["id"])
    crash(scratch, *held)
    assert [scratch.state(each["id"]) for each in held] == [PENDING, TaskState.NEEDS_REVIEW, PENDING]
    row = scratch.row(held[1]["id"])
    assert (row["reason"], row["worker_id"]) == ("worker_lost", None)
    assert "can't be read" in row["error"]
    assert row["fence"] > held[1]["fence"]
    assert ("ALERT_RAISED", "row_failed") in scratch.events(held[1]["id"])
    assert scratch.query("SELECT DISTINCT outcome FROM attempt") == [("lost",)]


def test_a_person_can_give_up_what_has_an_ending_that_can_not_be_read_and_is_told_so(
    scratch: Scratch,
) -> None:
    task = scratch.running()
    damage(scratch, task["id"])
    crash(scratch, task)
    with pytest.raises(Refused, match="discard --no-rollback"):
        scratch.do(control.retry, scratch.row(task["id"]), ANN, {})
    scratch.do(control.discard, scratch.row(task["id"]), ANN, {"no_rollback": True})
    assert scratch.state(task["id"]) is TaskState.DEAD


def test_a_suspended_attempt_whose_row_can_not_be_read_stays_paused_and_is_named(scratch: Scratch) -> None:
    task = scratch.running()
    scratch.do(control.cancel, task, ANN, {})
    scratch.do(tasks.transition, scratch.row(task["id"]), TaskState.PAUSED, "user_pause", actor=ANN)
    damage(scratch, task["id"])
    crash(scratch, task)
    assert (scratch.state(task["id"]), scratch.row(task["id"])["worker_id"]) == (TaskState.PAUSED, None)
    assert ("ALERT_RAISED", "row_failed") in scratch.events(task["id"])


def test_what_can_not_even_go_to_review_is_named_once_and_keeps_nobody(scratch: Scratch) -> None:
    worker = scratch.worker()
    bad, good = (scratch.start(scratch.add(), worker) for _ in "12")
    scratch.do(
        lambda tx: tx.connection.execute(
            "CREATE TEMP TRIGGER broken BEFORE UPDATE ON task WHEN old.id = 1 BEGIN SELECT RAISE(FAIL, 'broken'); END"
        )
    )
    for _ in range(2):
        crash(scratch, bad, good)
    assert (scratch.state(bad["id"]), scratch.state(good["id"])) == (TaskState.RUNNING, PENDING)
    assert scratch.events(bad["id"]).count(("ALERT_RAISED", "row_failed")) == 1


def test_trouble_of_the_store_is_no_rows_fault(scratch: Scratch) -> None:
    task = scratch.running()
    with pytest.raises(StorageTrouble):
        scratch.do(fall_back, task, "worker 1 killed", StorageTrouble("the disk is full"))
    assert scratch.state(task["id"]) is TaskState.RUNNING
