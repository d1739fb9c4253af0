"""Which route a task gets, and in which order others are tried.

Source: selection and leases of the routes. Pure: chance is an argument. A task never goes direct unless it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from random import Random

from msgspec import Struct

from .route_filter import Affinity, RouteCandidate, RouteWish, why_none, why_not
from .route_settings import RouteSettings


class Strategy(StrEnum):
    """How one of the usable routes is chosen."""

    P2C = "p2c"  # the better of two drawn by lot: good ones first, without a rush on the best
    BEST = "best"
    LRU = "lru"
    ROUND_ROBIN = "round_robin"


class RouteChoice(Struct, frozen=True):
    """The routes to claim, best first (at most `tries`), and in words why each other one is not among them.

    `rebound`: a soft binding is given up. `direct`: no route can be used, and the task allows to go without.
    `waits` says in one line why there is none.
    """

    order: tuple[str, ...]
    refused: Mapping[str, str]
    rebound: bool = False
    direct: bool = False
    waits: str = ""


def slow_start(recovered_at: float | None, now: float, settings: RouteSettings) -> float:
    """The share of its score that a recovered route ranks with: `slow_start_least` rising to 1.

    Without a recovery, or after one of another boot, it is 1.
    """
    lasts = settings.cooldown.slow_start_s
    if recovered_at is None or recovered_at > now or lasts <= 0:
        return 1.0
    return max(settings.choice.slow_start_least, min(1.0, (now - recovered_at) / lasts))


def value(route: RouteCandidate, now: float, settings: RouteSettings) -> float:
    """What it is worth in a choice: its score, less what a recent recovery, busy slots and degradation cost."""
    costs = settings.choice
    known = costs.unknown if route.score is None else route.score
    worth = known * slow_start(route.recovered_at, now, settings)
    return worth - costs.busy_cost * route.busy - (costs.degraded_cost if route.degraded else 0.0)


def choose(
    routes: Iterable[RouteCandidate],
    wish: RouteWish,
    now: float,
    rng: Random,
    settings: RouteSettings,
    strategy: Strategy = Strategy.P2C,
    last: str = "",
) -> RouteChoice:
    """Filter, then the bound route, then the strategy. `last` is the route that round_robin chose before."""
    known = sorted(routes, key=lambda each: each.id)
    refused = {each.id: why for each in known if (why := why_not(each, wish, now))}
    usable = [each for each in known if each.id not in refused]
    bound = wish.affinity
    if bound and any(each.id == bound.route_id for each in usable):
        return _bound(bound, usable, refused)
    if bound and bound.hard:
        return _waiting_for(bound, usable, refused)
    if not usable:
        return RouteChoice((), refused, direct=wish.allow_direct, waits=why_none(known, refused, now))
    order = _order(usable, now, rng, settings, strategy, last)
    for each in usable:
        if each.id not in order:
            refused[each.id] = "others come before it"
    return RouteChoice(order, refused, rebound=bound is not None)


def _bound(bound: Affinity, usable: list[RouteCandidate], refused: dict[str, str]) -> RouteChoice:
    others = {each.id: f"the task is bound to {bound.route_id}" for each in usable}
    others.pop(bound.route_id)
    return RouteChoice((bound.route_id,), refused | others)


def _waiting_for(bound: Affinity, usable: list[RouteCandidate], refused: dict[str, str]) -> RouteChoice:
    others = {each.id: f"the task is bound to {bound.route_id}" for each in usable}
    why = refused.get(bound.route_id, "there is no such route")
    return RouteChoice((), refused | others, waits=f"it is bound to {bound.route_id}: {why}")


def _order(
    usable: list[RouteCandidate],
    now: float,
    rng: Random,
    settings: RouteSettings,
    strategy: Strategy,
    last: str,
) -> tuple[str, ...]:
    def best(route: RouteCandidate) -> tuple[object, ...]:
        return (route.degraded, -value(route, now, settings), *_longest_unused(route))

    if strategy is Strategy.P2C:
        return _by_lot(usable, best, rng, settings.choice.tries)
    keys: dict[Strategy, Callable[[RouteCandidate], tuple[object, ...]]] = {
        Strategy.BEST: best,
        Strategy.LRU: lambda route: (route.degraded, *_longest_unused(route)),
        Strategy.ROUND_ROBIN: lambda route: (route.degraded, route.id <= last, route.id),
    }
    return tuple(route.id for route in sorted(usable, key=keys[strategy])[: settings.choice.tries])


def _longest_unused(route: RouteCandidate) -> tuple[bool, float, str]:
    """Smaller = unused for longer; never used comes first, the id settles the rest."""
    return (route.last_used_at is not None, route.last_used_at or 0.0, route.id)


def _by_lot(
    usable: list[RouteCandidate],
    best: Callable[[RouteCandidate], tuple[object, ...]],
    rng: Random,
    tries: int,
) -> tuple[str, ...]:
    """Two by lot, the better one; then again among the rest, for the case that the claim is lost.

    Lots are drawn among the degraded ones only when no other is left.
    """
    left, order = list(usable), []
    while left and len(order) < tries:
        lots = [route for route in left if not route.degraded] or left
        chosen = min(rng.sample(lots, 2) if len(lots) > 2 else lots, key=best)
        order.append(chosen.id)
        left.remove(chosen)
    return tuple(order)
