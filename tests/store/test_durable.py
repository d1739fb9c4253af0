from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from taskdeck.engine.store import durable
from tests.faults import fault


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the disk, in order: the calls themselves are made."""
    seen: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(fd: int) -> None:
        seen.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real_fsync(fd)

    def replace(source: Path, target: Path) -> None:
        seen.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    return seen


@fault("TF123")
def test_the_file_is_on_disk_before_its_name_and_the_name_before_it_counts(
    tmp_path: Path, forced: list[str]
) -> None:
    target = tmp_path / "new" / "state"
    with durable.published(target) as part:
        part.write_bytes(b"whole")
    assert forced == ["file", "rename", "folder"]
    assert target.read_bytes() == b"whole"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert stat.S_IMODE(target.parent.stat().st_mode) == 0o700
    assert os.listdir(target.parent) == ["state"]


@fault("TF124")
def test_where_the_rename_fails_the_old_file_stays_as_it_is_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "state"
    target.write_bytes(b"old")

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(13, "read-only")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError), durable.published(target, replace=True) as part:
        part.write_bytes(b"new")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state"]


def test_a_file_that_is_there_is_replaced_only_where_that_was_meant(tmp_path: Path) -> None:
    target = tmp_path / "state"
    target.write_bytes(b"old")
    with pytest.raises(FileExistsError), durable.published(target):
        pass
    with durable.published(target, replace=True) as part:
        part.write_bytes(b"new")
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("before", [b"", b"one\n", b"one\ntorn", b"torn", b"one\n" + b"x" * 9000])
def test_a_line_is_added_behind_whole_lines(tmp_path: Path, before: bytes) -> None:
    file = tmp_path / "lines"
    file.write_bytes(before)
    durable.append_line(file, "two")
    whole = before[: before.rfind(b"\n") + 1]
    assert file.read_bytes() == whole + b"two\n"
    assert durable.last_line(file) == "two"
