"""Tasks that keep to one route: while it can't be had they wait, hide nobody, and say what they wait for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from taskdeck.engine.rules.declarations import ResourceDeclaration, RouteDeclaration
from taskdeck.engine.rules.new_task import new_task
from taskdeck.engine.rules.payloads import encode
from taskdeck.engine.rules.settings import TypeSettings
from taskdeck.engine.run.dispatch import stuck_on
from taskdeck.engine.run.messages import Run
from taskdeck.engine.run.route_wishes import Routes
from taskdeck.engine.store import route_targets, slots, tasks
from tests.run.ticking import Engine
from tests.scratch import ANN, Scratch

MANY = 250
"""More than one tick reads of a lane."""


def route(name: str, **fields: Any) -> RouteDeclaration:
    return RouteDeclaration(name, "http", "127.0.0.1", 8000 + ord(name[0]), group="eu", **fields)


@pytest.fixture
def engine(scratch: Scratch) -> Engine:
    scratch.declare(route("a"), route("b", capacity=4))
    settings(scratch, affinity="account", affinity_hard=True)
    return Engine(scratch)


def settings(scratch: Scratch, **fields: Any) -> None:
    scratch.config = msgspec.structs.replace(scratch.config, types={"fetch": TypeSettings(**fields)})
    scratch.policies.config = scratch.config


def add(engine: Engine, account: Any, count: int = 1, **fields: Any) -> list[int]:
    new = new_task("fetch", encode({"account": account}), **{"route": "eu", **fields})
    return engine.scratch.do(tasks.create_all, [new] * count, ANN)


def started(engine: Engine) -> list[int]:
    runs = engine.tick()
    for run in runs:
        engine.begin(run)
    return [run.task_id for run in runs]


def bind(engine: Engine, account: Any, route_id: str) -> None:
    """Let a first task of this account get exactly this route."""
    others = {"a", "b"} - {route_id}
    for other in others:
        engine.scratch.do(slots.act, slots.ROUTES, other, "disable", ANN)
    add(engine, account)
    (run,) = engine.tick()
    assert run.route is not None
    assert run.route.route_id == route_id
    engine.end(run)
    for other in others:
        engine.scratch.do(
            lambda tx, other=other: tx.connection.execute(
                "UPDATE route_slot SET state = 'AVAILABLE' WHERE route_id = ?", (other,)
            )
        )


def out(engine: Engine, route_id: str) -> None:
    engine.scratch.do(slots.act, slots.ROUTES, route_id, "disable", ANN)


@pytest.mark.parametrize("account", ["ann", 1, True, {"id": [1.5, "é\n'"]}])
def test_tasks_bound_hard_to_a_route_that_is_out_hide_no_others_of_their_lane(
    engine: Engine, account: Any
) -> None:
    bind(engine, account, "a")
    out(engine, "a")
    add(engine, account, MANY)
    others = [*add(engine, "bob"), *add(engine, "1"), *add(engine, None)]
    assert started(engine) == others


def test_those_beyond_the_free_slots_of_their_route_stand_aside_too(engine: Engine) -> None:
    bind(engine, "ann", "a")
    anns, bobs = add(engine, "ann", MANY), add(engine, "bob", 2)
    assert started(engine) == [anns[0], *bobs]
    assert started(engine) == []


def test_several_accounts_of_one_route_share_its_slots_in_the_order_of_the_queue(engine: Engine) -> None:
    for account in ("ann", "eve", "joe"):
        bind(engine, account, "b")
    first, second, third = add(engine, "ann", 2), add(engine, "eve", 3), add(engine, "joe", 3)
    assert started(engine) == [*first, *second[:2]]
    assert not set(third) & set(started(engine))


def test_a_route_that_refuses_one_target_keeps_the_others_of_the_account_going(engine: Engine) -> None:
    bind(engine, "ann", "b")
    for _ in range(2):
        engine.scratch.do(route_targets.refused, "b", "shop", engine.scratch.config.routing.blocked)
    add(engine, "ann", MANY, target="shop")
    other = add(engine, "ann", target="news")
    assert started(engine) == other


def test_a_route_that_was_not_seen_to_work_lately_is_verified_for_one_of_them_while_others_start(
    engine: Engine,
) -> None:
    bind(engine, "ann", "a")
    bind(engine, "bob", "b")
    probing = msgspec.structs.replace(engine.scratch.config.routing, probe_urls=("http://judge/",))
    engine.scratch.config = msgspec.structs.replace(engine.scratch.config, routing=probing)
    engine.scratch.clock.advance(600)
    engine.scratch.do(_seen_to_work, "b")
    anns, bobs = add(engine, "ann", MANY), add(engine, "bob", 1)
    passed = engine.passes()
    assert [run.task_id for runs in passed.runs.values() for run in runs] == bobs
    assert passed.to_verify
    assert why(engine, anns[0]) == "route eu: a is being verified before a task gets one"
    engine.scratch.do(_seen_to_work, "a")
    assert started(engine) == anns[:1]


def _seen_to_work(tx: Any, route_id: str) -> None:
    model = msgspec.json.encode({"last_at": tx.boot, "last_ok_at": tx.boot, "samples": 1}).decode()
    tx.connection.execute(
        "UPDATE route_health SET model = ?, boot_id = ? WHERE route_id = ?", (model, tx.boot_id, route_id)
    )


def why(engine: Engine, task_id: int) -> str:
    row = engine.scratch.row(task_id)
    routes = Routes(engine.scratch.config.routing)
    return engine.scratch.do(routes.why_none, row, engine.scratch.policies)


def test_one_bound_to_a_route_that_is_out_says_so(engine: Engine) -> None:
    bind(engine, "ann", "a")
    out(engine, "a")
    assert why(engine, *add(engine, "ann")) == "route eu: it is bound to a: it is disabled"
    assert why(engine, *add(engine, "bob")) == ""


def test_where_nothing_starts_since_all_wait_for_a_route_that_is_told(engine: Engine) -> None:
    bind(engine, "ann", "a")
    out(engine, "a")
    (first,) = add(engine, "ann")
    assert stuck(engine) == f"#{first}: route eu: it is bound to a: it is disabled"
    add(engine, "bob", route="b")
    assert stuck(engine) == ""


def stuck(engine: Engine) -> str:
    return engine.scratch.do(stuck_on, engine.limits(), engine.scratch.policies)


def test_what_holds_a_resource_with_a_route_of_its_own_goes_by_that(engine: Engine) -> None:
    bind(engine, "ann", "a")
    out(engine, "a")
    engine.scratch.declare(
        ResourceDeclaration("phone", "phone", route="b"), route("a"), route("b", capacity=4)
    )
    settings(engine.scratch, affinity="account", affinity_hard=True)
    (with_phone,) = add(engine, "ann", needs='["phone"]')
    runs: list[Run] = engine.tick()
    assert [(run.task_id, run.route and run.route.route_id) for run in runs] == [(with_phone, "b")]
