"""Lost attempts that are settled many at a time tell the same as those that are settled one by one."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskdeck.engine.config import Config
from taskdeck.engine.edge import identity
from taskdeck.engine.rules.declarations import ResourceDeclaration
from taskdeck.engine.rules.losses import Way
from taskdeck.engine.rules.tasks import PENDING, TaskState
from taskdeck.engine.run import control, losing, withstanding
from taskdeck.engine.run.messages import Left
from taskdeck.engine.run.policies import Policies
from taskdeck.engine.store import attempts, checkpoints, losses, operations, requests, slots, tasks
from taskdeck.engine.store.transaction import Transaction
from tests import replay
from tests.scratch import ANN, Scratch

Row = dict[str, Any]
LATER = "2030-01-01T00:00:00.000000Z"


def sets(column: str, value: object) -> Callable[[Transaction, Row], None]:
    return lambda tx, row: (
        tx.connection.execute(f"UPDATE task SET {column} = ? WHERE id = ?", (value, row["id"])) and None
    )


def save(tx: Transaction, row: Row) -> None:
    attempt = attempts.of_fence(tx, row["fence"])
    assert attempt
    checkpoints.add(tx, row["id"], attempt["id"], row["fence"], '{"page":1}', version=1, stage="", keep=3)


def begin(tx: Transaction, row: Row) -> None:
    attempt = attempts.of_fence(tx, row["fence"])
    assert attempt
    operations.begin(tx, f"task:{row['id']}", "upload", row["id"], attempt["id"], row["fence"])


def leave_a_process(tx: Transaction, row: Row) -> None:
    own = identity.of(os.getpid())
    assert own is not None
    withstanding.record(tx, [Left(own.pid, own.start_time, "pytest", row["id"])], None)


HAS: dict[str, Callable[[Transaction, Row], Any]] = {
    "nothing": lambda tx, row: None,
    "a cancel": lambda tx, row: control.cancel(tx, row, ANN, {}),
    "a pause": lambda tx, row: control.pause(tx, row, ANN, {}),
    "a request for later": lambda tx, row: requests.add(tx, "cancel", row["id"], ANN, "{}", LATER),
    "an operation": begin,
    "a checkpoint": save,
    "a lease": lambda tx, row: slots.take_from_pool(tx, "phone", 1, row, 300.0, "task"),
    "been suspended": lambda tx, row: tasks.transition(tx, row, TaskState.PAUSED, "user_pause", actor=ANN),
    "a process that withstands": leave_a_process,
    "a damaged ending": sets("ending", '{"x":1}'),
    "damaged needs": sets("needs", '{"x":1}'),
    "to ask before it runs twice": sets("on_lost", "review"),
    "two losses": sets("losses", 2),
    "29 losses in all": sets("losses_total", 29),
    "been taken over": lambda tx, row: losing.take_all(tx, [row], "other", set(), Policies(Config()), 3),
}
A_TASK = st.tuples(st.sampled_from(list(HAS)), st.booleans())
"""What it has, and whether it was begun."""
A_LOSS = st.fixed_dictionaries(
    {"charged": st.booleans(), "suspected": st.booleans(), "doubt": st.sampled_from(["", "nobody knows"])}
)


def settle(
    folder: Path, kinds: list[tuple[str, bool]], loss: dict[str, Any], *, together: bool
) -> dict[str, Any]:
    """What the database tells once all these are lost, and the stories; new fences, which depend on the order, as "new"."""
    scratch = Scratch(folder)
    scratch.declare(*(ResourceDeclaration(f"phone-{n}", "phone") for n in range(len(kinds))))
    worker = scratch.worker()
    held = [scratch.start(scratch.add(priority=n % 3), worker) for n in range(len(kinds))]
    for row, (has, _) in zip(held, kinds, strict=True):
        scratch.do(HAS[has], row)
    begun = {row["fence"] for row, (_, was_begun) in zip(held, kinds, strict=True) if was_begun}
    last = scratch.one("SELECT value FROM sequence WHERE name = 'fence'")
    scratch.clock.advance(2.5)
    take = losing.take_all
    with pytest.MonkeyPatch.context() as patch:
        if not together:
            patch.setattr(losing, "_take_together", lambda *args: {})
        stories = scratch.do(take, held, "worker 1 was lost", begun, scratch.policies, 3, **loss)
    found = told(scratch, last)
    found["replay"] = replay.check(scratch.path)  # of what was put there without an event
    scratch.close()
    return {"stories": stories, **found}


def told(scratch: Scratch, last_fence: int) -> dict[str, Any]:
    def known(value: Any) -> Any:
        return "new" if isinstance(value, int) and value > last_fence else value

    found: dict[str, Any] = {
        table: scratch.query(f"SELECT * FROM {table} ORDER BY id")
        for table in ("attempt", "resource_slot", "request", "operation", "checkpoint", "leftover")
    }
    fences = [fence for (fence,) in scratch.query("SELECT fence FROM task") if fence > last_fence]
    assert len(set(fences)) == len(fences)
    names = [row[1] for row in scratch.query("PRAGMA table_info(task)")]
    found["task"] = [
        {name: known(value) if name == "fence" else value for name, value in zip(names, row, strict=True)}
        for row in scratch.query("SELECT * FROM task ORDER BY id")
    ]
    columns = "task_id, event_type, worker_id, level, reason, actor, message, created_at, payload_json"
    found["event"] = [
        (*row, {name: known(value) if name == "fence" else value for name, value in json.loads(text).items()})
        for *row, text in scratch.query(f"SELECT {columns} FROM event_log ORDER BY task_id, event_id")
        if text
    ]
    return found


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(A_TASK, min_size=1, max_size=14), A_LOSS)
def test_many_that_are_lost_together_tell_the_same_as_one_by_one(
    kinds: list[tuple[str, bool]], loss: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        together = settle(Path(one), kinds, loss, together=True)
        alone = settle(Path(other), kinds, loss, together=False)
    assert together == alone


def test_each_kind_of_task_alone_and_beside_bare_ones_tells_the_same(tmp_path: Path) -> None:
    kinds = [(has, begun) for has in HAS for begun in (True, False)]
    found = []
    for together in (True, False):
        (folder := tmp_path / str(together)).mkdir()
        found.append(settle(folder, kinds, {}, together=together))
    assert found[0] == found[1]
    assert {row["state"] for row in found[0]["task"]} >= {"PENDING", "NEEDS_REVIEW", "PAUSED", "CANCELLED"}


def test_what_has_nothing_beside_its_row_goes_the_short_way(scratch: Scratch) -> None:
    worker = scratch.worker()
    held = [scratch.start(scratch.add(), worker) for _ in HAS]
    for row, change in zip(held, HAS.values(), strict=True):
        if change is not leave_a_process:
            scratch.declare(ResourceDeclaration("phone-1", "phone"))
        scratch.do(change, row)
    now = [tasks.get(scratch.tx, row["id"]) for row in held]
    found = scratch.do(losses.look, [row for row in now if row["worker_id"]])
    bare = {each.task_id for kind, alike in found.items() if kind.bare for each in alike}
    short = {has for has, row in zip(HAS, held, strict=True) if row["id"] in bare}
    assert short == {
        "nothing",
        "damaged needs",  # found when its limits are looked up
        "to ask before it runs twice",
        "two losses",
        "29 losses in all",
    }


def test_one_row_that_can_not_be_changed_with_the_others_goes_the_long_way_and_they_do_not(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = scratch.worker()
    held = [scratch.start(scratch.add(), worker) for _ in range(50)]
    bad, sizes, settles = held[17]["id"], list[int](), losing._SETTLE[Way.TAKEN_OVER]

    def fails_with_the_bad_one(tx: Transaction, lost: list[losses.Lost], **more: Any) -> str:
        story = settles(tx, lost, **more)
        if bad in {each.task_id for each in lost}:
            raise ValueError("it does not fit")
        sizes.append(len(lost))
        return story

    monkeypatch.setitem(losing._SETTLE, Way.TAKEN_OVER, fails_with_the_bad_one)
    fences = {row["fence"] for row in held}
    stories = scratch.do(losing.take_all, held, "worker 1 was lost", fences, scratch.policies, 3)
    assert [story.split()[0] for story in stories] == [f"#{row['id']}" for row in held]
    assert {scratch.state(row["id"]) for row in held} == {PENDING}
    assert sum(sizes) > 50 - losing.FEW
    assert len(sizes) < 10
    assert replay.check(scratch.path) == []


def test_who_moved_on_since_it_was_seen_is_no_more_among_those_that_are_alike(scratch: Scratch) -> None:
    worker = scratch.worker()
    seen = [scratch.start(scratch.add(), worker) for _ in range(3)]
    ids = [row["id"] for row in seen]
    assert [[each.task_id for each in alike] for alike in scratch.do(losses.look, seen).values()] == [ids]
    scratch.do(losing.take_all, seen[1:2], "other", set(), scratch.policies, 3)
    scratch.start(seen[1]["id"], worker)
    found = scratch.do(losses.look, seen)
    assert [[each.task_id for each in alike] for alike in found.values()] == [[ids[0], ids[2]]]
    assert scratch.do(losses.look, seen[1:2]) == {}
