"""A restore: the right file whole in its place, nothing done twice unasked, nothing mixed, whatever crashes."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine import views
from taskdeck.engine.commands import make_redactor
from taskdeck.engine.config import Config
from taskdeck.engine.edge import identity, trees
from taskdeck.engine.errors import Refused, SchemaMismatch, StoreError
from taskdeck.engine.rules.chain import Head
from taskdeck.engine.rules.settings import TaskdeckSettings
from taskdeck.engine.rules.tasks import FAILED, PAUSED, SUCCESS, TaskState
from taskdeck.engine.run.backing_up import back_up
from taskdeck.engine.run.restoring import RestoreReport, restore
from taskdeck.engine.store import anchors, attempts, backup, replacing, tasks
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.transaction import connect_current
from tests.faults import fault
from tests.scratch import ANN, Scratch
from tests.store.test_migrations import released
from tests.warm import taskdeck_process

NOW = "2026-11-29T12:00:00.000000Z"


class Box:
    """A database, a backup of it, and what happened after that."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scratch = Scratch(folder)
        self.config = Config(taskdeck=TaskdeckSettings(db=self.scratch.path, logs=folder / "logs"))
        self.copy = folder / "copy.db"

    def back_up(self) -> None:
        back_up(self.config, self.copy, None, self.scratch.clock)

    def note_anchor(self) -> None:
        head = self.scratch.query("SELECT event_id, count, hash FROM event_head")[0]
        anchors.note(self.scratch.path, Head(*head), NOW)

    def finish(self, task: dict[str, Any], state: TaskState, reason: str) -> None:
        """The attempt of a claimed task ends."""

        def unit(tx: Any) -> None:
            attempts.close_attempt(tx, task["fence"], "succeeded", reason)
            tasks.transition(tx, task, state, reason, actor="engine", columns=tasks.NO_LEASE)

        self.scratch.do(unit)

    def restore(self, **more: Any) -> RestoreReport:
        self.scratch.close()
        options = {"rerun": False, **more}
        return restore(self.config, self.copy, ANN, self.scratch.clock, make_redactor(self.config), **options)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.scratch.path)) as connection:
            return connection.execute(sql).fetchall()

    def states(self) -> dict[int, str]:
        return dict(self.query("SELECT id, state FROM task"))

    def audit(self) -> views.AuditReport:
        with views.open_view(self.config) as view:
            return view.verify_audit()


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_what_was_done_after_the_backup_waits_for_a_person_and_what_was_not_goes_on(box: Box) -> None:
    made = box.scratch
    waits, done_since, failed_since, paused = (made.add() for _ in range(4))
    made.do(lambda tx: tasks.transition(tx, tasks.get(tx, paused), PAUSED, "user_pause", actor=ANN))
    running = made.running()
    box.back_up()
    box.finish(running, SUCCESS, "done")
    box.finish(made.start(done_since, made.worker("w9")), SUCCESS, "done")
    box.finish(made.start(failed_since, made.worker("w8")), FAILED, "fatal_error")
    added = made.add()
    report = box.restore()
    assert (report.known, report.tasks_after, report.interrupted) == (True, 1, 1)
    assert report.to_review == [done_since, failed_since, running["id"]]
    assert box.states() == {
        waits: "PENDING",
        done_since: "NEEDS_REVIEW",
        failed_since: "NEEDS_REVIEW",
        paused: "PAUSED",
        running["id"]: "NEEDS_REVIEW",
    }
    (why,) = box.query(f"SELECT json_extract(error, '$.message') FROM task WHERE id = {done_since}")
    assert why[0].startswith("after the backup it became SUCCESS (1 attempt)")
    (kept,) = box.folder.glob("*.replaced-*")
    assert str(kept) == report.kept
    assert added in dict(sqlite3.connect(kept).execute("SELECT id, state FROM task"))


def test_with_rerun_it_all_runs_again_by_the_rules_of_recovery(box: Box) -> None:
    made = box.scratch
    waits = made.add()
    running, careful = made.running(), made.running(on_lost="review")
    box.back_up()
    box.finish(running, SUCCESS, "done")
    report = box.restore(rerun=True)
    assert report.to_review == []
    assert box.states() == {waits: "PENDING", running["id"]: "PENDING", careful["id"]: "NEEDS_REVIEW"}
    assert box.query(f"SELECT losses FROM task WHERE id = {running['id']}") == [(0,)]


def test_where_nobody_knows_what_was_done_everything_that_may_have_run_waits_for_a_person(box: Box) -> None:
    made = box.scratch
    due, later = made.add(), made.add(scheduled_at="2099-01-01T00:00:00.000000Z")
    box.back_up()
    made.close()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{made.path}{suffix}").unlink(missing_ok=True)
    report = box.restore()
    assert (report.known, report.kept, report.tasks_after) == (False, None, None)
    assert box.states() == {due: "NEEDS_REVIEW", later: "PENDING"}


def test_no_fence_and_no_id_that_was_given_out_since_is_given_out_again(box: Box) -> None:
    made = box.scratch
    made.add()
    box.back_up()
    last = made.add()
    fence = made.running()["fence"]
    box.restore()
    assert box.query("SELECT value FROM sequence WHERE name = 'fence'")[0][0] >= fence
    assert box.query("SELECT seq FROM sqlite_sequence WHERE name = 'task'")[0][0] > last


def test_leases_workers_and_slots_of_the_old_life_have_ended(box: Box) -> None:
    box.scratch.running()
    box.back_up()
    box.restore()
    assert box.query("SELECT count(*) FROM worker WHERE ended_at IS NULL") == [(0,)]
    assert box.query("SELECT count(*) FROM engine WHERE ended_at IS NULL") == [(0,)]
    assert box.query("SELECT count(*) FROM attempt WHERE ended_at IS NULL") == [(0,)]
    assert box.query("SELECT count(*) FROM task WHERE worker_id IS NOT NULL") == [(0,)]


def test_the_audit_says_that_it_was_rewound_and_is_whole_against_the_anchors_of_both_histories(
    box: Box,
) -> None:
    made = box.scratch
    for _ in range(3):
        made.add()
    box.note_anchor()
    box.back_up()
    for _ in range(4):
        made.add()
    box.note_anchor()
    box.restore()
    (event,) = box.query(
        "SELECT event_id, actor, level FROM event_log WHERE event_type = 'OPERATOR_RESTORED'"
    )
    assert event == (4, ANN, "warning")
    report = box.audit()
    assert (report.ok, report.anchored_to) == (True, 4)
    with closing(sqlite3.connect(made.path)) as connection:
        connection.execute("DROP TRIGGER event_log_is_append_only_u")
        connection.execute("UPDATE event_log SET message = 'x' WHERE event_id = 2")
        connection.commit()
    assert box.audit().event_id == 2


@fault("TF121")
def test_the_log_of_the_replaced_database_never_meets_the_restored_one(box: Box) -> None:
    made = box.scratch
    made.add()
    box.back_up()
    made.close()
    made.path.write_bytes(b"\xff" * 8192)  # a file that can't even take its own log in
    Path(f"{made.path}-wal").write_bytes(b"a log of something else")
    report = box.restore()
    assert report.known is False
    assert len(box.states()) == 1
    backup.check(made.path)
    assert report.kept
    assert Path(f"{report.kept}-wal").read_bytes() == b"a log of something else"


@fault("TF121")
def test_a_backup_with_a_log_beside_it_is_refused_and_nothing_is_changed(box: Box) -> None:
    box.scratch.add()
    box.back_up()
    Path(f"{box.copy}-wal").write_bytes(b"of another file")
    before = sorted(os.listdir(box.folder))
    with pytest.raises(Refused, match="lies beside"):
        box.restore()
    assert set(os.listdir(box.folder)) <= set(before)


def test_a_file_that_is_not_whole_or_not_ours_is_refused(box: Box, tmp_path: Path) -> None:
    box.scratch.add()
    box.back_up()
    with open(box.copy, "r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 4096)
    with pytest.raises(StoreError, match="damaged"):
        box.restore()
    box.copy.write_text("no database")
    with pytest.raises(StoreError):
        box.restore()
    with closing(sqlite3.connect(tmp_path / "newer.db")) as newer:
        newer.execute("CREATE TABLE event_head (x)")
        newer.execute("PRAGMA user_version = 99")
    shutil.copy(tmp_path / "newer.db", box.copy)
    with pytest.raises(SchemaMismatch):
        box.restore()
    assert box.states() == {1: "PENDING"}


def test_a_backup_of_an_older_schema_is_migrated_on_the_way(box: Box) -> None:
    box.copy = released(1, box.folder / "old.db")
    with closing(sqlite3.connect(box.copy)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    report = box.restore()
    assert report.interrupted == 2
    assert not (box.folder / "backups").exists()
    backup.check(box.scratch.path)
    assert set(box.states().values()) == {"PAUSED", "SUCCESS", "FAILED", "DEAD", "CANCELLED", "NEEDS_REVIEW"}


def test_a_worker_that_is_still_alive_stands_in_the_way(box: Box) -> None:
    me = identity.me()
    box.scratch.running()
    box.back_up()
    box.scratch.database.execute_sql(
        "UPDATE worker SET pid = ?, start_time = ?, boot_id = ?", (me.pid, me.start_time, me.boot_id)
    )
    with pytest.raises(Refused, match=f"pid {me.pid}"):
        box.restore()


def test_a_command_that_outlived_its_worker_has_ended_before_the_restored_database_can_run_it_again(
    box: Box,
) -> None:
    box.back_up()
    task = box.scratch.running()
    marked = {**os.environ, trees.VARIABLE: trees.mark(box.scratch.path, task["id"], 1)}
    with subprocess.Popen(["sleep", "60"], env=marked) as command:
        try:
            box.restore(dry_run=True)
            assert command.poll() is None
            box.restore(rerun=True)
            assert command.wait(5) == -signal.SIGKILL
        finally:
            command.kill()


def test_what_a_killed_restore_left_is_cleared_away_by_the_next(box: Box) -> None:
    box.back_up()
    kept = [".taskdeck.db.new-", ".taskdeck.db.new-7.new-8", ".taskdeck.db.new-7x"]
    for name in (".taskdeck.db.new-7", ".taskdeck.db.new-7-wal", ".taskdeck.db.new-123", *kept):
        (box.folder / name).touch()
    box.restore()
    assert sorted(path.name for path in box.folder.glob(".taskdeck.db.new-*")) == sorted(kept)


def test_a_dry_run_tells_the_same_and_changes_nothing(box: Box) -> None:
    box.scratch.running()
    box.back_up()
    box.scratch.add()
    told = box.restore(dry_run=True)
    assert sorted(os.listdir(box.folder)) == ["copy.db", "taskdeck.db"]
    assert box.states() == {1: "RUNNING", 2: "PENDING"}
    assert box.restore() == told


@pytest.mark.parametrize(
    "point", ["before_restore", "after_restore_plan", "after_old_log_moved", "after_swap"]
)
def test_a_crash_leaves_the_old_database_or_the_restored_one_and_the_next_to_open_it_decides(
    box: Box, point: str
) -> None:
    for _ in range(2):
        box.scratch.add()
    box.back_up()
    box.scratch.add()
    box.scratch.close()
    words = ["restore", box.copy, "--db", box.scratch.path]
    died = taskdeck_process(words, box.folder, {**os.environ, "TASKDECK_CRASH_AT": point})
    assert died.wait() == -signal.SIGKILL
    assert point == "before_restore" or connect_current(box.scratch.path) is None
    open_for_writing(box.scratch.path, NOW).close()
    whole = backup.check(box.scratch.path)
    assert whole.rows["task"] == (3 if point == "before_restore" else 2)
    assert box.audit().ok
    assert not replacing.plan_file(box.scratch.path).exists()
