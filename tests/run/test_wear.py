"""What a unit goes through besides its leases: faults that are tried again, wear, and the route that it goes out by."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from taskdeck.engine.rules.declarations import ResourceDeclaration, RouteDeclaration
from taskdeck.engine.rules.failures import Failure, FailureClass
from taskdeck.engine.rules.settings import TypeSettings
from taskdeck.engine.run.inventory import take_inventory
from taskdeck.engine.run.messages import Run
from taskdeck.engine.store import rooms, slots
from tests.run.ticking import Engine
from tests.scratch import ANN, Scratch

FAULT = msgspec.json.encode(
    Failure(FailureClass.RESOURCE_FAULT, "broken", "it broke", "a test", detail="phone")
).decode()


def route(name: str, **fields: Any) -> RouteDeclaration:
    return RouteDeclaration(name, "http", "127.0.0.1", 8000, group="eu", **fields)


def phone(name: str = "phone", **fields: Any) -> ResourceDeclaration:
    return ResourceDeclaration(name, "phone", **fields)


def use(engine: Engine, fault: bool = False) -> Run:
    """One task that uses a phone, well or with a fault."""
    task_id = engine.scratch.add(needs='["phone"]')
    (run,) = [each for each in engine.tick() if each.task_id == task_id]
    engine.begin(run)
    if fault:
        engine.end(run, "failed", failure=FAULT)
        engine.scratch.do(
            lambda tx: tx.connection.execute("UPDATE task SET next_run_at = '2099-01-01T00:00:00.000000Z'")
        )
    else:
        engine.end(run)
    return run


def bound(run: Run) -> tuple[list[str], str | None]:
    return run.resources["phone"], run.route and run.route.route_id


# ---- faults -----------------------------------------------------------------------------------------------------------


def test_a_unit_in_fault_is_tried_again_after_half_an_hour(scratch: Scratch) -> None:
    scratch.declare(phone())
    engine = Engine(scratch)
    use(engine, fault=True)
    scratch.clock.advance(1799)
    engine.tick()
    assert scratch.slots() == {"phone": "FAULT"}
    scratch.clock.advance(1)
    engine.tick()
    assert scratch.slots() == {"phone": "AVAILABLE"}


def test_a_unit_that_fails_three_times_when_tried_again_is_switched_off_with_an_alert(
    scratch: Scratch,
) -> None:
    scratch.declare(phone())
    engine = Engine(scratch)
    for _ in range(4):
        use(engine, fault=True)
        engine.tick()
        scratch.clock.advance(1800)
    assert scratch.slots() == {"phone": "DISABLED"}
    assert scratch.events().count(("ALERT_RAISED", "resource_fault")) == 1
    scratch.do(slots.act, slots.RESOURCES, "phone", "enable", ANN)
    use(engine, fault=True)
    engine.tick()
    assert scratch.slots() == {"phone": "FAULT"}


def test_a_good_use_forgets_the_faults(scratch: Scratch) -> None:
    scratch.declare(phone())
    engine = Engine(scratch)
    for _ in range(3):
        use(engine, fault=True)
        scratch.clock.advance(1800)
        use(engine)
    use(engine, fault=True)
    engine.tick()
    assert scratch.slots() == {"phone": "FAULT"}


def test_what_may_still_be_in_use_waits_for_a_person(scratch: Scratch) -> None:
    scratch.declare(phone())
    engine = Engine(scratch)
    scratch.add(needs='["phone"]')
    (run,) = engine.tick()
    engine.begin(run)
    scratch.do(slots.release, run.fence, stuck=True, message="pid 7 lives on")
    scratch.clock.advance(86400)
    engine.tick()
    assert scratch.slots() == {"phone": "FAULT"}


# ---- wear -------------------------------------------------------------------------------------------------------------


def test_after_its_uses_a_unit_is_given_to_nobody_until_a_person_resets_it(scratch: Scratch) -> None:
    scratch.declare(phone(max_uses=2))
    engine = Engine(scratch)
    use(engine)
    use(engine)
    scratch.add(needs='["phone"]')
    assert engine.tick() == []
    pools = rooms.of_pools(scratch.database.connection(), scratch.tx.now)
    assert "1 had all their uses" in pools["phone"].words
    scratch.do(slots.act, slots.RESOURCES, "phone", "reset", ANN)
    assert len(engine.tick()) == 1


def test_a_unit_that_is_too_old_is_given_to_nobody(scratch: Scratch) -> None:
    scratch.declare(phone(max_age=3600.0))
    engine = Engine(scratch)
    scratch.clock.advance(3599)
    use(engine)
    scratch.clock.advance(1)
    scratch.add(needs='["phone"]')
    assert engine.tick() == []


@pytest.mark.parametrize("limit", [{"max_uses": 2}, {"max_age": 100.0}])
def test_a_worn_route_is_given_to_nobody(scratch: Scratch, limit: dict[str, Any]) -> None:
    scratch.declare(route("a", **limit))
    engine = Engine(scratch)
    for _ in range(2):
        scratch.add(route="eu")
        (run,) = engine.tick()
        engine.end(run)
    scratch.clock.advance(100)
    scratch.add(route="eu")
    assert engine.tick() == []


# ---- bindings ---------------------------------------------------------------------------------------------------------


def test_whoever_holds_a_bound_unit_goes_out_by_its_route_even_unasked(scratch: Scratch) -> None:
    scratch.declare(phone(route="b"), route("a"), route("b"))
    engine = Engine(scratch)
    scratch.add(needs='["phone"]')
    (run,) = engine.tick()
    assert bound(run) == (["phone"], "b")


def test_a_unit_whose_route_is_out_is_passed_over_for_one_that_can_go(scratch: Scratch) -> None:
    scratch.declare(phone("p1", route="a"), phone("p2", route="b"), route("a"), route("b"))
    scratch.do(slots.act, slots.ROUTES, "a", "disable", ANN)
    engine = Engine(scratch)
    scratch.add(needs='["phone"]', route="eu")
    scratch.add(needs='["phone"]', route="eu")
    (run,) = engine.tick()
    assert bound(run) == (["p2"], "b")
    assert engine.tick() == []


def test_a_softly_bound_unit_goes_by_another_route_and_that_is_told(scratch: Scratch) -> None:
    scratch.declare(phone(route="a", route_soft=True), route("a"), route("b"))
    engine = Engine(scratch)
    scratch.add(needs='["phone"]', route="eu")
    (run,) = engine.tick()
    assert bound(run) == (["phone"], "a")
    engine.end(run)
    scratch.do(slots.act, slots.ROUTES, "a", "disable", ANN)
    scratch.add(needs='["phone"]', route="eu")
    (run,) = engine.tick()
    assert bound(run) == (["phone"], "b")
    assert ("ROUTE_REBOUND", "not_usable") in scratch.events()


def with_type(scratch: Scratch, engine: Engine | None = None, **settings: Any) -> Engine:
    scratch.config = msgspec.structs.replace(scratch.config, types={"fetch": TypeSettings(**settings)})
    scratch.policies.config = scratch.config
    return engine or Engine(scratch)


def given(engine: Engine, payload: str = "{}") -> str | None:
    engine.scratch.add(route="eu", payload=payload)
    runs = engine.tick()
    for run in runs:
        engine.end(run)
    return runs[0].route.route_id if runs and runs[0].route else None


def test_tasks_of_one_account_keep_to_one_route_until_it_was_unused_for_an_hour(scratch: Scratch) -> None:
    scratch.declare(*(route(f"r{n}") for n in range(8)))
    engine = with_type(scratch, affinity="account")
    ann = given(engine, '{"account": "ann"}')
    for _ in range(10):
        scratch.clock.advance(600)
        assert given(engine, '{"account": "ann"}') == ann
    assert len({given(engine, f'{{"account": {n}}}') for n in range(30)}) > 1
    assert len({given(engine) for _ in range(30)}) > 1
    assert "ann" not in str(scratch.query("SELECT * FROM affinity"))
    scratch.clock.advance(3600)
    given(engine, '{"account": "bob"}')
    assert scratch.one("SELECT count(*) FROM affinity") == 1


@pytest.mark.parametrize("hard", [True, False])
def test_where_the_kept_route_is_out_a_hard_binding_waits_and_a_soft_one_is_bound_anew(
    scratch: Scratch, hard: bool
) -> None:
    scratch.declare(route("a"), route("b"))
    engine = with_type(scratch, affinity="account", affinity_hard=hard)
    kept = given(engine, '{"account": "ann"}')
    assert kept
    scratch.do(slots.act, slots.ROUTES, kept, "disable", ANN)
    other = given(engine, '{"account": "ann"}')
    assert other == (None if hard else {"a": "b", "b": "a"}[kept])
    assert (("ROUTE_REBOUND", "not_usable") in scratch.events()) is not hard


def test_labels_regions_and_strategies_of_a_type_are_obeyed(scratch: Scratch) -> None:
    labelled = route("b", labels={"city": "Berlin"})
    scratch.declare(route("a"), labelled, route("c", labels={"city": "Rome"}))
    engine = with_type(scratch, route_labels=("city=Berlin",))
    assert {given(engine) for _ in range(5)} == {"b"}
    with_type(scratch, engine, route_labels=("city",))
    assert {given(engine) for _ in range(9)} == {"b", "c"}
    with_type(scratch, engine, regions=("DE",))
    assert given(engine) is None
    scratch.do(
        lambda tx: tx.connection.execute("UPDATE task SET next_run_at = '2099-01-01T00:00:00.000000Z'")
    )
    with_type(scratch, engine, strategy="round_robin")
    order = [given(engine) for _ in range(6)]
    assert order[:3] == order[3:]
    assert set(order) == {"a", "b", "c"}


def test_two_attempts_never_share_an_exit_address_where_that_is_asked(scratch: Scratch) -> None:
    scratch.declare(route("a"), route("b"), route("c"))
    scratch.do(
        lambda tx: tx.connection.execute(
            "UPDATE route_health SET exit_ip = '203.0.113.7' WHERE route_id < 'c'"
        )
    )
    engine = with_type(scratch, unique_exit_ip=True)
    for _ in range(3):
        scratch.add(route="eu")
    runs = engine.tick()
    assert len(runs) == 2
    assert "c" in {run.route.route_id for run in runs if run.route}


def test_a_rest_of_a_unit_goes_on_over_a_reboot(scratch: Scratch) -> None:
    scratch.declare(phone(min_reuse=100.0))
    engine = Engine(scratch)
    use(engine)
    scratch.tx.boot_id = "next-boot"
    scratch.do(take_inventory, scratch.config)
    scratch.clock.advance(99)
    engine.tick()
    assert scratch.slots() == {"phone": "COOLDOWN"}
    scratch.clock.advance(1)
    engine.tick()
    assert scratch.slots() == {"phone": "AVAILABLE"}


def test_a_pool_of_which_every_unit_is_at_fault_raises_one_alert_until_one_is_back(scratch: Scratch) -> None:
    scratch.declare(phone("a"), phone("b"))
    engine = Engine(scratch)
    for _ in range(2):
        use_any(engine)
    scratch.add(needs='["phone"]')
    for _ in range(3):
        assert engine.tick() == []
    assert scratch.query("SELECT reason, subject, message FROM standing_alert") == [
        ("no_resource", "phone", "pool phone: 0 of 2 usable, tasks wait: 2 FAULT")
    ]
    assert scratch.events().count(("ALERT_RAISED", "no_resource")) == 1
    scratch.do(slots.act, slots.RESOURCES, "a", "reset", ANN)
    assert len(engine.tick()) == 1
    assert scratch.query("SELECT reason FROM standing_alert") == []
    scratch.add(needs='["phone"]')  # the other one is in use, which is no shortage
    scratch.do(slots.act, slots.RESOURCES, "b", "disable", ANN)
    assert engine.tick() == []
    assert scratch.query("SELECT reason FROM standing_alert") == []


def use_any(engine: Engine) -> None:
    """One task that uses whichever phone it gets, and names it at fault."""
    task_id = engine.scratch.add(needs='["phone"]')
    (run,) = [each for each in engine.tick() if each.task_id == task_id]
    engine.begin(run)
    failure = Failure(
        FailureClass.RESOURCE_FAULT, "broken", "it broke", "a test", detail=run.resources["phone"][0]
    )
    engine.end(run, "failed", failure=msgspec.json.encode(failure).decode())
    engine.scratch.do(
        lambda tx: tx.connection.execute("UPDATE task SET next_run_at = '2099-01-01T00:00:00.000000Z'")
    )
