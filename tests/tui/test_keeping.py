"""`backup`, `restore`, `prune`: what a person sees of them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.store import anchors
from tests.seeded import Seed
from tests.tui.calls import Calls


def test_a_backup_is_written_told_and_put_on_record(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    seed.close()
    ended = taskdeck("backup")
    made = Path(ended.out.strip())
    assert made.parent == taskdeck.folder / "backups"
    assert "1 task, 1 event: checked and whole" in ended.err
    with closing(sqlite3.connect(made)) as copy:
        assert copy.execute("SELECT count(*) FROM task").fetchone() == (1,)
    (event,) = taskdeck("events", "type:BACKUP_WRITTEN", "--json").lines
    assert (event["reason"], json.loads(event["payload_json"])["path"]) == ("backup", str(made))
    assert event["actor"].startswith("cli:")
    assert anchors.read(taskdeck.db)[-1].event_id == 2
    assert "is whole" in taskdeck("audit", "verify").out
    assert "there is no folder /nonexist" in taskdeck("audit", "verify", "--folder", "/nonexist", code=3).err


def test_a_backup_in_json_is_one_object(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    seed.close()
    (made,) = taskdeck("backup", "--json", "--keep", "1").lines
    assert (made["tasks"], made["events"], made["removed"], made["noted"]) == (1, 1, [], "")
    (again,) = taskdeck("backup", "--json", "--keep", "1").lines
    assert again["removed"] == [made["path"]]


def test_a_backup_never_writes_over_a_file(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    seed.close()
    taskdeck("backup", "copy.db")
    before = (taskdeck.folder / "copy.db").read_bytes()
    assert "exists already" in taskdeck("backup", "copy.db", code=4).err
    assert "no database" in taskdeck("backup", "--db", "none.db", code=3).err
    assert (taskdeck.folder / "copy.db").read_bytes() == before


def test_a_restore_says_what_it_did_and_what_to_look_at(taskdeck: Calls, seed: Seed) -> None:
    done, _waits = seed.task(), seed.task()
    seed.close()
    taskdeck("backup", "copy.db")
    taskdeck("cancel", str(done))
    taskdeck("add", "--", "true")
    told = taskdeck("restore", "copy.db", "--dry-run").out
    assert "would take the place" in told
    told = taskdeck("restore", "copy.db").out
    assert f"a person must look: #{done}" in told
    assert "1 new task" in told
    assert "1 task will go on" in told
    states = {task["id"]: task["state"] for task in taskdeck("list", "--json").lines}
    assert states == {done: "NEEDS_REVIEW", done + 1: "PENDING"}
    assert taskdeck("list", "reason:restored", "--json").lines[0]["id"] == done
    assert "is whole" in taskdeck("audit", "verify").out
    assert taskdeck("add", "--", "true").out.strip() == str(done + 3), "an id is never given out twice"


def test_a_restore_in_json_is_one_object(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    seed.close()
    taskdeck("backup", "copy.db")
    (told,) = taskdeck("restore", "copy.db", "--json").lines
    assert (told["known"], told["to_review"], told["left"], told["dry_run"]) == (True, [], 1, False)


def test_a_live_engine_is_never_restored_over(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    seed.close()
    taskdeck("backup", "copy.db")
    before = taskdeck.db.read_bytes()
    with DatabaseLock(taskdeck.db, role="engine") as lock:
        assert lock.acquire()
        error = taskdeck("restore", "copy.db", "--json", code=4).error
    assert error["code"] == "already_running"
    assert "taskdeck stop" in error["remedy"]
    assert taskdeck.db.read_bytes() == before
    assert "none.db" in taskdeck("restore", "none.db", code=3).err


def test_a_prune_is_looked_at_first_and_then_archives_what_is_old(taskdeck: Calls, seed: Seed) -> None:
    task = seed.task()
    seed.close()
    taskdeck("cancel", str(task))
    ages = ("--tasks", "1ms", "--events", "1ms")
    (outlook,) = taskdeck("prune", *ages, "--dry-run", "--json").lines
    assert (outlook["tasks"], outlook["by_state"], outlook["events"]) == (1, {"CANCELLED": 1}, 3)
    assert "tasks   1 (1 CANCELLED)" in taskdeck("prune", *ages, "--dry-run").out
    refused = taskdeck("prune", *ages, "--json", code=2).error
    assert refused["what"] == "prune would archive 1 task and 3 events"
    assert "--yes" in refused["remedy"]
    assert "archived 1 task and" in taskdeck("prune", *ages, "--yes").out
    assert taskdeck("list", "--json").lines == []
    gone = taskdeck("show", str(task), "--json", code=3).error
    assert gone["what"].startswith(f"#{task} (shell, CANCELLED) was archived on")
    assert gone["why"].endswith(".jsonl.gz")
    assert ".jsonl.gz" in taskdeck("events", "--task", str(task)).err
    assert "in 1 archives" in taskdeck("audit", "verify").out
    assert "was archived on" in taskdeck("retry", str(task), code=3).err
    assert "nothing is old enough" in taskdeck("prune", "--tasks", "90d", "--yes").out


def test_a_prune_without_an_age_says_how_to_set_one(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    seed.close()
    assert "--tasks 90d" in taskdeck("prune", "--yes", code=2).err
