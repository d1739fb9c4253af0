"""A sample of `./dev crashpoints`: killed at some of all fault points, nothing is wrong; and it does find what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from taskdeck.engine.demo.invariants import Outside, judge
from tests.crashing.life import Life, acknowledged, finish, task


def test_a_day_that_is_killed_at_some_of_its_fault_points_leaves_nothing_wrong() -> None:
    command = [sys.executable, "-m", "tests.crashing", "--every", "61", "--first", "7", "--recoveries", "12"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong after 0" in done.stdout
    assert "killed 12 times while recovering, each time one point later: nothing is wrong" in done.stdout


def test_an_effect_that_is_done_without_asking_is_found(tmp_path: Path) -> None:
    life = Life(tmp_path).begin()
    life.submit(task("once", effects=1))
    (run,) = life.tick()
    life.work(run)
    life._happen("once:0")
    finish(life)
    found = judge(tmp_path / "taskdeck.db", Outside(acknowledged(tmp_path), effects=life.effects()))
    assert found.problems[5] == ["effect 'once:0': it happened 2 times"]
