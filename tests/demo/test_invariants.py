"""Each invariant is found broken where a copy of a real run is damaged, under its own number, and only there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

import pytest

from taskdeck.engine.demo.invariants import INVARIANTS, Outside, judge
from tests.demo.runs import Ran, change


def broken(copy: Ran, outside: Outside | None = None) -> dict[int, list[str]]:
    found = judge(copy.database, outside).problems
    return {number: problems for number, problems in found.items() if problems}


def event(db: sqlite3.Connection, where: str) -> sqlite3.Row:
    return db.execute(f"SELECT * FROM event_log WHERE {where} ORDER BY event_id DESC").fetchone()


def two_holders(db: sqlite3.Connection) -> None:
    released = event(db, "event_type = 'RESOURCE_RELEASED' AND resource_id IS NOT NULL AND event_id < 500")
    change(db, released["event_id"], event_type="NOTE")


def a_change_without_event(db: sqlite3.Connection) -> None:
    change(db, event(db, "event_type = 'TASK_STATE' AND reason = 'done'")["event_id"], event_type="NOTE")


def a_task_that_nobody_ended(db: sqlite3.Connection) -> None:
    db.execute(
        "UPDATE attempt SET ended_at = NULL WHERE id = (SELECT max(id) FROM attempt WHERE outcome = 'succeeded')"
    )


def a_checkpoint_of_a_stale_attempt(db: sqlite3.Connection) -> None:
    found = event(db, "event_type = 'CHECKPOINT_SAVED'")
    payload = json.loads(found["payload_json"])
    change(db, found["event_id"], payload_json=json.dumps({**payload, "fence": payload["fence"] - 1}))


def a_checkpoint_of_another_worker(db: sqlite3.Connection) -> None:
    found = event(db, "event_type = 'CHECKPOINT_SAVED'")
    change(db, found["event_id"], worker_id=found["worker_id"] + 7)


def an_operation_that_no_event_tells_of(db: sqlite3.Connection) -> None:
    change(db, event(db, "event_type = 'STEP_SUCCEEDED'")["event_id"], event_type="NOTE")


def an_operation_left_begun(db: sqlite3.Connection) -> None:
    db.execute("UPDATE operation SET state = 'BEGUN' WHERE id = 7")


def a_doubt_that_is_not_shown(db: sqlite3.Connection) -> None:
    db.execute("UPDATE operation SET state = 'IN_DOUBT' WHERE id = 7")


def an_end_that_the_engine_left(db: sqlite3.Connection) -> None:
    told = event(db, "event_type = 'TASK_FINISHED' AND reason = 'done'")
    payload = json.dumps({"from": "SUCCESS", "to": "PENDING", "attempt": 1, "fence": 1 << 40})
    change(db, told["event_id"], event_type="TASK_STATE", reason="user_retry", payload_json=payload)


def an_engine_without_end(db: sqlite3.Connection) -> None:
    db.execute("UPDATE engine SET ended_at = NULL")


def an_engine_beside_another(db: sqlite3.Connection) -> None:
    found = event(db, "event_type = 'RETRY_SCHEDULED'")
    change(db, found["event_id"], event_type="ENGINE_STARTED", message="engine 7, pid 1")


@pytest.mark.parametrize(
    ("number", "damage"),
    [
        (1, two_holders),
        (2, a_change_without_event),
        (3, a_task_that_nobody_ended),
        (4, a_checkpoint_of_a_stale_attempt),
        (4, a_checkpoint_of_another_worker),
        (5, an_operation_that_no_event_tells_of),
        (5, an_operation_left_begun),
        (5, a_doubt_that_is_not_shown),
        (8, an_end_that_the_engine_left),
        (9, an_engine_without_end),
        (9, an_engine_beside_another),
    ],
)
def test_a_damaged_copy_breaks_the_invariant(
    copy: Ran, number: int, damage: Callable[[sqlite3.Connection], None]
) -> None:
    with copy.writing() as db:
        damage(db)
    assert number in broken(copy)


def test_a_run_that_went_well_breaks_none(copy: Ran) -> None:
    ledger = [json.loads(line)["row"] for line in copy.ledger.read_text("utf-8").splitlines()]
    verdicts = judge(copy.database, Outside({}, effects=ledger))
    assert (verdicts.hold, list(verdicts.problems)) == (True, list(INVARIANTS))
    assert (sum(verdicts.tasks.values()), verdicts.operations) == (58, 60)


def test_what_somebody_was_told_is_there_and_is_the_same_task(copy: Ran) -> None:
    with copy.writing() as db:
        known = dict(db.execute("SELECT idempotency_key, id FROM task").fetchall())
    assert broken(copy, Outside(known)) == {}
    key = next(iter(known))
    assert f"{key}: it was acknowledged as #999" in broken(copy, Outside({key: 999}))[6][0]
    assert "acknowledged, and is not there" in broken(copy, Outside({"gone": 3}))[3][0]


def test_effects_that_happened_twice_or_are_recorded_wrongly_are_named(copy: Ran) -> None:
    ledger = [json.loads(line)["row"] for line in copy.ledger.read_text("utf-8").splitlines()]
    found = broken(copy, Outside(effects=[*ledger[1:], ledger[1], "X-1"]))
    assert list(found) == [5]
    assert sorted(found[5]) == sorted(
        [
            f"effect {ledger[1]!r}: it happened 2 times",
            "effect 'X-1': it happened, and is recorded as nothing",
            f"operation {ledger[0]!r}: recorded as done, and it never happened",
        ]
    )


def test_what_can_not_be_read_holds_nothing(copy: Ran) -> None:
    copy.database.write_bytes(b"SQLite format 3\0 and then nothing of the kind")
    assert not judge(copy.database).hold


def test_a_lost_table_is_a_problem_and_the_rest_is_judged(copy: Ran) -> None:
    with sqlite3.connect(copy.database) as db:
        db.execute("DROP TABLE operation")
        db.execute("UPDATE engine SET ended_at = NULL")
    found = broken(copy)
    assert any("the operations: it can't be judged" in each for each in found[2])
    assert found[9]
