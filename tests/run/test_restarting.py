"""`retry --from`: a person chooses where a task goes on, and everything after it goes on from there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskdeck.engine.errors import Refused, UsageError
from taskdeck.engine.rules.failures import FailureClass
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.run import control
from taskdeck.engine.run.messages import Run, TypeInfo
from tests import replay
from tests.run.ticking import Engine
from tests.scratch import ANN, Scratch


def failed_after(engine: Engine, *saves: dict[str, Any], version: int = 1) -> int:
    """A task that saved these checkpoints and failed for good."""
    task_id = engine.scratch.add()
    (run,) = engine.tick()
    engine.begin(run)
    for data in saves:
        engine.save(run, json.dumps(data), version)
    engine.fail(run, FailureClass.FATAL)
    return task_id


def retry(engine: Engine, task_id: int, **args: Any) -> str:
    return engine.scratch.do(control.retry, engine.scratch.row(task_id), ANN, args)


def next_run(engine: Engine) -> Run:
    (run,) = engine.tick()
    engine.begin(run)
    return run


def test_a_task_goes_on_from_the_chosen_checkpoint_and_its_patches_change_that_one(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = failed_after(engine, {"page": 1, "a": 1}, {"page": 2, "b": 2}, {"page": 3, "c": 3})
    assert retry(engine, task_id, **{"from": 2}) == "waits for its turn; it resumes at checkpoint 2"
    run = next_run(engine)
    assert json.loads(run.checkpoint) == {"page": 2, "a": 1, "b": 2}
    engine.save(run, '{"page": 4}')
    assert json.loads(scratch.one("SELECT data FROM checkpoint ORDER BY seq DESC")) == {
        "page": 4,
        "a": 1,
        "b": 2,
    }
    assert ("CHECKPOINT_CHOSEN", "user_retry") in scratch.events(task_id)
    assert replay.check(scratch.path) == []


def test_a_loss_before_the_next_checkpoint_goes_on_from_the_same_choice(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = failed_after(engine, {"page": 1}, {"page": 2})
    retry(engine, task_id, **{"from": 1})
    assert engine.lose(next_run(engine)) == f"#{task_id} resumes at checkpoint 1"
    assert json.loads(next_run(engine).checkpoint) == {"page": 1}


def test_from_the_start_is_from_nothing_whatever_the_version_of_the_handler_is_by_then(
    scratch: Scratch,
) -> None:
    engine = Engine(scratch)
    task_id = failed_after(engine, {"page": 1}, {"page": 2})
    assert retry(engine, task_id, **{"from": "start"}).endswith("it starts again from the beginning")
    engine.publish(TypeInfo("fetch", "tasks.py:1", checkpoint_version=2))
    run = next_run(engine)
    assert (run.checkpoint, run.checkpoint_seq) == ("{}", 0)
    engine.save(run, '{"row": 1}', 2)
    assert json.loads(scratch.one("SELECT data FROM checkpoint ORDER BY seq DESC")) == {"row": 1}
    assert scratch.one("SELECT count(*) FROM checkpoint WHERE again_from IS NULL AND seq <= 2") > 0
    assert replay.check(scratch.path) == []


def test_what_is_not_there_or_can_not_be_read_is_refused_with_what_is(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = failed_after(engine, {"page": 1}, {"page": 2})
    with pytest.raises(Refused, match="has no checkpoint 9: kept are: 2, 1; or start"):
        retry(engine, task_id, **{"from": 9})
    for bad in (0, -1, True, "2", 1.5):
        with pytest.raises(UsageError, match="is no checkpoint"):
            retry(engine, task_id, **{"from": bad})
    engine.publish(TypeInfo("fetch", "tasks.py:1", checkpoint_version=2))
    with pytest.raises(Refused, match="can't go on from checkpoint 1: it is of version 1, the handler of"):
        retry(engine, task_id, **{"from": 1})
    assert scratch.state(task_id) is TaskState.FAILED
    assert scratch.one("SELECT count(*) FROM checkpoint") == 2


def test_a_task_that_saved_nothing_starts_from_the_beginning_anyway(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = failed_after(engine)
    with pytest.raises(Refused, match="nothing was saved yet"):
        retry(engine, task_id, **{"from": 1})
    retry(engine, task_id, **{"from": "start"})
    assert next_run(engine).checkpoint == "{}"


def test_a_choice_can_be_changed_while_the_task_waits_but_not_while_it_runs(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = failed_after(engine, {"page": 1}, {"page": 2})
    retry(engine, task_id, **{"from": "start"})
    assert retry(engine, task_id, **{"from": 2}) == "it resumes at checkpoint 2"
    run = next_run(engine)
    assert json.loads(run.checkpoint) == {"page": 2}
    with pytest.raises(Refused, match="is running"):
        retry(engine, task_id, **{"from": 1})


def test_a_success_has_no_way_back_to_a_checkpoint(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = scratch.add()
    engine.end(next_run(engine))
    with pytest.raises(Refused, match="goes on from nowhere"):
        retry(engine, task_id, again=True, **{"from": 1})


def test_of_a_handler_that_migrates_the_run_brings_older_checkpoints_too(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = failed_after(engine, {"page": 1}, {"page": 2})
    engine.publish(TypeInfo("fetch", "tasks.py:1", checkpoint_version=3, migrates=True))
    retry(engine, task_id)
    run = next_run(engine)
    assert (run.checkpoint_seq, run.checkpoint_version) == (2, 1)
    assert run.older == [(1, 1, '{"page":1}')]


def test_a_handler_of_another_version_leaves_the_decision_to_a_person(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = failed_after(engine, {"page": 1})
    engine.publish(TypeInfo("fetch", "tasks.py:1", checkpoint_version=3))
    retry(engine, task_id)
    assert engine.tick() == []
    assert scratch.row(task_id)["reason"] == "in_doubt"
    retry(engine, task_id, **{"from": "start"})
    assert next_run(engine).checkpoint == "{}"
