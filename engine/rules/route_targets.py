"""Whose fault a result behind a route is, and when a target refuses a route.

Source: passive results and targets of the routes. Pure; times are seconds of the boot clock. A target's refusal
never touches the route's score.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct, structs

from .route_settings import BlockedSettings


class Blame(StrEnum):
    """Who answers for a result that came through a route."""

    NOBODY = "nobody"
    ROUTE = "route"
    TARGET = "target"
    TASK = "task"
    BLOCKED = "blocked"


class RouteTarget(Struct, frozen=True):
    """What one route has met at one target. `level`: how often in a row it was blocked for a time."""

    ok: int = 0
    fail: int = 0
    blocked: int = 0
    consecutive_blocked: int = 0
    blocked_until: float | None = None
    level: int = 0


class Block(Struct, frozen=True):
    """A refusal: by which target, of which route, when."""

    route_id: str
    target: str
    at: float


def blame_status(status: int, settings: BlockedSettings) -> Blame:
    """After a completed TLS handshake the HTTP status belongs to the target, never to the route."""
    if status in settings.statuses:
        return Blame.BLOCKED
    if 400 <= status < 500:
        return Blame.TASK
    return Blame.TARGET if status >= 500 else Blame.NOBODY


def blame_tunnel(others_ok_at: float | None, now: float, settings: BlockedSettings) -> Blame:
    """A failed tunnel is the route's fault only if another route reached the target lately."""
    reached = others_ok_at is not None and now - others_ok_at <= settings.witness_s
    return Blame.ROUTE if reached else Blame.TARGET


def is_blocked(target: RouteTarget, now: float) -> bool:
    return target.blocked_until is not None and now < target.blocked_until


def succeeded(target: RouteTarget) -> RouteTarget:
    """A success ends the row of refusals and forgets how long the last ones lasted."""
    return structs.replace(target, ok=target.ok + 1, consecutive_blocked=0, blocked_until=None, level=0)


def failed(target: RouteTarget) -> RouteTarget:
    """A failure of another kind neither starts nor ends a row of refusals."""
    return structs.replace(target, fail=target.fail + 1)


def refused(
    target: RouteTarget, now: float, settings: BlockedSettings, retry_after: float | None = None
) -> RouteTarget:
    """One more refusal; from the `after`-th in a row on, it is blocked for `base_s * factor^level` or the Retry-After.

    Refusals that arrive while it is blocked are those of requests sent before: they lengthen nothing.
    """
    counted = structs.replace(
        target, blocked=target.blocked + 1, consecutive_blocked=target.consecutive_blocked + 1
    )
    if counted.consecutive_blocked < settings.after or is_blocked(target, now):
        return counted
    wait = settings.base_s * settings.factor ** min(target.level, 64)
    if retry_after is not None and retry_after > 0:
        wait = retry_after
    return structs.replace(counted, blocked_until=now + min(wait, settings.max_s), level=target.level + 1)


def circuit_opens(blocks: Iterable[Block], target: str, now: float, settings: BlockedSettings) -> bool:
    """Whether a target refuses so many routes that it is its own affair: its tasks wait, routes are punished no more."""
    since = now - settings.circuit_window_s
    routes = {each.route_id for each in blocks if each.target == target and since < each.at <= now}
    return len(routes) >= settings.circuit_routes


def route_is_blocked(blocks: Iterable[Block], route_id: str, now: float, settings: BlockedSettings) -> bool:
    """Whether so many targets refuse a route that it needs a rest: COOLDOWN(BLOCKED)."""
    since = now - settings.route_window_s
    targets = {each.target for each in blocks if each.route_id == route_id and since < each.at <= now}
    return len(targets) >= settings.route_targets
