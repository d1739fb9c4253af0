from __future__ import annotations

import os
from pathlib import Path

from taskdeck.engine.edge.log_budget import keep_within
from taskdeck.engine.edge.logs import AttemptLog, read_log
from taskdeck.engine.run.attempt_logs import log_path

HOUR = 3600


def log_of(folder: Path, task: int, size: int, *, hours_ago: int) -> str:
    path = log_path(str(folder), task, 1)
    log = AttemptLog(path, file_bytes=100, files=1000)
    log.write(b"x" * size)
    log.close()
    ended = 1_800_000_000 - hours_ago * HOUR
    for each in Path(path).parent.glob(f"{task}.1.log*"):
        os.utime(each, (ended, ended))
    return path


def test_the_output_that_ended_first_goes_until_the_rest_fits(tmp_path: Path) -> None:
    paths = {hours: log_of(tmp_path, 5000 + hours, 250, hours_ago=hours) for hours in (3, 1, 2, 4)}
    done = keep_within(tmp_path, 500, ())
    assert (done.files, done.bytes, done.left) == (6, 500, 500)
    assert {hours: len(b"".join(read_log(path))) for hours, path in paths.items()} == {
        1: 250,
        2: 250,
        3: 0,
        4: 0,
    }


def test_no_more_goes_than_must(tmp_path: Path) -> None:
    for task in range(10):
        log_of(tmp_path, task, 100, hours_ago=1)
    assert keep_within(tmp_path, 750, ()) == (3, 300, 700)
    assert keep_within(tmp_path, 750, ()) == (0, 0, 700)


def test_the_log_of_a_running_attempt_stays_however_old_and_large_it_is(tmp_path: Path) -> None:
    running = log_of(tmp_path, 1, 1000, hours_ago=9)
    ended = log_of(tmp_path, 2, 100, hours_ago=1)
    assert keep_within(tmp_path, 500, {running}) == (1, 100, 1000)
    assert Path(running).exists()
    assert not Path(ended).exists()


def test_what_is_no_log_of_an_attempt_is_left_alone(tmp_path: Path) -> None:
    log_of(tmp_path, 1, 100, hours_ago=1)
    folder = tmp_path / "tasks" / "0000"
    (folder / "notes.txt").write_text("mine")
    (folder / "7.1.log").symlink_to(folder / "notes.txt")
    (tmp_path / "engine.log").write_text("x" * 1000)
    assert keep_within(tmp_path, 0, ()) == (1, 100, 0)
    assert (folder / "7.1.log").read_text() == "mine"


def test_without_logs_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert keep_within(tmp_path / "none", 0, ()) == (0, 0, 0)
