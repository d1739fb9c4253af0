"""Sets of resources and a route, claimed by many at once over connections of their own: all or nothing, and never stuck."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec import structs

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.rules.declarations import ResourceDeclaration, RouteDeclaration
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.run.inventory import take_inventory
from taskdeck.engine.run.leasing import Leasing
from taskdeck.engine.store import slots
from taskdeck.engine.store.slots import NotEnough
from taskdeck.engine.store.transaction import Transaction
from tests.scratch import Scratch

CLAIMERS, SETS = 8, 1000
POOLS = {"account": 8, "browser": 9, "device": 7}
"""A set is up to three of each of up to three of them: some must wait for others, in every order."""


def declare(scratch: Scratch) -> None:
    scratch.declare(
        *(ResourceDeclaration(f"{pool}-{n}", pool) for pool, count in POOLS.items() for n in range(count)),
        *(RouteDeclaration(f"eu-{n}", "http", "127.0.0.1", 8000 + n, group="eu") for n in range(6)),
    )


class Claimer:
    """One that claims random sets over its own connection, holds each for a moment and gives it back."""

    def __init__(self, scratch: Scratch, seed: int, freed: threading.Condition) -> None:
        self.scratch, self.rng = scratch, random.Random(seed)
        self.task = scratch.running()
        self.leasing = Leasing(self.rng)
        self.freed = freed
        self.fences: list[int] = []

    def work(self, sets: int) -> None:
        connection = sqlite3.connect(self.scratch.path, isolation_level=None, timeout=60)
        connection.execute("PRAGMA synchronous = OFF")
        tx = Transaction(connection, SystemClock(), "this-boot", Redactor((), ()))
        for _ in range(sets):
            needs = self._needs()
            while not self._claim(tx, needs):
                with self.freed:
                    self.freed.wait(0.05)
            tx.begin()
            held = slots_of(tx, self.fences[-1])
            assert Counter(held) == Counter(needs | {"route": 1}), (held, needs)
            slots.release(tx, self.fences[-1])
            tx.commit()
            with self.freed:
                self.freed.notify_all()
        connection.close()

    def _needs(self) -> dict[str, int]:
        pools = self.rng.sample(sorted(POOLS), self.rng.randint(1, 3))
        return {pool: self.rng.randint(1, 3) for pool in pools}

    def _claim(self, tx: Transaction, needs: dict[str, int]) -> bool:
        row = self.task | {"needs": None, "route": "eu"}
        policy = structs.replace(self.scratch.policies.of(row), needs=needs, route="eu")
        tx.begin()
        self.leasing.forget()
        try:
            fence = tx.next_fences(1)[0]
            tx.unit(
                lambda tx: self.leasing.take(
                    tx, row | {"fence": fence}, policy, 300.0, self.scratch.config.routing
                )
            )
        except NotEnough:
            tx.roll_back()
            return False
        tx.commit()
        self.fences.append(fence)
        return True


def slots_of(tx: Transaction, fence: int) -> dict[str, int]:
    """Of which pools this fence holds how many, and `route`."""
    found: Counter[str] = Counter()
    sql = "SELECT p.pool FROM resource_slot s JOIN resource p USING (resource_id) WHERE s.fence = ? AND s.task_id IS NOT NULL"
    found.update(row[0] for row in tx.connection.execute(sql, (fence,)))
    sql = "SELECT count(*) FROM route_slot WHERE fence = ? AND task_id IS NOT NULL"
    found["route"] += tx.connection.execute(sql, (fence,)).fetchone()[0]
    return dict(found)


@pytest.mark.timeout(120)
def test_a_thousand_random_sets_of_eight_claimers_never_deadlock_and_share_nothing(scratch: Scratch) -> None:
    declare(scratch)
    freed = threading.Condition()
    claimers = [Claimer(scratch, seed, freed) for seed in range(CLAIMERS)]
    with ThreadPoolExecutor(CLAIMERS) as pool:
        for done in [pool.submit(claimer.work, SETS // CLAIMERS) for claimer in claimers]:
            done.result()
    fences = [fence for claimer in claimers for fence in claimer.fences]
    assert len(set(fences)) == len(fences) == SETS
    assert all(claimer.fences == sorted(claimer.fences) for claimer in claimers)
    assert set(scratch.slots().values()) | set(scratch.slots("route").values()) == {"AVAILABLE"}
    leased = scratch.one("SELECT count(*) FROM event_log WHERE event_type = 'RESOURCE_LEASED'")
    assert leased == scratch.one("SELECT count(*) FROM event_log WHERE event_type = 'RESOURCE_RELEASED'")


def held(scratch: Scratch) -> tuple[dict[str, Any], int]:
    """A task that holds the only account, and its fence."""
    scratch.declare(ResourceDeclaration("account", "account"))
    task = scratch.running()
    scratch.do(slots.take_from_pool, "account", 1, task, 60.0, "t1")
    scratch.do(slots.started, task["fence"])
    return task, task["fence"]


def test_worked_example_24_who_comes_second_gets_nothing(scratch: Scratch) -> None:
    _, fence = held(scratch)
    other = scratch.running()
    with pytest.raises(NotEnough):
        scratch.do(slots.take_from_pool, "account", 1, other, 60.0, "t2")
    assert scratch.query("SELECT fence, lease_owner FROM resource_slot") == [(fence, "t1")]


def test_worked_example_25_what_was_taken_away_rests_for_the_lock_delay_and_its_old_fence_writes_nothing(
    scratch: Scratch,
) -> None:
    _, fence = held(scratch)
    scratch.clock.advance(61)
    scratch.do(slots.kick, slots.RESOURCES, "account", "cli:ann", 30.0)
    ((state, reason, second),) = scratch.query("SELECT state, cooldown_reason, fence FROM resource_slot")
    assert (state, reason) == ("COOLDOWN", "EXPIRED")
    assert second > fence
    scratch.do(slots.release, fence)
    assert scratch.slots() == {"account": "COOLDOWN"}
    (until,) = scratch.query("SELECT cooldown_until_boot FROM resource_slot")[0]
    assert until == scratch.clock.boot() + 30  # taken at 61, free at 91
    scratch.do(lambda tx: tx.connection.execute("UPDATE attempt SET ended_at = ?", (tx.now,)))
    scratch.clock.advance(29.9)
    scratch.do(slots.let_rested_return)
    assert scratch.slots() == {"account": "COOLDOWN"}
    scratch.clock.advance(0.1)
    scratch.do(slots.let_rested_return)
    other = scratch.running()
    scratch.do(slots.take_from_pool, "account", 1, other, 60.0, "t2")
    ((state, third),) = scratch.query("SELECT state, fence FROM resource_slot")
    assert (state, third > second) == ("LEASED", True)
    scratch.do(slots.release, fence)  # a late word of the first holder
    assert scratch.query("SELECT state, fence FROM resource_slot") == [("LEASED", third)]


def test_a_second_release_is_none(scratch: Scratch) -> None:
    _, fence = held(scratch)
    for _ in range(2):
        scratch.do(slots.release, fence)
    released = [event for event in scratch.events() if event[0] == "RESOURCE_RELEASED"]
    assert len(released) == 1


def test_worked_example_31_a_step_of_the_wall_clock_changes_no_lease(scratch: Scratch) -> None:
    held(scratch)
    before = scratch.query("SELECT state, fence, lease_until_boot FROM resource_slot")
    for step in (-3600.0, 7200.0):
        scratch.clock.step(step)
        scratch.do(slots.let_rested_return)
        scratch.do(take_inventory, scratch.config)
    assert scratch.query("SELECT state, fence, lease_until_boot FROM resource_slot") == before
