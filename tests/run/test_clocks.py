"""Steps of the wall clock, a suspended host, a reboot: nothing runs twice, nothing waits for ever, no lease is misjudged."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from taskdeck.engine.config import load
from taskdeck.engine.edge import identity
from taskdeck.engine.rules.clocks import Reading, slept, stepped
from taskdeck.engine.rules.failures import Failure, FailureClass
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.route_settings import RouteSettings
from taskdeck.engine.rules.selection import WorkerRoom
from taskdeck.engine.rules.timing import add_seconds, seconds_between, utc_text
from taskdeck.engine.run import control
from taskdeck.engine.run.clock_watch import ClockWatch
from taskdeck.engine.run.dispatch import Limits, dispatch
from taskdeck.engine.run.leasing import Leasing
from taskdeck.engine.run.messages import Outcome, TypeInfo
from taskdeck.engine.run.outcomes import Outcomes
from taskdeck.engine.run.reception import Reception
from taskdeck.engine.run.recording import Recorder
from taskdeck.engine.run.recovery import recover
from taskdeck.engine.run.warden import Warden
from taskdeck.engine.run.workforce import WorkerHandle, Workforce
from taskdeck.engine.store import requests, tasks
from taskdeck.engine.store.clock_steps import restart_waits
from taskdeck.engine.store.reading import Reader
from taskdeck.engine.store.requests import MANNERS
from taskdeck.engine.store.writer import Writer
from tests.faults import fault
from tests.scratch import ANN, Scratch

HOUR = 3600.0
YEARS = 72 * 365 * 86400.0


def now(scratch: Scratch) -> str:
    return utc_text(scratch.clock.utc())


def failed(scratch: Scratch, **fields: Any) -> dict[str, Any]:
    """A task that waits for its retry."""
    task = scratch.running(**fields)
    outcomes = Outcomes(scratch.policies, lambda low, high: low)
    failure = Failure(FailureClass.RETRYABLE, "timeout", "too slow", "a test")
    scratch.do(
        outcomes.apply,
        task,
        Outcome(task["id"], task["fence"], "failed", failure=msgspec.json.encode(failure).decode()),
    )
    return scratch.row(task["id"])


def started(scratch: Scratch) -> list[int]:
    """What one tick of the scheduler starts."""
    scratch.policies.publish([TypeInfo("fetch", "tasks.py:1")])
    rooms = tuple(
        WorkerRoom(row[0], 10, 0, frozenset({"fetch"}), False)
        for row in scratch.query("SELECT id FROM worker")
    )
    rollbacks = Outcomes(scratch.policies, lambda low, high: low).rollbacks
    limits = Limits(rooms, 10, 300.0, "logs", Leasing(random.Random(1)), RouteSettings(), rollbacks)
    done = scratch.do(dispatch, limits, scratch.policies)
    return [run.task_id for runs in done.runs.values() for run in runs]


# ---- waits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [-90.0, -HOUR, -YEARS])
def test_a_wait_that_a_clock_ahead_began_is_over_after_its_own_length(scratch: Scratch, step: float) -> None:
    task = failed(scratch)
    wait = seconds_between(now(scratch), task["next_run_at"])
    scratch.clock.step(step)
    assert scratch.do(restart_waits) == [task["id"]]
    assert scratch.row(task["id"])["next_run_at"] == add_seconds(now(scratch), wait)
    assert scratch.do(restart_waits) == []  # once
    assert started(scratch) == []
    scratch.clock.advance(wait)
    assert started(scratch) == [task["id"]]
    assert started(scratch) == []


def test_what_a_clock_ahead_has_added_and_waits_anew_is_looked_for_when_it_is_due_and_shown(
    scratch: Scratch,
) -> None:
    task = failed(scratch)
    scratch.clock.step(-HOUR)
    scratch.do(restart_waits)
    due = scratch.row(task["id"])["next_run_at"]
    assert now(scratch) < due < task["created_at"]
    assert scratch.do(tasks.next_due) == due
    dated = scratch.do(tasks.next_dated)
    assert dated
    assert dated[:3] == (task["id"], "RETRYING", due)
    with Reader(scratch.path) as reader:
        assert [each["id"] for each in reader.upcoming(now=now(scratch), limit=9)] == [task["id"]]


@pytest.mark.parametrize("step", [90.0, HOUR])
def test_a_step_forward_starts_what_waits_early_and_once(scratch: Scratch, step: float) -> None:
    task = failed(scratch)
    scratch.clock.step(step)
    assert scratch.do(restart_waits) == []
    assert started(scratch) == [task["id"]]
    scratch.clock.step(-step)
    scratch.do(restart_waits)
    assert started(scratch) == []
    assert scratch.one("SELECT count(*) FROM attempt WHERE task_id = ?", task["id"]) == 2


@fault("TF087")
@pytest.mark.parametrize("paused", [False, True])
def test_what_was_added_for_no_time_by_a_clock_ahead_is_due_at_once(scratch: Scratch, paused: bool) -> None:
    scratch.worker()
    task_id = scratch.add()
    if paused:
        scratch.do(control.act, "pause", scratch.row(task_id), ANN, {})
    scratch.clock.step(-YEARS)
    assert started(scratch) == []
    assert scratch.do(restart_waits) == [task_id]
    if paused:
        scratch.do(control.act, "resume", scratch.row(task_id), ANN, {})
    assert started(scratch) == [task_id]


def test_a_time_that_a_person_named_is_left_as_it_is(scratch: Scratch) -> None:
    at = add_seconds(now(scratch), HOUR)
    task_id = scratch.add(scheduled_at=at)
    scratch.clock.step(-2 * HOUR)
    assert scratch.do(restart_waits) == []
    assert scratch.row(task_id)["next_run_at"] == at


def test_the_seconds_in_which_an_act_can_be_undone_are_not_an_hour(scratch: Scratch) -> None:
    task_id = scratch.add()
    scratch.do(requests.add, "cancel", task_id, ANN, not_before=add_seconds(now(scratch), 5.0))
    scratch.clock.step(-HOUR)
    scratch.do(restart_waits)
    assert scratch.do(requests.due) == []
    scratch.clock.advance(5.0)
    assert [row["task_id"] for row in scratch.do(requests.due)] == [task_id]


@pytest.mark.parametrize(("verb", "wish"), [(verb, wish) for wish in MANNERS for verb in MANNERS[wish]])
def test_what_was_asked_before_the_clock_was_set_back_holds_at_once_and_is_closed(
    scratch: Scratch, verb: str, wish: str
) -> None:
    task = scratch.running()
    scratch.do(requests.add, verb, task["id"], ANN)
    scratch.do(tasks.set_wanted, task["id"], wish)
    scratch.clock.step(-90.0)
    assert scratch.do(requests.standing, task["id"]) == verb
    assert scratch.do(requests.actor_of, task["id"], wish) == ANN
    assert [each["verb"] for each in scratch.do(requests.wishes)] == [verb]
    assert (scratch.do(requests.dated, task["id"]), scratch.do(requests.next_dated)) == ([], None)
    scratch.do(requests.close_all_of, task["id"], "done")
    assert scratch.one("SELECT outcome FROM request") == "done"


def test_what_is_dated_ahead_does_not_hold_before_its_time_whatever_the_clock_says(scratch: Scratch) -> None:
    task = scratch.running()
    due = add_seconds(now(scratch), 5.0)
    scratch.do(requests.add, "cancel", task["id"], ANN, not_before=due)
    for step in (0.0, -90.0):
        scratch.clock.step(step)
        scratch.do(requests.close_all_of, task["id"], "the attempt ended")
        assert scratch.do(requests.standing, task["id"]) is None
        assert (len(scratch.do(requests.dated, task["id"])), scratch.do(requests.next_dated)) == (1, due)


def test_a_duration_over_a_step_back_is_not_negative(scratch: Scratch) -> None:
    task = scratch.running()
    scratch.clock.step(-HOUR)
    scratch.do(tasks.transition, task, tasks.SUCCESS, "done", actor="engine")
    payload = scratch.one("SELECT payload_json FROM event_log WHERE event_type = 'TASK_FINISHED'")
    assert '"seconds":0' in payload


# ---- the watch -------------------------------------------------------------------------------------------------------


def test_steps_and_sleep_are_told_apart() -> None:
    start = datetime(2026, 11, 29, tzinfo=UTC)

    def reading(utc: float, monotonic: float, boot: float) -> Reading:
        return Reading(start + timedelta(seconds=utc), monotonic, boot)

    zero = reading(0, 0, 0)
    seen = [
        reading(5, 5, 5),
        reading(6, 5, 5),
        reading(95, 5, 5),
        reading(-85, 5, 5),
        reading(21605, 5, 21605),
        reading(21695, 5, 21605),
    ]
    told = [(stepped(zero, each), slept(zero, each)) for each in seen]
    assert told == [(0, 0), (0, 0), (90, 0), (-90, 0), (0, 21600), (90, 21600)]


class Engine:
    """A writer and a real process that stands for a worker, watched by a warden with a manual clock."""

    def __init__(self, scratch: Scratch, folder: Path) -> None:
        self.scratch, self.clock = scratch, scratch.clock
        self.config = load(db=scratch.path, environ={"HOME": str(folder)}, cwd=folder)
        self.writer = Writer(
            scratch.database, scratch.path, clock=self.clock, boot_id="b", redactor=Redactor()
        )
        self.writer.start()
        self.process = subprocess.Popen(["sleep", "600"])
        who = identity.of(self.process.pid)
        assert who is not None
        began = self.clock.monotonic()
        worker_id = scratch.worker("w", who.pid)
        self.handle = WorkerHandle(worker_id, "w", who, self.process, -1, folder / "j", 4, began, began)
        self.handle.types = {"fetch": TypeInfo("fetch", "tasks.py:1")}
        self.handle.lease_until = self.clock.boot() + self.config.engine.lease
        force, outcomes = Workforce(), Outcomes(scratch.policies, lambda low, high: low)
        force.add(self.handle)
        recorder = Recorder(self.config, scratch.policies, outcomes)
        reception = Reception(
            self.config, self.clock, self.writer, recorder, scratch.policies, force, lambda: None
        )
        self.warden = Warden(
            self.config,
            self.clock,
            self.writer,
            scratch.policies,
            force,
            reception,
            engine_id=scratch.engine_id,
            socket_path=folder / "s",
            code_version="0",
            outcomes=outcomes,
            on_change=lambda: None,
        )

    async def ticks(self, seconds: float) -> None:
        """Let so much time pass, with the warden's ticks in it; the worker says nothing."""
        for _ in range(int(seconds / 5)):
            self.clock.advance(5)
            await self.warden.tick()

    async def close(self) -> None:
        self.process.kill()
        self.process.wait()
        await self.writer.close()


@pytest_asyncio.fixture
async def engine(scratch: Scratch, tmp_path: Path) -> AsyncIterator[Engine]:
    made = Engine(scratch, tmp_path)
    yield made
    await made.close()


async def test_a_worker_that_is_silent_for_its_whole_lease_is_ended(engine: Engine) -> None:
    await engine.ticks(engine.config.engine.lease + 100)
    assert engine.handle.doomed


@pytest.mark.parametrize("step", [90.0, -90.0, 10 * HOUR, -10 * HOUR])
async def test_a_step_of_the_wall_clock_judges_nobody(engine: Engine, step: float) -> None:
    await engine.ticks(30)
    engine.clock.step(step)
    await engine.ticks(50)
    assert not engine.handle.doomed
    assert not engine.handle.suspect


async def test_six_hours_of_suspend_give_everyone_a_fresh_lease(engine: Engine) -> None:
    task = engine.scratch.start(engine.scratch.add(), engine.handle.id)
    await engine.ticks(engine.config.engine.suspect_after - 10)
    engine.clock.suspend(6 * HOUR)
    await engine.ticks(60)
    assert not engine.handle.doomed
    assert engine.handle.lease_until > engine.clock.boot()
    row = engine.scratch.row(task["id"])
    assert (row["state"], row["fence"]) == (tasks.RUNNING, task["fence"])
    assert row["lease_until_boot"] > engine.clock.boot()


async def test_steps_and_suspend_are_put_on_record_and_told_to_the_engine(engine: Engine) -> None:
    heard: list[float] = []
    watch = ClockWatch(engine.clock, engine.writer, heard.append)
    waiting = failed(engine.scratch)
    engine.clock.advance(5)
    await watch.tick()
    engine.clock.suspend(6 * HOUR)
    await watch.tick()
    engine.clock.step(-7 * HOUR)
    await watch.tick()
    await watch.tick()
    assert heard == [-7 * HOUR]
    kinds = ("CLOCK_STEPPED", "HOST_SUSPENDED", "WAITS_RESTARTED")
    assert [each for each in engine.scratch.events() if each[0] in kinds] == [
        ("HOST_SUSPENDED", "suspended"),
        ("CLOCK_STEPPED", "clock_set_back"),
        ("WAITS_RESTARTED", "clock_set_back"),
    ]
    assert seconds_between(now(engine.scratch), engine.scratch.row(waiting["id"])["next_run_at"]) < 120


async def test_after_a_reboot_every_lease_of_the_old_boot_has_ended_whatever_has_its_pid_now(
    engine: Engine,
) -> None:
    scratch = engine.scratch
    task = scratch.start(scratch.add(), engine.handle.id)
    scratch.database.execute_sql(
        "UPDATE worker SET boot_id = 'another-boot', start_time = ?", (engine.handle.identity.start_time,)
    )
    new_engine = scratch.engine_id + 1
    await recover(engine.config, engine.clock, engine.writer, scratch.policies, new_engine)
    assert scratch.state(task["id"]) is not tasks.RUNNING
    assert engine.process.poll() is None, "a stranger with the old worker's pid was ended"
    assert scratch.row(task["id"])["fence"] > task["fence"] or scratch.row(task["id"])["worker_id"] is None
    moves = [each for each in scratch.events(task["id"]) if each[0] == "TASK_STATE"]
    await recover(engine.config, engine.clock, engine.writer, scratch.policies, new_engine)
    assert [each for each in scratch.events(task["id"]) if each[0] == "TASK_STATE"] == moves


@fault("TF092")
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/Chicago", "Pacific/Chatham"])
def test_the_zone_of_the_host_changes_nothing(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    task = failed(scratch)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert scratch.do(restart_waits) == []
        assert started(scratch) == []
        scratch.clock.advance(seconds_between(now(scratch), task["next_run_at"]))
        assert started(scratch) == [task["id"]]
    finally:
        monkeypatch.undo()
        time.tzset()
