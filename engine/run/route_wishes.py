"""What a task asks of routes: to which one it is bound, which would do, and why it gets none now.

Asked by whoever leases, by the scheduler before it reads on in a lane, and by `why`. Reads, never writes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import structs

from ..rules.payloads import encode
from ..rules.route_choice import RouteChoice, Strategy, choose
from ..rules.route_filter import Affinity, RouteCandidate, RouteDemand, RouteWish, why_not
from ..rules.route_settings import RouteSettings
from ..store import affinities, route_candidates, tasks
from ..store.transaction import Transaction
from .policies import Policies

Row = Mapping[str, Any]

_ANY = random.Random(0)
"""For a question whose answer does not hang on the lot."""


def wish_of(
    tx: Transaction, demand: RouteDemand, target: str, affinity: Affinity | None, *, allow_direct: bool
) -> RouteWish:
    """What a task of this type asks for. The exit addresses in use are only read where they matter."""
    return RouteWish(
        labels=demand.labels,
        regions=demand.regions,
        target=target,
        unique_exit_ip=demand.unique_exit_ip,
        exits_in_use=route_candidates.exits_in_use(tx) if demand.unique_exit_ip else frozenset(),
        affinity=affinity,
        allow_direct=allow_direct,
    )


def affinity_key(group: str, payload: str, demand: RouteDemand) -> str:
    """What keeps to one route: a digest, since the value may be of any length, and nobody's business. Empty = nothing."""
    value = _value(payload, demand.affinity)
    return "" if value is None else _digest(group, demand.affinity, encode(value))


def _value(payload: str, field: str) -> Any:
    fields = msgspec.json.decode(payload) if field else None
    return fields.get(field) if isinstance(fields, dict) else None


def _digest(group: str, field: str, value: str) -> str:
    return f"{group}/{field}/{blake2b(value.encode(), digest_size=16).hexdigest()}"


class Routes:
    """The routes of each group, read once for all that is asked at one moment."""

    def __init__(self, settings: RouteSettings) -> None:
        self._settings = settings
        self._known: dict[str, list[RouteCandidate]] = {}
        self._answers: dict[tuple[str, RouteWish], str] = {}

    def of(self, tx: Transaction, group: str) -> list[RouteCandidate]:
        if group not in self._known:
            self._known[group] = route_candidates.of_wish(tx, group, self._settings)
        return self._known[group]

    def why_none(self, tx: Transaction, row: Row, policies: Policies) -> str:
        """Why this waiting task gets no route now, or which one is being verified for it; empty where nothing is in its way.

        Without its `payload` in the row, what it is bound to does not count. Tasks that ask for the same get one answer.
        """
        needs, demand = policies.needs_of(row), policies.demand_of(row["type"])
        if not (group := needs["route"]):
            return ""
        bound = affinities.of(tx, affinity_key(group, row.get("payload") or "{}", demand))
        wish = wish_of(tx, demand, row["target"], bound, allow_direct=needs["allow_direct"])
        if (group, wish) not in self._answers:
            self._answers[group, wish] = self._why_none(tx, group, wish)
        return self._answers[group, wish]

    def _why_none(self, tx: Transaction, group: str, wish: RouteWish) -> str:
        routes = route_candidates.for_target(tx, self.of(tx, group), wish.target)

        def choice(routes: list[RouteCandidate]) -> RouteChoice:
            return choose(routes, wish, tx.boot, _ANY, self._settings, Strategy.BEST)

        now = choice(routes)
        if now.order or now.direct:
            return ""
        unproven = {each.id for each in routes if not each.verified}
        then = choice([structs.replace(each, verified=True) for each in routes]).order
        if verified := [each for each in then if each in unproven]:
            who = f"{', '.join(verified)} {'is' if len(verified) == 1 else 'are'}"
            return f"route {group}: {who} being verified before a task gets one"
        return f"route {group}: {now.waits}"


class _Room:
    """How many more tasks of one group may begin by the route that they are bound to."""

    def __init__(self, routes: Routes, tx: Transaction, demand: RouteDemand) -> None:
        self._routes = routes
        self._tx = tx
        self._demand = demand
        self._left: dict[str, int] = {}
        self._bound: dict[str, Affinity | None] = {}
        self._usable: dict[tuple[str, str, str], bool] = {}

    def take(self, group: str, value: str, target: str) -> bool:
        """Whether one more task with this value can begin, as far as its binding goes. One not bound yet can."""
        key = _digest(group, self._demand.affinity, value)
        if key not in self._bound:
            self._bound[key] = affinities.of(self._tx, key)
        bound = self._bound[key]
        if bound is None or not bound.hard:
            return True
        route_id = bound.route_id
        if not self._is_usable(group, route_id, target) or self._left[route_id] < 1:
            return False
        self._left[route_id] -= 1
        return True

    def _is_usable(self, group: str, route_id: str, target: str) -> bool:
        """A route that only has to be verified lets one through: nobody would have it verified otherwise."""
        place = (group, route_id, target)
        if place not in self._usable:
            routes = [each for each in self._routes.of(self._tx, group) if each.id == route_id]
            wish = wish_of(self._tx, self._demand, target, None, allow_direct=False)
            for each in route_candidates.for_target(self._tx, routes, target):
                trusted = structs.replace(each, verified=True)
                self._usable[place] = not why_not(trusted, wish, self._tx.boot)
                self._left.setdefault(route_id, each.free if each.verified else 1)
        return self._usable.setdefault(place, False)


def heads(
    tx: Transaction,
    lane: str,
    limit: int,
    policies: Policies,
    settings: RouteSettings,
    condition: str = "TRUE",
    args: Row | None = None,
) -> list[tasks.Waiting]:
    """The first `limit` due tasks of a lane that fit the `condition`, without those that only hide others.

    Tasks bound hard to a route that can't be had, or beyond what it has free, are passed over, however many they are.
    """
    demand = policies.demand_of(tasks.type_of_lane(lane))
    if not (demand.affinity and demand.affinity_hard):
        return tasks.due(tx, lane, limit, condition, args)
    room = _Room(Routes(settings), tx, demand)
    aside = tasks.Aside(demand.affinity)
    bound_pools = _bound_pools(tx)
    found: list[tasks.Waiting] = []
    last: tasks.Waiting | None = None
    while len(found) < limit:
        rows = tasks.due(tx, lane, limit, condition, args, aside=aside, after=last)
        for row in rows:
            policy, value = policies.of_own(row.own), msgspec.json.decode(row.kept_by or "[null]")[0]
            free = value is None or not bound_pools.isdisjoint(policy.needs)  # what it holds decides then
            if free or room.take(policy.route, encode(value), row.target):
                found.append(row)
            else:
                aside.put(encode(value), row.target)
        if len(rows) < limit:
            break
        last = rows[-1]
    return found[:limit]


def _bound_pools(tx: Transaction) -> frozenset[str]:
    """Pools of which something goes out by a route of its own."""
    sql = "SELECT DISTINCT pool FROM resource WHERE route_id IS NOT NULL AND removed_at IS NULL"
    return frozenset(row[0] for row in tx.connection.execute(sql))
