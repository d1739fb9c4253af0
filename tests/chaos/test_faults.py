"""Which faults happen is drawn from the seed alone; how they are done is undone again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskdeck.engine.chaos.disk import BALLAST, Disk
from taskdeck.engine.chaos.faults import FIRST, KINDS, draw
from taskdeck.engine.clock import OFFSET_VARIABLE, SystemClock, system_clock


def test_a_seed_gives_the_same_faults_again_and_another_gives_others() -> None:
    assert draw(7, 180) == draw(7, 180)
    assert draw(7, 180) != draw(8, 180)


def test_a_longer_storm_begins_as_a_shorter_one() -> None:
    assert draw(7, 180)[: len(draw(7, 30))] == draw(7, 30)


def test_every_kind_comes_once_before_any_comes_twice() -> None:
    drawn = draw(7, 180)
    assert {fault.kind for fault in drawn[: len(KINDS)]} == {kind.name for kind in KINDS}
    assert drawn[0].at >= FIRST
    assert drawn[-1].at < 180
    assert len(drawn) > 100


def test_a_fault_hits_one_of_those_who_are_there() -> None:
    fault = draw(7, 10)[0]
    assert fault.of(["a", "b"]) in ("a", "b")
    assert fault.of([]) is None


def test_a_stepped_clock_is_off_by_what_its_file_says(tmp_path: Path) -> None:
    file = tmp_path / "offset"
    file.write_text("0\n")
    clock = system_clock({OFFSET_VARIABLE: str(file)})
    for seconds in (-90.0, 3600.0, 0.0):
        file.write_text(f"{seconds}\n")
        off = (clock.utc() - SystemClock().utc()).total_seconds()
        assert off == pytest.approx(seconds, abs=5)
        assert clock.boot() == pytest.approx(SystemClock().boot(), abs=5)
    assert type(system_clock({})) is SystemClock


@pytest.fixture
def disk(tmp_path: Path):
    made = Disk(tmp_path / "disk")
    yield made
    made.drop()


def test_a_disk_is_full_until_it_is_cleared_and_what_is_on_it_is_kept(disk: Disk, tmp_path: Path) -> None:
    if not disk.small:
        pytest.skip(f"no small disk can be mounted here: {disk.why_not}")
    (disk.path / "before").write_text("before")
    disk.fill()
    with pytest.raises(OSError, match="No space left"):
        (disk.path / "more").write_text("more" * 10_000)
    disk.clear()
    (disk.path / "after").write_text("after")
    disk.give_up(tmp_path / "kept")
    assert {"before", "after"} <= set(os.listdir(tmp_path / "kept"))
    assert BALLAST not in os.listdir(tmp_path / "kept")
    assert not (tmp_path / "disk").exists()


def test_without_a_disk_of_its_own_the_folder_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskdeck.engine.chaos.disk._mount", lambda path: "Operation not permitted")
    disk = Disk(tmp_path / "disk")
    (disk.path / "taskdeck.db").write_text("x")
    disk.give_up(tmp_path / "kept")
    assert (tmp_path / "kept" / "taskdeck.db").read_text() == "x"
