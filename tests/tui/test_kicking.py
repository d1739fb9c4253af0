"""`kick` and `drain`: taking resources and routes away from whoever holds them, at once or in peace."""

from __future__ import annotations

import threading
from datetime import datetime

import pytest

from taskdeck.engine.store import slots
from tests.inventoried import Inventory
from tests.seeded import Seed
from tests.tui.calls import Calls


@pytest.fixture
def stock(seed: Seed) -> Inventory:
    made = Inventory(seed)
    made.resources({"id": "browser-1", "pool": "browser"}, {"id": "gpu", "pool": "gpu", "capacity": 2})
    made.route(id="eu-1", url="http://proxy.example.net:3128")
    return made


def test_a_kick_fences_the_holder_off_and_stops_its_attempt(taskdeck: Calls, stock: Inventory) -> None:
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, pools={"browser": 1})
    stock.seed.close()
    before = taskdeck("resource", "show", "browser-1", "--json").lines[0]
    told = taskdeck("resource", "kick", "browser-1").out
    assert told == (
        f"browser-1 is COOLDOWN; #{task} asked to stop and stays paused (let it go on: taskdeck resume {task})\n"
    )
    after = taskdeck("resource", "show", "browser-1", "--json").lines[0]
    assert (after["state"], after["cooldown_reason"], after["task"]) == ("COOLDOWN", "EXPIRED", None)
    assert after["fence"] > before["fence"]
    assert taskdeck("show", str(task), "--json").lines[0]["wanted"] == "pause"
    (event,) = [e for e in taskdeck("events", "--json").lines if e["event_type"] == "RESOURCE_RELEASED"]
    assert (event["reason"], event["task_id"], event["actor"].split(":")[0]) == ("user_kick", task, "cli")
    assert taskdeck("resource", "kick", "browser-1").out == "browser-1 is held by nobody\n"


def test_what_was_kicked_rests_for_its_delay_and_until_the_attempt_has_ended(seed: Seed) -> None:
    stock = Inventory(seed)
    stock.route(id="eu-1", url="http://proxy.example.net:3128")
    task = seed.running(seed.worker())
    stock.take(task, route="eu-1")

    def state() -> str:
        return seed.tx.rows("SELECT state FROM route_slot")[0]["state"]

    with seed.writing() as tx:
        (held,) = slots.kick(tx, slots.ROUTES, "eu-1", "cli:test", 30.0)
    assert held["task_id"] == task
    seed.clock.advance(29.9)
    with seed.writing() as tx:
        slots.let_rested_return(tx)
    seed.clock.advance(100)
    with seed.writing() as tx:
        slots.let_rested_return(tx)
    assert state() == "COOLDOWN"  # its holder may still be at work
    stock.give_back(task)
    assert state() == "COOLDOWN"  # the end of the attempt gives back nothing that it lost
    seed.sql("UPDATE attempt SET ended_at = ?", "2026-11-29T12:00:00.000000Z")
    with seed.writing() as tx:
        slots.let_rested_return(tx)
    assert state() == "AVAILABLE"
    assert seed.tx.rows("SELECT lease_owner FROM route_slot")[0]["lease_owner"] is None


def test_how_long_a_kicked_one_rests_is_the_engines_lock_delay(taskdeck: Calls, stock: Inventory) -> None:
    taskdeck.environment["TASKDECK_ENGINE__LOCK_DELAY"] = "2h"
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, pools={"browser": 1})
    stock.seed.close()
    taskdeck("resource", "kick", "browser-1")
    (kicked,) = taskdeck("resource", "show", "browser-1", "--json").lines
    rests = datetime.fromisoformat(kicked["cooldown_until"]) - datetime.fromisoformat(kicked["updated_at"])
    assert rests.total_seconds() == pytest.approx(7200)


def test_a_kick_with_a_fence_meets_that_lease_only(taskdeck: Calls, stock: Inventory) -> None:
    first = stock.seed.running(stock.seed.worker())
    stock.take(first, pools={"gpu": 1}, route="eu-1")
    second = stock.seed.running(stock.seed.worker())
    stock.take(second, pools={"gpu": 1})
    stock.seed.close()
    fence = taskdeck("resource", "show", "gpu/2", "--json").lines[0]["fence"]
    refused = taskdeck("resource", "kick", "gpu", "--fence", str(fence + 10), code=4)
    assert "gpu is not held with fence" in refused.err
    assert taskdeck("resource", "kick", "gpu", "--fence", str(fence)).out.startswith("gpu is COOLDOWN")
    assert [each["task"] for each in taskdeck("resource", "show", "gpu", "--json").lines] == [first, None]
    assert "name one" in taskdeck("route", "kick", "eu-1", "eu-2", "--fence", "1", code=2).err
    assert taskdeck("route", "kick", "eu-1").out.startswith(f"eu-1 is COOLDOWN; #{first} asked to stop")
    assert taskdeck("resource", "kick", "gpu/1").out.startswith(f"gpu/1 is COOLDOWN; #{first}")
    assert "there is no resource 'gpu/3'" in taskdeck("resource", "kick", "gpu/3", code=3).err


def test_what_is_drained_is_waited_for(taskdeck: Calls, stock: Inventory) -> None:
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, pools={"browser": 1}, route="eu-1")
    stock.seed.close()
    late = taskdeck("route", "drain", "eu-1", "--wait", "10ms", code=124)
    assert late.out == "eu-1 is drained: disabled when its attempt ends\n"
    assert f"held: eu-1 by #{task}" in late.err

    def end() -> None:
        seed = Seed(taskdeck.db)
        stock.seed = seed
        stock.give_back(task)
        seed.close()

    ending = threading.Timer(0.05, end)
    ending.start()
    assert taskdeck("resource", "drain", "browser-1", "--wait", "1m").code == 0
    ending.join()
    assert taskdeck("resource", "show", "browser-1", "--json").lines[0]["state"] == "DISABLED"


def test_what_a_person_lets_rest_comes_back_by_itself_and_a_lease_is_left_alone(
    seed: Seed, taskdeck: Calls
) -> None:
    stock = Inventory(seed)
    stock.resources({"id": "gpu", "pool": "gpu", "capacity": 2})
    stock.route(id="eu-1", url="http://proxy.example.net:3128")
    stock.take(seed.running(seed.worker()), pools={"gpu": 1})
    told = taskdeck("resource", "rest", "gpu", "nosuch", "--for", "10m", code=3)
    assert told.out.startswith("gpu is RUNNING and stays so; rests until ")
    assert "there is no resource 'nosuch'" in told.err
    assert taskdeck("route", "rest", "eu-1", "--for", "1h").out.startswith("eu-1 rests until ")
    assert taskdeck("route", "rest", "eu-1", "--for", "1h").out == "eu-1 is COOLDOWN and stays so\n"
    for wrong in ("0s", "soon"):
        taskdeck("route", "rest", "eu-1", "--for", wrong, code=2)
    states = {
        each["id"]: (each["state"], each["cooldown_reason"])
        for each in taskdeck("resource", "list", "--json").lines
    }
    assert states == {"gpu/1": ("RUNNING", None), "gpu/2": ("COOLDOWN", "MANUAL")}
    events = [each for each in taskdeck("events", "--json").lines if each["reason"] == "user_rest"]
    assert [(each["resource_id"] or each["route_id"], each["actor"].split(":")[0]) for each in events] == [
        ("gpu", "cli"), ("eu-1", "cli"),
    ]  # fmt: skip
    seed.sql("UPDATE route_slot SET cooldown_until_boot = 0")
    with seed.writing() as tx:
        slots.let_rested_return(tx)
    assert taskdeck("route", "list", "--json").lines[0]["state"] == "AVAILABLE"
