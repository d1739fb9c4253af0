"""What is said together is written in one transaction, or none of it; what has happened outside is recorded all the same."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.run import messages as m
from tests import replay
from tests.eventually import eventually
from tests.run.engine_double import SAMPLES, engine
from tests.run.ticking import Engine
from tests.scratch import Scratch

BOTH = pytest.mark.parametrize("handlers", [SAMPLES, Path(__file__).with_name("sync_handlers.py")])
KINDS = [m.OperationEnd, m.Progress, m.Note, m.Save]


@BOTH
def test_a_block_is_one_message_behind_its_intents(tmp_path: Path, handlers: Path) -> None:
    with engine(tmp_path, str(handlers)) as double:
        assert double.result(double.run("together")) == {"page": 1}
        (written,) = double.all(m.Together)
        assert [type(part) for part in written.parts] == KINDS
        assert double.told.index(double.all(m.OperationBegin)[0]) < double.told.index(written)
        assert not double.all(m.Save) + double.all(m.OperationEnd)
        assert double.operations["", "upload:1"]["state"] == "DONE"


@BOTH
def test_of_a_block_that_raises_only_what_has_happened_is_recorded(tmp_path: Path, handlers: Path) -> None:
    with engine(tmp_path, str(handlers)) as double:
        assert double.failure(double.run("together", {"raise": True}))["class_"] == "fatal"
        assert double.operations["", "upload:1"] == {"state": "DONE", "result": '{"id":7}'}
        assert not double.all(m.Together) + double.all(m.Save)
        assert [one.event_type for one in double.all(m.Note)] == []


@BOTH
def test_where_the_engine_refuses_it_the_effect_is_recorded_all_the_same(
    tmp_path: Path, handlers: Path
) -> None:
    with engine(tmp_path, str(handlers)) as double:
        double.refuses = "the checkpoint is too large"
        assert "too large" in double.failure(double.run("together"))["message"]
        assert double.operations["", "upload:1"]["state"] == "DONE"
        assert double.checkpoints == {}


def test_a_wish_to_stop_is_heard_behind_the_block(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("together")
        double.ask(fence, "drain", grace=60)
        assert double.outcome(fence).kind in ("drained", "succeeded")
        assert double.checkpoints == {42: {"page": 1}}


@pytest.mark.parametrize(
    ("point", "state", "saved"),
    [("before_together_send", "BEGUN", {}), ("after_together", "DONE", {42: {"page": 1}})],
)
def test_a_kill_around_it_leaves_all_of_it_or_none(
    tmp_path: Path, point: str, state: str, saved: dict[int, Any]
) -> None:
    with engine(tmp_path, environ={"TASKDECK_CRASH_AT": point}) as double:
        double.run("together")
        assert double.ended() == -signal.SIGKILL
        eventually(lambda: double.gone)
        assert (double.operations["", "upload:1"]["state"], double.checkpoints) == (state, saved)


COMMAND = """
import json, os, socket
link = socket.socket(fileno=int(os.environ["TASKDECK_FD"])).makefile("rwb")
for line in ({"operation": "upload:1"},
             {"together": [{"operation": "upload:1", "done": True, "result": 7}, {"checkpoint": {"page": 1}},
                           {"progress": 1}]},
             {"together": [{"checkpoint": {"page": 2}}, {"operation": "upload:2"}]}, {"together": 1}):
    link.write(json.dumps(line).encode() + b"\\n")
    link.flush()
    print(link.readline().decode())
"""


def test_a_command_writes_several_lines_as_one(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        outcome = double.outcome(double.shell(sys.executable, "-c", COMMAND))
        answers = [json.loads(line) for line in outcome.tail.splitlines() if line]
        assert answers[1] == {"together": "written"}
        assert "together may be written" in answers[2]["error"]
        assert "list of objects" in answers[3]["error"]
        assert len(double.all(m.Together)) == 1
        assert double.checkpoints == {42: {"page": 1}}


def begun(scratch: Scratch) -> tuple[Engine, m.Run]:
    engine = Engine(scratch)
    scratch.add()
    (run,) = engine.tick()
    engine.begin(run)
    engine.tell(m.OperationBegin(1, run.task_id, run.fence, "upload:1"))
    return engine, run


def parts(run: m.Run, data: str = '{"page": 1}') -> list[Any]:
    ids = (run.task_id, run.fence)
    done = m.OperationEnd(0, *ids, "upload:1", "DONE", result="7")
    return [
        done,
        m.Progress(*ids, 1, 2, "page 1"),
        m.Note(*ids, "STEP_SUCCEEDED", "page 1"),
        m.Save(0, *ids, data),
    ]


def test_the_engine_writes_all_of_it_in_one_transaction(scratch: Scratch) -> None:
    engine, run = begun(scratch)
    (answer,) = engine.tell(m.Together(2, run.task_id, run.fence, parts(run)))
    assert answer.error == ""
    assert scratch.query("SELECT state FROM operation") == [("DONE",)]
    assert scratch.one("SELECT data FROM checkpoint") == '{"page":1}'
    assert scratch.row(run.task_id)["progress_done"] == 1
    assert replay.check(scratch.path) == []


@pytest.mark.parametrize("data", ["{", '{"password": "hunter2pass"}', "[1]"])
@pytest.mark.parametrize("req", [2, 0])
def test_where_a_part_is_refused_only_what_has_happened_outside_is_written(
    scratch: Scratch, data: str, req: int
) -> None:
    engine, run = begun(scratch)
    answers = engine.tell(m.Together(req, run.task_id, run.fence, parts(run, data)))
    assert [bool(each.error) for each in answers] == [True] * (req > 0)
    assert scratch.query("SELECT state FROM operation") == [("DONE",)]
    assert scratch.row(run.task_id)["progress_done"] is None
    assert scratch.one("SELECT count(*) FROM checkpoint") == 0
    assert [kind for kind, _ in scratch.events(run.task_id)].count("STEP_SUCCEEDED") == 1
    assert scratch.events().count(("ALERT_RAISED", "report_refused")) == (req == 0)


def test_a_stale_attempt_or_reports_of_another_one_write_nothing(scratch: Scratch) -> None:
    engine, run = begun(scratch)
    other = m.Save(0, run.task_id, run.fence + 1, "{}")
    (answer,) = engine.tell(m.Together(2, run.task_id, run.fence, [*parts(run), other]))
    assert "two attempts" in answer.error
    engine.lose(run)
    (answer,) = engine.tell(m.Together(2, run.task_id, run.fence, parts(run)))
    assert answer.error == "stale"
    assert scratch.one("SELECT count(*) FROM checkpoint") == 0
