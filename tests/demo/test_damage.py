"""Whatever is damaged in a copy of the recorded demo, the check names it, and never stumbles over it."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from taskdeck.engine.demo import plan
from tests.demo.runs import Ran, change, names

Damage = Callable[[sqlite3.Connection], object]


def sql(statement: str) -> Damage:
    return lambda db: db.execute(statement)


def payload(where: str, **values: Any) -> Damage:
    """Change the payload of the first event that is like this."""

    def damage(db: sqlite3.Connection) -> None:
        event = db.execute(f"SELECT * FROM event_log WHERE {where} ORDER BY event_id").fetchone()
        text = json.dumps(json.loads(event["payload_json"]) | values)
        change(db, event["event_id"], payload_json=text)

    return damage


def insert_again(where: str) -> Damage:
    """The first event that is like this is told a second time, at the end."""

    def damage(db: sqlite3.Connection) -> None:
        columns = "task_id, resource_id, route_id, worker_id, event_type, level, reason, actor, message, payload_json"
        db.execute(
            f"INSERT INTO event_log(event_id, {columns}, created_at, hash)"
            f" SELECT (SELECT max(event_id) + 1 FROM event_log), {columns}, created_at, ''"
            f" FROM event_log WHERE {where} ORDER BY event_id LIMIT 1"
        )

    return damage


UPLOAD = "(SELECT id FROM task WHERE type = 'demo_upload' LIMIT 1)"
LAST = "id = (SELECT max(id) FROM attempt WHERE outcome = 'succeeded')"
OF_BROWSER = "resource_id IS NOT NULL AND event_type"
LATER = "'2030-01-01T00:00:00.000000Z'"

DAMAGES: dict[str, tuple[Damage, tuple[str, ...]]] = {
    "a slot that is made up": (
        payload(f"{OF_BROWSER} = 'RESOURCE_LEASED'", slot=7),
        ("/7)", "there is no slot 7, it has 1"),
    ),
    "a lease out of use": (
        payload(f"{OF_BROWSER} = 'RESOURCE_STATE'", **{"from": "DISABLED"}),
        ("RESOURCE_STATE from DISABLED to RUNNING is not allowed",),
    ),
    "a move to where it was": (
        payload(f"{OF_BROWSER} = 'RESOURCE_STATE'", **{"from": "AVAILABLE", "to": "AVAILABLE"}),
        ("RESOURCE_STATE from AVAILABLE to AVAILABLE is not allowed",),
    ),
    "a release of nothing": (
        payload(f"{OF_BROWSER} = 'RESOURCE_RELEASED'", **{"from": "COOLDOWN"}),
        ("RESOURCE_RELEASED from COOLDOWN to ",),
    ),
    "an upload without a browser": (
        sql(f"UPDATE event_log SET event_type = 'NOTE' WHERE task_id = {UPLOAD} AND resource_id IS NOT NULL"),
        ("(demo-upload-", "ran without its resource"),
    ),
    "a fetch without a route": (
        sql(
            "UPDATE event_log SET event_type = 'NOTE' WHERE route_id IS NOT NULL"
            " AND task_id = (SELECT id FROM task WHERE type = 'demo_fetch')"
        ),
        ("(demo-fetch-", "ran without its route"),
    ),
    "a lease on a finished task": (
        sql(f"UPDATE task SET lease_until_boot = 1.0 WHERE id = {UPLOAD}"),
        ("SUCCESS, yet its lease_until_boot",),
    ),
    "a lease on a free slot": (
        sql("UPDATE resource_slot SET lease_owner = 'w' WHERE resource_id = 'browser-1'"),
        ("resource browser-1: ", ", yet its lease_owner still tells"),
    ),
    "a slot that is gone": (
        sql("DELETE FROM route_slot WHERE route_id = 'http-fast' AND number = 2"),
        ("route http-fast: its slot 2 of 4 is missing",),
    ),
    "a success that failed": (
        sql(f"UPDATE attempt SET outcome = 'failed' WHERE {LAST}"),
        ("SUCCESS, but its last attempt failed",),
    ),
    "another reason": (
        sql(f"UPDATE attempt SET reason = 'timeout' WHERE {LAST}"),
        ("ended for timeout, the audit says done",),
    ),
    "an unknown worker": (
        sql(f"UPDATE attempt SET worker_id = 99 WHERE {LAST}"),
        ("worker 99 is not known",),
    ),
    "a success that never started": (
        sql(f"UPDATE attempt SET started_at = NULL WHERE {LAST}"),
        ("it succeeded, and was never started",),
    ),
    "times out of order": (
        sql(f"UPDATE attempt SET dispatched_at = ended_at, ended_at = dispatched_at WHERE {LAST}"),
        ("its times are not in order",),
    ),
    "a time behind the run": (
        sql(f"UPDATE attempt SET ended_at = {LATER} WHERE {LAST}"),
        ("not within the run",),
    ),
    "no operation": (
        sql("DELETE FROM operation WHERE operation_key = 'D-007'"),
        ("upload D-007", "no operation"),
    ),
    "another's fence": (
        sql("UPDATE operation SET fence = 9999 WHERE operation_key = 'D-007'"),
        ("'D-007'", "done under fence 9999, which is of no such attempt"),
    ),
    "another's result": (
        sql("""UPDATE operation SET result = '{"row":"D-008"}' WHERE operation_key = 'D-007'"""),
        ("'D-007'", "its result is not the site's answer"),
    ),
    "no result": (
        sql(f"UPDATE task SET result = NULL WHERE id = {UPLOAD}"),
        ('its result is not {"orders": 10}',),
    ),
    "a wrong result": (
        sql(
            """UPDATE task SET result = '{"list":"x","items":1}' WHERE idempotency_key = 'demo-fetch-books'"""
        ),
        ("(demo-fetch-books)", 'its result is not {"list": "books", "items": 10}'),
    ),
    "a browser that is gone": (
        sql("UPDATE resource SET removed_at = updated_at WHERE resource_id = 'browser-2'"),
        ("resource browser-2 is missing",),
    ),
    "a route that is gone": (
        sql("UPDATE route SET removed_at = updated_at WHERE route_id = 'http-fast'"),
        ("route http-fast is missing",),
    ),
    "a route with more slots": (
        sql("UPDATE route SET capacity = 9 WHERE route_id = 'http-fast'"),
        ("route http-fast: it has 9 slots, not 4",),
    ),
    "an engine that lives": (
        sql("UPDATE engine SET ended_at = NULL"),
        ("engine 1 ", "still counts as alive"),
    ),
    "a worker that lives": (
        sql("UPDATE worker SET ended_at = NULL, state = 'READY' WHERE id = 2"),
        ("worker 2 ", "at the end it is READY"),
    ),
    "an end twice": (
        insert_again("event_type = 'TASK_FINISHED'"),
        ("is told to have finished as", "but it did not then"),
    ),
    "an end that nobody tells of": (
        sql(
            "UPDATE event_log SET event_type = 'NOTE'"
            " WHERE event_id = (SELECT min(event_id) FROM event_log WHERE event_type = 'TASK_FINISHED')"
        ),
        ("and no TASK_FINISHED tells of it",),
    ),
    "a raised fence": (
        sql("UPDATE route_slot SET fence = 999 WHERE route_id = 'dead' AND number = 1"),
        ("route dead/1: fence 999 is above 0",),
    ),
    "another end": (
        sql(f"UPDATE task SET finished_at = {LATER} WHERE id = {UPLOAD}"),
        ("SUCCESS at 2030", "but its last attempt at"),
    ),
    "another type": (
        sql("UPDATE task SET type = 'shell' WHERE idempotency_key = 'demo-report'"),
        ("(demo-report): it is a shell, and was to be a demo_report",),
    ),
    "another exit code": (
        sql("UPDATE attempt SET exit_code = 3 WHERE outcome = 'succeeded' AND exit_code = 0"),
        ("SUCCESS, but its command ended with 3",),
    ),
    "a wish that is left": (
        sql(f"UPDATE task SET wanted = 'cancel' WHERE id = {UPLOAD}"),
        ("SUCCESS, yet somebody still wants to cancel it",),
    ),
    "a hold that is left": (
        sql(f"INSERT INTO hold VALUES ('type:x', 'a', {LATER})"),
        ("type:x is still held back",),
    ),
    "another's checkpoint": (
        sql("UPDATE checkpoint SET fence = 9999 WHERE id = (SELECT max(id) FROM checkpoint)"),
        ("saved under fence 9999, of no such attempt",),
    ),
    "a payload that is none": (
        sql("UPDATE event_log SET payload_json = '7' WHERE event_id > 800"),
        ("can't be judged",),
    ),
    "a fence that is none": (
        payload("reason = 'dispatched'", fence="high"),
        ("it can't be judged to its end",),
    ),
    "an event of bytes": (sql("UPDATE event_log SET message = x'ff00' WHERE event_id = 9"), ("event 9:",)),
    "a table that is gone": (
        sql("DROP TABLE operation"),
        ("the operations: it can't be judged", "operation"),
    ),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_database_is_named(copy: Ran, what: str) -> None:
    damage, words = DAMAGES[what]
    with copy.writing() as db:
        damage(db)
    assert names(copy.problems(), *words), copy.problems()[:20]


def test_two_holders_of_one_browser_are_named_however_their_slots_are_numbered(copy: Ran) -> None:
    with copy.writing() as db:
        leases = db.execute(
            "SELECT event_id, task_id, resource_id FROM event_log"
            " WHERE event_type = 'RESOURCE_LEASED' AND resource_id IS NOT NULL ORDER BY event_id"
        ).fetchall()
        first = leases[0]
        second = next(each for each in leases if each["resource_id"] != first["resource_id"])
        event = db.execute("SELECT * FROM event_log WHERE event_id = ?", (first["event_id"],)).fetchone()
        text = json.dumps(json.loads(event["payload_json"]) | {"slot": 2})
        change(db, first["event_id"], resource_id=second["resource_id"], payload_json=text)
    assert names(copy.problems(), "two holders at once", f"#{first['task_id']} and #{second['task_id']}"), (
        copy.problems()
    )


# ---- files ------------------------------------------------------------------------------------------------------------


def test_files_that_are_gone_or_cut_are_named(copy: Ran) -> None:
    cut, gone, *_ = sorted((copy.folder / "fetched").iterdir())
    cut.write_bytes(cut.read_bytes()[:-20])
    gone.unlink()
    report = copy.folder / "report.html"
    report.write_text(report.read_text("utf-8").replace("Étude", "Etude"), "utf-8")
    problems = copy.problems()
    assert names(problems, f"fetched/{cut.name} is not the list")
    assert names(problems, f"fetched/{gone.name} is missing")
    assert names(problems, "report.html is not whole: 1 items are missing")
    report.unlink()
    assert names(copy.problems(), "report.html is missing")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "demo.db.anchors is missing"),
        ("rubbish\n", "demo.db.anchors line 1: it is no anchor"),
        ("", "but was anchored outside up to event 0"),
    ],
)
def test_anchors_that_are_gone_or_rubbish_are_named(copy: Ran, text: str | None, words: str) -> None:
    copy.anchors.unlink() if text is None else copy.anchors.write_text(text)
    assert names(copy.problems(), words)


@pytest.mark.parametrize("name", [plan.RUN_FILE, plan.WORLD_FILE])
@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"chaos": 1, "kills": 2, "proxies": 3}', "\udcff"])
def test_damaged_notes_are_named_and_the_rest_is_judged(copy: Ran, name: str, text: str) -> None:
    (copy.folder / name).write_bytes(text.encode(errors="surrogateescape"))
    copy.ledger.write_bytes(copy.ledger.read_bytes()[:-5])
    problems = copy.problems()
    assert names(problems, f"{name} is missing or damaged")
    assert names(problems, "ledger line 60: it is torn")
    assert names(problems, "it arrived 0 times")


def test_kills_that_are_none_are_named(copy: Ran) -> None:
    (copy.folder / plan.RUN_FILE).write_text('{"chaos": false, "kills": [7, {"what": "x"}]}')
    assert names(copy.problems(), "one of its kills is none")


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_a_password_in_other_letters_is_found(copy: Ran, shift: int) -> None:
    password = (copy.folder / plan.SECRETS / "http-login").read_text().strip().encode()
    (copy.folder / "a").write_bytes(base64.b64encode(b"x" * shift + password + b" and more"))
    (copy.folder / "b").write_text(password.hex())
    problems = copy.problems()
    assert names(problems, "/a: the password of http-login")
    assert names(problems, "/b: the password of http-login")


def test_an_empty_file_of_secrets_hides_nothing(copy: Ran) -> None:
    (copy.folder / plan.SECRETS / "http-login").write_text("\n")
    assert copy.problems() == []


@pytest.mark.parametrize("name", [plan.ENGINE_LOG, "logs/engine.log"])
def test_a_full_disk_is_said_first(copy: Ran, name: str) -> None:
    copy.ledger.unlink()
    with (copy.folder / name).open("a") as file:
        file.write("the database could not be written: database or disk is full\n")
    assert copy.problems()[0].startswith(f"the disk is full (or was): {name} says so")
