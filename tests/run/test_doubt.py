"""An operation in doubt is a person's matter: marked done or to be done anew, and never found twice for nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from taskdeck.engine.errors import InvalidPayload, NotFound, Refused, UsageError
from taskdeck.engine.rules.failures import Failure, FailureClass
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.run import control, doubt
from taskdeck.engine.run.endings import InDoubt
from taskdeck.engine.run.messages import OperationBegin, OperationEnd, Run, TypeInfo
from tests import replay
from tests.run.ticking import Engine
from tests.scratch import ANN, Scratch


def begin(engine: Engine, run: Run, key: str, scope: str = "") -> Any:
    return engine.tell(OperationBegin(1, run.task_id, run.fence, key, scope))[0].value


def in_doubt(engine: Engine, *keys: str, **fields: Any) -> int:
    """A task that waits for a person, since these operations were cut off."""
    task_id = engine.scratch.add(on_lost="review", **fields)
    (run,) = engine.tick()
    engine.begin(run)
    for key in keys or ("upload:1",):
        begin(engine, run, key)
    engine.lose(run)
    assert engine.scratch.state(task_id) is TaskState.NEEDS_REVIEW
    return task_id


def settle(scratch: Scratch, task_id: int, key: str, state: str, **args: Any) -> dict[str, Any]:
    return scratch.do(doubt.settle, {"task": task_id, "key": key, **args}, state, ANN)


def retry(scratch: Scratch, task_id: int) -> str:
    return scratch.do(control.retry, scratch.row(task_id), ANN, {})


def next_run(engine: Engine) -> Run:
    (run,) = engine.tick()
    engine.begin(run)
    return run


def test_a_retry_says_what_to_do_instead_of_finding_the_same_doubt_again(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = in_doubt(engine, "mail:a b")
    with pytest.raises(Refused, match=r"same doubt again: \"mail:a b\".*operation done 1 'mail:a b' --retry"):
        retry(scratch, task_id)
    assert scratch.state(task_id) is TaskState.NEEDS_REVIEW


def test_what_is_marked_done_is_skipped_with_the_result_that_the_person_named(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = in_doubt(engine)
    said = settle(scratch, task_id, "upload:1", "DONE", result='{"id": 7}')
    assert (said["in_doubt"], said["message"]) == ([], "upload:1 is marked done")
    retry(scratch, task_id)
    assert begin(engine, next_run(engine), "upload:1") == {"state": "done", "result": '{"id":7}', "age": 0.0}
    assert ("OPERATOR_OPERATION", "done") in scratch.events(task_id)
    assert replay.check(scratch.path) == []


def test_what_is_to_be_done_anew_is_new_for_the_next_attempt(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = in_doubt(engine)
    settle(scratch, task_id, "upload:1", "NOT_DONE")
    retry(scratch, task_id)
    run = next_run(engine)
    assert begin(engine, run, "upload:1")["state"] == "new"
    engine.tell(OperationEnd(2, task_id, run.fence, "upload:1", "DONE", result="1"))
    assert replay.check(scratch.path) == []


def test_of_two_in_doubt_the_other_still_keeps_the_task(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = in_doubt(engine, "a", "b")
    assert settle(scratch, task_id, "a", "NOT_DONE")["in_doubt"] == ["b"]
    with pytest.raises(Refused, match='"b"'):
        retry(scratch, task_id)


def test_settling_twice_is_settling_once_and_what_happened_is_never_done_anew(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = in_doubt(engine)
    settle(scratch, task_id, "upload:1", "DONE", result="1")
    events = scratch.events()
    assert (
        settle(scratch, task_id, "upload:1", "DONE", result="2")["message"]
        == "upload:1 is marked done already"
    )
    with pytest.raises(Refused, match="recorded as done"):
        settle(scratch, task_id, "upload:1", "NOT_DONE")
    assert scratch.events() == events
    assert scratch.one("SELECT result FROM operation") == "1"


def test_nobody_settles_what_an_attempt_works_on(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = scratch.add()
    run = next_run(engine)
    begin(engine, run, "upload:1")
    with pytest.raises(Refused, match=r"attempt 1 of #1 works on operation 'upload:1' right now"):
        settle(scratch, task_id, "upload:1", "NOT_DONE")


def test_what_is_not_there_is_refused_with_what_is(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = in_doubt(engine)
    with pytest.raises(NotFound, match="no operation 'uplaod:1': it has \"upload:1\""):
        settle(scratch, task_id, "uplaod:1", "DONE")
    with pytest.raises(NotFound):
        settle(scratch, 99, "upload:1", "DONE")
    for bad in (None, "1", True):
        with pytest.raises(UsageError):
            scratch.do(doubt.settle, {"task": bad, "key": "upload:1"}, "DONE", ANN)
    with pytest.raises(InvalidPayload):
        settle(scratch, task_id, "upload:1", "DONE", result="{")
    assert scratch.one("SELECT state FROM operation") == "IN_DOUBT"


def test_a_scope_tells_two_operations_of_one_key_apart(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = scratch.add(on_lost="review")
    run = next_run(engine)
    begin(engine, run, "upload:1")
    begin(engine, run, "upload:1", scope="shop")
    engine.lose(run)
    with pytest.raises(UsageError, match="add --scope"):
        settle(scratch, task_id, "upload:1", "DONE")
    settle(scratch, task_id, "upload:1", "DONE", scope="shop")
    assert dict(scratch.query("SELECT scope, state FROM operation")) == {"task:1": "IN_DOUBT", "shop": "DONE"}


def shared(engine: Engine) -> tuple[int, Run]:
    """A task with an operation of the scope "shop" in doubt, and another one that runs."""
    first = engine.scratch.add(on_lost="review")
    run = next_run(engine)
    begin(engine, run, "pay:7", scope="shop")
    engine.lose(run)
    engine.scratch.add()
    return first, next_run(engine)


def test_the_doubt_stays_with_the_task_that_began_it_whoever_meets_it(scratch: Scratch) -> None:
    engine = Engine(scratch)
    first, second = shared(engine)
    for _ in range(2):
        met = begin(engine, second, "pay:7", scope="shop")
        assert (met["state"], met["owner"]) == ("in_doubt", first)
    assert scratch.query("SELECT task_id, state FROM operation") == [(first, "IN_DOUBT")]
    with pytest.raises(Refused, match='same doubt again: "pay:7"'):
        retry(scratch, first)
    with pytest.raises(NotFound):
        settle(scratch, second.task_id, "pay:7", "DONE")
    settle(scratch, first, "pay:7", "DONE", result="1")
    assert begin(engine, second, "pay:7", scope="shop")["state"] == "done"
    assert replay.check(scratch.path) == []


def test_who_meets_the_doubt_of_another_and_finds_out_settles_it(scratch: Scratch) -> None:
    engine = Engine(scratch)
    first, second = shared(engine)
    begin(engine, second, "pay:7", scope="shop")
    ends = [
        OperationEnd(2, second.task_id, second.fence, "pay:7", how, "shop") for how in ("NOT_DONE", "DONE")
    ]
    engine.tell(ends[0])
    assert scratch.query("SELECT task_id, state FROM operation") == [(first, "NOT_DONE")]
    assert begin(engine, second, "pay:7", scope="shop")["state"] == "new"
    engine.tell(ends[1])
    assert scratch.query("SELECT task_id, state FROM operation") == [(second.task_id, "DONE")]
    retry(scratch, first)
    assert replay.check(scratch.path) == []


def test_only_a_doubt_is_settled_by_who_did_not_begin_it(scratch: Scratch) -> None:
    engine = Engine(scratch)
    scratch.add()
    run = next_run(engine)
    begin(engine, run, "pay:7", scope="shop")
    scratch.add()
    other = next_run(engine)
    (answer,) = engine.tell(OperationEnd(2, other.task_id, other.fence, "pay:7", "NOT_DONE", "shop"))
    assert "was not begun by this attempt" in answer.error
    assert scratch.one("SELECT state FROM operation") == "BEGUN"


def test_who_meets_the_doubt_of_another_says_whose_it_is() -> None:
    assert str(InDoubt("pay:7", 42)) == (
        'operation "pay:7" was begun by #42 and it is not known whether it happened; '
        "settle it there (taskdeck operation list 42), then retry"
    )


def test_a_doubt_that_is_settled_is_no_error_of_its_task_any_more(scratch: Scratch) -> None:
    engine = Engine(scratch)
    task_id = scratch.add()
    run = next_run(engine)
    for key in ("a", "b"):
        begin(engine, run, key)
    why = Failure(FailureClass.FATAL, "in_doubt", "a may have happened", "operation")
    engine.end(run, "in_doubt", failure=msgspec.json.encode(why).decode())
    settle(scratch, task_id, "a", "DONE", result="1")
    assert "in_doubt" in scratch.row(task_id)["error"]
    settle(scratch, task_id, "b", "NOT_DONE")
    assert scratch.row(task_id)["error"] is None
    assert "in_doubt" in scratch.one("SELECT error FROM attempt")
    assert replay.check(scratch.path) == []


def test_a_type_that_can_verify_and_a_command_find_out_by_themselves(scratch: Scratch) -> None:
    engine = Engine(scratch)
    verified = in_doubt(engine)
    engine.publish(TypeInfo("fetch", "tasks.py:1", verifies=True))
    assert retry(scratch, verified) == "waits for its turn"
    next_run(engine)
    command = in_doubt(engine, type_name="shell", payload='{"argv":["true"]}')
    assert retry(scratch, command) == "waits for its turn"


def test_the_age_of_a_doubt_counts_from_the_death_of_whoever_began_it_and_no_clock_step_moves_it(
    scratch: Scratch,
) -> None:
    engine = Engine(scratch)
    scratch.add()
    run = next_run(engine)
    begin(engine, run, "upload:1")
    scratch.clock.advance(600)  # its request may have left at any time until now
    engine.lose(run)
    scratch.clock.step(90)
    scratch.clock.advance(3)
    again = next_run(engine)
    scratch.clock.step(-180)
    scratch.clock.advance(2)
    assert begin(engine, again, "upload:1") == {"state": "in_doubt", "result": "", "age": 5.0}


def test_after_a_reboot_a_doubt_is_at_least_as_old_as_the_boot(scratch: Scratch) -> None:
    engine = Engine(scratch)
    scratch.add()
    run = next_run(engine)
    begin(engine, run, "upload:1")
    engine.lose(run)
    scratch.tx.boot_id = "another-boot"
    assert begin(engine, next_run(engine), "upload:1")["age"] == scratch.clock.boot()


def test_what_only_a_clone_shares_can_be_settled_from_either(scratch: Scratch) -> None:
    engine = Engine(scratch)
    first = scratch.add()
    engine.end(next_run(engine))
    scratch.do(control.retry, scratch.row(first), ANN, {"again": True})
    run = next_run(engine)
    begin(engine, run, "upload:1")
    engine.lose(run)
    settle(scratch, first, "upload:1", "DONE")
    assert begin(engine, next_run(engine), "upload:1")["state"] == "done"
