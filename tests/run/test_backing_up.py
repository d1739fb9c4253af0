"""Backups: whole, of one moment, for their owner only, and never in the way of the work."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.config import Config
from taskdeck.engine.errors import Refused, StoreError, TaskdeckError, UsageError
from taskdeck.engine.rules.settings import BackupSettings, TaskdeckSettings
from taskdeck.engine.run.backing_up import back_up, newest
from taskdeck.engine.store import backup
from tests.faults import fault
from tests.scratch import Scratch


@pytest.fixture
def config(scratch: Scratch) -> Config:
    return Config(taskdeck=TaskdeckSettings(db=scratch.path, logs=scratch.path.parent / "logs"))


@fault("TF118")
def test_a_backup_holds_what_is_still_in_the_write_ahead_log_and_is_one_file(
    scratch: Scratch, config: Config, tmp_path: Path
) -> None:
    for _ in range(100):
        scratch.add()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    report = back_up(config, elsewhere / "copy.db", None, scratch.clock)
    assert (report.tasks, report.events, report.removed) == (100, 100, [])
    assert os.listdir(elsewhere) == ["copy.db"]
    assert stat.S_IMODE((elsewhere / "copy.db").stat().st_mode) == 0o600
    with closing(sqlite3.connect(elsewhere / "copy.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert copy.execute("SELECT count(*) FROM task").fetchone() == (100,)


@pytest.mark.parametrize("name", ["safe", "safe.d", "safe.db/"])
def test_a_new_name_without_the_suffix_of_a_database_is_a_folder_that_is_made(
    scratch: Scratch, config: Config, tmp_path: Path, name: str
) -> None:
    scratch.add()
    target = f"{tmp_path}/{name}"
    made = [Path(back_up(config, target, 5, scratch.clock).path) for _ in range(2)]
    assert sorted(made) == sorted(Path(target).iterdir())
    with pytest.raises(UsageError, match="there is no folder"):
        back_up(config, f"{tmp_path}/unmounted/{name}", None, scratch.clock)


@fault("TF148")
def test_a_place_whose_name_is_not_utf8_is_written_to_and_told_escaped(
    scratch: Scratch, config: Config, tmp_path: Path
) -> None:
    scratch.add()
    target = os.fsdecode(bytes(tmp_path) + b"/caf\xe9.db")
    report = back_up(config, target, None, scratch.clock)
    assert report.path == f"{tmp_path}/caf\\xe9.db"
    assert backup.check(Path(target)).rows["task"] == 1
    with pytest.raises(UsageError, match="names no place"):
        back_up(config, "", None, scratch.clock)


def test_a_backup_under_full_load_is_of_one_moment_and_holds_nobody_up(
    scratch: Scratch, config: Config
) -> None:
    stop, written = threading.Event(), []

    def load() -> None:
        while not stop.is_set():
            written.append(scratch.add())

    worker = threading.Thread(target=load)
    worker.start()
    try:
        reports = [back_up(config, None, 10, scratch.clock) for _ in range(5)]
        seen = len(written)
    finally:
        stop.set()
        worker.join()
    assert all(report.tasks == report.events for report in reports)
    assert reports[0].tasks < reports[-1].tasks <= seen + 1


def test_of_our_backups_in_the_folder_only_the_newest_stay_and_nobody_elses_goes(
    scratch: Scratch, config: Config
) -> None:
    folder = config.backup_directory
    folder.mkdir()
    for name in ("taskdeck-schema1-2026-11-29T120000.000000Z.db", "other-20260101T000000Z.db", "taskdeck.db"):
        (folder / name).write_text("not ours")
    made = []
    for _ in range(4):
        made.append(back_up(config, None, 2, scratch.clock))
        scratch.clock.advance(1)
    assert [len(report.removed) for report in made] == [0, 0, 1, 1]
    assert made[3].removed == [made[1].path]
    assert {made[2].path, made[3].path} <= {str(each) for each in folder.iterdir()}
    assert len(os.listdir(folder)) == 5
    assert newest(folder, scratch.path) == "2026-11-29T12:00:03.000000Z"


def test_two_backups_of_one_second_have_two_names(scratch: Scratch, config: Config) -> None:
    assert back_up(config, None, 5, scratch.clock).path != back_up(config, None, 5, scratch.clock).path


@pytest.mark.parametrize(
    ("target", "keep", "error"),
    [
        ("taskdeck.db", None, Refused),
        ("missing/copy.db", None, UsageError),
        ("copy.db", 3, UsageError),
        ("taskdeck.db/copy.db", None, TaskdeckError),
    ],
)
def test_a_place_that_will_not_do_is_refused_and_nothing_is_written(
    scratch: Scratch, config: Config, tmp_path: Path, target: str, keep: int | None, error: type[Exception]
) -> None:
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(error):
        back_up(config, tmp_path / target, keep, scratch.clock)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_copy_that_is_not_whole_never_gets_its_name(
    scratch: Scratch, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch.add()
    honest = backup.copy

    def torn(source: sqlite3.Connection, target: Path) -> backup.Contents:
        found = honest(source, target)
        with open(target, "r+b") as file:  # the disk keeps another page than it was given
            file.seek(8192)
            file.write(b"\xff" * 4096)
        return found

    monkeypatch.setattr(backup, "copy", torn)
    with pytest.raises(StoreError, match="damaged"):
        back_up(config, None, None, scratch.clock)
    assert os.listdir(config.backup_directory) == []


def test_a_broken_audit_is_told_at_the_backup(scratch: Scratch, config: Config) -> None:
    scratch.add()
    scratch.database.execute_sql("DROP TRIGGER event_log_is_append_only_u")
    scratch.database.execute_sql("UPDATE event_log SET message = 'x' WHERE event_id = 1")
    with pytest.raises(StoreError, match="its audit is broken at event 1"):
        back_up(config, None, None, scratch.clock)


def test_without_room_there_is_no_backup(
    scratch: Scratch, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(TaskdeckError, match="not enough room") as caught:
        back_up(config, None, None, scratch.clock)
    assert caught.value.exit_code == 75
    assert os.listdir(config.backup_directory) == []


def test_the_engines_own_settings_say_where_and_how_many(
    scratch: Scratch, config: Config, tmp_path: Path
) -> None:
    settings = BackupSettings(keep=1, dir=tmp_path / "safe")
    config = msgspec.structs.replace(config, backup=settings)
    clock = ManualClock()
    first = back_up(config, None, None, clock)
    clock.advance(1)
    second = back_up(config, None, None, clock)
    assert second.removed == [first.path]
    assert os.listdir(tmp_path / "safe") == [Path(second.path).name]
