from __future__ import annotations

from typing import Any

import msgspec
import pytest

from taskdeck.engine.commands import _UNITS
from taskdeck.engine.rules.declarations import ResourceDeclaration, RouteDeclaration
from taskdeck.engine.rules.failures import Failure, FailureClass
from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.rules.route_health import Sample
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.rules.timing import seconds_between
from taskdeck.engine.run import control
from taskdeck.engine.run.losing import lose
from taskdeck.engine.run.messages import TypeInfo
from taskdeck.engine.store import holds, routes, slots
from tests import replay
from tests.faults import fault
from tests.run.ticking import Engine
from tests.scratch import ANN, Scratch


def browsers(count: int = 3, **fields: Any) -> list[ResourceDeclaration]:
    return [ResourceDeclaration(f"browser-{number}", "browser", **fields) for number in range(1, count + 1)]


def failed(class_: FailureClass, detail: str = "") -> str:
    return msgspec.json.encode(Failure(class_, "broken", "it broke", "a test", detail=detail)).decode()


def test_a_tick_starts_what_is_due_in_order_with_all_it_needs(scratch: Scratch) -> None:
    late, first = scratch.add(), scratch.add(priority=1, timeout=60.0, max_retry=2)
    runs = Engine(scratch).tick()
    assert [run.task_id for run in runs] == [first, late]
    assert (runs[0].timeout, runs[0].max_retry, runs[0].attempt, runs[0].checkpoint) == (60.0, 2, 1, "{}")
    assert scratch.one("SELECT count(*) FROM attempt WHERE ended_at IS NULL") == 2


@fault("TF199")
def test_tasks_that_begin_together_go_out_in_their_order_and_their_fences_grow_in_that_of_the_audit(
    scratch: Scratch,
) -> None:
    ids = [scratch.add(priority=priority) for priority in (300, 100, 200)]
    runs = Engine(scratch).tick()
    assert [run.task_id for run in runs] == [ids[1], ids[2], ids[0]]
    told = scratch.query(
        "SELECT task_id, payload_json ->> 'fence' FROM event_log WHERE reason = 'dispatched' ORDER BY event_id"
    )
    opened = scratch.query("SELECT task_id, fence FROM attempt ORDER BY id")
    assert told == opened == sorted(((run.task_id, run.fence) for run in runs), key=lambda pair: pair[1])
    assert {run.attempt_id for run in runs} == {1, 2, 3}
    assert replay.check(scratch.path) == []


def test_five_hundred_blocked_tasks_do_not_hide_the_one_behind_them(scratch: Scratch) -> None:
    scratch.declare(*browsers(1))
    for _ in range(500):
        scratch.add("a", needs='["browser"]')
    last = scratch.add("b")
    engine = Engine(scratch)
    engine.tick()
    started = engine.tick() or scratch.query("SELECT id FROM task WHERE state = 'RUNNING'")
    assert scratch.state(last) is TaskState.RUNNING
    assert scratch.one("SELECT count(*) FROM task WHERE state = 'RUNNING'") == 2, started


def test_a_held_queue_starts_nothing_until_it_is_released(scratch: Scratch) -> None:
    scratch.add()
    scratch.do(holds.hold, "all", ANN)
    engine = Engine(scratch)
    assert engine.tick() == []
    scratch.do(holds.release, "all")
    assert len(engine.tick()) == 1


@fault("TF044")
def test_the_wake_up_is_the_next_due_time(scratch: Scratch) -> None:
    scratch.add(scheduled_at="2026-11-29T12:30:00.000000Z")
    assert Engine(scratch).passes().wake_at == "2026-11-29T12:30:00.000000Z"


def test_wishes_of_people_come_with_the_tick(scratch: Scratch) -> None:
    task_id = scratch.add()
    engine = Engine(scratch)
    engine.tick()
    scratch.do(control.cancel, scratch.row(task_id), ANN, {})
    assert [wish["verb"] for wish in engine.passes().wishes] == ["cancel"]


def test_a_task_gets_all_it_needs_or_nothing(scratch: Scratch) -> None:
    scratch.declare(*browsers(3), ResourceDeclaration("gpu", "gpu"))
    scratch.add(needs='["browser:2"]')
    both = scratch.add(needs='["browser:2","gpu"]')
    single = scratch.add(needs='["browser"]')
    engine = Engine(scratch)
    runs = {run.task_id: run.resources for run in engine.tick()}
    assert both not in runs
    assert runs[single] == {"browser": ["browser-3"]}
    assert scratch.slots() == {
        "browser-1": "LEASED",
        "browser-2": "LEASED",
        "browser-3": "LEASED",
        "gpu": "AVAILABLE",
    }


def test_a_resource_is_running_while_it_is_used_rests_and_comes_back(scratch: Scratch) -> None:
    scratch.declare(*browsers(1, min_reuse=5.0))
    scratch.add(needs='["browser"]')
    second = scratch.add(needs='["browser"]')
    engine = Engine(scratch)
    (run,) = engine.tick()
    engine.begin(run)
    assert scratch.slots() == {"browser-1": "RUNNING"}
    engine.end(run)
    assert scratch.slots() == {"browser-1": "COOLDOWN"}
    assert engine.passes().wake_at == "2026-11-29T12:00:05.000000Z"
    scratch.clock.advance(5)
    assert [run.task_id for run in engine.tick()] == [second]
    kinds = [kind for kind, _ in scratch.events() if kind.startswith("RESOURCE")]
    assert kinds == [
        "RESOURCE_LEASED",
        "RESOURCE_STATE",
        "RESOURCE_RELEASED",
        "RESOURCE_STATE",
        "RESOURCE_LEASED",
    ]


def test_a_broken_resource_is_at_fault_and_its_task_goes_to_another(scratch: Scratch) -> None:
    scratch.declare(*browsers(2))
    task_id = scratch.add(needs='["browser"]')
    engine = Engine(scratch)
    (run,) = engine.tick()
    engine.begin(run)
    engine.end(run, "failed", failure=failed(FailureClass.RESOURCE_FAULT, "browser-1"))
    row = scratch.row(task_id)
    assert (row["state"], row["reason"], row["retry_count"], row["resource_faults"]) == (
        TaskState.PENDING,
        "resource_fault",
        0,
        1,
    )
    assert scratch.slots() == {"browser-1": "FAULT", "browser-2": "AVAILABLE"}
    (again,) = engine.tick()
    assert again.resources == {"browser": ["browser-2"]}


def test_a_failing_task_leaves_its_resource_in_order(scratch: Scratch) -> None:
    scratch.declare(*browsers(1))
    scratch.add(needs='["browser"]')
    engine = Engine(scratch)
    (run,) = engine.tick()
    engine.begin(run)
    engine.end(run, "failed", failure=failed(FailureClass.RETRYABLE))
    assert scratch.slots() == {"browser-1": "AVAILABLE"}


def test_what_a_lost_worker_held_is_given_back_once(scratch: Scratch) -> None:
    scratch.declare(*browsers(2))
    task_id = scratch.add(needs='["browser:2"]')
    engine = Engine(scratch)
    (run,) = engine.tick()
    engine.begin(run)
    for _ in range(2):
        now = scratch.row(task_id)
        if now["state"] is TaskState.RUNNING:
            scratch.do(lose, now, "killed", started=True, policies=scratch.policies, max_losses=3)
    assert set(scratch.slots().values()) == {"AVAILABLE"}
    assert [kind for kind, _ in scratch.events()].count("RESOURCE_RELEASED") == 2
    assert scratch.do(slots.sweep) == 0


def test_capacity_is_so_many_slots_of_one_thing(scratch: Scratch) -> None:
    scratch.declare(ResourceDeclaration("gpu", "gpu", capacity=2))
    for _ in range(3):
        scratch.add(needs='["gpu"]')
    assert [run.resources for run in Engine(scratch).tick()] == [{"gpu": ["gpu/1"]}, {"gpu": ["gpu/2"]}]


def test_disabling_a_busy_resource_drains_it(scratch: Scratch) -> None:
    scratch.declare(*browsers(1))
    scratch.add(needs='["browser"]')
    engine = Engine(scratch)
    (run,) = engine.tick()
    engine.begin(run)
    assert "drained" in scratch.do(slots.act, slots.RESOURCES, "browser-1", "disable", ANN)
    assert scratch.slots() == {"browser-1": "RUNNING"}
    engine.end(run)
    assert scratch.slots() == {"browser-1": "DISABLED"}
    scratch.do(slots.act, slots.RESOURCES, "browser-1", "enable", ANN)
    assert scratch.slots() == {"browser-1": "AVAILABLE"}


def test_a_resource_that_is_no_longer_declared_takes_no_new_lease(scratch: Scratch) -> None:
    scratch.declare(*browsers(2))
    scratch.declare(*browsers(1))
    scratch.add(needs='["browser:2"]')
    assert Engine(scratch).tick() == []


def eu(number: int = 1, **fields: Any) -> RouteDeclaration:
    return RouteDeclaration(f"eu-{number}", "http", "127.0.0.1", 8000 + number, group="eu", **fields)


def test_a_route_of_the_group_is_leased_without_its_password_in_the_database(
    scratch: Scratch, monkeypatch: Any
) -> None:
    monkeypatch.setenv("EU_PASSWORD", "hunter2hunter2")
    scratch.declare(eu(username="bob", secret_ref="env:EU_PASSWORD"))
    scratch.add(route="eu")
    (run,) = Engine(scratch).tick()
    assert run.route is not None
    assert (run.route.route_id, run.route.username, run.route.secret_ref) == (
        "eu-1",
        "bob",
        "env:EU_PASSWORD",
    )
    assert "hunter2" not in repr(run)
    assert b"hunter2" not in scratch.path.read_bytes()
    assert b"hunter2" not in scratch.path.with_name("taskdeck.db-wal").read_bytes()


def test_the_password_of_a_route_that_a_person_added_is_masked_in_every_event(
    scratch: Scratch, monkeypatch: Any, tmp_path: Any
) -> None:
    (tmp_path / "pw").write_text("unguessable-1\n")
    (tmp_path / "pw").chmod(0o600)
    monkeypatch.setenv("EU_PASSWORD", "unguessable-2")
    for number, reference in enumerate((f"file:{tmp_path / 'pw'}", "env:EU_PASSWORD"), 1):
        add = {"id": f"eu-{number}", "url": f"http://bob@127.0.0.1:808{number}", "password": reference}
        scratch.do(_UNITS["route_add"], add, ANN)
    masked = scratch.do(lambda tx: tx.redactor.text("unguessable-1 and unguessable-2"))
    assert masked == "*** and ***"


def test_without_a_usable_route_a_task_waits_unless_it_may_go_direct(scratch: Scratch) -> None:
    scratch.declare(eu())
    scratch.do(slots.act, slots.ROUTES, "eu-1", "disable", ANN)
    scratch.add(route="eu")
    direct = scratch.add(route="eu", allow_direct=True)
    runs = Engine(scratch).tick()
    assert [(run.task_id, run.route) for run in runs] == [(direct, None)]


def test_an_ejected_route_is_not_given_out_and_a_busy_one_is_not_revoked(scratch: Scratch) -> None:
    scratch.declare(eu(1), eu(2))
    scratch.add(route="eu-1")
    engine = Engine(scratch)
    (run,) = engine.tick()
    engine.begin(run)
    for _ in range(3):
        sample = Sample(scratch.clock.boot(), ErrorType.TUNNEL_TIMEOUT, stages=1)
        scratch.do(
            routes.record,
            "eu-1",
            sample,
            source="probe",
            settings=scratch.config.routing,
            uniform=lambda low, high: (low + high) / 2,
        )
    assert scratch.slots("route")["eu-1"] == "RUNNING"
    scratch.add(route="eu")
    assert [each.route and each.route.route_id for each in engine.tick()] == ["eu-2"]
    engine.end(run)
    assert scratch.slots("route")["eu-1"] == "COOLDOWN"
    assert scratch.query("SELECT cooldown_reason FROM route_slot WHERE route_id = 'eu-1'") == [("HEALTH",)]


def test_the_replay_check_names_a_second_holder_of_a_browser(scratch: Scratch) -> None:
    scratch.declare(*browsers(2))
    scratch.add(needs='["browser:2"]')
    engine = Engine(scratch)
    (run,) = engine.tick()
    engine.begin(run)
    assert replay.check(scratch.path) == []
    lease = {"fence": 99, "from": "AVAILABLE", "to": "LEASED"}
    scratch.do(
        lambda tx: tx.event(
            "RESOURCE_LEASED",
            actor="engine",
            task_id=1,
            resource_id="browser-1",
            reason="claimed",
            payload=lease,
        )
    )
    assert any("browser-1" in problem and "fence 99" in problem for problem in replay.check(scratch.path))


def test_a_route_that_its_holder_found_broken_loses_health_and_the_task_comes_back_slower_each_time(
    scratch: Scratch,
) -> None:
    scratch.declare(eu(1))
    task_id = scratch.add(route="eu")
    engine = Engine(scratch)
    waits = []
    for _ in range(3):
        (run,) = engine.tick()
        engine.begin(run)
        engine.end(run, "failed", failure=failed(FailureClass.RESOURCE_FAULT, "eu-1"))
        row = scratch.row(task_id)
        waits.append(seconds_between(row["updated_at"], row["next_run_at"]))
        scratch.clock.advance(waits[-1])
    assert waits == [0.0, 1.0, 2.0]
    assert scratch.query("SELECT consecutive_failures, score FROM route_health") == [(3, 55.0)]


def test_a_capacity_that_shrinks_and_grows_again_brings_its_slots_back(scratch: Scratch) -> None:
    scratch.declare(ResourceDeclaration("gpu", "gpu", capacity=2))
    for _ in range(2):
        scratch.add(needs='["gpu"]')
    engine = Engine(scratch)
    first, second = engine.tick()
    engine.begin(first)
    engine.begin(second)
    scratch.declare(ResourceDeclaration("gpu", "gpu", capacity=1))
    engine.end(second)
    assert sorted(scratch.query("SELECT number, state FROM resource_slot")) == [
        (1, "RUNNING"),
        (2, "DISABLED"),
    ]
    scratch.declare(ResourceDeclaration("gpu", "gpu", capacity=2))
    assert scratch.slots() == {"gpu/1": "RUNNING", "gpu/2": "AVAILABLE"}
    assert replay.check(scratch.path) == []


@pytest.mark.parametrize(
    ("column", "text"),
    [("ending", '{"x":1}'), ("needs", "[7]"), ("needs", "7")]
    + [(column, "many") for column in ("timeout", "max_retry", "bandwidth")],
)
def test_a_task_whose_row_can_not_be_read_goes_to_review_and_the_others_start(
    scratch: Scratch, column: str, text: str
) -> None:
    first, bad, last = (scratch.add() for _ in range(3))
    scratch.do(lambda tx: tx.connection.execute(f"UPDATE task SET {column} = ? WHERE id = ?", (text, bad)))
    engine = Engine(scratch)
    assert [run.task_id for run in engine.tick()] == [first, last]
    row = scratch.row(bad)
    assert (row["state"], row["reason"], row["worker_id"]) == (TaskState.NEEDS_REVIEW, "in_doubt", None)
    assert scratch.events(bad).count(("ALERT_RAISED", "row_failed")) == 1
    assert engine.tick() == []


def test_a_limit_of_bandwidth_goes_with_the_lease_shared_among_the_workers_that_may_use_the_route(
    scratch: Scratch,
) -> None:
    limits = {"one": (1, 4, 8e6), "three": (3, 4, 8e6 / 3), "many": (9, 4, 2e6)}
    scratch.declare(
        *(
            RouteDeclaration(
                name, "http", "127.0.0.1", 8000 + at, group=name, capacity=capacity, bandwidth=8e6
            )
            for at, (name, (capacity, _, _)) in enumerate(limits.items())
        )
    )
    engine = Engine(scratch)
    engine.leasing.share = 4
    engine.publish(TypeInfo("fetch", "tasks.py", bandwidth=1e6))
    for name in limits:
        scratch.add(route=name)
    found = {run.route.route_id: run.route.bandwidth for run in engine.tick() if run.route}
    assert found == {name: share for name, (_, _, share) in limits.items()}
    scratch.add()
    [run] = engine.tick()
    assert run.bandwidth == 1e6
    scratch.add(bandwidth=5e5)  # what a task says itself stands above its type
    scratch.add("another", bandwidth=2e6)
    assert [run.bandwidth for run in engine.tick()] == [5e5, 2e6]
