from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from taskdeck.engine.config import LOG_OWNER, load, owner_of
from taskdeck.engine.edge.log_owner import claim, write_whole
from taskdeck.engine.errors import Refused
from tests.faults import fault


def database(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.touch()
    return path


def logs_of(db: Path) -> Path:
    return load(db=db, environ={"HOME": str(db.parent)}, cwd=db.parent).log_directory


def start(db: Path) -> Path:
    """What an engine does at its start; returns the directory of its logs."""
    logs = logs_of(db)
    claim(logs, db)
    return logs


def test_a_second_database_in_a_folder_has_logs_of_its_own(tmp_path: Path) -> None:
    one, two = database(tmp_path, "one.db"), database(tmp_path, "two.db")
    assert (start(one), start(two)) == (tmp_path / "logs", tmp_path / "logs-two")
    assert (start(one), start(two)) == (tmp_path / "logs", tmp_path / "logs-two")
    one.unlink()
    assert start(two) == tmp_path / "logs-two"  # where its logs are by now


def test_a_directory_that_is_named_for_two_databases_is_refused_with_the_remedy(tmp_path: Path) -> None:
    one, two = database(tmp_path, "one.db"), database(tmp_path, "two.db")
    claim(tmp_path / "logs", one)
    with pytest.raises(Refused, match=r"holds the logs of .*one\.db.*name another directory"):
        claim(tmp_path / "logs", two)


def test_logs_move_with_their_database_and_pass_to_its_new_name(tmp_path: Path) -> None:
    start(database(tmp_path / "here", "one.db"))
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert start(tmp_path / "there" / "one.db") == tmp_path / "there" / "logs"
    (tmp_path / "there" / "one.db").rename(tmp_path / "there" / "new.db")
    assert start(tmp_path / "there" / "new.db") == tmp_path / "there" / "logs"


@fault("TF123")
@pytest.mark.parametrize("content", [b"\0" * 1879, b"", b"\xff\xfe\n", b"../nowhere.db\n", b"x" * 100_000])
def test_a_damaged_marker_is_written_anew(tmp_path: Path, content: bytes) -> None:
    db = database(tmp_path, "one.db")
    start(db)
    (tmp_path / "logs" / LOG_OWNER).write_bytes(content)
    assert start(db) == tmp_path / "logs"
    assert owner_of(tmp_path / "logs") == db


@fault("TF123")
def test_a_small_file_is_on_the_disk_before_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(fd: int) -> None:
        done.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{fd}')).name}")
        fsync(fd)

    def noted_replace(old: Path, new: Path) -> None:
        done.append(f"rename {old.name}")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write_whole(tmp_path / "state", b"whole")
    assert done == ["fsync state.new", "rename state.new", f"fsync {tmp_path.name}"]
    assert (tmp_path / "state").read_bytes() == b"whole"


@fault("TF124")
def test_where_the_new_file_cannot_take_its_place_the_old_one_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"good")
    (tmp_path / "state.new").mkdir()  # as in a folder that can't be written: the new file can't be made
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "state", b"better")
    assert (tmp_path / "state").read_bytes() == b"good"


def test_a_folder_that_cannot_be_written_is_no_reason_to_refuse(tmp_path: Path) -> None:
    db = database(tmp_path, "one.db")
    (tmp_path / "logs").write_text("a file")
    claim(tmp_path / "logs", db)
