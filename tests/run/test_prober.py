"""The prober in a world without sockets: when it checks, how fast, and that a broken judge costs no route anything."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from taskdeck.engine.rules.declarations import RouteDeclaration
from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.rules.route_health import Sample
from taskdeck.engine.rules.route_settings import CooldownSettings, RouteSettings
from taskdeck.engine.run.messages import RouteResult
from taskdeck.engine.run.prober import Prober
from taskdeck.engine.store import freezes, probe_urls, routes, slots
from tests.run.ticking import Engine
from tests.run.worlds import World
from tests.scratch import Scratch

JUDGE = "https://judge.example.net/nonce"
FAST = RouteSettings(
    probe_urls=(JUDGE,),
    jitter=0.0,
    starts_per_s=10000.0,
    concurrency=64,
    cooldown=CooldownSettings(jitter=0.0),
)


class Writer:
    """The scratch database as the prober writes it."""

    def __init__(self, scratch: Scratch) -> None:
        self.write: Any = self._write
        self._scratch = scratch

    async def _write(self, unit: Any, *args: Any) -> Any:
        return self._scratch.do(unit, *args)


class Bench:
    """A scratch database, a world, and a prober between them."""

    def __init__(self, scratch: Scratch, settings: RouteSettings = FAST) -> None:
        self.scratch = scratch
        scratch.config = structs.replace(scratch.config, routing=settings)
        scratch.policies.config = scratch.config
        self.world = World(scratch.clock)
        writer: Any = Writer(scratch)
        passwords: Any = None  # nothing in this world has any
        self.prober = Prober(scratch.config, scratch.clock, writer, passwords, lambda: None, self.world.make)

    def declare(self, count: int, **fields: Any) -> None:
        self.scratch.declare(
            *(
                RouteDeclaration(f"r{n}", "http", "127.0.0.1", 8000 + n, group="eu", **fields)
                for n in range(count)
            )
        )
        if not self.prober.config.routes:  # an engine starts; later ones are edits under it
            self.scratch.do(routes.at_start, self.scratch.config.routing)
        self.prober.config = self.scratch.config

    async def tick(self) -> None:
        """One look, and all that comes of it at this moment."""
        await self.prober.tick()
        await self.settle()

    async def settle(self) -> None:
        """Until nobody has anything to do any more but to wait: nothing here comes from threads, sockets or timers."""
        loop: Any = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)
            if not loop._ready:
                return

    async def run(self, seconds: float, step: float = 1.0) -> None:
        for _ in range(round(seconds / step)):
            await self.tick()
            self.scratch.clock.advance(step)

    def states(self) -> Counter[str]:
        return Counter(self.scratch.slots("route").values())

    def health(self, column: str) -> list[Any]:
        return [row[0] for row in self.scratch.query(f"SELECT {column} FROM route_health ORDER BY route_id")]


@pytest.fixture
def bench(scratch: Scratch) -> Bench:
    return Bench(scratch)


# ---- when ---------------------------------------------------------------------------------------------------------------


async def test_after_a_start_the_first_checks_spread_over_an_interval(bench: Bench) -> None:
    bench.declare(60)
    await bench.run(62)
    seconds = Counter(int(at) for at, _ in bench.world.asked)
    assert len({name for _, name in bench.world.asked}) == 60
    assert max(seconds.values()) <= 6


async def test_no_more_checks_begin_a_second_than_the_judge_allows(scratch: Scratch) -> None:
    bench = Bench(scratch, structs.replace(FAST, starts_per_s=2.0))
    bench.declare(300)
    await bench.run(30, 0.25)
    assert max(Counter(int(at) for at, _ in bench.world.asked).values()) <= 2
    assert len(bench.world.asked) >= 50


async def test_no_more_checks_run_at_once_than_the_concurrency_says(scratch: Scratch) -> None:
    bench = Bench(scratch, structs.replace(FAST, concurrency=8))
    bench.declare(40)
    bench.world.gate.clear()
    scratch.clock.advance(60)
    for _ in range(5):
        await bench.tick()
    assert len(bench.world.asked) == 8
    bench.world.gate.set()
    await bench.tick()
    await bench.prober.stop()


async def test_a_passive_success_puts_the_next_check_off(bench: Bench) -> None:
    bench.declare(1)
    await bench.run(60)
    engine = Engine(bench.scratch)
    bench.scratch.add(route="eu")
    (run,) = engine.tick()
    engine.begin(run)
    engine.tell(RouteResult(run.task_id, run.fence, "r0", "shop.example", status=200, ms=40.0))
    engine.end(run)
    bench.world.asked.clear()
    await bench.run(59)
    assert bench.world.asked == []
    await bench.run(2)
    assert len(bench.world.asked) == 1


@pytest.mark.parametrize(("capacity", "checked"), [(1, False), (2, True)])
async def test_the_only_slot_of_a_route_in_use_is_left_alone(
    bench: Bench, capacity: int, checked: bool
) -> None:
    bench.declare(1, capacity=capacity)
    await bench.run(60)
    engine = Engine(bench.scratch)
    bench.scratch.add(route="eu")
    (run,) = engine.tick()
    engine.begin(run)
    bench.world.asked.clear()
    await bench.run(130)
    assert bool(bench.world.asked) is checked
    engine.end(run)
    await bench.run(120)
    assert bench.world.asked


async def test_a_task_that_waits_for_an_unproven_route_has_it_checked_now(bench: Bench) -> None:
    bench.declare(1)
    task = bench.scratch.add(route="eu")
    engine = Engine(bench.scratch)
    passed = engine.passes()
    assert (passed.runs, passed.to_verify) == ({}, True)
    await bench.tick()
    assert [run.task_id for run in engine.tick()] == [task]


async def test_an_unproven_route_whose_checks_fail_is_not_checked_without_pause(bench: Bench) -> None:
    bench.declare(1)
    bench.world.errors["r0"] = ErrorType.TCP_REFUSED
    bench.scratch.add(route="eu")
    engine = Engine(bench.scratch)
    for _ in range(9):
        engine.tick()
        await bench.tick()
        bench.scratch.clock.advance(1)
    assert len(bench.world.asked) == 1


async def test_a_result_under_an_older_declaration_is_dropped(bench: Bench) -> None:
    bench.declare(1)
    bench.world.gate.clear()
    bench.scratch.clock.advance(60)
    await bench.tick()
    bench.declare(1, min_reuse=9.0)
    bench.world.gate.set()
    await bench.settle()
    assert bench.health("last_check_at") == [None]


async def test_a_check_that_is_cancelled_leaves_no_claim_and_no_trace(bench: Bench) -> None:
    bench.declare(1)
    bench.world.gate.clear()
    bench.scratch.clock.advance(60)
    await bench.tick()
    await bench.prober.stop()
    assert bench.health("probe_token") == [None]
    assert bench.scratch.query("SELECT * FROM route_sample") == []


async def test_without_a_judge_a_rest_ends_by_itself(scratch: Scratch) -> None:
    bench = Bench(scratch, structs.replace(FAST, probe_urls=()))
    bench.declare(1)
    engine = Engine(scratch)
    scratch.add(route="eu")
    (run,) = engine.tick()
    for _ in range(5):
        engine.tell(RouteResult(run.task_id, run.fence, "r0", "shop.example", "TCP_REFUSED"))
        scratch.do(lambda tx: tx.connection.execute("UPDATE route_sample SET source = 'before'"))
    engine.end(run)
    assert bench.states() == {"COOLDOWN": 1}
    scratch.clock.advance(80)
    await bench.tick()
    assert bench.states() == {"AVAILABLE": 1}
    assert bench.health("consecutive_failures") == [0]


async def test_worked_example_20_a_wrong_password_twice_is_a_fault_that_is_checked_in_half_an_hour_or_once_edited(
    bench: Bench,
) -> None:
    bench.declare(1, username="ann", secret_ref="env:OLD")
    bench.world.errors["r0"] = ErrorType.PROXY_AUTH
    await bench.run(140)
    assert bench.states() == {"FAULT": 1}
    assert bench.scratch.events().count(("ALERT_RAISED", "route_fault")) == 1
    bench.world.asked.clear()
    await bench.run(1600, 10.0)
    assert bench.world.asked == []
    bench.world.errors.clear()
    bench.declare(1, username="ann", secret_ref="env:NEW")
    await bench.run(2)
    assert bench.states() == {"AVAILABLE": 1}


def test_worked_example_27_of_two_who_start_the_half_open_check_one_gets_it_and_only_its_result_counts(
    scratch: Scratch,
) -> None:
    bench = Bench(scratch)
    bench.declare(1)
    assert [scratch.do(routes.claim_probe, "r0", token, 20.0) for token in ("one", "two")] == [True, False]
    scratch.clock.advance(20)
    assert scratch.do(routes.claim_probe, "r0", "three", 20.0)  # the first one died
    passed = Sample(scratch.clock.boot(), None, 80.0)
    how: dict[str, Any] = {"source": "probe", "settings": FAST, "uniform": lambda low, high: low}
    counted = [
        scratch.do(routes.record, "r0", passed, token=token, **how) for token in ("one", "two", "three")
    ]
    assert counted == [False, False, True]
    assert scratch.one("SELECT count(*) FROM route_sample") == 1


async def test_the_bytes_of_every_check_count_for_its_route_also_where_its_result_does_not(
    bench: Bench,
) -> None:
    bench.declare(10)
    bench.world.bytes = 5_000
    await bench.run(70)
    bench.world.judge_down = True
    await bench.run(100)
    assert bench.scratch.do(freezes.frozen) == ["eu"]
    asked = Counter(name for _, name in bench.world.asked)
    counted = bench.scratch.query("SELECT route_id, probe_bytes FROM route_health")
    assert dict(counted) == {name: 5_000 * count for name, count in asked.items()}
    told = bench.scratch.query("SELECT payload_json FROM event_log WHERE event_type = 'ROUTE_PROBED'")
    assert all('"bytes":5000' in payload for (payload,) in told)


async def test_a_check_that_was_under_way_when_its_group_froze_counts_for_nothing(bench: Bench) -> None:
    bench.declare(6)
    await bench.run(70)
    late = bench.world.gates["r0"] = asyncio.Event()
    check = asyncio.create_task(bench.prober.check_now(["r0"]))
    await bench.settle()
    bench.world.judge_down = True
    await bench.run(30)
    assert bench.scratch.do(freezes.frozen) == ["eu"]
    assert bench.scratch.one("SELECT probe_token FROM route_health WHERE route_id = 'r0'")
    late.set()
    await asyncio.wait_for(check, 10)
    assert bench.scratch.one("SELECT probe_token FROM route_health WHERE route_id = 'r0'") is None
    assert bench.health("consecutive_failures") == [0] * 6


async def test_however_many_a_person_has_checked_no_more_run_at_once_than_otherwise(scratch: Scratch) -> None:
    bench = Bench(scratch, structs.replace(FAST, concurrency=8, concurrency_max=8))
    bench.declare(40)
    bench.world.gate.clear()
    check = asyncio.create_task(bench.prober.check_now([f"r{n}" for n in range(40)]))
    await bench.settle()
    assert len(bench.world.asked) == 8
    bench.world.gate.set()
    await asyncio.wait_for(check, 10)
    assert len({name for _, name in bench.world.asked}) == 40


async def test_checks_that_take_long_are_answered_with_what_is_left_and_none_is_made_twice(
    scratch: Scratch,
) -> None:
    bench = Bench(scratch, structs.replace(FAST, concurrency=4, concurrency_max=4))
    bench.declare(6)
    bench.world.gate.clear()
    names = [f"r{n}" for n in range(6)]
    left = await bench.prober.check_now(names, within=0.05)
    assert left == (names[4:], names[:4])
    bench.world.gate.set()
    assert await bench.prober.check_now(*left, within=10) == ([], [])
    assert sorted(name for _, name in bench.world.asked) == names


async def test_a_route_that_gets_other_labels_keeps_its_health(bench: Bench) -> None:
    bench.declare(1)
    await bench.run(62)
    before = bench.health("model")
    bench.declare(1, labels={"city": "Rome"}, capacity=3)
    assert bench.health("model") == before
    bench.declare(1, username="ann", secret_ref="env:NEW")
    assert bench.health("score") == [None]


async def test_a_switched_off_route_that_is_enabled_has_its_checks_anew(bench: Bench) -> None:
    bench.declare(1)
    bench.world.errors["r0"] = ErrorType.PROXY_AUTH
    await bench.run(140)
    for _ in range(3):
        bench.scratch.clock.advance(1800)
        await bench.run(3)
    assert bench.states() == {"DISABLED": 1}
    bench.scratch.do(slots.act, slots.ROUTES, "r0", "enable", "cli:ann")
    await bench.run(2)
    assert bench.states() == {"COOLDOWN": 1}
    bench.world.errors.clear()
    await bench.run(70)
    assert bench.states() == {"AVAILABLE": 1}


# ---- a judge that is down ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "reason"), [("judge_down", "PROBE_TARGET_DOWN"), ("net_down", "LOCAL_NET_DOWN")]
)
async def test_worked_example_23_ten_routes_and_a_broken_judge_or_network_cost_nothing_and_one_alert(
    bench: Bench, what: str, reason: str
) -> None:
    bench.declare(10)
    await bench.run(70)
    before = bench.scratch.query("SELECT route_id, model, score FROM route_health ORDER BY route_id")
    setattr(bench.world, what, True)
    await bench.run(600)
    assert bench.scratch.query("SELECT route_id, model, score FROM route_health ORDER BY route_id") == before
    assert bench.states() == {"AVAILABLE": 10}
    assert bench.scratch.events().count(("ALERT_RAISED", reason)) == 1
    assert bench.scratch.do(freezes.frozen) == ["eu"]
    setattr(bench.world, what, False)
    await bench.run(90)
    assert bench.scratch.do(freezes.frozen) == []
    assert bench.scratch.events().count(("ALERT_CLEARED", reason)) == 1
    assert bench.health("consecutive_failures") == [0] * 10


async def test_while_frozen_the_judge_is_asked_every_fifteen_seconds_and_no_route_is_checked_for_itself(
    bench: Bench,
) -> None:
    bench.declare(10)
    await bench.run(70)
    bench.world.judge_down = True
    await bench.run(60)
    bench.world.asked.clear()
    bench.world.controls = 0
    await bench.run(60)
    assert bench.world.controls == 4
    assert len(bench.world.asked) == 4  # the witness, each time


async def test_a_stage_that_failed_has_no_time_whatever_it_took(bench: Bench) -> None:
    bench.declare(3)
    bench.world.errors |= {"r1": ErrorType.PROBE_STATUS, "r2": ErrorType.TCP_REFUSED}
    await bench.run(70)
    assert bench.health("tcp_ms") == [100.0, 100.0, None]
    assert bench.health("probe_ms") == [100.0, None, None]


async def test_a_single_bad_route_is_judged_at_once_since_the_control_passes(bench: Bench) -> None:
    bench.declare(10)
    await bench.run(70)
    bench.world.errors["r3"] = ErrorType.PROBE_TIMEOUT
    await bench.run(90)
    assert bench.states() == {"AVAILABLE": 9, "COOLDOWN": 1}
    assert ("ROUTES_FROZEN", "PROBE_TARGET_DOWN") not in bench.scratch.events()


async def test_where_only_the_way_from_here_is_cut_the_other_routes_acquit_the_judge(bench: Bench) -> None:
    bench.declare(10)
    await bench.run(70)
    bench.world.direct_is_cut = True
    bench.world.errors["r3"] = ErrorType.PROBE_TIMEOUT
    await bench.run(120)
    assert bench.states() == {"AVAILABLE": 9, "COOLDOWN": 1}
    assert bench.scratch.do(freezes.frozen) == []


async def test_a_freeze_ends_when_a_route_gets_through_though_the_way_from_here_stays_cut(
    bench: Bench,
) -> None:
    bench.declare(10)
    await bench.run(70)
    bench.world.judge_down = True
    await bench.run(60)
    bench.world.judge_down, bench.world.direct_is_cut = False, True
    await bench.run(30)
    assert bench.scratch.do(freezes.frozen) == []


async def test_a_group_of_two_is_too_small_to_accuse_the_judge(bench: Bench) -> None:
    bench.declare(2)
    await bench.run(70)
    bench.world.judge_down = True
    await bench.run(120)
    assert bench.states() == {"COOLDOWN": 2}


async def test_in_a_freeze_tasks_go_on_with_the_routes_and_their_failures_hurt_none(bench: Bench) -> None:
    bench.declare(10)
    await bench.run(70)
    bench.world.judge_down = True
    await bench.run(600)
    bench.scratch.add(route="eu")
    engine = Engine(bench.scratch)
    (run,) = engine.tick()
    engine.tell(
        RouteResult(
            run.task_id, run.fence, run.route.route_id if run.route else "", "x.example", "TCP_TIMEOUT"
        )
    )
    assert bench.health("consecutive_failures") == [0] * 10


async def test_in_a_freeze_no_route_is_given_that_was_never_seen_to_work(bench: Bench) -> None:
    bench.declare(10)
    bench.world.judge_down = True
    await bench.run(70)
    assert bench.scratch.do(freezes.frozen) == ["eu"]
    bench.scratch.add(route="eu")
    assert Engine(bench.scratch).tick() == []


async def test_a_freeze_outlasts_the_engine_that_found_it_and_ends_under_the_next(bench: Bench) -> None:
    bench.declare(10)
    await bench.run(70)
    bench.world.judge_down = True
    await bench.run(60)
    again = Bench(bench.scratch, FAST)
    again.prober.config = bench.scratch.config
    await again.run(20)
    assert bench.scratch.do(freezes.frozen) == []


async def test_a_probe_url_that_fails_where_another_answers_is_asked_last(
    scratch: Scratch, tmp_path: Path
) -> None:
    a, b = "https://a.example/n", "https://b.example/n"
    assert scratch.do(probe_urls.in_order, (a, b)) == [a, b]
    scratch.do(probe_urls.note, [(a, ErrorType.PROBE_TIMEOUT), (b, None)])
    assert scratch.do(probe_urls.in_order, (a, b)) == [b, a]
    scratch.do(probe_urls.note, [(a, ErrorType.PROBE_TIMEOUT), (b, ErrorType.PROBE_TIMEOUT)])
    assert scratch.query("SELECT url, ok, fail FROM probe_url ORDER BY url") == [(a, 0, 1), (b, 1, 0)]
    scratch.do(probe_urls.note, [(a, None)])
    assert scratch.do(probe_urls.in_order, (a, b)) == [a, b]
