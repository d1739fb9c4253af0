"""Fault points die where they are told to, as often as they are told to, and nowhere else."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from taskdeck.engine.run import journal
from taskdeck.engine.run.journal import StartJournal

SCRIPT = """
from taskdeck.engine.crash import crash_at
for n in range(1, 4):
    crash_at("other")
    print(n, flush=True)
    crash_at("here")
"""


def run(**environ: str) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environ, stdout=subprocess.PIPE, check=False)
    return done.returncode, done.stdout.decode().split()


def test_no_point_does_anything_unless_named() -> None:
    assert run() == (0, ["1", "2", "3"])
    assert run(TASKDECK_CRASH_AT="elsewhere") == (0, ["1", "2", "3"])


def test_a_named_point_kills_the_process_at_its_first_or_nth_passing() -> None:
    assert run(TASKDECK_CRASH_AT="here") == (-signal.SIGKILL, ["1"])
    assert run(TASKDECK_CRASH_AT="elsewhere,here:3") == (-signal.SIGKILL, ["1", "2", "3"])


def test_with_a_file_it_happens_once_over_restarts(tmp_path: Path) -> None:
    once = str(tmp_path / "crashed")
    assert run(TASKDECK_CRASH_AT="here", TASKDECK_CRASH_ONCE=once)[0] == -signal.SIGKILL
    assert int(Path(once).read_text()) > 1  # who it was
    assert run(TASKDECK_CRASH_AT="here", TASKDECK_CRASH_ONCE=once) == (0, ["1", "2", "3"])


def test_a_run_lists_the_points_that_it_passes_and_who_passed_them(tmp_path: Path) -> None:
    log = tmp_path / "points"
    assert run(TASKDECK_CRASH_LOG=str(log), TASKDECK_CRASH_AT="here:2")[0] == -signal.SIGKILL
    pids, names = zip(*(line.split() for line in log.read_text().splitlines()), strict=True)
    assert (len(set(pids)), names) == (1, ("other", "here", "other", "here"))


def test_the_start_journal_returns_the_fences_and_no_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    assert journal.read(path) == set()
    starts = StartJournal(path)
    starts.start(7)
    starts.start(1234)
    starts.close()
    with path.open("ab") as file:
        file.write(b"12")
    assert journal.read(path) == {7, 1234}
    assert path.stat().st_mode & 0o777 == 0o600
