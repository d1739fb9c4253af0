"""Every schema that was ever released becomes the present one, with all that it held."""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskdeck.engine.errors import SchemaMismatch, StoreError
from taskdeck.engine.rules.timing import EARLIEST, LATEST
from taskdeck.engine.store import backup, database, new_database, tasks
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.transaction import SCHEMA_VERSION
from tests.scratch import Scratch

first_flight = import_module("taskdeck.engine.store.migrations.0001_first_flight")
faster = import_module("taskdeck.engine.store.migrations.0012_times_that_are_checked_faster")
NOW = "2026-11-29T12:00:00.000000Z"
SCHEMAS = Path(__file__).parent.parent / "data" / "schemas"
RELEASED = sorted(int(file.stem) for file in SCHEMAS.glob("*.sql"))

HALF_WAY = """
import os, signal, sys
from pathlib import Path
from taskdeck.engine.store import database
path, migrations = map(Path, sys.argv[1:])
database.MIGRATIONS = migrations
database.open_for_writing(path, "2026-11-29T12:00:00.000000Z")
"""
DIES = """
import os, signal
def up(migrator, db):
    db.execute_sql("CREATE TABLE half (way)")
    db.execute_sql("DELETE FROM checkpoint")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def released(schema: int, path: Path) -> Path:
    """A database of this schema as its taskdeck left it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript((SCHEMAS / f"{schema}.sql").read_text("utf-8"))
        connection.execute("PRAGMA journal_mode = WAL")
    return path


@pytest.fixture(params=RELEASED)
def any_of_them(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return released(request.param, tmp_path / "taskdeck.db")


@pytest.fixture(params=[schema for schema in RELEASED if schema < SCHEMA_VERSION])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return released(request.param, tmp_path / "taskdeck.db")


@pytest.fixture
def shape(tmp_path: Path) -> dict[str, object]:
    """Tables, columns, indexes and triggers of a database that is made today."""
    folder = tmp_path / "new"
    folder.mkdir()
    Scratch(folder).close()
    return shape_of(folder / "taskdeck.db")


def shape_of(path: Path) -> dict[str, object]:
    with closing(sqlite3.connect(path)) as connection:
        found: dict[str, object] = {}
        for kind, name, sql in connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
        ).fetchall():
            columns = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
            found[f"{kind} {name}"] = sorted(row[1:] for row in columns) if kind == "table" else sql
        return found


def rows(path: Path) -> dict[str, list[dict[str, object]]]:
    """All rows of all tables."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [dict(row) for row in connection.execute(f'SELECT * FROM "{name}"')] for name in names}


def test_a_fixture_has_rows_in_every_table_and_is_whole(any_of_them: Path) -> None:
    found = backup.check(any_of_them)
    assert all(found.rows.values()), found.rows


def test_a_released_database_keeps_every_row_and_gets_the_schema_of_a_new_one(
    any_of_them: Path, shape: dict[str, object]
) -> None:
    before = rows(any_of_them)
    open_for_writing(any_of_them, NOW).close()
    after = rows(any_of_them)
    for name, kept in before.items():
        if name != "schema_migration":
            shared = [{column: row.get(column) for column in kept[0]} for row in after[name]]
            assert shared == kept, name
    assert shape_of(any_of_them) == shape
    assert backup.check(any_of_them).schema == SCHEMA_VERSION


def test_the_old_schema_is_kept_in_a_checked_copy_for_its_owner_only(old: Path) -> None:
    before = rows(old)
    open_for_writing(old, NOW).close()
    (kept,) = (old.parent / "backups").iterdir()
    assert rows(kept) == before
    assert kept.stat().st_mode & 0o077 == 0
    backup.check(kept)


def test_a_migration_that_is_killed_half_way_leaves_the_old_schema_and_is_made_up_for(old: Path) -> None:
    before, shape = rows(old), shape_of(old)
    migrations = old.parent / "migrations"
    shutil.copytree(database.MIGRATIONS, migrations)
    (migrations / "9999_dies.py").write_text(DIES)
    died = subprocess.run([sys.executable, "-c", HALF_WAY, str(old), str(migrations)], check=False)
    assert died.returncode == -signal.SIGKILL
    assert (rows(old), shape_of(old)) == (before, shape)
    open_for_writing(old, NOW).close()
    assert backup.check(old).schema == SCHEMA_VERSION


def test_without_its_backup_a_database_is_not_migrated(old: Path) -> None:
    before = rows(old)
    (old.parent / "backups").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match="its backup can't be written"):
        open_for_writing(old, NOW)
    assert rows(old) == before


def test_a_newer_schema_is_refused_with_both_versions_and_the_remedy(tmp_path: Path) -> None:
    path = released(RELEASED[-1], tmp_path / "taskdeck.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(SchemaMismatch) as caught:
        open_for_writing(path, NOW)
    assert caught.value.exit_code == 4
    assert "taskdeck 0.2.0, schema 99" in caught.value.what
    assert f"schema {SCHEMA_VERSION}" in caught.value.what
    assert "upgrade" in caught.value.remedy
    assert path.read_bytes() == before


_NEARLY = st.builds(
    lambda text, at, other: text[:at] + other + text[at + 1 :],
    st.sampled_from([LATEST, EARLIEST, NOW, "2026-02-30T24:00:00.999999Z", "2026-13-41T25:61:61.000000Z"]),
    st.integers(0, 27),
    st.sampled_from(["", "0", "5", "9", " ", "-", "+", "x", "Z", "\0", "٢", "00", "[0-9]"]),
)


@given(st.one_of(_NEARLY, st.text(max_size=30)))
@example("0001-01-01T00:00:00.00000 Z")
@example("0001-01-01T00:00:00.0     Z")
def test_the_quick_check_of_a_time_lets_pass_what_its_pattern_alone_did(text: str) -> None:
    slow = f"at IS NULL OR at GLOB '{first_flight.UTC_GLOB}'"
    quick = faster.SLOW.sub(faster.quick_first, slow)
    assert faster.FORM in quick
    with closing(sqlite3.connect(":memory:")) as connection:
        found = connection.execute(f"SELECT {slow}, {quick} FROM (SELECT ? AS at)", (text,)).fetchone()
    assert found in ((0, 0), (1, 1))


def test_every_time_of_the_schema_is_checked_the_quick_way(tmp_path: Path) -> None:
    Scratch(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "taskdeck.db")) as connection:
        found = connection.execute("SELECT sql FROM sqlite_master WHERE sql LIKE '%[0-9]%'").fetchall()
    assert len(found) > 10
    for (sql,) in found:
        assert sql.count(first_flight.UTC_GLOB) == sql.count(f"GLOB '{faster.FORM}' AND julianday(")


@given(st.one_of(_NEARLY, st.text(max_size=30)), st.one_of(_NEARLY, st.text(max_size=30)))
def test_a_time_that_is_also_that_of_the_creation_passes_only_where_it_would_alone(
    text: str, other: str
) -> None:
    alone = f"scheduled_at IS NULL OR scheduled_at GLOB '{first_flight.UTC_GLOB}'"
    either = faster.ALONE.sub(faster.or_as_created, alone)
    created = alone.replace("scheduled_at", "created_at")
    assert either != alone
    asked = f"SELECT ({alone}) AND ({created}), ({either}) AND ({created}) FROM (SELECT ? AS scheduled_at, ? AS created_at)"
    with closing(sqlite3.connect(":memory:")) as connection:
        for pair in ((text, text), (text, other)):
            assert connection.execute(asked, pair).fetchone() in ((0, 0), (1, 1))


def test_the_times_of_a_new_task_are_compared_with_that_of_its_creation(tmp_path: Path) -> None:
    Scratch(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "taskdeck.db")) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'task'").fetchone()
        found = [
            row[1] for row in connection.execute("PRAGMA table_info(task)") if f"{row[1]} = created_at" in sql
        ]
        assert found == ["scheduled_at", "next_run_at", "updated_at"]
        for column in (*found, "created_at"):
            names = [
                "type",
                "reason",
                "state",
                "payload",
                "scheduled_at",
                "next_run_at",
                "created_at",
                "updated_at",
            ]
            values = ["x", "created", "PENDING", "{}"] + [
                "soon" if each == column else NOW for each in names[4:]
            ]
            with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
                connection.execute(f"INSERT INTO task({', '.join(names)}) VALUES (?,?,?,?,?,?,?,?)", values)


_TIMES = st.none() | _NEARLY
_COMPARED = {"created_at": "=", "started_at": "IS", "finished_at": "IS"}
"""How a time is compared with these: with what may be NULL not by `=`, which would give NULL, and that passes a CHECK."""


def passes(connection: sqlite3.Connection, times: dict[str, str | None], **checks: str) -> bool:
    """Would a row with these times be taken? Of each time its check, else that of the pattern alone."""
    alone = "{0} IS NULL OR {0} GLOB '" + first_flight.UTC_GLOB + "'"
    which = " AND ".join(f"coalesce({checks.get(name) or alone.format(name)}, 1)" for name in times)
    given = ", ".join(f"? AS {name}" for name in times)
    return bool(
        connection.execute(f"SELECT {which} FROM (SELECT {given})", tuple(times.values())).fetchone()[0]
    )


@given(_TIMES, _TIMES, _TIMES, st.sampled_from(["started_at", "finished_at", "created_at", ""]))
@example("soon", None, None, "")
@example("soon", "soon", NOW, "started_at")
def test_a_time_that_stands_in_its_row_twice_passes_only_where_it_would_alone(
    changed: str | None, started: str | None, finished: str | None, twice: str
) -> None:
    given = {"created_at": NOW, "started_at": started, "finished_at": finished}
    schema = new_database.SCHEMA.read_text("utf-8")
    with closing(sqlite3.connect(":memory:")) as connection:
        for table, column, *others in (
            ("task", "updated_at", "created_at", "started_at", "finished_at"),
            ("attempt", "ended_at", "started_at"),
        ):
            times = {name: given[name] for name in others}
            times[column] = times.get(twice, changed)
            (sql,) = re.findall(rf"CREATE TABLE {table} \(.*?\n\);", schema, re.S)
            (check,) = re.findall(rf"\b{column} TEXT[^,]*? CHECK (\({column} .*?Z'\))", sql)
            assert all(f"{column} {_COMPARED[name]} {name} OR" in check for name in others)
            assert passes(connection, times, **{column: check}) == passes(connection, times)


def test_of_what_was_due_when_it_was_added_the_index_of_dates_holds_nothing(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    tomorrow = "2026-11-30T12:00:00.000000Z"
    dated = scratch.add(scheduled_at=tomorrow)
    scratch.add()
    held = scratch.query(f"SELECT id FROM task INDEXED BY task_due WHERE {tasks.DATED_ROWS}")
    assert held == [(dated,)]
    assert scratch.do(tasks.next_due) == tomorrow
    scratch.close()
