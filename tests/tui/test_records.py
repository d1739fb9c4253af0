"""What a task has on record as the command line shows it: checkpoints that `retry --from` takes, operations."""

from __future__ import annotations

import re
from typing import Any

import pytest

from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.store import attempts, checkpoints, operations, rollback, tasks
from tests.seeded import Seed
from tests.tui.calls import Calls


def failed(seed: Seed, *data: str) -> int:
    """A task of type fetch that saved these checkpoints and failed."""
    task_id = seed.running(seed.worker(), type="fetch", payload={})
    with seed.writing() as tx:
        task = tasks.get(tx, task_id)
        fence = tx.row("SELECT fence FROM attempt WHERE task_id = ?", task_id)["fence"]  # type: ignore[index]
        attempt = attempts.of_fence(tx, fence)
        assert attempt
        for text in data:
            checkpoints.add(tx, task_id, attempt["id"], fence, text, version=1, stage="", keep=3)
        attempts.close_attempt(tx, fence, "failed", "fatal_error")
        tasks.transition(
            tx, task, TaskState.FAILED, "fatal_error", actor="engine", columns={**tasks.NO_LEASE}
        )
    return task_id


def test_kept_checkpoints_are_shown_with_number_age_version_and_what_they_hold(
    taskdeck: Calls, seed: Seed
) -> None:
    task_id = str(failed(seed, '{"page":1}', '{"page":2}'))
    shown = taskdeck("show", task_id).out
    assert "CHECKPOINT" in shown
    lines = [line.split() for line in shown.splitlines() if '{"page":' in line and line[0].isdigit()]
    assert [(line[0], line[-1]) for line in lines] == [("2", '{"page":2}'), ("1", '{"page":1}')]
    found = taskdeck("show", task_id, "--json").lines[0]["checkpoints"]
    assert [(each["number"], each["version"], each["attempt"]) for each in found] == [(2, 1, 1), (1, 1, 1)]


def test_retry_from_a_checkpoint_or_the_start_is_told_and_shown(taskdeck: Calls, seed: Seed) -> None:
    task_id = str(failed(seed, '{"page":1}', '{"page":2}'))
    assert "it resumes at checkpoint 1" in taskdeck("retry", task_id, "--from", "1").out
    assert "again from 1" in taskdeck("show", task_id).out
    (found,) = taskdeck("retry", task_id, "--from", "start", "--json").lines
    assert (found["ok"], found["state"]) == (True, "PENDING")
    shown: dict[str, Any] = taskdeck("show", task_id, "--json").lines[0]
    assert [each["again_from"] for each in shown["checkpoints"]] == [0, 1, None, None]
    assert "from the beginning" in taskdeck("show", task_id).out


@pytest.mark.parametrize(("number", "code"), [("9", 4), ("x", 2), ("-1", 2), ("", 2), ("1.5", 2)])
def test_a_checkpoint_that_is_none_is_refused_with_what_to_write(
    taskdeck: Calls, seed: Seed, number: str, code: int
) -> None:
    task_id = str(failed(seed, '{"page":1}', '{"page":2}'))
    told = taskdeck("retry", task_id, "--from", number, code=code).err
    assert "checkpoint" in told
    assert "start" in told
    assert taskdeck("show", task_id, "--json").lines[0]["state"] == "FAILED"


def in_doubt(seed: Seed, *keys: str) -> int:
    """A task that waits for a person: it began these operations, and its worker was lost."""
    task_id = seed.running(seed.worker(), type="fetch", payload={})
    with seed.writing() as tx:
        task = tasks.get(tx, task_id)
        fence = tx.row("SELECT fence FROM attempt WHERE task_id = ?", task_id)["fence"]  # type: ignore[index]
        attempt = attempts.of_fence(tx, fence)
        assert attempt
        for key in keys:
            operations.begin(tx, f"task:{task_id}", key, task_id, attempt["id"], fence)
        operations.doubt_open_ones(tx, fence, "worker_lost")
        attempts.close_attempt(tx, fence, "lost", "worker_lost")
        tasks.transition(
            tx, task, TaskState.NEEDS_REVIEW, "in_doubt", actor="engine", columns={**tasks.NO_LEASE}
        )
    return task_id


def test_show_why_and_retry_tell_what_is_in_doubt_since_when_and_what_to_do(
    taskdeck: Calls, seed: Seed
) -> None:
    task_id = str(in_doubt(seed, "mail:a b"))
    for shown in (taskdeck("why", task_id).out, taskdeck("show", task_id).out):
        text = " ".join(shown.split())
        assert re.search(r"operation mail:a b is in doubt since \S*11-29 12:00:00", text)
        assert f"taskdeck operation done {task_id} 'mail:a b'" in text
    refused = taskdeck("retry", task_id, code=4).err
    assert "same doubt again" in refused
    assert f"taskdeck operation redo {task_id} 'mail:a b' --retry" in refused


def test_without_a_task_all_operations_in_doubt_are_listed(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    assert "no operation is in doubt" in taskdeck("operation", "list").err
    first, second = in_doubt(seed, "a", "mail:b"), in_doubt(seed, "c")
    taskdeck("operation", "done", str(first), "a")
    found = taskdeck("operation", "list", "--json").lines
    assert [(each["task"], each["key"]) for each in found] == [(first, "mail:b"), (second, "c")]
    shown = taskdeck("operation", "list").out.splitlines()
    assert [line.split()[:2] for line in shown[1:]] == [[f"#{first}", "mail:b"], [f"#{second}", "c"]]


def test_operations_are_listed_and_settled_by_a_persons_word(taskdeck: Calls, seed: Seed) -> None:
    task_id = str(in_doubt(seed, "a", "b"))
    assert [each["state"] for each in taskdeck("operation", "list", task_id, "--json").lines] == [
        "IN_DOUBT"
    ] * 2
    assert "in doubt" in taskdeck("operation", "list", task_id).out
    ended = taskdeck("operation", "done", task_id, "a", "--result", '{"id":7}')
    assert ended.out == f"#{task_id} a is marked done\n"
    assert "still in doubt: b" in ended.err
    (found,) = taskdeck("operation", "redo", task_id, "b", "--retry", "--json").lines
    assert (found["operation"], found["in_doubt"], found["retried"]["state"]) == ("NOT_DONE", [], "PENDING")
    shown = taskdeck("show", task_id, "--json").lines[0]
    assert [(each["state"], each["result"]) for each in shown["operations"]] == [
        ("DONE", {"id": 7}),
        ("NOT_DONE", None),
    ]


def test_a_word_on_an_operation_that_is_none_changes_nothing(taskdeck: Calls, seed: Seed) -> None:
    task_id = str(in_doubt(seed, "a"))
    assert 'it has "a"' in taskdeck("operation", "done", task_id, "x", code=3).err
    assert "no JSON" in taskdeck("operation", "done", task_id, "a", "--result", "{", code=2).err
    taskdeck("operation", "done", "99", "a", code=3)
    assert taskdeck("operation", "list", task_id, "--json").lines[0]["state"] == "IN_DOUBT"


def with_steps(seed: Seed, *names: str) -> int:
    """A task that waits for its retry and has registered undo steps."""
    task_id = failed(seed, '{"page":1}')
    with seed.writing() as tx:
        attempt = tx.row("SELECT * FROM attempt WHERE task_id = ?", task_id)
        assert attempt
        for name in names:
            rollback.register(tx, attempt, name, '{"order": 17}', repeatable=False, undoes=None)
    seed.sql(
        "UPDATE task SET state = 'RETRYING', reason = 'retryable_error', finished_at = NULL WHERE id = ?",
        task_id,
    )
    return task_id


def test_a_cancel_says_that_it_rolls_back_first_and_the_page_shows_the_steps(
    taskdeck: Calls, seed: Seed
) -> None:
    task_id = str(with_steps(seed, "release", "refund"))
    ended = taskdeck("cancel", task_id)
    assert "2 steps are rolled back first, then it is cancelled" in ended.out
    assert "takes effect when one starts" in ended.err
    assert "is rolled back already" in taskdeck("cancel", task_id).out
    assert "it is being rolled back, then it is cancelled" in taskdeck("why", task_id).out
    shown = taskdeck("show", task_id).out
    assert "then cancelled" in shown
    assert re.search(r'^1 +release +registered +\{"order":17\}', shown, re.MULTILINE)
    found = taskdeck("show", task_id, "--json").lines[0]
    assert (found["state"], found["ending"]) == ("PENDING", "CANCELLED")
    assert [(each["number"], each["name"], each["state"]) for each in found["rollback"]] == [
        (1, "release", "REGISTERED"),
        (2, "refund", "REGISTERED"),
    ]


def test_undo_steps_can_be_given_up(taskdeck: Calls, seed: Seed) -> None:
    task_id = str(with_steps(seed, "release"))
    taskdeck("cancel", task_id)
    taskdeck("cancel", task_id, "--no-rollback")
    found = taskdeck("show", task_id, "--json").lines[0]
    assert (found["state"], found["ending"], found["rollback"][0]["state"]) == ("CANCELLED", None, "DROPPED")


def test_a_checkpoint_from_before_a_rollback_is_shown_as_undone(taskdeck: Calls, seed: Seed) -> None:
    task_id = failed(seed, '{"page":1}')
    with seed.writing() as tx:
        task = tasks.get(tx, task_id)
        attempt = tx.row("SELECT id, fence FROM attempt WHERE task_id = ?", task_id)
        assert attempt
        operations.begin(tx, f"rollback:{task_id}", "1:release", task_id, attempt["id"], attempt["fence"] + 1)
        checkpoints.add_choice(tx, task, 0, "rolled_back")
    seed.sql("UPDATE operation SET state = 'DONE'")
    shown = taskdeck("show", str(task_id)).out
    assert "from the beginning, since it was rolled back" in shown
    assert 'undone: {"page":1}' in shown
    found = taskdeck("show", str(task_id), "--json").lines[0]["checkpoints"]
    assert [each["undone"] for each in found] == [False, True]


def test_what_could_not_be_rolled_back_says_what_to_do(taskdeck: Calls, seed: Seed) -> None:
    task_id = str(with_steps(seed, "release"))
    taskdeck("cancel", task_id)
    seed.sql("UPDATE task SET state = 'NEEDS_REVIEW', reason = 'retries_exhausted' WHERE id = ?", task_id)
    told = " ".join(taskdeck("why", task_id).out.split())
    for remedy in ("retry", "operation done", "cancel --no-rollback"):
        assert f"taskdeck {remedy} {task_id}" in told
    assert "goes on from nowhere" in taskdeck("retry", task_id, "--from", "start", code=4).err
    assert "is not rolled back" in taskdeck("discard", task_id, code=4).err
