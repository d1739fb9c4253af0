"""What targets do: to the routes that reach them, to their own tasks, and who is charged for a failure on the way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from taskdeck.engine.rules.declarations import RouteDeclaration
from taskdeck.engine.rules.failures import Failure, FailureClass
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.run.messages import RouteResult, Run
from taskdeck.engine.store import circuits, route_targets, slots
from tests.faults import fault
from tests.run.ticking import Engine
from tests.scratch import Scratch

SHOP = "shop.example.org"


def routes(*names: str, **fields: Any) -> list[RouteDeclaration]:
    return [
        RouteDeclaration(name, "http", "127.0.0.1", 8000 + n, group="eu", **fields)
        for n, name in enumerate(names)
    ]


@pytest.fixture
def engine(scratch: Scratch) -> Engine:
    scratch.declare(*routes("a", "b", "c", capacity=4))
    return Engine(scratch)


def run_of(engine: Engine, target: str = SHOP, route: str = "eu", type_name: str = "fetch") -> Run:
    """A task of its own that has just started."""
    task_id = engine.scratch.add(type_name, route=route, target=target)
    (run,) = [each for each in engine.tick() if each.task_id == task_id]
    engine.begin(run)
    return run


def told(run: Run, status: int = 0, error: str = "", target: str = SHOP, **more: Any) -> RouteResult:
    assert run.route is not None
    more = {"secure": bool(status), **more}
    return RouteResult(run.task_id, run.fence, run.route.route_id, target, error, status, **more)


def refused(engine: Engine, route: str, target: str = SHOP, times: int = 2, **more: Any) -> None:
    run = run_of(engine, "", route)
    engine.tell(*[told(run, 403, target=target, **more)] * times)
    engine.end(run)


def failure(kind: str, class_: FailureClass = FailureClass.RESOURCE_FAULT, detail: str = "") -> str:
    return msgspec.json.encode(Failure(class_, kind, "it broke", "a test", detail=detail)).decode()


def fails(engine: Engine, run: Run) -> None:
    engine.end(run, "failed", failure=failure("timeout", FailureClass.RETRYABLE))


def given(engine: Engine, target: str, route: str = "eu", count: int = 6) -> set[str]:
    """The routes that so many tasks for this target get."""
    for _ in range(count):
        engine.scratch.add(route=route, target=target)
    runs = engine.tick()
    for run in runs:
        engine.end(run)
    return {run.route.route_id for run in runs if run.route}


# ---- a target that refuses a route ------------------------------------------------------------------------------------


def test_worked_example_22_a_route_that_a_target_refuses_twice_is_given_for_other_targets_only(
    scratch: Scratch, engine: Engine
) -> None:
    before = scratch.one("SELECT score FROM route_health WHERE route_id = 'a'")
    refused(engine, "a")
    assert given(engine, SHOP) == {"b", "c"}
    assert "a" in given(engine, "other.example.org")
    assert scratch.one("SELECT score FROM route_health WHERE route_id = 'a'") == before
    scratch.clock.advance(899)
    assert given(engine, SHOP, "a", 1) == set()
    scratch.clock.advance(1)
    run = run_of(engine, "", "a")
    engine.tell(told(run, 403))  # the third in a row
    assert scratch.do(route_targets.blocked_at, SHOP) == {"a": scratch.clock.boot() + 1800}


def test_a_retry_after_is_obeyed_and_a_success_forgets_the_row(scratch: Scratch, engine: Engine) -> None:
    refused(engine, "a", retry_after=30.0)
    assert scratch.do(route_targets.blocked_at, SHOP) == {"a": scratch.clock.boot() + 30}
    scratch.clock.advance(30)
    run = run_of(engine, "", "a")
    engine.tell(told(run, 200), told(run, 403))
    assert scratch.do(route_targets.blocked_at, SHOP) == {}


def test_a_task_whose_target_refuses_all_its_routes_waits_and_hides_no_other(
    scratch: Scratch, engine: Engine
) -> None:
    engine.scratch.declare(*routes("a"))
    refused(engine, "a")
    waiting = [scratch.add(route="eu", target=SHOP) for _ in range(200)]
    other = scratch.add(route="eu", target="other.example.org")
    passed = engine.passes()
    assert [run.task_id for runs in passed.runs.values() for run in runs] == [other]
    assert scratch.state(waiting[0]) is TaskState.PENDING
    assert passed.wake_at is not None
    scratch.clock.advance(900)
    engine.end(next(run for runs in passed.runs.values() for run in runs))
    assert [run.task_id for run in engine.tick()] == waiting[:1]


def test_a_route_that_three_targets_refuse_rests_and_a_busy_one_when_its_attempt_ends(
    scratch: Scratch, engine: Engine
) -> None:
    holder = run_of(engine, "", "a")
    for target in ("x.example", "y.example", "z.example"):
        refused(engine, "a", target)
    states = scratch.query(
        "SELECT state, cooldown_reason FROM route_slot WHERE route_id = 'a' ORDER BY state"
    )
    assert states.count(("COOLDOWN", "BLOCKED")) == 3
    assert ("RUNNING", None) in states
    engine.end(holder)
    assert set(scratch.slots("route").values()) == {"COOLDOWN", "AVAILABLE"}
    assert given(engine, "other.example.org", "a", 1) == set()


def test_a_target_that_refuses_three_routes_is_its_own_affair(scratch: Scratch, engine: Engine) -> None:
    for route in "ab":
        refused(engine, route)
    last = run_of(engine, SHOP, "c")
    engine.tell(told(last, 403), told(last, 403))
    engine.end(last)
    assert scratch.do(circuits.refuses_all, SHOP)
    assert ("CIRCUIT_OPENED", "refusals") in scratch.events()
    assert scratch.do(circuits.of, "fetch", SHOP).until == scratch.clock.boot() + 900
    stranger = run_of(engine, "", "c")
    engine.tell(*[told(stranger, 403)] * 5)
    assert scratch.one("SELECT blocked FROM route_target WHERE route_id = 'c'") == 2


def test_an_answer_to_the_trial_closes_the_circuit_of_a_refusing_target(
    scratch: Scratch, engine: Engine
) -> None:
    test_a_target_that_refuses_three_routes_is_its_own_affair(scratch, engine)
    scratch.clock.advance(900)
    first = run_of(engine, SHOP)
    scratch.add(route="eu", target=SHOP)
    assert engine.tick() == []
    engine.tell(told(first, 403))
    assert scratch.do(circuits.of, "fetch", SHOP).level == 2
    scratch.clock.advance(900)
    engine.end(first)
    (second,) = engine.tick()
    engine.tell(told(second, 404))
    assert not scratch.do(circuits.of, "fetch", SHOP).is_open
    assert ("CIRCUIT_CLOSED", "refusals") in scratch.events()


# ---- a target that fails ----------------------------------------------------------------------------------------------


def opened(engine: Engine, failures: int = 5) -> None:
    """Five tasks have failed at the shop."""
    runs = [run_of(engine, SHOP, "") for _ in range(failures)]
    for run in runs:
        fails(engine, run)


@fault("TF194")
def test_after_the_rest_of_a_circuit_exactly_one_of_fifty_waiting_tasks_is_tried(scratch: Scratch) -> None:
    engine = Engine(scratch)
    opened(engine)
    waiting = [scratch.add(target=SHOP) for _ in range(50)]
    assert engine.tick() == []
    scratch.clock.advance(60)
    (trial,) = engine.tick()
    for _ in range(3):
        assert engine.tick() == []
    fails(engine, trial)
    assert engine.tick() == []
    scratch.clock.advance(119)
    assert engine.tick() == []
    scratch.clock.advance(1)
    (trial,) = engine.tick()
    engine.end(trial)
    assert (
        len(engine.tick()) == 49 - 1 + 5 + 1 - len([1]) + 0 or scratch.state(waiting[-1]) is TaskState.RUNNING
    )


@fault("TF196")
def test_a_target_that_accepts_and_never_answers_gets_one_trial_while_half_open(scratch: Scratch) -> None:
    engine = Engine(scratch, free=200)
    for _ in range(100):
        scratch.add(target=SHOP)
    hung = engine.tick()
    assert len(hung) == 100
    for run in hung[:5]:
        fails(engine, run)
    scratch.clock.advance(60)
    assert engine.tick() == []  # what was begun before still hangs there: it is waited for first
    for run in hung[5:]:
        fails(engine, run)
    in_flight = 0
    for _ in range(20):
        scratch.clock.advance(30)
        engine.tick()
        in_flight = max(in_flight, scratch.one("SELECT count(*) FROM task WHERE state = 'RUNNING'"))
    assert in_flight == 1


def test_what_hangs_since_before_the_circuit_opened_is_waited_for_once_only(scratch: Scratch) -> None:
    engine = Engine(scratch)
    run_of(engine, SHOP, "")
    opened(engine)
    scratch.add(target=SHOP)
    scratch.clock.advance(119)
    assert engine.tick() == []
    scratch.clock.advance(1)
    assert len(engine.tick()) == 1


def test_an_open_circuit_holds_only_its_own_type_and_target_and_hides_nobody(scratch: Scratch) -> None:
    engine = Engine(scratch)
    opened(engine)
    for _ in range(200):
        scratch.add(target=SHOP)
    free = [scratch.add("mail", target=SHOP), scratch.add(target="other.example.org"), scratch.add()]
    assert sorted(run.task_id for run in engine.tick()) == free


@pytest.mark.parametrize("end", ["drained", "cancelled", "fatal", "resource_fault"])
def test_a_trial_that_tells_nothing_makes_room_for_the_next(scratch: Scratch, end: str) -> None:
    engine = Engine(scratch)
    opened(engine)
    for _ in range(3):
        scratch.add(target=SHOP)
    scratch.clock.advance(60)
    (trial,) = engine.tick()
    if end in ("fatal", "resource_fault"):
        engine.end(trial, "failed", failure=failure("broken", FailureClass(end)))
    else:
        engine.end(trial, end)
    assert scratch.do(circuits.of, "fetch", SHOP).level == 1
    assert len(engine.tick()) == 1


def test_a_trial_whose_worker_is_lost_makes_room_for_the_next(scratch: Scratch) -> None:
    engine = Engine(scratch)
    opened(engine)
    for _ in range(3):
        scratch.add(target=SHOP)
    scratch.clock.advance(60)
    (trial,) = engine.tick()
    engine.begin(trial)
    engine.lose(trial)
    assert len(engine.tick()) == 1


def test_an_open_circuit_stays_open_over_a_reboot_until_its_rest_is_over(scratch: Scratch) -> None:
    engine = Engine(scratch)
    opened(engine)
    scratch.add(target=SHOP)
    scratch.clock.advance(20)
    scratch.tx.boot_id = "next-boot"
    scratch.do(circuits.rebase)
    assert engine.tick() == []
    scratch.clock.advance(40)
    assert len(engine.tick()) == 1


def test_each_type_has_a_circuit_and_a_trial_of_its_own(scratch: Scratch) -> None:
    engine = Engine(scratch)
    for type_name in ("fetch", "mail"):
        for run in [run_of(engine, SHOP, "", type_name) for _ in range(5)]:
            fails(engine, run)
        for _ in range(3):
            scratch.add(type_name, target=SHOP)
    scratch.clock.advance(60)
    assert sorted(run.type for run in engine.tick()) == ["fetch", "mail"]


def test_why_says_what_a_task_of_an_open_circuit_waits_for(scratch: Scratch) -> None:
    engine = Engine(scratch)
    opened(engine)
    (gate,) = scratch.do(circuits.gates, scratch.config.circuit).values()
    assert (gate.free, gate.words) == (0, f"{SHOP} keeps failing: a trial at 2026-11-29T12:01:00.000000Z")
    scratch.clock.advance(60)
    scratch.add(target=SHOP)
    engine.tick()
    (gate,) = scratch.do(circuits.gates, scratch.config.circuit).values()
    assert "one trial at a time" in gate.words


def test_failures_with_a_success_between_open_nothing(scratch: Scratch) -> None:
    engine = Engine(scratch)
    for _ in range(3):
        opened(engine, 4)
        engine.end(run_of(engine, SHOP, ""))
    assert scratch.query("SELECT * FROM circuit") == []


def test_a_task_of_unknown_target_is_held_by_no_circuit(scratch: Scratch) -> None:
    engine = Engine(scratch)
    for _ in range(10):
        fails(engine, run_of(engine, "", ""))
    assert scratch.query("SELECT * FROM circuit") == []


# ---- whose fault it is ------------------------------------------------------------------------------------------------


def tunnel_fails(engine: Engine, run: Run) -> None:
    assert run.route is not None
    engine.tell(told(run, error="TUNNEL_FAILED"))
    engine.end(run, "failed", failure=failure("tunnel_failed", detail=run.route.route_id))


def test_a_tunnel_that_nobody_gets_through_is_the_targets_failure(scratch: Scratch, engine: Engine) -> None:
    run = run_of(engine, SHOP, "a")
    tunnel_fails(engine, run)
    assert scratch.query("SELECT consecutive_failures FROM route_health WHERE route_id = 'a'") == [(0,)]
    row = scratch.row(run.task_id)
    assert (row["state"], row["retry_count"], row["resource_faults"]) == (TaskState.RETRYING, 1, 0)


def test_a_status_that_a_proxy_may_have_made_up_is_no_witness(scratch: Scratch, engine: Engine) -> None:
    witness = run_of(engine, SHOP, "b")
    engine.tell(told(witness, 503, secure=False))
    run = run_of(engine, SHOP, "a")
    tunnel_fails(engine, run)
    assert scratch.row(run.task_id)["state"] is TaskState.RETRYING


def test_a_tunnel_that_another_route_gets_through_is_the_routes_failure(
    scratch: Scratch, engine: Engine
) -> None:
    witness = run_of(engine, SHOP, "b")
    engine.tell(told(witness, 503))  # whatever it says, it was reached
    scratch.clock.advance(300)
    run = run_of(engine, SHOP, "a")
    tunnel_fails(engine, run)
    assert scratch.query("SELECT consecutive_failures FROM route_health WHERE route_id = 'a'") == [(1,)]
    assert scratch.row(run.task_id)["resource_faults"] == 1
    scratch.clock.advance(1)
    late = run_of(engine, SHOP, "a")
    tunnel_fails(engine, late)
    assert scratch.row(late.task_id)["state"] is TaskState.RETRYING


def test_a_failure_that_is_reported_and_then_ends_the_attempt_counts_once(
    scratch: Scratch, engine: Engine
) -> None:
    run = run_of(engine, SHOP, "a")
    engine.tell(told(run, error="PROXY_AUTH"), told(run, error="PROXY_AUTH"))
    engine.end(run, "failed", failure=failure("proxy_auth", detail="a"))
    assert scratch.query("SELECT state FROM route_slot WHERE route_id = 'a'") == [("COOLDOWN",)] * 4


@pytest.mark.parametrize(
    ("status", "successes", "fail", "blocked"),
    [(200, 1, 0, 0), (304, 1, 0, 0), (404, 0, 0, 0), (500, 0, 1, 0), (403, 0, 0, 1), (429, 0, 0, 1)],
)
def test_a_status_belongs_to_the_target_or_the_task_and_never_hurts_the_route(
    scratch: Scratch, engine: Engine, status: int, successes: int, fail: int, blocked: int
) -> None:
    engine.tell(told(run_of(engine, SHOP, "a"), status, ms=40.0))
    health = "SELECT consecutive_successes, consecutive_failures FROM route_health WHERE route_id = 'a'"
    assert scratch.query(health) == [(successes, 0)]
    assert scratch.query("SELECT fail, blocked FROM route_target") == [(fail, blocked)]


@pytest.mark.parametrize("ms", [0.0, -4.0, float("inf")])
def test_milliseconds_that_can_not_be_are_no_latency(scratch: Scratch, engine: Engine, ms: float) -> None:
    engine.tell(told(run_of(engine, SHOP, "a"), 200, ms=ms))
    assert scratch.query("SELECT latency_ms FROM route_health WHERE route_id = 'a'") == [(None,)]


# ---- no route at all --------------------------------------------------------------------------------------------------


def out(scratch: Scratch, *names: str) -> None:
    for name in names:
        scratch.do(slots.act, slots.ROUTES, name, "disable", "cli:ann")


@fault("TF192")
def test_without_any_route_due_tasks_wait_uncharged_with_one_alert_and_go_on_when_one_is_back(
    scratch: Scratch, engine: Engine
) -> None:
    run = run_of(engine, SHOP, "a")
    for _ in range(2):
        engine.tell(told(run, error="PROXY_AUTH"))
        scratch.do(lambda tx: tx.connection.execute("DELETE FROM route_sample"))
    engine.end(run)  # a is in FAULT
    out(scratch, "b", "c")
    tasks = [scratch.add(route="eu", target=SHOP) for _ in range(10)]
    for _ in range(5):
        assert engine.tick() == []
        scratch.clock.advance(10)
    assert {
        (row[0], row[1]) for row in scratch.query("SELECT state, attempt FROM task WHERE id >= ?", tasks[0])
    } == {("PENDING", 0)}
    assert scratch.events().count(("ALERT_RAISED", "no_route")) == 1
    scratch.do(
        lambda tx: tx.connection.execute("UPDATE route_slot SET state = 'AVAILABLE' WHERE route_id = 'b'")
    )
    assert [run.task_id for run in engine.tick()] == tasks[:4]
    assert scratch.events().count(("ALERT_CLEARED", "no_route")) == 1


@fault("TF233")
def test_four_attempts_that_report_the_same_dead_route_at_once_make_one_alert_of_each_kind(
    scratch: Scratch, engine: Engine
) -> None:
    out(scratch, "b", "c")
    runs = [run_of(engine, SHOP) for _ in range(4)]
    engine.tell(*[told(run, error="PROXY_AUTH") for _ in range(2) for run in runs])
    for run in runs:
        engine.end(run, "failed", failure=failure("PROXY_AUTH"))
    for _ in range(4):
        assert engine.tick() == []
        scratch.clock.advance(1)
    raised = [str(reason) for kind, reason in scratch.events() if kind == "ALERT_RAISED"]
    assert sorted(raised) == ["no_route", "route_fault"]
    assert scratch.query("SELECT reason, count(*) FROM standing_alert GROUP BY reason") == [("no_route", 1)]


def test_busy_routes_raise_no_alert(scratch: Scratch) -> None:
    scratch.declare(*routes("a"))
    engine = Engine(scratch)
    run_of(engine)
    scratch.add(route="eu")
    assert engine.tick() == []
    assert ("ALERT_RAISED", "no_route") not in scratch.events()


def test_worked_example_33_only_a_task_that_says_so_goes_without_a_route(
    scratch: Scratch, engine: Engine
) -> None:
    out(scratch, "a", "b", "c")
    scratch.add(route="eu")
    direct = scratch.add(route="eu", allow_direct=True)
    (run,) = engine.tick()
    assert (run.task_id, run.route) == (direct, None)


def test_of_a_route_that_crawls_only_the_last_targets_are_remembered_and_every_block(
    scratch: Scratch, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_targets, "MOST_TARGETS", 3)
    refused(engine, "a")
    run = run_of(engine, "", "a")
    for n in range(9):
        scratch.clock.advance(1)
        engine.tell(told(run, 200, target=f"h{n}.example"))
    known = [row[0] for row in scratch.query("SELECT target FROM route_target ORDER BY target")]
    assert SHOP in known
    assert "h8.example" in known
    assert len(known) <= 5


@fault("TF192")
def test_tasks_whose_route_there_is_not_any_more_wait_with_one_alert_until_it_is_back_or_nobody_waits(
    scratch: Scratch, engine: Engine
) -> None:
    waiting = [scratch.add(route="eu") for _ in range(10)]
    scratch.declare()  # a reload without any route
    for _ in range(3):
        assert engine.tick() == []
    assert [scratch.row(task_id)["attempt"] for task_id in waiting] == [0] * 10
    assert scratch.query("SELECT reason, count(*) FROM standing_alert GROUP BY reason") == [("no_route", 1)]
    scratch.declare(*routes("d", capacity=2))
    assert len(engine.tick()) == 2
    assert scratch.query("SELECT reason FROM standing_alert") == []
    scratch.declare()
    engine.tick()
    scratch.do(
        lambda tx: tx.connection.execute("UPDATE task SET next_run_at = '2099-01-01T00:00:00.000000Z'")
    )
    engine.tick()
    assert scratch.query("SELECT reason FROM standing_alert") == []
