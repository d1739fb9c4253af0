"""A task that ends without success is rolled back first: last step first, each once over crashes, and nothing is hidden."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskdeck.engine.errors import Refused
from taskdeck.engine.rules.failures import Failure, FailureClass
from taskdeck.engine.rules.rollback import MOST_STEPS
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.run import control, doubt
from taskdeck.engine.run.messages import OnRollback, OperationBegin, OperationEnd, Outcome, Run, TypeInfo
from tests import replay
from tests.faults import fault
from tests.run.ticking import Engine
from tests.scratch import ANN, Scratch


@pytest.fixture
def engine(scratch: Scratch) -> Iterator[Engine]:
    made = Engine(scratch)
    made.publish(TypeInfo("fetch", "tasks.py:1", max_retry=1, base=0.0))
    yield made
    assert replay.check(scratch.path) == []


def register(engine: Engine, run: Run, name: str, *, undoes: str = "", **fields: Any) -> Any:
    arguments = json.dumps(fields.pop("arguments", {"of": name}))
    return engine.tell(OnRollback(1, run.task_id, run.fence, name, arguments, undoes=undoes, **fields))[0]


def started(engine: Engine) -> Run:
    (run,) = engine.tick()
    engine.begin(run)
    return run


def with_steps(engine: Engine, *names: str, **fields: Any) -> Run:
    """A task that runs and has registered these steps."""
    engine.scratch.add()
    run = started(engine)
    for name in names or ("a", "b", "c"):
        register(engine, run, name, **fields)
    return run


def act(scratch: Scratch, verb: str, task_id: int, **args: Any) -> str:
    return scratch.do(control.VERBS[verb], scratch.row(task_id), ANN, args)


def cancel_at_a_checkpoint(engine: Engine, run: Run) -> None:
    act(engine.scratch, "cancel", run.task_id)
    engine.end(run, "cancelled")


def roll_back(engine: Engine) -> list[str]:
    """Run steps, all with success, until nothing more is started; their names."""
    done = []
    while runs := engine.tick():
        (run,) = runs
        assert run.step
        engine.begin(run)
        engine.end(run, result='"undone"')
        done.append(run.step)
    return done


def cut_off(engine: Engine, run: Run) -> None:
    failure = Failure(FailureClass.RETRYABLE, "timeout", "not done within 10 s", "timeout")
    engine.end(run, "failed", failure=_encoded(failure))


def _encoded(failure: Failure) -> str:
    return msgspec.json.encode(failure).decode()


def test_a_cancelled_task_is_rolled_back_last_step_first_and_is_cancelled_then(
    scratch: Scratch, engine: Engine
) -> None:
    run = with_steps(engine)
    cancel_at_a_checkpoint(engine, run)
    assert scratch.state(run.task_id) is TaskState.PENDING
    first = started(engine)
    assert (first.step, first.payload, first.doubt) == ("c", '{"of":"c"}', None)
    engine.end(first)
    assert roll_back(engine) == ["b", "a"]
    row = scratch.row(run.task_id)
    assert (row["state"], row["reason"], row["ending"]) == (TaskState.CANCELLED, "user_cancel", None)
    assert scratch.query(
        "SELECT actor FROM event_log WHERE reason = 'user_cancel' AND event_type = 'TASK_STATE'"
    ) == [(ANN,)]
    kinds = [kind for kind, _ in scratch.events(run.task_id)]
    assert kinds.count("STEP_SUCCEEDED") == 3
    assert kinds.index("ROLLBACK_STARTED") < kinds.index("ROLLBACK_FINISHED") < kinds.index("TASK_FINISHED")


def test_a_final_failure_is_rolled_back_and_keeps_its_own_error(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a")
    engine.fail(run, FailureClass.FATAL, "no such account")
    assert roll_back(engine) == ["a"]
    row = scratch.row(run.task_id)
    assert (row["state"], row["reason"]) == (TaskState.FAILED, "fatal_error")
    assert "no such account" in row["error"]


def test_a_task_that_is_given_up_by_its_type_is_dead_only_after_its_rollback(
    scratch: Scratch, engine: Engine
) -> None:
    engine.publish(TypeInfo("fetch", "tasks.py:1", max_retry=0, on_exhausted="dead"))
    run = with_steps(engine, "a")
    engine.fail(run)
    assert roll_back(engine) == ["a"]
    row = scratch.row(run.task_id)
    assert (row["state"], row["reason"]) == (TaskState.DEAD, "retries_exhausted")


def test_what_may_still_succeed_is_not_rolled_back(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a")
    engine.fail(run)
    assert scratch.state(run.task_id) is TaskState.RETRYING
    again = started(engine)
    assert again.step == ""
    engine.fail(again)
    assert scratch.state(run.task_id) is TaskState.NEEDS_REVIEW
    act(scratch, "retry", run.task_id)
    last = started(engine)
    engine.end(last)
    assert scratch.state(run.task_id) is TaskState.SUCCESS
    assert engine.tick() == []


def test_a_step_that_is_registered_again_by_the_next_attempt_is_the_same(
    scratch: Scratch, engine: Engine
) -> None:
    run = with_steps(engine, "a", "b")
    engine.end(run, "drained")
    again = started(engine)
    assert register(engine, again, "a").value == {"number": 1}
    assert register(engine, again, "a", arguments={"of": "other"}).value == {"number": 3}
    cancel_at_a_checkpoint(engine, again)
    assert roll_back(engine) == ["a", "b", "a"]


@pytest.mark.parametrize("waits", ["pending", "retrying", "paused", "review"])
def test_a_waiting_task_is_rolled_back_too_when_it_is_cancelled(
    scratch: Scratch, engine: Engine, waits: str
) -> None:
    run = with_steps(engine, "a", "b")
    if waits == "review":
        engine.tell(OperationBegin(1, run.task_id, run.fence, "k"))
        engine.end(
            run, "in_doubt", failure=_encoded(Failure(FailureClass.FATAL, "in_doubt", "k", "operation"))
        )
    elif waits == "retrying":
        engine.fail(run)
    else:
        engine.end(run, "drained")
    if waits == "paused":
        act(scratch, "pause", run.task_id)
    assert act(scratch, "cancel", run.task_id) == "2 steps are rolled back first, then it is cancelled"
    assert act(scratch, "cancel", run.task_id) == "is rolled back already, then it is cancelled"
    assert roll_back(engine) == ["b", "a"]
    assert scratch.state(run.task_id) is TaskState.CANCELLED


def test_a_review_that_is_discarded_is_rolled_back_and_dead(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a")
    engine.fail(run)
    engine.fail(started(engine))
    assert act(scratch, "discard", run.task_id) == "1 step is rolled back first, then it is dead"
    assert roll_back(engine) == ["a"]
    row = scratch.row(run.task_id)
    assert (row["state"], row["reason"]) == (TaskState.DEAD, "user_discard")


def test_a_loss_with_a_cancel_on_its_way_rolls_back(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a")
    act(scratch, "cancel", run.task_id)
    assert engine.lose(run) == f"#{run.task_id}: 1 step is rolled back first, then it is cancelled"
    assert roll_back(engine) == ["a"]
    assert scratch.state(run.task_id) is TaskState.CANCELLED


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_crash_in_a_step_leaves_it_in_doubt_unless_it_can_settle_that(
    scratch: Scratch, engine: Engine, repeatable: bool
) -> None:
    run = with_steps(engine, "a", "b", repeatable=repeatable)
    cancel_at_a_checkpoint(engine, run)
    engine.lose(started(engine))
    scratch.clock.advance(4)
    again = started(engine)
    if repeatable:
        assert (again.step, again.doubt) == ("b", 4.0)
        engine.end(again)
        assert roll_back(engine) == ["a"]
        assert scratch.state(run.task_id) is TaskState.CANCELLED
        return
    assert again.step == "a"  # the other is still tried
    engine.end(again)
    row = scratch.row(run.task_id)
    assert (row["state"], row["reason"]) == (TaskState.NEEDS_REVIEW, "in_doubt")
    assert "2:b" in row["error"]


def test_a_person_settles_a_step_in_doubt_and_the_end_follows(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a", "b")
    cancel_at_a_checkpoint(engine, run)
    engine.lose(started(engine))
    assert roll_back(engine) == ["a"]
    scratch.do(doubt.settle, {"task": run.task_id, "key": "2:b"}, "DONE", ANN)
    assert act(scratch, "retry", run.task_id) == "goes on rolling back, then it is cancelled"
    assert engine.tick() == []
    assert scratch.state(run.task_id) is TaskState.CANCELLED


def test_a_step_that_a_person_wants_anew_is_run_again(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a", "b")
    cancel_at_a_checkpoint(engine, run)
    engine.lose(started(engine))
    assert roll_back(engine) == ["a"]
    scratch.do(doubt.settle, {"task": run.task_id, "key": "2:b"}, "NOT_DONE", ANN)
    act(scratch, "retry", run.task_id)
    assert roll_back(engine) == ["b"]
    assert scratch.state(run.task_id) is TaskState.CANCELLED


def test_a_dispatch_that_never_started_is_no_doubt(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a")
    cancel_at_a_checkpoint(engine, run)
    (step,) = engine.tick()
    engine.lose(step, started=False)
    (step,) = engine.tick()
    engine.end(step, "never_started")
    assert roll_back(engine) == ["a"]


@fault("TF248")
def test_a_step_that_always_fails_is_tried_a_bounded_number_of_times_and_the_others_are_still_done(
    scratch: Scratch, engine: Engine
) -> None:
    run = with_steps(engine)
    cancel_at_a_checkpoint(engine, run)
    tried: list[str] = []
    while runs := engine.tick():
        (step,) = runs
        engine.begin(step)
        tried.append(step.step)
        engine.fail(step) if step.step == "b" else engine.end(step)
        scratch.clock.advance(100)
    assert tried == ["c", "b", "a", "b"]  # max_retry 1
    row = scratch.row(run.task_id)
    assert (row["state"], row["reason"]) == (TaskState.NEEDS_REVIEW, "retries_exhausted")
    assert "not rolled back: 2:b: broken: it broke" in row["error"]
    assert dict(scratch.query("SELECT name, state FROM rollback_step")) == {
        "a": "DONE",
        "b": "REGISTERED",
        "c": "DONE",
    }


def test_a_step_that_failed_is_done_by_the_persons_retry_and_the_first_error_stands(
    scratch: Scratch, engine: Engine
) -> None:
    run = with_steps(engine, "a")
    engine.fail(run, FailureClass.FATAL, "no such account")
    engine.fail(started(engine), FailureClass.FATAL, "the undo is broken")
    assert scratch.state(run.task_id) is TaskState.NEEDS_REVIEW
    with pytest.raises(Refused, match="is not rolled back and can't be discarded"):
        act(scratch, "discard", run.task_id)
    with pytest.raises(Refused, match="goes on from nowhere"):
        act(scratch, "retry", run.task_id, **{"from": "start"})
    act(scratch, "retry", run.task_id)
    assert roll_back(engine) == ["a"]
    row = scratch.row(run.task_id)
    assert row["state"] is TaskState.FAILED
    assert "no such account" in row["error"]


def test_a_step_that_is_cut_off_by_its_timeout_is_in_doubt(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a")
    cancel_at_a_checkpoint(engine, run)
    cut_off(engine, started(engine))
    assert scratch.row(run.task_id)["reason"] == "in_doubt"
    assert scratch.one("SELECT state FROM operation") == "IN_DOUBT"


def test_a_rollback_can_be_paused_and_goes_on_where_it_was(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a", "b")
    cancel_at_a_checkpoint(engine, run)
    step = started(engine)
    act(scratch, "pause", run.task_id)
    engine.end(step)
    assert scratch.state(run.task_id) is TaskState.PAUSED
    act(scratch, "resume", run.task_id)
    assert roll_back(engine) == ["a"]
    assert scratch.state(run.task_id) is TaskState.CANCELLED


@pytest.mark.parametrize("verb", ["cancel", "discard"])
def test_a_rollback_is_given_up_only_by_a_word_of_its_own(
    scratch: Scratch, engine: Engine, verb: str
) -> None:
    run = with_steps(engine, "a", "b")
    cancel_at_a_checkpoint(engine, run)
    engine.fail(started(engine), FailureClass.FATAL)
    assert roll_back(engine) == ["a"]
    act(scratch, verb, run.task_id, no_rollback=True)
    assert scratch.state(run.task_id) is (TaskState.CANCELLED if verb == "cancel" else TaskState.DEAD)
    assert engine.tick() == []
    assert dict(scratch.query("SELECT name, state FROM rollback_step")) == {"a": "DONE", "b": "DROPPED"}


def test_giving_up_ends_a_step_that_runs(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a", "b")
    cancel_at_a_checkpoint(engine, run)
    step = started(engine)
    assert act(scratch, "cancel", run.task_id, no_rollback=True) == "asked to end"
    engine.end(step, "cancelled")
    assert scratch.state(run.task_id) is TaskState.CANCELLED
    assert scratch.one("SELECT state FROM operation") == "IN_DOUBT"
    assert engine.tick() == []


@pytest.mark.parametrize("lost", [True, False])
def test_a_kill_of_a_step_leaves_it_in_doubt_and_the_others_go_on(
    scratch: Scratch, engine: Engine, lost: bool
) -> None:
    run = with_steps(engine, "a", "b")
    cancel_at_a_checkpoint(engine, run)
    step = started(engine)
    assert act(scratch, "kill", run.task_id) == "is killed"
    engine.lose(step) if lost else engine.end(step, "cancelled")
    assert roll_back(engine) == ["a"]
    assert (scratch.state(run.task_id), scratch.row(run.task_id)["reason"]) == (
        TaskState.NEEDS_REVIEW,
        "in_doubt",
    )
    assert scratch.one("SELECT count(*) FROM request WHERE done_at IS NULL") == 0


def test_what_is_undone_may_be_done_anew_from_the_beginning(scratch: Scratch, engine: Engine) -> None:
    scratch.add()
    run = started(engine)
    engine.tell(OperationBegin(1, run.task_id, run.fence, "reserve"))
    register(engine, run, "release", undoes="reserve")
    engine.tell(OperationEnd(2, run.task_id, run.fence, "reserve", "DONE", result="17"))
    engine.save(run, '{"reserved": true}')
    engine.fail(run, FailureClass.FATAL)
    assert roll_back(engine) == ["release"]
    assert ("STEP_UNDONE", None) in scratch.events(run.task_id)
    act(scratch, "retry", run.task_id)
    again = started(engine)
    assert again.checkpoint == "{}"
    (answer,) = engine.tell(OperationBegin(1, again.task_id, again.fence, "reserve"))
    assert answer.value["state"] == "new"


def test_no_checkpoint_from_before_a_rollback_is_gone_on_from(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a")
    engine.save(run, '{"made": true}')
    engine.fail(run, FailureClass.FATAL)
    assert roll_back(engine) == ["a"]
    why = f"what it builds on is undone.*taskdeck retry {run.task_id} --from start"
    with pytest.raises(Refused, match=f"can't go on from checkpoint 1: .*{why}"):
        act(scratch, "retry", run.task_id, **{"from": 1})
    with pytest.raises(Refused, match="no checkpoint 9: kept are: 2; or start"):
        act(scratch, "retry", run.task_id, **{"from": 9})
    assert scratch.state(run.task_id) is TaskState.FAILED
    act(scratch, "retry", run.task_id, **{"from": "start"})
    again = started(engine)
    assert again.checkpoint == "{}"
    engine.save(again, '{"made": "anew"}')
    engine.fail(again, FailureClass.FATAL)
    assert "checkpoint 4" in act(scratch, "retry", run.task_id, **{"from": 4})


@pytest.mark.parametrize("verb", ["cancel", "discard"])
def test_a_rollback_given_up_half_way_leaves_no_checkpoint_to_go_on_from_either(
    scratch: Scratch, engine: Engine, verb: str
) -> None:
    run = with_steps(engine, "a", "b")
    engine.save(run, '{"made": true}')
    cancel_at_a_checkpoint(engine, run)
    engine.fail(started(engine), FailureClass.FATAL)
    assert roll_back(engine) == ["a"]
    act(scratch, verb, run.task_id, no_rollback=True)
    with pytest.raises(Refused, match="is undone"):
        act(scratch, "retry", run.task_id, **{"from": 1})
    act(scratch, "retry", run.task_id)
    assert started(engine).checkpoint == "{}"


def test_an_effect_that_certainly_did_not_happen_is_not_undone(scratch: Scratch, engine: Engine) -> None:
    scratch.add()
    run = started(engine)
    for key in ("reserve", "charge"):
        engine.tell(OperationBegin(1, run.task_id, run.fence, key))
        register(engine, run, f"undo_{key}", undoes=key)
    engine.tell(OperationEnd(0, run.task_id, run.fence, "reserve", "IN_DOUBT"))
    engine.tell(OperationEnd(2, run.task_id, run.fence, "charge", "NOT_DONE"))
    engine.fail(run, FailureClass.FATAL)
    assert roll_back(engine) == ["undo_reserve"]
    assert scratch.query("SELECT DISTINCT state FROM operation WHERE operation_key = 'reserve'") == [
        ("NOT_DONE",)
    ]
    assert ("STEP_SKIPPED", None) in scratch.events(run.task_id)


def test_what_only_has_steps_to_skip_ends_without_running_any(scratch: Scratch, engine: Engine) -> None:
    scratch.add()
    run = started(engine)
    engine.tell(OperationBegin(1, run.task_id, run.fence, "charge"))
    register(engine, run, "refund", undoes="charge")
    engine.tell(OperationEnd(2, run.task_id, run.fence, "charge", "NOT_DONE"))
    cancel_at_a_checkpoint(engine, run)
    assert engine.tick() == []
    assert scratch.state(run.task_id) is TaskState.CANCELLED


def test_bad_steps_are_refused_with_the_reason(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a")
    assert "was not begun" in register(engine, run, "b", undoes="nothing").error
    assert "secret" in register(engine, run, "b", arguments={"password": "hunter2pass"}).error
    assert engine.tell(OnRollback(1, run.task_id, run.fence, "b", "{"))[0].error
    wanted = [json.dumps({"n": number}) for number in range(MOST_STEPS - 1)]
    engine.tell(*(OnRollback(1, run.task_id, run.fence, "b", each) for each in wanted))
    assert "at most" in register(engine, run, "c").error
    known = register(engine, run, "b", arguments={"n": 3})
    assert (known.error, known.value) == ("", {"number": 5})
    cancel_at_a_checkpoint(engine, run)
    step = started(engine)
    assert "can't register another" in register(engine, step, "d").error
    engine.end(step)


def test_a_stale_attempt_registers_nothing(scratch: Scratch, engine: Engine) -> None:
    run = with_steps(engine, "a")
    engine.lose(run)
    assert register(engine, run, "b").error == "stale"
    assert scratch.one("SELECT count(*) FROM rollback_step") == 1


ENDS = ("done", "fail", "lose", "unstarted", "timeout", "drain", "kill")
"""How the attempt of a step can end."""


@settings(max_examples=30)
@given(st.lists(st.sampled_from(ENDS), max_size=12), st.booleans())
def test_whatever_dies_each_step_is_done_once_and_the_end_comes(ends: list[str], repeatable: bool) -> None:
    with TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder))
        engine = Engine(scratch)
        engine.publish(TypeInfo("fetch", "tasks.py:1", max_retry=3, base=0.0))
        task_id = with_steps(engine, repeatable=repeatable).task_id
        (run,) = scratch.query("SELECT fence FROM attempt")
        act(scratch, "cancel", task_id)
        engine.tell(Outcome(task_id, run[0], "cancelled"))
        begun, failed = Counter[str](), Counter[str]()
        waiting = deque(ends)
        for _ in range(200):
            if scratch.state(task_id) is TaskState.CANCELLED:
                break
            for step in engine.tick():
                end = waiting.popleft() if waiting else "done"
                begun[step.step] += end != "unstarted"
                failed[step.step] += end == "fail"
                end_as(engine, step, end)
            help_on(scratch, task_id)
        assert scratch.state(task_id) is TaskState.CANCELLED
        assert set(scratch.query("SELECT state FROM rollback_step")) == {("DONE",)}
        if (
            not repeatable
        ):  # what failed said so itself; of all else nobody knows, so that it is never begun twice
            assert all(begun[name] - failed[name] <= 1 for name in "abc"), (begun, failed)
        assert replay.check(scratch.path) == []
        scratch.close()


def end_as(engine: Engine, step: Run, end: str) -> None:
    if end == "unstarted":
        engine.lose(step, started=False)
        return
    engine.begin(step)
    if end == "kill":
        act(engine.scratch, "kill", step.task_id)
    match end:
        case "done":
            engine.end(step)
        case "fail":
            engine.fail(step)
        case "lose":
            engine.lose(step)
        case "timeout":
            cut_off(engine, step)
        case "drain":
            engine.end(step, "drained")
        case "kill":
            engine.end(step, "cancelled")


def help_on(scratch: Scratch, task_id: int) -> None:
    """Time passes, and a person says of each step in doubt that it has happened."""
    scratch.clock.advance(100)
    if scratch.state(task_id) is TaskState.NEEDS_REVIEW:
        for (key,) in scratch.query("SELECT operation_key FROM operation WHERE state = 'IN_DOUBT'"):
            scratch.do(doubt.settle, {"task": task_id, "key": key}, "DONE", ANN)
        act(scratch, "retry", task_id)
