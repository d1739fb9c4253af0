"""Routes as the choice sees them, and what of them is claimed. How one is chosen is decided in `rules.route_choice`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs

from ..rules import route_health
from ..rules import routes as schedule
from ..rules.resource_states import AVAILABLE, BUSY, COOLDOWN
from ..rules.route_errors import ErrorType
from ..rules.route_filter import RouteCandidate
from ..rules.route_settings import RouteSettings
from ..rules.timing import seconds_between
from . import route_targets
from .routes import health_of, only_rests, standing_of
from .slots import FREE, ROUTES
from .transaction import Transaction

Row = dict[str, Any]

_KNOWN = (
    'SELECT h.*, p."group", p.labels, p.capacity, p.max_uses, p.max_age, g.frozen_reason FROM route p'
    ' JOIN route_health h USING (route_id) LEFT JOIN group_state g ON g.name = p."group"'
    ' WHERE p.removed_at IS NULL AND (p."group" = :wish OR p.route_id = :wish) ORDER BY p.route_id'
)


def of_wish(tx: Transaction, wish: str, settings: RouteSettings) -> list[RouteCandidate]:
    """The routes of a group (or the one of this id), whatever target they are wanted for."""
    slots: dict[str, list[Row]] = defaultdict(list)
    condition = 'p.removed_at IS NULL AND (p."group" = ? OR p.route_id = ?)'
    for row in ROUTES.rows(tx, condition, wish, wish):
        slots[row["route_id"]].append(row)
    return [_candidate(tx, row, slots[row["route_id"]], settings) for row in tx.rows(_KNOWN, wish=wish)]


def for_target(tx: Transaction, routes: list[RouteCandidate], target: str) -> list[RouteCandidate]:
    """The same routes with what this target does to them."""
    blocked = route_targets.blocked_at(tx, target)
    if not blocked:
        return routes
    return [
        structs.replace(each, blocked_until=blocked[each.id]) if each.id in blocked else each
        for each in routes
    ]


def exits_in_use(tx: Transaction) -> frozenset[str]:
    """The exit addresses of the routes that are held now."""
    sql = (
        "SELECT DISTINCT h.exit_ip FROM route_health h JOIN route_slot s USING (route_id)"
        " WHERE s.state IN ('LEASED','RUNNING') AND h.exit_ip IS NOT NULL"
    )
    return frozenset(row[0] for row in tx.connection.execute(sql))


def claim_slot(
    tx: Transaction, route_id: str, task: Mapping[str, Any], lease: float, owner: str
) -> Row | None:
    """Claim a free slot of this route and return the route's row; None where none is free any more."""
    free = ROUTES.rows(tx, f"s.route_id = ? AND {FREE}", route_id)
    if not free:
        return None
    ROUTES.claim(tx, min(free, key=lambda row: row["last_used_at"] or ""), task, lease, owner)
    return tx.row("SELECT * FROM route WHERE route_id = ?", route_id)


def turn_of(tx: Transaction, group: str) -> str:
    """The route of this group that was chosen last."""
    row = tx.row("SELECT last_route FROM group_state WHERE name = ?", group)
    return "" if row is None else row["last_route"] or ""


def note_turn(tx: Transaction, group: str, route_id: str) -> None:
    """This route of the group was chosen."""
    tx.connection.execute(
        "INSERT INTO group_state(name, last_route, updated_at) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET last_route = excluded.last_route, updated_at = excluded.updated_at",
        (group, route_id, tx.now),
    )


def _candidate(tx: Transaction, row: Row, slots: list[Row], settings: RouteSettings) -> RouteCandidate:
    standing, health = standing_of(slots), health_of(tx, row)
    known = route_health.score(health, tx.boot, settings.score)
    used = max((slot["last_used_at"] for slot in slots if slot["last_used_at"]), default=None)
    return RouteCandidate(
        id=row["route_id"],
        group=row["group"],
        labels=_labels(row["labels"]),
        region=row["exit_region"],
        state=AVAILABLE if standing.state in BUSY else standing.state,
        cooldown_reason=standing.reason,
        next_probe_at=row["next_check_boot"],
        score=known.value if known else None,
        degraded=bool(row["degraded"]),
        recovered_at=health.recovered_at,
        capacity=row["capacity"],
        busy=sum(slot["state"] in BUSY for slot in slots),
        resting=sum(slot["state"] == COOLDOWN and only_rests(slot) for slot in slots),
        uses=sum(slot["uses"] for slot in slots),
        max_uses=row["max_uses"],
        worn_out=_is_old(tx, row, slots),
        last_used_at=None if used is None else tx.boot - seconds_between(used, tx.now),
        exit_ip=row["exit_ip"],
        verified=_is_verified(tx, row, health, settings),
        last_error=row["last_error_type"] or "",
    )


def _is_verified(
    tx: Transaction, row: Row, health: route_health.RouteHealth, settings: RouteSettings
) -> bool:
    """Lately seen to work, or it can't be told: nothing is checked at all, or the judge is down and it worked before."""
    if not settings.probe_urls:
        return True
    if row["frozen_reason"] == ErrorType.PROBE_TARGET_DOWN and health.samples:
        return True
    return not schedule.must_verify(health, tx.boot, settings)


def _is_old(tx: Transaction, row: Row, slots: list[Row]) -> bool:
    since = min((slot["fresh_since"] for slot in slots if slot["fresh_since"]), default=None)
    return bool(row["max_age"] and since and seconds_between(since, tx.now) >= row["max_age"])


def _labels(text: str) -> frozenset[str]:
    """`city` and `city=Berlin` for a label that says so."""
    if text == "{}":
        return frozenset()
    labels = msgspec.json.decode(text)
    return frozenset(labels) | {f"{name}={value}" for name, value in labels.items()}
