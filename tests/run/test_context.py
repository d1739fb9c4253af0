"""What a handler says reaches the engine once, in order and durably; a wish to stop reaches the handler."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from taskdeck.engine.run import messages as m
from tests.eventually import eventually
from tests.run.engine_double import engine


def test_a_checkpoint_is_durable_merged_and_numbered_with_the_handlers_version(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("count", {"to": 3}, checkpoint='{"n": 1, "kept": true}')
        assert double.result(fence) == {"n": 3, "kept": True, "stage": "stage 3"}
        saves = double.all(m.Save)
        assert [json.loads(one.data)["n"] for one in saves] == [2, 3]
        assert [(one.version, one.stage, one.merge) for one in saves] == [
            (3, "stage 2", True),
            (3, "stage 3", True),
        ]
        assert all(one.req > 0 for one in saves)


def test_save_waits_until_the_engine_has_it(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.hold_saves()
        double.run("count", {"to": 2})
        double.wait(m.Save)
        beats = len(double.all(m.Beat))
        eventually(lambda: len(double.all(m.Beat)) > beats + 2)
        assert len(double.all(m.Save)) == 1
        double.release_saves()
        double.wait(m.Outcome)


def test_none_removes_a_key_and_replace_begins_anew(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        assert double.result(double.run("replace")) == {"kept": {"a": 1}, "now": {"c": 3}}
        assert double.checkpoints[42] == {"c": 3}


def test_the_checkpoint_can_only_be_read(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        assert "TypeError" in json.dumps(double.failure(double.run("frozen")))


def test_queued_checkpoints_keep_their_order_and_are_durable_before_the_end(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.hold_saves()
        fence = double.run("soon", {"to": 20})
        eventually(lambda: len(double.all(m.Save)) == 20)
        assert double.all(m.Outcome) == []
        double.release_saves()
        double.result(fence)
        saved = [json.loads(one.data) for one in double.all(m.Save)]
        assert saved == [{"n": n, "rows": list(range(n + 1))} for n in range(20)]


@pytest.mark.parametrize(
    ("what", "kind"), [("pause", "paused"), ("drain", "drained"), ("cancel", "cancelled")]
)
def test_a_wish_to_stop_is_heard_at_a_checkpoint(tmp_path: Path, what: str, kind: str) -> None:
    with engine(tmp_path) as double:
        fence = double.run("polls")
        double.wait(m.Save)
        double.ask(fence, what, grace=60)
        assert double.outcome(fence).kind == kind


def test_a_stop_is_found_inside_the_error_of_a_task_group(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("polls_in_group")
        double.wait(m.Save)
        double.ask(fence, "pause")
        assert double.outcome(fence).kind == "paused"


def test_a_cancel_beats_an_earlier_pause_and_a_later_drain(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.hold_saves()
        fence = double.run("polls")
        double.wait(m.Save)
        for what in ("pause", "cancel", "drain"):
            double.ask(fence, what, grace=60)
        double.release_saves()
        assert double.outcome(fence).kind == "cancelled"


def test_a_pause_that_was_withdrawn_in_time_never_happens(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.hold_saves()
        fence = double.run("count", {"to": 2})
        double.wait(m.Save)
        double.ask(fence, "pause")
        double.ask(fence, "resume")
        double.say(m.Validate(1, "echo", "1"))
        double.wait(m.Validated)
        double.release_saves()
        assert double.result(fence)["n"] == 2


def test_work_that_is_done_is_never_hidden_by_a_wish_to_stop(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("polls", {"then": "finish"})
        double.wait(m.Save)
        double.ask(fence, "cancel", grace=60)
        assert double.outcome(fence).kind == "succeeded"


def test_a_cancel_beats_the_failure_that_it_caused_but_a_pause_does_not(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        for what, kind in (("cancel", "cancelled"), ("pause", "failed")):
            fence = double.run("polls", {"then": "raise"})
            double.wait(m.Save, lambda one, fence=fence: one.fence == fence)
            double.ask(fence, what, grace=60)
            assert double.outcome(fence).kind == kind


def test_a_stale_attempt_stops_even_if_it_swallows_errors(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("polls")
        double.wait(m.Save)
        double.stale.add(fence)
        assert double.outcome(fence).kind == "cancelled"
        other = double.run("swallows_errors")
        double.wait(m.Save, lambda one: one.fence == other)
        double.stale.add(other)
        assert double.outcome(other).kind == "cancelled"


def test_a_thousand_reports_become_few_and_the_last_one_arrives(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.result(double.run("progress"))
        reports = double.all(m.Progress)
        assert len(reports) <= 4
        assert (reports[0].done, reports[-1].done, reports[-1].note) == (0, 999, "page 999")


def test_the_latest_progress_is_shown_while_the_handler_is_silent(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.run("slow_progress")
        double.wait(m.Progress, lambda one: one.done == 2)


def test_steps_events_and_log_lines(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("steps")
        outcome = double.outcome(fence)
        notes = [(one.event_type, one.message, one.payload) for one in double.all(m.Note)]
        assert notes == [
            ("STEP_STARTED", "fetch", ""),
            ("STEP_SUCCEEDED", "fetch", ""),
            ("STEP_STARTED", "store", ""),
            ("CLEANED", "all of it", '{"rows":3}'),
            ("STEP_SUCCEEDED", "store", ""),
        ]
        assert b"a line" in (tmp_path / f"{fence}.log").read_bytes()
        assert "a line" in outcome.tail
        assert "\x1b" not in outcome.tail


def test_a_silent_attempt_makes_no_log_file(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("echo", {"a": 1})
        double.result(fence)
        assert not (tmp_path / f"{fence}.log").exists()


def test_an_operation_happens_once_and_its_result_is_kept(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        assert double.result(double.run("once")) == {"done": False, "result": {"id": 7}}
        assert double.result(double.run("once")) == {"done": True, "result": {"id": 7}}
        assert double.result(double.run("once", {"scope": "shop"})) == {"done": False, "result": {"id": 7}}
        assert [one.state for one in double.all(m.OperationEnd)] == ["DONE", "DONE"]


def test_an_effect_that_certainly_did_not_happen_may_be_tried_again(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        assert double.failure(double.run("once", {"error": "not_done"}))["class_"] == "retryable"
        assert double.operations["", "upload:1"]["state"] == "NOT_DONE"
        assert double.result(double.run("once"))["done"] is False


def test_any_other_exception_leaves_the_operation_in_doubt(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        assert double.failure(double.run("once", {"error": "other"}))["class_"] == "retryable"
        assert double.operations["", "upload:1"]["state"] == "IN_DOUBT"
        doubted = double.all(m.OperationEnd)[0]
        assert double.told.index(doubted) < double.told.index(double.all(m.Outcome)[0])


def test_a_result_that_is_no_json_leaves_the_operation_in_doubt(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        failure = double.failure(double.run("once", {"bad": True}))
        assert "$.id" in failure["message"]
        assert double.operations["", "upload:1"]["state"] == "IN_DOUBT"


def test_doubt_without_verify_is_left_to_a_person_and_no_except_swallows_it(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        outcome = double.outcome(double.run("once_in_doubt_is_retried"))
        assert outcome.kind == "in_doubt"
        assert "upload:1" in outcome.failure


def test_doubt_is_settled_by_verify_as_done(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.write_text("old")
    with engine(tmp_path, environ={"SITE": str(site)}) as double:
        double.operations["", "upload:1"] = {"state": "BEGUN"}
        assert double.result(double.run("verified")) == {"done": True, "result": {"id": "old"}}
        assert double.operations["", "upload:1"]["state"] == "DONE"


def test_doubt_is_settled_by_verify_as_not_done_and_begun_anew(tmp_path: Path) -> None:
    with engine(tmp_path, environ={"SITE": str(tmp_path / "site")}) as double:
        double.operations["", "upload:1"] = {"state": "BEGUN"}
        assert double.result(double.run("verified")) == {"done": False, "result": {"id": "new"}}
        assert [one.state for one in double.all(m.OperationEnd)] == ["NOT_DONE", "DONE"]
        assert len(double.all(m.OperationBegin)) == 2


def test_verify_is_asked_only_when_the_old_request_must_be_dead_and_a_stop_is_heard_meanwhile(
    tmp_path: Path,
) -> None:
    with engine(tmp_path, environ={"SITE": str(tmp_path / "site")}) as double:
        double.operations["", "upload:1"] = {"state": "BEGUN"}
        fence = double.run("patient")
        double.wait(m.OperationBegin)
        double.ask(fence, "pause")
        assert double.outcome(fence).kind == "paused"
        assert double.all(m.Note) == []
        assert double.operations["", "upload:1"]["state"] == "BEGUN"


def test_a_wish_to_stop_waits_for_the_end_of_an_operation(tmp_path: Path) -> None:
    site = tmp_path / "site"
    with engine(tmp_path, environ={"SITE": str(site)}) as double:
        fence = double.run("stop_inside")
        double.wait(m.Note)
        double.ask(fence, "pause")
        saved = len(double.all(m.Save))
        eventually(lambda: len(double.all(m.Save)) > saved + 5)
        site.touch()
        assert double.outcome(fence).kind == "paused"
        assert double.operations["", "upload:1"]["state"] == "DONE"


@pytest.mark.parametrize(
    ("point", "state"),
    [
        ("after_start_journal", None),
        ("after_operation_begin", "BEGUN"),
        ("before_operation_end", "BEGUN"),
        ("after_operation_end", "DONE"),
        ("before_outcome_send", "DONE"),
    ],
)
def test_a_kill_at_a_fault_point_leaves_exactly_what_was_recorded(
    tmp_path: Path, point: str, state: str | None
) -> None:
    with engine(tmp_path, environ={"TASKDECK_CRASH_AT": point}) as double:
        double.run("once")
        assert double.ended() == -signal.SIGKILL
        eventually(lambda: double.gone)
        assert double.operations.get(("", "upload:1"), {}).get("state") == state
        assert double.all(m.Outcome) == []


@pytest.mark.parametrize(("point", "saved"), [("before_checkpoint_send", 0), ("after_checkpoint_saved", 1)])
def test_a_kill_around_a_checkpoint_loses_only_what_was_not_sent(
    tmp_path: Path, point: str, saved: int
) -> None:
    with engine(tmp_path, environ={"TASKDECK_CRASH_AT": point}) as double:
        double.run("count", {"to": 5})
        assert double.ended() == -signal.SIGKILL
        eventually(lambda: double.gone)
        assert len(double.all(m.Save)) == saved


def test_a_kill_after_the_outcome_was_sent_hides_nothing(tmp_path: Path) -> None:
    with engine(tmp_path, environ={"TASKDECK_CRASH_AT": "after_outcome_send"}) as double:
        assert double.result(double.run("echo", {"a": 1})) == {"a": 1}
        assert double.ended() == -signal.SIGKILL


def test_a_checkpoint_of_an_older_version_is_taken_over_before_the_handler_begins(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        run = {"checkpoint": '{"number": 3}', "checkpoint_seq": 5, "checkpoint_version": 1}
        assert double.result(double.run("walk", {"page": 4}, **run)) == {"from": 3, "now": {"page": 4}}
        assert [(json.loads(one.data), one.merge, one.version) for one in double.all(m.Save)] == [
            ({"page": 3}, False, 2),
            ({"page": 4}, True, 2),
        ]


def test_a_checkpoint_that_does_not_fit_its_type_is_neither_saved_nor_gone_on_from(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        assert "$.page" in double.failure(double.run("walk", {"page": "x"}))["message"]
        run = {"checkpoint": '{"page": "x"}', "checkpoint_seq": 5, "checkpoint_version": 2}
        outcome = double.outcome(double.run("walk", {"page": 4}, **run))
        assert outcome.kind == "in_doubt"
        assert "checkpoint 5" in outcome.failure
        older = double.run("walk", {"seen": ["a"]}, older=[(4, 2, '{"page": 9}')], **run)
        assert double.result(older) == {"from": 9, "now": {"page": 9, "seen": ["a"]}}
        assert any("passed over: checkpoint 5" in one.message for one in double.all(m.Note))
