"""The check passes a real demo, and names each damage that is done to a copy of it.

One demo is run for all of them, and damaged further in `test_damage`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from taskdeck.engine.demo import plan
from tests import replay
from tests.demo.runs import Ran, change, names
from tests.tui.calls import called


def check(demo: Ran) -> subprocess.CompletedProcess[str]:
    words = ["demo", "--check", "--db", str(demo.database)]
    code, out, err = called(words, demo.database.parent, os.environ.copy())
    return subprocess.CompletedProcess(words, code, out.decode(), err.decode())


# ---- as it is ---------------------------------------------------------------------------------------------------------


def test_a_demo_shows_what_it_did_and_that_all_is_as_it_must_be(ran: Ran) -> None:
    assert 'base = "100ms"' in ran.output
    assert "60 expected, 60 arrived, 0 more than once" in ran.output
    assert "everything is as it must be" in ran.output
    assert "http-connect" in ran.output
    assert f"taskdeck demo --check --db {ran.database}" in ran.output


def test_a_demo_passes_its_own_check_and_the_replay(ran: Ran) -> None:
    done = check(ran)
    assert (done.returncode, done.stderr) == (0, "")
    assert replay.check(ran.database) == []


def test_the_check_reads_and_changes_nothing(copy: Ran) -> None:
    before = copy.database.read_bytes()
    assert copy.problems() == []
    assert copy.database.read_bytes() == before


def test_a_second_demo_on_the_same_database_is_refused(ran: Ran) -> None:
    words = ["demo", "--headless", "--db", str(ran.database)]
    code, _, told = called(words, ran.database.parent, os.environ.copy())
    assert code == 4
    assert "needs a database of its own" in told.decode()


# ---- uploads ----------------------------------------------------------------------------------------------------------


def test_an_upload_that_came_twice_is_named(copy: Ran) -> None:
    first = copy.ledger.read_text(encoding="utf-8").splitlines()[0]
    with copy.ledger.open("a", encoding="utf-8") as file:
        file.write(first + "\n")
    done = check(copy)
    assert done.returncode == 1
    assert f"upload {json.loads(first)['row']}: it arrived 2 times, not once" in done.stdout
    assert "1 more than once" in done.stdout


def test_uploads_that_are_missing_strange_or_not_as_sent_are_named(copy: Ran) -> None:
    lost, changed, *rest = [json.loads(line) for line in copy.ledger.read_text("utf-8").splitlines()]
    changed["body"]["quantity"] = "1000000"
    records = [changed, *rest, {"row": "X-1", "body": {}}]
    copy.ledger.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    problems = copy.problems()
    assert names(problems, f"upload {lost['row']}: it arrived 0 times")
    assert names(problems, f"row {changed['row']} arrived, but not as it was sent")
    assert names(problems, "'X-1' is not in the batch")


def test_an_operation_that_is_in_doubt_is_named(copy: Ran) -> None:
    with copy.writing() as db:
        db.execute("UPDATE operation SET state = 'IN_DOUBT' WHERE operation_key = 'D-007'")
    assert names(copy.problems(), "'D-007'", "IN_DOUBT, not DONE")


# ---- fences -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["task", "attempt", "resource_slot"])
def test_a_lowered_fence_in_a_table_is_named(copy: Ran, table: str) -> None:
    with copy.writing() as db:
        db.execute(
            f"UPDATE {table} SET fence = 0 WHERE id = (SELECT id FROM {table} WHERE fence > 1 ORDER BY fence DESC)"
        )
    done = check(copy)
    assert done.returncode == 1
    assert "fence 0" in done.stdout


@pytest.mark.parametrize("event_type", ["TASK_STATE", "RESOURCE_LEASED"])
def test_a_lowered_fence_in_the_audit_is_named(copy: Ran, event_type: str) -> None:
    with copy.writing() as db:
        event = db.execute(
            "SELECT * FROM event_log WHERE event_type = ? AND reason IN ('dispatched', 'claimed')"
            " ORDER BY event_id DESC",
            (event_type,),
        ).fetchone()
        payload = json.loads(event["payload_json"]) | {"fence": 1}
        change(db, event["event_id"], payload_json=json.dumps(payload))
    assert names(copy.problems(), f"event {event['event_id']} ", "fence 1 does not grow")


# ---- holders ----------------------------------------------------------------------------------------------------------


def test_two_holders_of_one_browser_in_the_audit_are_named(copy: Ran) -> None:
    with copy.writing() as db:
        released = db.execute(
            "SELECT r.event_id, r.task_id, r.resource_id FROM event_log r WHERE event_type = 'RESOURCE_RELEASED'"
            " AND EXISTS (SELECT 1 FROM event_log l WHERE l.event_type = 'RESOURCE_LEASED'"
            " AND l.resource_id = r.resource_id AND l.event_id > r.event_id)"
        ).fetchone()
        change(db, released["event_id"], event_type="NOTE")
    done = check(copy)
    assert done.returncode == 1
    assert (
        f"(resource {released['resource_id']}): two holders at once, #{released['task_id']} and #"
        in done.stdout
    )


def test_two_holders_of_one_browser_in_the_tables_are_named(copy: Ran) -> None:
    with copy.writing() as db:
        db.execute("UPDATE resource_slot SET state = 'RUNNING', task_id = 1 WHERE resource_id = 'browser-1'")
        db.execute(
            "INSERT INTO resource_slot(resource_id, number, state, task_id, fence, updated_at)"
            " SELECT resource_id, 2, 'RUNNING', 2, fence, updated_at FROM resource_slot WHERE resource_id = 'browser-1'"
        )
    problems = copy.problems()
    assert names(problems, "resource browser-1: two holders at once, #1 and #2")
    assert names(problems, "browser-1: slot 2 of 1")


def test_a_route_that_no_task_may_be_given_is_named(copy: Ran) -> None:
    with copy.writing() as db:
        (leased,) = db.execute("SELECT max(event_id) FROM event_log WHERE route_id = 'http-fast'").fetchone()
        change(db, leased, route_id="dead", event_type="RESOURCE_LEASED")
    assert names(copy.problems(), "route dead: leased 1 times, although it refuses every connection")


# ---- changes and events -----------------------------------------------------------------------------------------------


def test_a_state_that_no_event_tells_of_is_named(copy: Ran) -> None:
    with copy.writing() as db:
        (task_id,) = db.execute("SELECT id FROM task WHERE state = 'FAILED'").fetchone()
        db.execute("UPDATE task SET state = 'SUCCESS' WHERE id = ?", (task_id,))
    problems = copy.problems()
    assert names(problems, f"#{task_id}: state is SUCCESS, its events say FAILED")
    assert names(problems, f"#{task_id} (", "it should be FAILED, it is SUCCESS")


def test_a_change_whose_event_was_taken_away_is_named(copy: Ran) -> None:
    with copy.writing() as db:
        (moved,) = db.execute(
            "SELECT min(event_id) FROM event_log WHERE event_type = 'TASK_STATE'"
        ).fetchone()
        change(db, moved, event_type="NOTE")
    assert names(copy.problems(), "a change has no event")


def test_a_changed_or_missing_event_breaks_the_chain(copy: Ran) -> None:
    with closing(sqlite3.connect(copy.database)) as db:
        db.execute("DROP TRIGGER event_log_is_append_only_u")
        db.execute("DROP TRIGGER event_log_is_append_only_d")
        db.execute("UPDATE event_log SET message = 'nothing happened' WHERE event_id = 10")
        db.execute("DELETE FROM event_log WHERE event_id = 20")
        db.commit()
    problems = copy.problems()
    assert names(problems, "event 10: the chain breaks here")
    assert names(problems, "event 20 is missing")


def test_an_audit_that_was_written_anew_is_not_the_one_that_was_anchored(copy: Ran) -> None:
    with copy.writing() as db:
        change(db, 10, message="nothing happened")
    assert names(copy.problems(), "the audit was another when it was anchored outside")


def test_a_task_that_is_gone_and_one_that_nobody_planned_are_named(copy: Ran) -> None:
    with copy.writing() as db:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("UPDATE task SET idempotency_key = 'other' WHERE idempotency_key = 'demo-report'")
    problems = copy.problems()
    assert "demo-report: the task is missing" in problems
    assert names(problems, "nobody planned it")


# ---- chaos and secrets ------------------------------------------------------------------------------------------------


def test_kills_that_are_too_few_or_not_in_the_audit_are_named(copy: Ran) -> None:
    run = {"seed": 1, "chaos": True, "kills": [{"what": "engine", "pid": 1, "how": "kill -9"}]}
    (copy.folder / plan.RUN_FILE).write_text(json.dumps(run))
    problems = copy.problems()
    assert names(problems, "engine 1 was killed, and no event tells of it")
    assert names(problems, "chaos killed 0 workers, at least 5")
    assert names(problems, "nothing died between a request and its record")


@pytest.mark.parametrize("place", ["logs/7.log", "fetched/x.json", "config.toml", "demo.db"])
def test_a_password_is_found_wherever_it_stands(copy: Ran, place: str) -> None:
    password = (copy.folder / plan.SECRETS / "http-login").read_text()
    if place == "demo.db":
        with copy.writing() as db:
            db.execute(
                "UPDATE route_health SET last_error_detail = ? WHERE route_id = 'http-login'", (password,)
            )
    else:
        file = copy.folder / place
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as opened:
            opened.write(f"x{password}x")
    problems = copy.problems()
    assert names(problems, place, "the password of http-login stands in it")
    assert not names(problems, password)


def test_what_is_no_demo_is_told_in_a_sentence(tmp_path: Path, copy: Ran) -> None:
    done = check(Ran(tmp_path / "nothing.db"))
    assert done.returncode == 3
    assert "is no database of a demo" in done.stderr
    copy.database.write_bytes(b"not a database")
    done = check(copy)
    assert (done.returncode, done.stderr) == (1, "")
    assert "it can't be judged" in done.stdout
