"""Leasing for one attempt: all that the task needs, or nothing. Runs inside the savepoint that claims the task."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from ..rules.route_choice import choose
from ..rules.route_filter import RouteWish
from ..rules.route_settings import RouteSettings
from ..store import routes, slots
from ..store.slots import NotEnough
from ..store.transaction import Transaction
from .messages import LeasedRoute
from .policies import Policy


class Holdings(msgspec.Struct, frozen=True):
    """What an attempt holds: resources by pool, and a route."""

    resources: dict[str, list[str]]
    route: LeasedRoute | None


class Leasing:
    """Takes leases. `rng` draws among routes."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def take(
        self, tx: Transaction, task: Mapping[str, Any], policy: Policy, lease: float, settings: RouteSettings
    ) -> Holdings:
        """Claim what the policy names under the task's fence. Raises `NotEnough`; the savepoint then undoes all of it."""
        owner = f"task:{task['id']}/{task['attempt']}"
        held = {
            pool: slots.take_from_pool(tx, pool, count, task, lease, owner)
            for pool, count in sorted(policy.needs.items())
        }
        route = self._take_route(tx, task, policy, lease, owner, settings) if policy.route else None
        return Holdings(held, route)

    def _take_route(
        self,
        tx: Transaction,
        task: Mapping[str, Any],
        policy: Policy,
        lease: float,
        owner: str,
        settings: RouteSettings,
    ) -> LeasedRoute | None:
        known = routes.candidates(tx, policy.route, settings)
        wish = RouteWish(allow_direct=policy.allow_direct)
        choice = choose(known, wish, tx.boot, self._rng, slow_start_s=settings.cooldown.slow_start_s)
        for route_id in choice.order:
            row = routes.claim_slot(tx, route_id, task, lease, owner)
            if row is not None:
                return _leased(row)
        if choice.direct:
            return None
        for each in known:
            if not each.verified:
                routes.probe_soon(tx, each.id)
        raise NotEnough(f"route {policy.route}: {choice.waits or 'all were taken meanwhile'}")


def _leased(row: Mapping[str, Any]) -> LeasedRoute:
    reference = row["secret_ref"] or ""
    return LeasedRoute(row["route_id"], row["scheme"], row["host"], row["port"], row["username"], reference)
