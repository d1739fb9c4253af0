"""Retention: what ended long ago goes into archives, whole, with the chain going on; what is needed stays."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import peewee
import pytest

from taskdeck.engine import views
from taskdeck.engine.config import Config
from taskdeck.engine.errors import StoreError, Unavailable, UsageError
from taskdeck.engine.rules.models import AuditReport
from taskdeck.engine.rules.new_task import new_task
from taskdeck.engine.rules.retention import Ages, as_ranges, of_ranges
from taskdeck.engine.rules.settings import RetentionSettings, TaskdeckSettings
from taskdeck.engine.rules.tasks import CANCELLED, PENDING
from taskdeck.engine.run import pruning
from taskdeck.engine.run.pruning import PruneReport
from taskdeck.engine.store import archive_files, tasks
from tests.faults import fault
from tests.scratch import ANN, Scratch
from tests.warm import taskdeck_process

DAY = 86400.0
AGES = Ages(tasks=30 * DAY, events=30 * DAY)


class Old:
    """A database whose clock moves by days."""

    def __init__(self, folder: Path) -> None:
        self.scratch = Scratch(folder)
        self.config = Config(taskdeck=TaskdeckSettings(db=self.scratch.path, logs=folder / "logs"))

    @property
    def folder(self) -> Path:
        return self.config.archive_directory

    def end(self, task_id: int) -> int:
        """The task is cancelled now."""
        self.scratch.do(
            lambda tx: tasks.transition(tx, tasks.get(tx, task_id), CANCELLED, "user_cancel", actor=ANN)
        )
        return task_id

    def ended(self, **fields: Any) -> int:
        return self.end(self.scratch.add(**fields))

    def later(self, days: float = 31) -> None:
        self.scratch.clock.advance(days * DAY)

    def prune(self, ages: Ages = AGES, **more: Any) -> PruneReport:
        return pruning.prune(self.config, ages, ANN, self.scratch.clock, self.scratch.do, **more)

    def ids(self) -> list[int]:
        return [row[0] for row in self.scratch.query("SELECT id FROM task ORDER BY id")]

    def events(self) -> list[int]:
        return [row[0] for row in self.scratch.query("SELECT event_id FROM event_log ORDER BY event_id")]

    def files(self, kind: str) -> list[Path]:
        return sorted(self.folder.glob(f"taskdeck-{kind}-*.jsonl.gz"))

    def audit(self, **more: Any) -> AuditReport:
        with views.open_view(self.config) as view:
            return view.verify_audit(**more)

    def tamper(self, sql: str) -> None:
        """As somebody who is not stopped by triggers."""
        with closing(sqlite3.connect(self.scratch.path)) as connection:
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.executescript(sql)


def lines_of(file: Path) -> list[bytes]:
    with gzip.open(file) as lines:
        return list(lines)


@pytest.fixture
def old(tmp_path: Path) -> Old:
    return Old(tmp_path)


@fault("TF253")
def test_what_ended_long_ago_goes_and_the_audit_is_whole_across_the_cut(old: Old) -> None:
    gone = [old.ended() for _ in range(3)]
    waits = old.scratch.add()
    old.later()
    young = old.ended()
    done = old.prune()
    assert (done.tasks, done.events, done.kept, len(done.files)) == (3, 10, 1, 2)
    assert old.ids() == [waits, young]
    report = old.audit()
    assert (report.ok, report.archives, report.archived_to) == (True, 1, 10)
    assert [stat.S_IMODE(file.stat().st_mode) for file in old.folder.iterdir()] == [0o600, 0o600]
    lines = [json.loads(line) for line in lines_of(old.files("tasks")[0])]
    assert [line["task"]["id"] for line in lines[1:]] == gone
    events = [json.loads(line) for line in lines_of(old.files("events")[0])]
    assert [event["event_id"] for event in events[1:]] == list(range(1, 11))
    for _ in range(3):
        old.later()
        old.prune()
    assert old.audit().ok
    assert old.ids() == [waits]


def test_the_events_of_what_is_not_ended_stay_in_the_table_until_it_has_ended(old: Old) -> None:
    old.ended()
    waits = old.scratch.add()
    old.ended()
    mine = [row[0] for row in old.scratch.query(f"SELECT event_id FROM event_log WHERE task_id = {waits}")]
    old.later()
    old.prune()
    assert old.events()[:1] == mine
    assert old.audit().ok
    old.end(waits)
    old.later()
    old.prune()
    assert waits not in old.ids()
    assert mine[0] not in old.events()
    assert old.audit().ok


def test_what_something_refers_to_or_is_in_doubt_stays(old: Old) -> None:
    made = old.scratch
    parent = old.ended()
    child = made.add(parent_id=parent)
    doubtful, named = made.running(), made.running()
    for task, scope, state in ((doubtful, f"task:{doubtful['id']}", "IN_DOUBT"), (named, "invoices", "DONE")):
        attempt = made.one("SELECT id FROM attempt WHERE task_id = ?", task["id"])
        made.database.execute_sql(
            "INSERT INTO operation(scope, operation_key, task_id, attempt_id, fence, state, begun_at)"
            " VALUES (?, 'pay', ?, ?, ?, ?, ?)",
            (scope, task["id"], attempt, task["fence"], state, made.tx.now),
        )
        made.database.execute_sql(
            "UPDATE task SET state = 'FAILED', worker_id = NULL, finished_at = ? WHERE id = ?",
            (made.tx.now, task["id"]),
        )
    goes = old.ended()
    old.later()
    assert old.prune().tasks == 1
    assert old.ids() == [parent, child, doubtful["id"], named["id"]]
    assert goes not in old.ids()
    old.end(child)
    old.later()
    assert old.prune().tasks == 2
    assert old.ids() == [doubtful["id"], named["id"]]


def test_all_rows_of_a_task_go_with_it(old: Old) -> None:
    task = old.scratch.running()
    old.scratch.do(
        lambda tx: tx.connection.execute(
            "INSERT INTO checkpoint(task_id, attempt_id, fence, seq, data, created_at) SELECT task_id, id, fence, 1, '{}', ?"
            " FROM attempt",
            (tx.now,),
        )
    )
    old.scratch.do(lambda tx: tx.connection.execute("UPDATE attempt SET ended_at = ?", (tx.now,)))
    old.scratch.do(
        lambda tx: tx.connection.execute(
            "UPDATE task SET state = 'FAILED', worker_id = NULL, finished_at = ?", (tx.now,)
        )
    )
    old.later()
    old.prune()
    (line,) = [json.loads(line) for line in lines_of(old.files("tasks")[0])][1:]
    assert (len(line["attempt"]), len(line["checkpoint"])) == (1, 1)
    for table in ("task", "attempt", "checkpoint"):
        assert old.scratch.one(f"SELECT count(*) FROM {table}") == 0
    assert task["id"] == line["task"]["id"]
    assert old.scratch.query("PRAGMA foreign_key_check") == []


def test_what_is_to_be_kept_never_goes(old: Old) -> None:
    kept, goes = old.ended(type_name="invoice"), old.ended()
    settings = RetentionSettings(keep=("type:invoice",))
    old.config = msgspec.structs.replace(old.config, retention=settings)
    old.later()
    done = old.prune()
    assert (old.ids(), done.kept) == ([kept], 3)
    assert goes not in old.ids()
    assert old.audit().ok


def test_a_known_key_still_makes_no_second_task_and_an_id_says_where_its_task_went(old: Old) -> None:
    task = old.ended(key="night-1")
    old.later()
    old.prune()
    assert old.scratch.do(tasks.create, new_task("fetch", "{}", key="night-1"), ANN) == (task, False)
    assert old.scratch.do(tasks.state_of, task) == "CANCELLED"
    with pytest.raises(Exception, match="was archived on"):
        old.scratch.do(tasks.get, task)
    assert old.scratch.add() == task + 1
    with views.open_view(old.config) as view, pytest.raises(Exception, match=r"tasks-.*jsonl\.gz"):
        view.task(task)


@pytest.mark.parametrize(
    "damage", ["missing", "changed", "event", "swapped", "cut", "tasks", "tasks missing"]
)
def test_an_archive_that_is_not_as_it_was_written_is_found(old: Old, damage: str) -> None:
    for _ in range(2):
        old.ended()
        old.later()
        old.prune()
    first, second = old.files("events")
    before = json.loads(lines_of(first)[0])["last"]
    named = 1
    if damage == "missing":
        second.unlink()
        named = before + 1
    elif damage == "changed":
        first.write_bytes(first.read_bytes() + b"\0")
        named = old.scratch.one("SELECT min(event_id) FROM event_log WHERE event_type = 'EVENTS_ARCHIVED'")
    elif damage == "event":
        lines = lines_of(second)
        lines[2] = lines[2].replace(b'"actor":"', b'"actor":"x')
        second.write_bytes(gzip.compress(b"".join(lines)))
        named = before + 2
    elif damage == "swapped":
        keep = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(keep)
    elif damage == "cut":
        lines = lines_of(first)
        first.write_bytes(gzip.compress(b"".join(lines[:-1])))
        named = before
    else:
        file = old.files("tasks")[1]
        file.unlink() if damage == "tasks missing" else file.write_bytes(b"x")
        named = old.scratch.query(
            "SELECT event_id FROM event_log WHERE event_type = 'TASKS_ARCHIVED' ORDER BY event_id"
        )[-1][0]
    report = old.audit()
    if damage == "changed":
        assert (report.ok, "changed" in report.problem) == (False, True)
    else:
        assert (report.ok, report.event_id) == (False, named), report
    assert old.audit(archives=False).ok


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("UPDATE event_log SET message = 'x' WHERE event_id = 3", "changed in the table"),
        ("DELETE FROM event_log WHERE event_id = 3", "removed from the table"),
        (
            "INSERT INTO event_log SELECT 1, task_id, resource_id, route_id, worker_id, event_type, level, reason, actor,"
            " message, payload_json, created_at, hash FROM event_log WHERE event_id = 3",
            "put back",
        ),
    ],
)
def test_what_stays_in_the_table_of_an_archived_range_is_held_against_the_archive(
    old: Old, sql: str, words: str
) -> None:
    old.ended()
    old.scratch.add()
    old.later()
    assert old.prune().kept == 1
    assert old.audit().ok
    (kept,) = [event_id for event_id in old.events() if event_id <= old.audit().archived_to]
    old.tamper(sql.replace("event_id = 3", f"event_id = {kept}"))
    report = old.audit()
    assert not report.ok
    assert words in report.problem


def test_archives_that_were_moved_are_looked_for_where_they_are_said_to_be(old: Old, tmp_path: Path) -> None:
    old.ended()
    old.later()
    old.prune()
    shutil.move(old.folder, tmp_path / "cold")
    assert not old.audit().ok
    assert old.audit(folder=tmp_path / "cold").ok


def test_the_table_stays_append_only_before_and_after_a_cut(old: Old) -> None:
    old.ended()
    old.scratch.add()
    old.later()
    old.prune()
    for sql in ("DELETE FROM event_log", "UPDATE event_log SET message = 'x'", "DELETE FROM archive"):
        with pytest.raises(peewee.IntegrityError):
            old.scratch.database.execute_sql(sql)


def test_a_task_that_changes_while_it_is_archived_is_not_cut(old: Old) -> None:
    task = old.ended()
    old.later()

    def submit(unit: Any, *args: Any) -> Any:
        old.scratch.do(lambda tx: tasks.transition(tx, tasks.get(tx, task), PENDING, "user_retry", actor=ANN))
        return old.scratch.do(unit, *args)

    with pytest.raises(Unavailable):
        pruning.prune(old.config, AGES, ANN, old.scratch.clock, submit)
    assert old.ids() == [task]
    assert old.files("tasks") == []


def test_a_file_that_does_not_read_back_right_cuts_nothing(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    task = old.ended()
    old.later()
    honest = archive_files.write

    def torn(path: Path, header: Any, lines: Any) -> None:
        honest(path, header, lines)
        path.write_bytes(path.read_bytes()[:-20])

    monkeypatch.setattr(archive_files, "write", torn)
    with pytest.raises(StoreError, match="not what was written"):
        old.prune()
    assert old.ids() == [task]
    assert os.listdir(old.folder) == []


def test_without_an_age_nothing_goes_and_that_is_said(old: Old) -> None:
    with pytest.raises(UsageError, match="no age is set"):
        pruning.ages_of(old.config)
    old.ended()
    old.later()
    assert old.prune(Ages(tasks=30 * DAY)).events == 0
    assert old.prune(Ages(events=30 * DAY)).tasks == 0


def test_a_prune_that_runs_out_of_time_says_that_there_is_more(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "EVENTS_A_FILE", 2)
    for _ in range(3):
        old.ended()
    old.later()
    seen = []
    while (done := old.prune(seconds=0)).more:
        seen.append(done)
    assert [(each.tasks, each.events) for each in seen] == [(3, 0), (0, 2), (0, 2), (0, 2), (0, 2), (0, 1)][
        : len(seen)
    ]
    assert old.audit().ok


@pytest.mark.parametrize("point", ["after_archive_written", "after_archive_written:2", "after_archive_cut"])
def test_a_crash_between_file_and_cut_loses_nothing_and_the_next_prune_goes_on(old: Old, point: str) -> None:
    for _ in range(3):
        old.ended()
    old.later()
    old.scratch.close()
    words = ["prune", "--yes", "--tasks", "1s", "--events", "1s", "--db", old.scratch.path]
    died = taskdeck_process(words, old.scratch.path.parent, {**os.environ, "TASKDECK_CRASH_AT": point})
    assert died.wait() == -signal.SIGKILL
    assert old.audit().ok
    again = taskdeck_process(words, old.scratch.path.parent, os.environ, stderr=subprocess.PIPE)
    told = again.communicate()[1]
    assert again.returncode == 0, told
    assert old.audit().ok
    assert old.ids() == []
    archived = [
        json.loads(line)["task"]["id"]
        for (file,) in old.scratch.query("SELECT file FROM archive WHERE kind = 'tasks'")
        for line in lines_of(old.folder / file)[1:]
    ]
    assert archived == [1, 2, 3]


@pytest.mark.parametrize("text", ["", "1", "1-5", "1-5,9", "2,4,6-7"])
def test_ranges_are_read_as_they_are_written(text: str) -> None:
    assert as_ranges(of_ranges(text)) == text
