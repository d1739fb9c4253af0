from __future__ import annotations

import re
import shutil
import sqlite3
from datetime import datetime, timedelta, timezone
from pathlib import Path

import peewee
import pytest

from taskdeck.engine.errors import SchemaMismatch, StoreError
from taskdeck.engine.rules.chain import row_hash
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.store import database, leftover_log, tables
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.direct import write_once
from taskdeck.engine.store.transaction import (
    SCHEMA_VERSION,
    WRITER_PRAGMAS,
    Transaction,
    refuse_what_is_no_database,
)
from tests.faults import fault
from tests.scratch import Scratch

NOW = "2026-11-29T12:00:00.000000Z"


def note(tx: Transaction, message: str = "hello", **fields: object) -> None:
    tx.event("NOTE", actor="engine", message=message, **fields)  # type: ignore[arg-type]


def test_a_new_database_has_the_schema_the_models_say(scratch: Scratch) -> None:
    for model in tables.TABLES:
        columns = {row[1] for row in scratch.query(f"PRAGMA table_info({model._meta.table_name})")}  # type: ignore[attr-defined]
        fields = {field.column_name for field in model._meta.sorted_fields}  # type: ignore[attr-defined]
        assert columns == fields, model


def test_every_pragma_stands_on_the_connection(tmp_path: Path) -> None:
    opened = open_for_writing(tmp_path / "x.db", NOW)
    expected = {"wal": "wal", "full": 2, "memory": 2}
    for name, value in WRITER_PRAGMAS:
        got = opened.connection().execute(f"PRAGMA {name}").fetchone()[0]
        assert got == expected.get(str(value), value), name
    opened.close()


def test_the_files_are_for_their_owner_only(scratch: Scratch) -> None:
    assert scratch.path.stat().st_mode & 0o077 == 0


def test_opening_again_migrates_nothing_and_loses_nothing(tmp_path: Path) -> None:
    first = Scratch(tmp_path)
    task_id = first.add()
    first.close()
    reopened = open_for_writing(tmp_path / "taskdeck.db", NOW)
    assert reopened.execute_sql("SELECT id FROM task").fetchall() == [(task_id,)]
    assert reopened.execute_sql("SELECT count(*) FROM schema_migration").fetchone() == (SCHEMA_VERSION,)
    reopened.close()


def test_a_database_of_a_newer_taskdeck_is_refused(tmp_path: Path) -> None:
    made = Scratch(tmp_path)
    made.database.execute_sql("PRAGMA user_version = 99")
    made.close()
    with pytest.raises(SchemaMismatch, match="newer"):
        open_for_writing(tmp_path / "taskdeck.db", NOW)


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(StoreError, match="not of taskdeck"):
        open_for_writing(path, NOW)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at closely " * 20)
    with pytest.raises(StoreError, match=r"notes\.txt"):
        open_for_writing(path, NOW)


def test_an_older_schema_is_backed_up_before_it_is_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Scratch(tmp_path)
    made.add()
    made.close()
    monkeypatch.setattr(database, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    open_for_writing(tmp_path / "taskdeck.db", NOW).close()
    (backup,) = (tmp_path / "backups").iterdir()
    with sqlite3.connect(backup) as copy:
        assert copy.execute("SELECT count(*) FROM task").fetchone() == (1,)
    copy.close()


def test_a_failing_unit_takes_its_rows_and_its_events_with_it_and_leaves_the_others(scratch: Scratch) -> None:
    def bad(tx: Transaction) -> None:
        tx.connection.execute("INSERT INTO hold VALUES ('queue', 'x', ?)", (tx.now,))
        note(tx, "of the bad one")
        raise ValueError("of the bad one")

    tx = scratch.tx
    tx.begin()
    tx.unit(note, "before")
    with pytest.raises(ValueError, match="bad one"):
        tx.unit(bad)
    tx.unit(note, "after")
    tx.commit()
    assert scratch.query("SELECT message FROM event_log WHERE event_type = 'NOTE'") == [
        ("before",),
        ("after",),
    ]
    assert scratch.query("SELECT * FROM hold") == []


def test_the_chain_covers_every_row_and_the_head_says_how_far_it_goes(scratch: Scratch) -> None:
    for number in range(5):
        scratch.do(note, f"number {number}")
    previous = ""
    rows = scratch.query("SELECT * FROM event_log ORDER BY event_id")
    for row in rows:
        previous = row_hash(previous, row[:-1])
        assert row[-1] == previous
    assert scratch.query("SELECT event_id, count, hash FROM event_head") == [(5, 5, previous)]


@pytest.mark.parametrize("sql", ["UPDATE event_log SET message = 'x'", "DELETE FROM event_log"])
def test_the_audit_is_append_only(scratch: Scratch, sql: str) -> None:
    scratch.do(note)
    with pytest.raises(peewee.IntegrityError, match="append-only"):
        scratch.database.execute_sql(sql)


def test_an_ended_attempt_is_never_rewritten(scratch: Scratch) -> None:
    scratch.running()
    scratch.database.execute_sql("UPDATE attempt SET ended_at = ?, outcome = 'lost'", (NOW,))
    with pytest.raises(peewee.IntegrityError, match="never rewritten"):
        scratch.database.execute_sql("UPDATE attempt SET outcome = 'succeeded'")


@fault("TF090")
@fault("TF093")
@pytest.mark.parametrize(
    "bad",
    [
        "2026-11-29 12:00:00",
        "2026-11-29T12:00:00Z",
        "2026-11-29T12:00:00.000000+00:00",
        "2026-11-29T12:00:00.000000",
        "",
    ],
)
def test_a_time_that_is_not_utc_text_of_one_width_is_refused_on_write(scratch: Scratch, bad: str) -> None:
    task_id = scratch.add()
    with pytest.raises(peewee.IntegrityError, match="CHECK"):
        scratch.database.execute_sql("UPDATE task SET next_run_at = ? WHERE id = ?", (bad, task_id))


TIME = re.compile(r"(.+_)?at|.+_until|not_before|last_heartbeat")
"""The names that columns of times have."""


def test_every_column_that_holds_a_time_takes_utc_text_of_one_width_only(scratch: Scratch) -> None:
    schema = dict(scratch.query("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    models = {model._meta.table_name: model for model in tables.TABLES}  # type: ignore[attr-defined]
    seen = 0
    for table in models:
        for _, column, kind, *_ in scratch.query(f"PRAGMA table_info({table})"):
            if kind != "TEXT" or not TIME.fullmatch(column):
                continue
            seen += 1
            same = rf"(?:{column} = created_at OR |{column} IS (?:started|finished)_at OR )*"
            as_another = "" if column in ("created_at", "started_at", "finished_at") else same
            rule = re.search(
                rf"\b{column} TEXT[^,]*?CHECK \((?:{column} IS NULL OR )?{as_another}{column} GLOB '[^']+'"
                rf" AND julianday\({column}\) IS NOT NULL OR {column} GLOB '([^']+)'\)",
                schema[table],
            )
            assert rule, f"{table}.{column} takes any text"
            assert rule[1].count("[0-9]") == 20
            field = models[table]._meta.columns[column]  # type: ignore[attr-defined]
            assert isinstance(field, tables.UtcField), f"{table}.{column}"
    assert seen > 40


@fault("TF093")
def test_a_time_field_takes_stored_texts_and_aware_moments_and_nothing_else() -> None:
    field = tables.UtcField()
    assert field.db_value(NOW) == NOW
    assert field.db_value(None) is None
    assert field.db_value(datetime(2026, 11, 29, 13, tzinfo=timezone(timedelta(hours=1)))) == NOW
    for bad in ("2026-11-29 12:00:00", "", datetime(2026, 11, 29), 1.5):
        with pytest.raises(ValueError, match="time"):
            field.db_value(bad)


def test_no_secret_reaches_an_event(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, secrets=("hunter2hunter2",))
    scratch.do(note, "the password is hunter2hunter2", payload={"url": "https://u:hunter2hunter2@host/"})
    assert "hunter2" not in str(scratch.query("SELECT * FROM event_log"))
    scratch.close()


def test_fences_are_drawn_from_one_sequence_and_only_grow(scratch: Scratch) -> None:
    drawn = [
        fence
        for count in (1, 3, 2)
        for fence in scratch.do(lambda tx, count=count: list(tx.next_fences(count)))
    ]
    assert drawn == [1, 2, 3, 4, 5, 6]


def crashed(folder: Path, tasks: int) -> Path:
    """A database that was left with its write-ahead log, as by `kill -9`."""
    folder.mkdir()
    made = Scratch(folder)
    for _ in range(tasks):
        made.add()
    left = folder / "left"
    left.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{made.path}{end}", f"{left / made.path.name}{end}")
    made.close()
    return left / made.path.name


def test_a_log_that_a_crash_left_is_taken_over(tmp_path: Path) -> None:
    path = crashed(tmp_path / "a", 40)
    open_for_writing(path, NOW).close()
    with sqlite3.connect(path) as found:
        assert found.execute("SELECT count(*) FROM task").fetchone() == (40,)
    found.close()


@fault("TF121")
@pytest.mark.parametrize("whole", [True, False])
def test_a_strangers_log_is_named_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    monkeypatch.setattr(leftover_log, "WHOLE_UP_TO", 10**9 if whole else 0)
    made = Scratch(tmp_path)
    for _ in range(300):
        made.add()
    made.close()
    stranger = crashed(tmp_path / "b", 40)
    log = tmp_path / "taskdeck.db-wal"
    shutil.copy(f"{stranger}-wal", log)
    before = made.path.read_bytes(), log.read_bytes()
    with pytest.raises(
        StoreError, match=r"taskdeck\.db-wal does not belong to .*without it the database is sound"
    ):
        open_for_writing(made.path, NOW)
    with pytest.raises(StoreError, match="does not belong"):
        write_once(made.path, made.clock, Redactor(), note)
    assert (made.path.read_bytes(), log.read_bytes()) == before
    log.rename(f"{log}.foreign")
    made.path.with_name("taskdeck.db-shm").unlink(missing_ok=True)
    reopened = open_for_writing(made.path, NOW)
    assert reopened.execute_sql("SELECT count(*) FROM task").fetchone() == (300,)
    reopened.close()


def test_a_database_of_two_names_is_refused_under_both_unless_a_restore_gave_it_the_second(
    tmp_path: Path,
) -> None:
    path, other = tmp_path / "taskdeck.db", tmp_path / "other.db"
    open_for_writing(path, NOW).close()
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(StoreError, match=r"the file has 2 names \(hard links\)") as refusal:
            refuse_what_is_no_database(name)
        assert refusal.value.remedy.endswith(f"-samefile {name}")
    plan = tmp_path / "taskdeck.db.restoring"
    plan.touch()
    refuse_what_is_no_database(path)
    plan.unlink()
    other.unlink()
    refuse_what_is_no_database(path)
