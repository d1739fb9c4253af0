"""What the world saw of a storm is held against its database: it must fail where something is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskdeck.engine.chaos import jobs, judging, plan
from taskdeck.engine.chaos.runner import writers
from taskdeck.engine.demo.invariants import Outside
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.store.tasks import get, transition
from tests.seeded import Seed
from tests.tui.calls import PROGRAM


@pytest.fixture
def seed(tmp_path: Path) -> Iterator[Seed]:
    made = Seed(tmp_path / "taskdeck.db")
    yield made
    made.close()


def told(seed: Seed, folder: Path, invariant: int) -> list[str]:
    """What the judgement says against an invariant; the rest of this database is no run at all."""
    return judging.examine(seed.path, folder, Outside()).problems[invariant]


def note(folder: Path, file: str, *lines: str) -> None:
    (folder / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_a_resource_that_somebody_else_used_is_told(seed: Seed, tmp_path: Path) -> None:
    note(tmp_path, jobs.TRESPASSES, "#7 was given browser-1 while somebody used it")
    assert told(seed, tmp_path, 1) == ["#7 was given browser-1 while somebody used it"]


def test_effects_come_from_the_sites_ledger_and_from_the_file(seed: Seed, tmp_path: Path) -> None:
    note(tmp_path, judging.LEDGER, json.dumps({"row": "a:0"}), json.dumps({"row": "a:0"}))
    note(tmp_path, jobs.EFFECTS, "b:0")
    problems = told(seed, tmp_path, 5)
    assert "effect 'a:0': it happened 2 times" in problems
    assert "effect 'b:0': it happened, and is recorded as nothing" in problems


def test_a_line_that_was_cut_off_is_no_effect(seed: Seed, tmp_path: Path) -> None:
    (tmp_path / jobs.EFFECTS).write_text("b:")
    assert told(seed, tmp_path, 5) == []


def test_a_command_that_an_attempt_began_twice_or_that_nobody_knows_is_told(
    seed: Seed, tmp_path: Path
) -> None:
    task = seed.running(seed.worker())
    note(tmp_path, plan.RUNS, f"chaos-1 {task} 1", f"chaos-1 {task} 1", f"chaos-1 {task} 2")
    assert f"#{task} (chaos-1): attempt 1 began its command 2 times" in told(seed, tmp_path, 4)
    assert any(
        "attempt 2 ran, and the database knows of no such attempt" in each for each in told(seed, tmp_path, 3)
    )


def test_a_command_that_must_not_run_twice_and_was_taken_over_is_told(seed: Seed, tmp_path: Path) -> None:
    task = seed.running(seed.worker(), on_lost="review")
    for to, reason in ((TaskState.LOST, "worker_lost"), (TaskState.PENDING, "taken_over")):
        with seed.writing() as tx:
            transition(tx, get(tx, task), to, reason, actor="engine")
    assert f"#{task}: it must not run twice unasked, and was taken over" in told(seed, tmp_path, 5)


def test_a_password_in_any_file_is_told(seed: Seed, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "http-login").write_text("correct-horse")
    note(tmp_path, "engine.out", "could not log in with correct-horse")
    assert [each for each in told(seed, tmp_path, 7) if "http-login" in each]


def test_a_process_that_has_the_database_open_for_writing_is_seen(seed: Seed) -> None:
    script = "import sys; file = open(sys.argv[3], sys.argv[2]); print(1, flush=True); sys.stdin.read()"
    for mode, seen in (("rb", False), ("r+b", True)):
        command = [sys.executable, "-c", script, "taskdeck.engine.main", mode, str(seed.path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert (process.pid in writers(seed.path)) is seen
            process.send_signal(signal.SIGKILL)


def test_a_child_that_an_engine_has_just_forked_is_no_second_engine(seed: Seed) -> None:
    script = (
        "import os, sys; file = open(sys.argv[2], 'r+b'); child = os.fork()\n"
        "if child: print(1, flush=True)\n"
        "sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, "taskdeck.engine.main", str(seed.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert [pid for pid in writers(seed.path) if pid != os.getpid()] == [process.pid]


@pytest.mark.parametrize("words", [["--db", "x.db"], ["--config", "x.toml"]])
def test_chaos_works_on_a_database_of_its_own_and_on_no_other(words: list[str]) -> None:
    done = subprocess.run(
        [*PROGRAM, "chaos", *words], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert "a scratch database of its own" in done.stderr
