"""Choosing a route: who is usable, who is better, who waits, and the reason in words for each other one."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules.resource_states import CooldownReason, ResourceState
from taskdeck.engine.rules.route_choice import RouteChoice, Strategy, choose, slow_start, value
from taskdeck.engine.rules.route_filter import Affinity, RouteCandidate, RouteWish, why_not
from taskdeck.engine.rules.route_settings import ChoiceSettings, CooldownSettings, RouteSettings

S, R = ResourceState, CooldownReason
NOW = 1000.0
SETTINGS = RouteSettings()


def settings(*, slow_start_s: float = 120.0, **choice: Any) -> RouteSettings:
    return RouteSettings(
        cooldown=CooldownSettings(slow_start_s=slow_start_s), choice=ChoiceSettings(**choice)
    )


def route(id: str, **fields: Any) -> RouteCandidate:
    return RouteCandidate(id, **{"score": 90.0, **fields})


def chosen(
    *routes: RouteCandidate, wish: RouteWish | None = None, now: float = NOW, seed: int = 1, **kwargs: Any
) -> RouteChoice:
    return choose(
        routes, wish or RouteWish(), now, random.Random(seed), kwargs.pop("settings", SETTINGS), **kwargs
    )


def first(*routes: RouteCandidate, **kwargs: Any) -> str:
    return chosen(*routes, **kwargs).order[0]


def test_worked_example_01_an_unknown_route_ranks_as_50_and_not_at_all_when_its_check_failed():
    unknown = route("new", score=None)
    assert value(unknown, NOW, SETTINGS) == 50
    assert first(unknown, route("b", score=49.0)) == "new"
    assert first(unknown, route("b", score=51.0)) == "b"
    choice = chosen(route("new", score=None, verified=False), route("b", score=1.0))
    assert choice.order == ("b",)
    assert choice.refused == {"new": "it must pass a check before a task gets it"}


@pytest.mark.parametrize(("seconds", "worth", "winner"), [(12, 9.5, "b"), (60, 47.5, "b"), (90, 71.25, "a")])
def test_worked_example_28_a_recovered_route_starts_slowly(seconds: float, worth: float, winner: str):
    recovered = route("a", score=95.0, recovered_at=NOW)
    assert value(recovered, NOW + seconds, SETTINGS) == worth
    assert first(recovered, route("b", score=60.0), now=NOW + seconds) == winner


def test_slow_start_is_for_recoveries_only_and_ends():
    assert slow_start(None, NOW, SETTINGS) == 1
    assert slow_start(NOW, NOW, SETTINGS) == 0.1
    assert slow_start(NOW, NOW + 1e6, SETTINGS) == 1
    assert slow_start(NOW, NOW, settings(slow_start_s=0.0)) == 1
    assert slow_start(NOW + 5, NOW, SETTINGS) == 1


def test_p2c_never_gives_the_worst_of_many_and_spreads_over_the_good_ones():
    routes = [route(f"r{n}", score=50.0 + n) for n in range(8)]
    firsts = Counter(first(*routes, seed=seed) for seed in range(400))
    assert "r0" not in firsts
    assert len(firsts) == 7
    assert firsts["r7"] > firsts["r1"]
    assert first(*routes, seed=5) == first(*routes, seed=5)


def test_of_two_routes_the_better_one_is_always_chosen():
    for seed in range(20):
        assert first(route("a", score=60.0), route("b", score=61.0), seed=seed) == "b"


def test_busy_slots_and_degradation_cost():
    assert value(route("a", busy=3, capacity=8), NOW, SETTINGS) == 75
    assert value(route("a", degraded=True), NOW, SETTINGS) == -10
    assert value(route("a", degraded=True, score=40.0, busy=1), NOW, SETTINGS) == -65


def test_what_a_choice_goes_by_can_be_set():
    ours = settings(unknown=70.0, busy_cost=1.0, degraded_cost=7.0, slow_start_least=0.5, tries=2)
    assert value(route("a", score=None), NOW, ours) == 70
    assert value(route("a", busy=3, capacity=8, degraded=True), NOW, ours) == 80
    assert value(route("a", recovered_at=NOW), NOW, ours) == 45
    for strategy in Strategy:
        assert len(chosen(*[route(f"r{n}") for n in range(9)], strategy=strategy, settings=ours).order) == 2


@pytest.mark.parametrize("strategy", Strategy)
def test_a_degraded_route_ranks_last(strategy: Strategy):
    bad = [route(f"a{n}", degraded=True, score=100.0) for n in range(9)]
    good = [route("b", score=0.0, busy=9, capacity=10, last_used_at=NOW), route("c", last_used_at=NOW)]
    for seed in range(20):
        assert set(chosen(*bad, *good, strategy=strategy, seed=seed).order[:2]) == {"b", "c"}


def test_a_tie_goes_to_the_one_unused_for_longest_then_to_the_id():
    assert first(route("a", last_used_at=20.0), route("b", last_used_at=10.0)) == "b"
    assert first(route("a", last_used_at=0.0), route("b")) == "b"
    assert first(route("b"), route("a")) == "a"


def test_best_takes_the_highest_value():
    routes = [route(f"r{n}", score=50.0 + n) for n in range(8)]
    assert chosen(*routes, strategy=Strategy.BEST).order == ("r7", "r6", "r5", "r4", "r3")


def test_lru_takes_the_one_unused_for_longest_and_degraded_ones_last():
    routes = [
        route("a", last_used_at=30.0),
        route("b", last_used_at=10.0),
        route("c", degraded=True),
        route("d", last_used_at=20.0),
    ]
    assert chosen(*routes, strategy=Strategy.LRU).order == ("b", "d", "a", "c")


def test_round_robin_goes_on_behind_the_last_one():
    routes = [route(id) for id in "cab"]
    order: list[str] = []
    for _ in range(5):
        order.append(first(*routes, strategy=Strategy.ROUND_ROBIN, last=order[-1] if order else ""))
    assert order == ["a", "b", "c", "a", "b"]
    assert first(*routes, strategy=Strategy.ROUND_ROBIN, last="gone") == "a"


def test_a_lost_race_has_at_most_five_others_to_try():
    routes = [route(f"r{n}") for n in range(9)]
    for strategy in Strategy:
        choice = chosen(*routes, strategy=strategy)
        assert len(set(choice.order)) == 5
        assert set(choice.refused) == {each.id for each in routes} - set(choice.order)
        assert set(choice.refused.values()) == {"others come before it"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"group": "us"}, "it is not in group eu"),
        ({"labels": frozenset({"slow"})}, "it lacks the label fast"),
        ({"region": "DE"}, "its region is DE, not FR or US"),
        ({"region": None}, "its region is unknown, not FR or US"),
        ({"state": S.DISABLED}, "it is disabled"),
        (
            {"state": S.FAULT, "last_error": "PROXY_AUTH", "next_probe_at": NOW + 720},
            "it is in fault (PROXY_AUTH), next check in 12m",
        ),
        (
            {"state": S.COOLDOWN, "cooldown_reason": R.HEALTH, "next_probe_at": NOW + 41.2},
            "it cools down (HEALTH), next probe in 42s",
        ),
        (
            {"state": S.COOLDOWN, "cooldown_reason": R.USE, "next_probe_at": NOW + 3},
            "it cools down (USE), free in 3s",
        ),
        ({"state": S.RUNNING}, "its only slot is in use"),
        ({"state": S.LEASED}, "its only slot is in use"),
        ({"busy": 1, "resting": 1, "capacity": 2}, "all its 2 slots are in use"),
        ({"resting": 1}, "its only slot is resting"),
        ({"uses": 100, "max_uses": 100}, "it has had its 100 uses"),
        ({"blocked_until": NOW + 900}, "example.org refuses it, tried again in 15m"),
        ({"exit_ip": "192.0.2.1"}, "its exit address 192.0.2.1 is in use"),
        ({"verified": False}, "it must pass a check before a task gets it"),
        ({}, ""),
        ({"blocked_until": NOW, "exit_ip": "192.0.2.2", "uses": 99, "max_uses": 100}, ""),
        ({"state": S.RUNNING, "busy": 1, "capacity": 2}, ""),
    ],
)
def test_each_route_that_can_not_be_used_has_its_reason_in_words(fields: dict[str, Any], why: str):
    wish = RouteWish(
        group="eu",
        labels=frozenset({"fast"}),
        regions=frozenset({"US", "FR"}),
        target="example.org",
        unique_exit_ip=True,
        exits_in_use=frozenset({"192.0.2.1"}),
    )
    one = route("a", **{"group": "eu", "labels": frozenset({"fast"}), "region": "US", **fields})
    assert why_not(one, wish, NOW) == why
    assert bool(chosen(one, wish=wish).order) is not bool(why)


def test_worked_example_22_a_route_refused_by_one_target_serves_the_others():
    one = route("a", blocked_until=NOW + 900)
    assert not chosen(one, wish=RouteWish(target="x")).order
    assert first(route("a"), wish=RouteWish(target="y")) == "a"


def test_where_no_route_is_usable_one_line_says_why_and_until_when():
    cooling = [
        route(id, state=S.COOLDOWN, cooldown_reason=R.HEALTH, next_probe_at=NOW + wait)
        for id, wait in (("a", 90), ("b", 42), ("c", 60))
    ]
    choice = chosen(*cooling, route("d", state=S.DISABLED))
    assert choice.order == ()
    assert choice.waits == "0 of 4 usable: 3 COOLDOWN, next probe in 42s; 1 DISABLED"
    busy = chosen(route("a", busy=1), route("b", busy=1), route("c", state=S.FAULT))
    assert busy.waits == "0 of 3 usable: 1 FAULT; 2: its only slot is in use"
    assert chosen().waits == "there are no routes"


def test_worked_example_33_no_task_goes_direct_unless_it_says_so():
    cooling = route("a", state=S.COOLDOWN, cooldown_reason=R.HEALTH)
    assert not chosen(cooling).direct
    assert chosen(cooling, wish=RouteWish(allow_direct=True)).direct
    assert not chosen(route("b"), wish=RouteWish(allow_direct=True)).direct


def bound(id: str, hard: bool = False, **fields: Any) -> RouteWish:
    return RouteWish(affinity=Affinity(id, hard), **fields)


@pytest.mark.parametrize("hard", [False, True])
def test_a_bound_route_is_taken_whatever_its_score(hard: bool):
    choice = chosen(route("a", score=41.0), route("b"), wish=bound("a", hard))
    assert (choice.order, choice.rebound) == (("a",), False)
    assert choice.refused == {"b": "the task is bound to a"}


def test_a_soft_binding_moves_on_and_a_hard_one_waits():
    out = route("a", state=S.COOLDOWN, cooldown_reason=R.SLOW, next_probe_at=NOW + 5)
    soft = chosen(out, route("b"), wish=bound("a"))
    assert (soft.order, soft.rebound) == (("b",), True)
    hard = chosen(out, route("b"), wish=bound("a", hard=True, allow_direct=True))
    assert (hard.order, hard.rebound, hard.direct) == ((), False, False)
    assert hard.waits == "it is bound to a: it cools down (SLOW), next probe in 5s"
    gone = chosen(route("b"), wish=bound("a", hard=True))
    assert gone.waits == "it is bound to a: there is no such route"


CANDIDATES = st.lists(
    st.builds(
        RouteCandidate,
        id=st.uuids().map(str),
        state=st.sampled_from(S),
        score=st.none() | st.floats(0, 100),
        degraded=st.booleans(),
        recovered_at=st.none() | st.floats(0, NOW),
        capacity=st.integers(1, 4),
        busy=st.integers(0, 4),
        last_used_at=st.none() | st.floats(0, NOW),
        blocked_until=st.none() | st.floats(0, 2 * NOW),
        next_probe_at=st.none() | st.floats(0, 2 * NOW),
    ),
    max_size=12,
)


@given(CANDIDATES, st.sampled_from(Strategy), st.integers(0, 2**32), st.integers(0, 12))
def test_every_route_is_either_offered_or_has_a_reason(
    routes: list[RouteCandidate], strategy: Strategy, seed: int, last: int
):
    behind = routes[last].id if last < len(routes) else ""
    choice = chosen(*routes, seed=seed, strategy=strategy, last=behind)
    by_id = {each.id: each for each in routes}
    assert set(choice.order) | set(choice.refused) == set(by_id)
    assert not set(choice.order) & set(choice.refused)
    assert all(choice.refused.values())
    for id in choice.order:
        assert by_id[id].state in (S.AVAILABLE, S.LEASED, S.RUNNING)
        assert by_id[id].busy < by_id[id].capacity
    assert bool(choice.waits) is not bool(choice.order)
