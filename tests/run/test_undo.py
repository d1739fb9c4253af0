"""Undo steps as a handler sees them: registered durably and by name, run by any worker from name and arguments alone."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine import rollback
from taskdeck.engine.run import messages as m
from taskdeck.engine.run.undo import steps_of
from tests.eventually import eventually
from tests.run.engine_double import EngineDouble, engine

SYNC = str(Path(__file__).with_name("sync_handlers.py"))


def registered(double: EngineDouble) -> list[tuple[str, Any, bool, str]]:
    return [(one.name, json.loads(one.arguments), one.repeatable, one.undoes) for one in double.steps]


def test_steps_are_registered_by_name_with_their_operation_before_the_handler_goes_on(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.result(double.run("order"))
        assert registered(double) == [("release", {"order": 17}, True, "reserve"), ("refund", {}, True, "")]
        wrong = double.failure(double.run("order", {"wrong": "arguments"}))
        assert 'rollback step "release": missing a required argument' in wrong["message"]
        assert (
            "known: refund, release" in double.failure(double.run("order", {"wrong": "function"}))["message"]
        )


def test_a_fresh_worker_runs_a_step_from_its_name_and_arguments(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("order", {"order": 17}, step="release", checkpoint='{"n": 1}')
        assert double.result(fence) == {"released": 17, "from": {"n": 1}}
        assert double.failure(double.run("order", {}, step="refund"))["class_"] == "fatal"
        assert double.failure(double.run("order", {}, step="gone"))["kind"] == "handler_gone"


def test_nobody_is_asked_to_stop_in_the_middle_of_a_step(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("order", {"order": 17}, step="release")
        double.ask(fence, "drain", grace=60)
        assert double.result(fence)["released"] == 17


def test_a_step_in_doubt_is_verified_and_run_only_where_it_has_not_happened(tmp_path: Path) -> None:
    site = tmp_path / "site"
    with engine(tmp_path, environ={"SITE": str(site)}) as double:
        assert double.result(double.run("order", {"order": 17}, step="release", doubt=0.0))["released"] == 17
        site.touch()
        assert (
            double.result(double.run("order", {"order": 17}, step="release", doubt=0.0)) == "released before"
        )
        assert [one.event_type for one in double.all(m.Note)] == ["VERIFIED", "RELEASED", "VERIFIED"]


def test_a_sync_handler_registers_and_runs_steps_too(tmp_path: Path) -> None:
    site = tmp_path / "site"
    with engine(tmp_path, SYNC, environ={"SITE": str(site)}) as double:
        double.result(double.run("order"))
        assert registered(double) == [
            ("release", {"order": 17}, True, "reserve"),
            ("release", {"order": 18}, True, ""),
        ]
        assert double.result(double.run("order", {"order": 17}, step="release")) == {"released": 17}
        assert double.result(double.run("order", {"order": 17}, step="release", doubt=0.0)) == {
            "released": 17
        }
        site.touch()
        assert (
            double.result(double.run("order", {"order": 17}, step="release", doubt=0.0)) == "released before"
        )


COMMAND = """
import json, os, socket
link = socket.socket(fileno=int(os.environ["TASKDECK_FD"])).makefile("rwb")
for line in ({"rollback": ["rm", "-f", "a b"], "undoes": "make"}, {"rollback": ["true"], "repeatable": True},
             {"rollback": []}, {"rollback": "rm"}, {"rollback": [""]}, {"rollback": ["a\\0b"]}):
    link.write(json.dumps(line).encode() + b"\\n")
    link.flush()
    print(link.readline().decode())
"""


def test_a_command_registers_commands_by_the_lines_it_writes(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        outcome = double.outcome(double.shell(sys.executable, "-c", COMMAND))
        assert registered(double) == [
            ("rm -f 'a b'", {"argv": ["rm", "-f", "a b"]}, False, "make"),
            ("true", {"argv": ["true"]}, True, ""),
        ]
        answers = [json.loads(line) for line in outcome.tail.splitlines() if line]
        assert answers[:2] == [{"rollback": 1}, {"rollback": 2}]
        assert all("undo step was not registered" in each["error"] for each in answers[2:])


def test_a_commands_step_knows_that_it_is_one(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        outcome = double.outcome(double.shell("sh", "-c", "echo $TASKDECK_ROLLBACK", step="rm -f a"))
        assert outcome.tail == "rm -f a"


@pytest.mark.parametrize(
    ("point", "known"), [("before_rollback_registered", 0), ("after_rollback_registered", 1)]
)
def test_a_kill_around_a_registration_leaves_it_whole_or_not_there(
    tmp_path: Path, point: str, known: int
) -> None:
    with engine(tmp_path, environ={"TASKDECK_CRASH_AT": point}) as double:
        double.run("order")
        assert double.ended() == -signal.SIGKILL
        eventually(lambda: double.gone)
        assert len(double.steps) == known
        assert double.operations["", "reserve"]["state"] == "BEGUN"


def test_two_steps_of_one_name_and_a_verify_of_another_kind_are_mistakes() -> None:
    def handler() -> None: ...

    @rollback("undo")
    def one(ctx: Any) -> None: ...

    @rollback("undo")
    def other(ctx: Any) -> None: ...

    async def verify(ctx: Any) -> None: ...

    @rollback("mixed", verify=verify)
    def mixed(ctx: Any) -> None: ...

    def module_of(**names: Any) -> Any:
        import types

        return types.FunctionType(handler.__code__, names)

    assert list(steps_of(module_of(one=one, alias=one, other=5), sync=True)) == ["undo"]
    with pytest.raises(ValueError, match='two rollback steps are called "undo"'):
        steps_of(module_of(one=one, other=other), sync=True)
    with pytest.raises(ValueError, match="of the same kind"):
        steps_of(module_of(mixed=mixed), sync=True)
    assert steps_of(module_of(one=one), sync=False) == {}
