"""What a task has on record as the command line shows it: checkpoints that `retry --from` takes, operations."""

from __future__ import annotations

from typing import Any

import pytest

from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.store import attempts, checkpoints, tasks
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
