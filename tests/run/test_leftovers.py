"""What can't be ended is told by pid, stands until it is gone, and keeps its task and its resources from being used again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.edge import identity, trees
from taskdeck.engine.rules.declarations import ResourceDeclaration
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.run import control, leftovers, withstanding
from taskdeck.engine.run.losing import lose
from taskdeck.engine.run.messages import Left, Outcome
from taskdeck.engine.run.outcomes import Outcomes
from taskdeck.engine.store import slots, tasks
from tests.faults import fault
from tests.scratch import ANN, Scratch


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives on."""
    sleeper = subprocess.Popen(["sleep", "60"])
    yield sleeper
    sleeper.kill()
    sleeper.wait()


def left(process: subprocess.Popen[bytes], task_id: int | None = None) -> Left:
    who = identity.of(process.pid)
    assert who
    return leftovers.left_of(who, task_id)


def ended(scratch: Scratch, task: dict, kind: str, *of: Left) -> None:
    failure = '{"class_":"retryable","kind":"exit","message":"","rule":""}' if kind == "failed" else ""
    outcome = Outcome(task["id"], task["fence"], kind, failure=failure, left=list(of))
    outcomes = Outcomes(scratch.policies, lambda low, high: low)
    scratch.do(lambda tx: outcomes.apply(tx, tasks.held(tx, task["id"], task["fence"]), outcome))


@pytest.mark.parametrize(
    ("kind", "state"), [("failed", "NEEDS_REVIEW"), ("drained", "NEEDS_REVIEW"), ("succeeded", "SUCCESS")]
)
@fault("TF133")
def test_a_task_is_not_run_again_beside_what_is_left_of_it(
    scratch: Scratch, process: subprocess.Popen[bytes], kind: str, state: str
) -> None:
    task = scratch.running()
    ended(scratch, task, kind, left(process, task["id"]))
    assert scratch.state(task["id"]) == state
    told = scratch.query("SELECT level, message FROM event_log WHERE event_type = 'PROCESS_LEFT'")
    assert told == [("error", f"pid {process.pid} (sleep) could not be ended")]
    if state == "NEEDS_REVIEW":
        assert f"pid {process.pid}" in scratch.row(task["id"])["error"]


def test_a_cancelled_task_says_what_is_left_of_it(scratch: Scratch, process: subprocess.Popen[bytes]) -> None:
    task = scratch.running()
    scratch.do(control.act, "cancel", task, ANN, {})
    ended(scratch, task, "cancelled", left(process, task["id"]))
    row = scratch.row(task["id"])
    assert row["state"] is TaskState.CANCELLED
    assert f"pid {process.pid} (sleep) could not be ended" in row["error"]


def test_what_it_had_leased_goes_to_no_other_until_a_person_has_looked(
    scratch: Scratch, process: subprocess.Popen[bytes]
) -> None:
    scratch.declare(ResourceDeclaration("b-1", pool="browser"), ResourceDeclaration("b-2", pool="browser"))
    task = scratch.running()
    scratch.do(slots.take_from_pool, "browser", 1, task, 300.0, "task")
    ended(scratch, task, "succeeded", left(process, task["id"]))
    assert scratch.slots() == {"b-1": "FAULT", "b-2": "AVAILABLE"}
    assert scratch.one("SELECT last_error FROM resource_slot WHERE state = 'FAULT'").startswith("pid ")
    scratch.do(slots.act, slots.RESOURCES, "b-1", "reset", ANN)
    assert scratch.slots()["b-1"] == "AVAILABLE"


def test_a_task_whose_dead_worker_left_something_waits_for_a_person(
    scratch: Scratch, process: subprocess.Popen[bytes]
) -> None:
    task = scratch.running()
    scratch.do(withstanding.record, [left(process, task["id"])], None)
    scratch.do(
        lose,
        scratch.row(task["id"]),
        "worker 1 killed",
        started=True,
        policies=scratch.policies,
        max_losses=3,
    )
    row = scratch.row(task["id"])
    assert (row["state"], row["reason"]) == (TaskState.NEEDS_REVIEW, "worker_lost")
    assert f"pid {process.pid} (sleep) could not be ended" in row["error"]


def test_what_was_left_is_forgotten_once_it_is_gone(
    scratch: Scratch, process: subprocess.Popen[bytes]
) -> None:
    one = left(process)
    for _ in range(2):
        scratch.do(withstanding.record, [one], None)
    assert scratch.do(withstanding.look) == 1
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert scratch.do(withstanding.look) == 0
    assert [kind for kind, _ in scratch.events()] == ["PROCESS_LEFT", "PROCESS_GONE"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a process to another user")
@fault("TF133")
def test_a_process_of_another_user_is_named_and_not_taken_for_ended(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys\n"
        "from taskdeck.engine.clock import SystemClock\n"
        "from taskdeck.engine.edge import trees\n"
        "trees.PATIENCE = 0.2\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "os.setresuid(65534, 65534, 0)\n"  # who is nobody now may not signal what root has started
        "left = trees.end_tree('0:0:', grace=0.1, clock=SystemClock(), session=child.pid)\n"
        "os.setresuid(0, 0, 0)\n"
        "child.kill()\n"
        "print([one.pid for one in left] == [child.pid])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.stdout == "True\n", ran.stderr


def test_the_one_process_of_ten_thousand_lost_tasks_is_found_and_ended_without_asking_for_each(
    tmp_path: Path,
) -> None:
    database, lost = tmp_path / "t.db", list(range(1, 10_001))
    environment = {**os.environ, trees.VARIABLE: trees.mark(database, 4711, 1)}
    sleeper = subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True)
    found = leftovers.find_leftovers(database, "", lost, SystemClock())
    assert [one.pid for one in found] == [sleeper.pid]
    assert leftovers.end_leftovers(database, "", lost, SystemClock()) == []
    assert sleeper.wait() == -signal.SIGKILL
