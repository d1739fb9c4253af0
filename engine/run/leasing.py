"""Leasing for one attempt: all that the task needs, or nothing. Runs inside the savepoint that claims the task."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from ..rules.route_choice import RouteChoice, Strategy, choose
from ..rules.route_filter import Affinity, RouteCandidate, RouteWish
from ..rules.route_settings import RouteSettings
from ..store import affinities, route_candidates, slots
from ..store.slots import NotEnough
from ..store.transaction import Transaction
from .messages import LeasedRoute
from .policies import Policy
from .route_wishes import affinity_key, wish_of

Task = Mapping[str, Any]


class Holdings(msgspec.Struct, frozen=True):
    """What an attempt holds: resources by pool, and a route."""

    resources: dict[str, list[str]]
    route: LeasedRoute | None


class Leasing:
    """Takes leases. `rng` draws among routes.

    The routes of a group are read once a tick and kept up with its own claims: whatever else changes them comes in a
    transaction of its own.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._known: dict[str, list[RouteCandidate]] = {}
        self.want: Callable[[str], None] = lambda _: None
        """Told of a pool that seemed to have enough: what is free there may have to be asked whether it is ready."""
        self.share = 1
        """By how many workers a route may be used at once at most, each keeping a limit of bandwidth by itself."""

    def forget(self) -> None:
        """A tick begins, or a claim was undone: what is known of routes is read anew."""
        self._known = {}

    def take(
        self, tx: Transaction, task: Task, policy: Policy, lease: float, settings: RouteSettings
    ) -> Holdings:
        """Claim what the policy names under the task's fence. Raises `NotEnough`; the savepoint then undoes all of it."""
        owner = f"task:{task['id']}/{task['attempt']}"
        held = {
            pool: self._take_from(tx, pool, count, task, lease, owner)
            for pool, count in sorted(policy.needs.items())
        }
        bound = slots.bound_route(tx, task["fence"]) if held else None
        group = policy.route or (bound.route_id if bound and bound.hard else "")
        if not group:
            return Holdings(held, None)
        return Holdings(held, self._take_route(tx, task, policy, group, bound, lease, owner, settings))

    def _take_from(
        self, tx: Transaction, pool: str, count: int, task: Task, lease: float, owner: str
    ) -> list[str]:
        try:
            return slots.take_from_pool(tx, pool, count, task, lease, owner)
        except NotEnough:
            self.want(pool)
            raise

    def _take_route(
        self,
        tx: Transaction,
        task: Task,
        policy: Policy,
        group: str,
        bound: Affinity | None,
        lease: float,
        owner: str,
        settings: RouteSettings,
    ) -> LeasedRoute | None:
        key = affinity_key(group, task["payload"], policy.demand)
        bound = bound or affinities.of(tx, key)
        wish = wish_of(tx, policy.demand, task["target"], bound, allow_direct=policy.allow_direct)
        routes = route_candidates.for_target(tx, self._routes(tx, group, settings), task["target"])
        choice = self._choose(tx, group, routes, wish, policy, settings)
        for route_id in choice.order:
            row = route_candidates.claim_slot(tx, route_id, task, lease, owner)
            if row is None:
                continue
            self._note_claim(group, route_id)
            if policy.demand.strategy == Strategy.ROUND_ROBIN:
                route_candidates.note_turn(tx, group, route_id)
            affinities.bind(tx, key, route_id, policy.demand.affinity_hard, settings.affinity_s)
            if choice.rebound and wish.affinity:
                _rebound(tx, task, wish.affinity.route_id, route_id)
            return _leased(row, self.share)
        if choice.direct:
            return None
        unproven = {each.id for each in routes if not each.verified}
        trusting = [structs.replace(each, verified=True) for each in routes]
        wanted = self._choose(tx, group, trusting, wish, policy, settings).order if unproven else ()
        raise NotEnough(
            f"route {group}: {choice.waits or 'all were taken meanwhile'}",
            to_verify=tuple(each for each in wanted if each in unproven),
            dry="" if wish.affinity else group,
        )

    def _choose(
        self,
        tx: Transaction,
        group: str,
        routes: list[RouteCandidate],
        wish: RouteWish,
        policy: Policy,
        settings: RouteSettings,
    ) -> RouteChoice:
        strategy = Strategy(policy.demand.strategy)
        last = route_candidates.turn_of(tx, group) if strategy is Strategy.ROUND_ROBIN else ""
        return choose(routes, wish, tx.boot, self._rng, settings, strategy, last)

    def _routes(self, tx: Transaction, group: str, settings: RouteSettings) -> list[RouteCandidate]:
        if group not in self._known:
            self._known[group] = route_candidates.of_wish(tx, group, settings)
        return self._known[group]

    def _note_claim(self, group: str, route_id: str) -> None:
        """The same route may be known under its group and under its own name."""
        self._known = {group: self._known[group]}
        self._known[group] = [
            structs.replace(each, busy=each.busy + 1, uses=each.uses + 1) if each.id == route_id else each
            for each in self._known[group]
        ]


def _rebound(tx: Transaction, task: Task, before: str, route_id: str) -> None:
    tx.event(
        "ROUTE_REBOUND",
        actor=slots.ENGINE,
        task_id=task["id"],
        route_id=route_id,
        reason="not_usable",
        message=f"instead of {before}",
        payload={"from": before, "to": route_id},
    )


def _leased(row: Mapping[str, Any], share: int) -> LeasedRoute:
    reference = row["secret_ref"] or ""
    bandwidth = row["bandwidth"] / max(1, min(row["capacity"], share))
    return LeasedRoute(
        row["route_id"], row["scheme"], row["host"], row["port"], row["username"], reference, bandwidth
    )
