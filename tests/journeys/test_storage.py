"""What happens to a whole deck when its storage fails it."""

from __future__ import annotations

from pathlib import Path

from tests.scarce import on_a_small_disk


def test_a_full_disk_pauses_the_engine_and_loses_nothing(tmp_path: Path) -> None:
    done = on_a_small_disk(tmp_path, "4m", "-m", "tests.journeys.small_disk", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("well\n")
