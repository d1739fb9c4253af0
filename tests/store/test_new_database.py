"""A database that is not there yet appears with what is first written into it, or not at all."""

from __future__ import annotations

import errno
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.errors import StorageTrouble
from taskdeck.engine.rules.new_task import new_task
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.store import backup, database, durable, new_database, tasks
from taskdeck.engine.store.direct import write_once
from taskdeck.engine.store.transaction import SCHEMA_VERSION, Transaction

KILLED = """
import os, sys
from pathlib import Path
os.environ["TASKDECK_CRASH_AT"] = sys.argv[2]
from taskdeck.engine.clock import system_clock
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.new_task import new_task
from taskdeck.engine.store import direct, tasks
direct.write_once(Path(sys.argv[1]), system_clock(), Redactor(()), tasks.create_all, [new_task("x", "1")] * 5000, "cli:ann")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "task[d]eck.db"


def add(path: Path) -> list[int]:
    return write_once(
        path,
        ManualClock(),
        Redactor(()),
        tasks.create_all,
        [new_task("x", str(n)) for n in range(20)],
        "cli:ann",
    )


def test_the_schema_that_is_written_down_is_what_all_migrations_make() -> None:
    assert new_database.SCHEMA.read_text("utf-8") == database.schema_text(), "write it anew: ./dev schema"


def test_it_is_there_with_its_first_tasks_and_nothing_lies_beside_it(path: Path) -> None:
    assert add(path) == list(range(1, 21))
    assert os.listdir(path.parent) == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    found = backup.check(path)
    assert (found.schema, found.rows["task"], found.head.length) == (SCHEMA_VERSION, 20, 20)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        applied = connection.execute("SELECT applied FROM schema_migration").fetchall()
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", text) for (text,) in applied)


def test_what_its_first_unit_refuses_makes_no_database(path: Path) -> None:
    def refuse(tx: Transaction) -> None:
        tasks.create_all(tx, [new_task("x", "1")] * 2000, "cli:ann")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        write_once(path, ManualClock(), Redactor(()), refuse)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_killed_while_it_is_made_it_is_not_there_and_the_next_one_makes_it(path: Path, point: str) -> None:
    died = subprocess.run([sys.executable, "-c", KILLED, str(path), point], check=False)
    assert died.returncode == -signal.SIGKILL
    assert not path.exists()
    assert os.listdir(path.parent)
    add(path)
    assert os.listdir(path.parent) == [path.name]


def test_an_engine_that_makes_it_removes_what_a_killed_process_left(path: Path) -> None:
    path.parent.mkdir()
    (path.parent / f".{path.name}.99999.part").touch()
    database.open_for_writing(path, "2026-01-01T00:00:00.000000Z").close()
    assert os.listdir(path.parent) == [path.name]


def test_what_is_being_made_beside_it_under_a_longer_name_stays(path: Path) -> None:
    longer = path.with_name(f"{path.name}.2")
    with durable.published(longer):
        add(path)
    assert {each.name for each in path.parent.iterdir()} == {path.name, longer.name}


def test_a_disk_that_does_not_take_it_is_named_and_keeps_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(durable, "sync", full)
    with pytest.raises(StorageTrouble, match="can't be made: No space left on device"):
        add(path)
    assert os.listdir(path.parent) == []


def test_beside_a_log_or_behind_a_link_nothing_is_put_in_its_place(tmp_path: Path) -> None:
    path, far = tmp_path / "taskdeck.db", tmp_path / "far.db"
    path.symlink_to(far)
    add(path)
    assert path.is_symlink()
    assert backup.check(far).rows["task"] == 20
    for suffix in ("-wal", "-journal", ".restoring"):
        Path(f"{tmp_path / 'other.db'}{suffix}").touch()
        assert not new_database.is_new(tmp_path / "other.db")
        Path(f"{tmp_path / 'other.db'}{suffix}").unlink()
    assert new_database.is_new(tmp_path / "other.db")
