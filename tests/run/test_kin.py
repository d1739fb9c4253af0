"""Who carries no mark is written down by its worker, and so is ended although that was killed and no group holds it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.edge import identity
from taskdeck.engine.run import kin, leftovers
from tests.eventually import eventually
from tests.faults import fault
from tests.run.engine_double import engine, kill

FLEE = "env -i setsid sh -c '(exec 3>&- </dev/null >/dev/null 2>&1; exec sleep 300) & exit' & wait; exec sleep 300"


@fault("TF133")
def test_who_fled_from_a_command_of_a_worker_that_was_killed_is_ended_all_the_same(tmp_path: Path) -> None:
    with engine(tmp_path, fresh=True) as double:
        double.shell("sh", "-c", FLEE, task_id=43)
        noted = eventually(lambda: asleep(kin.read(double.journal)), "it is written down")
        (fled,) = noted
        kill(double.worker.pid)
        double.worker.wait()
        assert identity.alive(fled)
        stranger = subprocess.Popen(["sleep", "300"], start_new_session=True)
        try:
            found = leftovers.find_leftovers(tmp_path / "t.db", "w-1", [43], SystemClock(), double.journal)
            assert fled in found
            left = leftovers.end_leftovers(tmp_path / "t.db", "w-1", [43], SystemClock(), double.journal)
            assert left == []
            assert not identity.alive(fled)
            assert stranger.poll() is None
        finally:
            stranger.kill()
            stranger.wait()


def asleep(noted: dict[identity.Identity, int]) -> dict[identity.Identity, int]:
    """Those that came to their last program."""
    return {one: task for one, task in noted.items() if identity.name(one.pid) == "sleep"}


def test_a_command_that_keeps_its_mark_is_not_written_down(tmp_path: Path) -> None:
    with engine(tmp_path, fresh=True) as double:
        double.shell("sh", "-c", "sleep 300 & exec sleep 300", task_id=41)
        double.shell("sh", "-c", "sleep 300 & env -i sleep 301 & exec sleep 300", task_id=43)
        eventually(lambda: asleep(kin.read(double.journal)))
        (noted,) = kin.read(double.journal).items()
        assert (identity.name(noted[0].pid), noted[1]) == ("sleep", 43)


@pytest.mark.parametrize(
    "text", ["", "1 2", "1 2 boot 3", "1 x boot 3\n", "\xff\0\n1 2 boot\n", "1 2 boot x\n"]
)
def test_what_is_torn_or_damaged_names_nobody(tmp_path: Path, text: str) -> None:
    journal = tmp_path / "w.starts"
    journal.with_suffix(kin.SUFFIX).write_text(f"7 8 boot 9\n{text}", encoding="latin-1")
    assert kin.read(journal) == {identity.Identity(7, 8, "boot"): 9}
