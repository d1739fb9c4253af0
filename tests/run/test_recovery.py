"""One worker or one row that can't be settled at the start: the engine comes up, and everything else is recovered."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskdeck.engine import crash
from taskdeck.engine.config import load
from taskdeck.engine.edge import identity
from taskdeck.engine.rules.declarations import ResourceDeclaration
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.tasks import NEEDS_REVIEW, PENDING, RUNNING
from taskdeck.engine.run import recovery
from taskdeck.engine.run.recovery import begun, forget_files, recover
from taskdeck.engine.store import slots
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.writer import Writer
from tests import replay
from tests.scratch import Scratch


async def recovered(scratch: Scratch, folder: Path) -> list[str]:
    config = load(db=scratch.path, environ={"HOME": str(folder)}, cwd=folder)
    writer = Writer(scratch.database, scratch.path, clock=scratch.clock, boot_id="b", redactor=Redactor())
    writer.start()
    try:
        return (await recover(config, scratch.clock, writer, scratch.policies, scratch.engine_id + 1)).stories
    finally:
        await writer.close()


async def test_a_task_whose_row_can_not_be_read_goes_to_review_and_the_others_are_recovered(
    scratch: Scratch, tmp_path: Path
) -> None:
    bad, good = scratch.running(), scratch.running()
    scratch.do(
        lambda tx: tx.connection.execute("UPDATE task SET ending = '{\"x\":1}' WHERE id = ?", (bad["id"],))
    )
    stories = await recovered(scratch, tmp_path)
    assert len(stories) == 2
    found = dict(scratch.query("SELECT id, state FROM task"))
    assert found == {bad["id"]: NEEDS_REVIEW, good["id"]: PENDING}


async def test_the_tasks_of_a_worker_that_can_not_be_settled_go_to_review_and_the_other_workers_are_settled(
    scratch: Scratch, tmp_path: Path
) -> None:
    bad, good = scratch.running(), scratch.running()
    scratch.do(
        lambda tx: tx.connection.execute(
            "UPDATE worker SET journal = 'no' || char(0) || 'path' WHERE id = ?", (bad["worker_id"],)
        )
    )
    await recovered(scratch, tmp_path)
    found = dict(scratch.query("SELECT id, state FROM task"))
    assert found == {bad["id"]: NEEDS_REVIEW, good["id"]: PENDING}
    assert scratch.query("SELECT DISTINCT state FROM worker") == [("LOST",)]
    assert ("ALERT_RAISED", "row_failed") in scratch.events(bad["id"])
    assert await recovered(scratch, tmp_path) == []


async def test_worked_example_30_after_a_reboot_every_lease_of_the_old_boot_has_ended(
    scratch: Scratch, tmp_path: Path
) -> None:
    scratch.declare(*(ResourceDeclaration(f"phone-{n}", "phone") for n in range(3)))
    tasks = [scratch.running(on_lost=rule) for rule in ("rerun", "rerun", "review")]
    for task in tasks:
        scratch.do(slots.take_from_pool, "phone", 1, task, 300.0, "a test")
        scratch.do(slots.started, task["fence"])
    assert set(scratch.slots().values()) == {"RUNNING"}
    await recovered(scratch, tmp_path)
    assert set(scratch.slots().values()) == {"AVAILABLE"}
    after = scratch.query("SELECT state, fence FROM task ORDER BY id")
    assert [state for state, _ in after] == [PENDING, PENDING, NEEDS_REVIEW]
    assert all(fence > task["fence"] for (_, fence), task in zip(after, tasks, strict=True))


def test_files_of_a_settled_worker_that_can_not_be_removed_or_read_stop_nothing(tmp_path: Path) -> None:
    starts = tmp_path / "w.starts"
    for path in (starts, starts.with_suffix(".spool")):
        path.mkdir()
    assert begun(starts, identity.boot_id(), [{"fence": 7}]) == {7}
    forget_files(starts)
    starts.rmdir()
    starts.touch()
    forget_files(starts)
    assert not starts.exists()


def test_a_slot_that_can_not_be_given_back_keeps_no_other_and_is_told_of(scratch: Scratch) -> None:
    scratch.declare(*(ResourceDeclaration(f"b-{number}", pool="browser") for number in (1, 2, 3)))
    task = scratch.running()
    scratch.do(slots.take_from_pool, "browser", 3, task, 300.0, "task")
    for change in (
        "UPDATE attempt SET ended_at = started_at, outcome = 'lost', reason = 'worker_lost'",
        "UPDATE resource_slot SET pending = '{\"no\": \"change\"}' WHERE resource_id = 'b-2'",
    ):
        scratch.do(lambda tx, sql: tx.connection.execute(sql), change)
    assert scratch.do(slots.sweep) == 2
    assert scratch.slots() == {"b-1": "AVAILABLE", "b-2": "LEASED", "b-3": "AVAILABLE"}
    (told,) = scratch.query("SELECT resource_id, message FROM event_log WHERE reason = 'row_failed'")
    assert told[0] == "b-2"
    assert told[1].startswith("b-2 can't be given back and stays LEASED: ")


async def test_a_recovery_that_dies_between_two_parts_of_a_full_worker_is_finished_by_the_next(
    scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "PART", 2)
    worker = scratch.worker()
    held = [scratch.start(scratch.add(), worker) for _ in range(5)]

    def die(name: str) -> None:
        if name == "after_recovery_part":
            raise KeyboardInterrupt

    crash.watch(die)
    try:
        with pytest.raises(KeyboardInterrupt):
            await recovered(scratch, tmp_path)
    finally:
        crash.arm({})
    states = [state for (state,) in scratch.query("SELECT state FROM task ORDER BY id")]
    assert states == [PENDING, PENDING, RUNNING, RUNNING, RUNNING]
    scratch.database = open_for_writing(scratch.path, "2026-01-01T00:00:00.000000Z")
    assert await recovered(scratch, tmp_path) == [
        f"#{row['id']} starts again from the beginning" for row in held[2:]
    ]
    assert scratch.one("SELECT count(*) FROM event_log WHERE reason = 'taken_over'") == 5
    assert scratch.query("SELECT DISTINCT outcome FROM attempt") == [("lost",)]
    assert scratch.query("SELECT state FROM worker") == [("LOST",)]
    assert replay.check(scratch.path) == []
