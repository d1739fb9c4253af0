"""Which routes a task could use now, and in words why each other one can't.

Source: the filter of the selection of routes. Pure; times are seconds of the boot clock. Which of the usable ones it
gets is decided in `route_choice`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from .resource_states import (
    AVAILABLE,
    BUSY,
    COOLDOWN,
    DISABLED,
    FAULT,
    RESTING,
    CooldownReason,
    ResourceState,
)
from .timing import format_duration

_OUT = (COOLDOWN, FAULT, DISABLED)


class RouteCandidate(Struct, frozen=True):
    """A route as the choice sees it. Times in seconds of the boot clock; None = never, unknown or no bound.

    `busy` slots are held, `resting` ones in a cooldown of their own. `blocked_until` is for the wanted target.
    `verified` is False where the check before the lease failed.
    """

    id: str
    group: str = ""
    labels: frozenset[str] = frozenset()
    region: str | None = None
    state: ResourceState = AVAILABLE
    cooldown_reason: CooldownReason | None = None
    next_probe_at: float | None = None
    score: float | None = None
    degraded: bool = False
    recovered_at: float | None = None
    capacity: int = 1
    busy: int = 0
    resting: int = 0
    uses: int = 0
    max_uses: int | None = None
    worn_out: bool = False
    last_used_at: float | None = None
    exit_ip: str | None = None
    blocked_until: float | None = None
    verified: bool = True
    last_error: str = ""

    @property
    def free(self) -> int:
        """Slots that can be claimed."""
        return self.capacity - max(self.busy, self.state in BUSY) - self.resting


class Affinity(Struct, frozen=True):
    """The route that a key is bound to. Hard: the task waits for it; soft: it is bound anew where it can't be used."""

    route_id: str
    hard: bool = False


class RouteDemand(Struct, frozen=True):
    """What a type asks of its routes beyond the group. `affinity` names the field of the payload that keeps to one route."""

    labels: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    strategy: str = "p2c"
    unique_exit_ip: bool = False
    affinity: str = ""
    affinity_hard: bool = False


class RouteWish(Struct, frozen=True):
    """What a task asks for; empty = anything. `exits_in_use` counts only with `unique_exit_ip`."""

    group: str = ""
    labels: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    target: str = ""
    unique_exit_ip: bool = False
    exits_in_use: frozenset[str] = frozenset()
    affinity: Affinity | None = None
    allow_direct: bool = False


def why_not(route: RouteCandidate, wish: RouteWish, now: float) -> str:
    """Why this route can't be used for this wish now, in words; empty where it can."""
    return _unfit(route, wish) or _out(route, now) or _taken(route, wish, now)


def _unfit(route: RouteCandidate, wish: RouteWish) -> str:
    if wish.group and route.group != wish.group:
        return f"it is not in group {wish.group}"
    if missing := wish.labels - route.labels:
        return f"it lacks the label {', '.join(sorted(missing))}"
    if wish.regions and route.region not in wish.regions:
        return f"its region is {route.region or 'unknown'}, not {' or '.join(sorted(wish.regions))}"
    return ""


def _out(route: RouteCandidate, now: float) -> str:
    if route.state is DISABLED:
        return "it is disabled"
    if route.state is FAULT:
        error = f" ({route.last_error})" if route.last_error else ""
        return f"it is in fault{error}{_soon('next check', route, now)}"
    if route.state is COOLDOWN:
        event = "free" if route.cooldown_reason in RESTING else "next probe"
        return f"it cools down ({route.cooldown_reason}){_soon(event, route, now)}"
    return "" if route.verified else "it must pass a check before a task gets it"


def _soon(event: str, route: RouteCandidate, now: float) -> str:
    return "" if route.next_probe_at is None else f", {event} in {_seconds(route.next_probe_at - now)}"


def _seconds(wait: float) -> str:
    """Whole seconds, rounded up: "0s" only where it is due."""
    return format_duration(float(math.ceil(max(wait, 0.0))))


def _taken(route: RouteCandidate, wish: RouteWish, now: float) -> str:
    if route.free <= 0:
        return _no_slot(route)
    if route.max_uses is not None and route.uses >= route.max_uses:
        return f"it has had its {route.max_uses} uses"
    if route.worn_out:
        return "it is older than its max_age"
    if route.blocked_until is not None and now < route.blocked_until:
        target = wish.target or "the target"
        return f"{target} refuses it, tried again in {_seconds(route.blocked_until - now)}"
    if wish.unique_exit_ip and route.exit_ip is not None and route.exit_ip in wish.exits_in_use:
        return f"its exit address {route.exit_ip} is in use"
    return ""


def _no_slot(route: RouteCandidate) -> str:
    slots = "its only slot is" if route.capacity == 1 else f"all its {route.capacity} slots are"
    return f"{slots} {'resting' if route.resting >= route.capacity else 'in use'}"


def why_none(routes: Iterable[RouteCandidate], refused: Mapping[str, str], now: float) -> str:
    """One line for the waiting task: "0 of 4 usable: 3 COOLDOWN, next probe in 42s; 1 DISABLED".

    Of routes that are not out the three most frequent reasons are named.
    """
    known = list(routes)
    if not known:
        return "there are no routes"
    parts = [part for state in _OUT if (part := _part(known, state, now))]
    others = Counter(refused.get(route.id, "") for route in known if route.state not in _OUT)
    parts += [f"{count}: {why}" for why, count in others.most_common(3)]
    return f"0 of {len(known)} usable: {'; '.join(parts)}"


def _part(routes: list[RouteCandidate], state: ResourceState, now: float) -> str:
    there = [route for route in routes if route.state is state]
    if not there:
        return ""
    first = min(there, key=lambda each: math.inf if each.next_probe_at is None else each.next_probe_at)
    return f"{len(there)} {state}{'' if state is DISABLED else _soon('next probe', first, now)}"
