"""Frozen groups of routes: their checks are not made and no failure counts, since the judge or the network is down."""

from __future__ import annotations

from typing import Any

from ..rules.route_errors import ErrorType
from . import alerts
from .transaction import ENGINE, Transaction


def freeze(tx: Transaction, group: str, broken: ErrorType) -> None:
    """Freeze a group because of what is broken instead of its routes. Told once, however many groups it hits."""
    tx.connection.execute(
        "INSERT INTO group_state(name, frozen_at, frozen_reason, updated_at) VALUES (:group, :now, :why, :now)"
        " ON CONFLICT DO UPDATE SET frozen_at = coalesce(frozen_at, :now), frozen_reason = :why, updated_at = :now",
        {"group": group, "now": tx.now, "why": broken.value},
    )
    tx.event("ROUTES_FROZEN", actor=ENGINE, level="warning", reason=broken.value, message=f"group {group}")
    alerts.stands(tx, broken.value, f"{broken.meaning}: routes stay as they are until it is back")


def thaw(tx: Transaction, group: str) -> None:
    """What was broken works again."""
    row = tx.row("SELECT frozen_reason FROM group_state WHERE name = ? AND frozen_at IS NOT NULL", group)
    if row is None:
        return
    tx.connection.execute(
        "UPDATE group_state SET frozen_at = NULL, frozen_reason = NULL, updated_at = ? WHERE name = ?",
        (tx.now, group),
    )
    why = row["frozen_reason"]
    tx.event("ROUTES_THAWED", actor=ENGINE, reason=why, message=f"group {group}")
    if tx.row("SELECT 1 FROM group_state WHERE frozen_reason = ?", why) is None:
        alerts.over(tx, why, "routes are judged again")


def frozen(tx: Transaction) -> list[str]:
    """The groups that are frozen now."""
    sql = "SELECT name FROM group_state WHERE frozen_at IS NOT NULL ORDER BY name"
    return [row[0] for row in tx.connection.execute(sql)]


def ask_others(tx: Transaction, group: str, but: str, count: int) -> None:
    """Check so many other routes of a group now: those that worked last are the best witnesses."""
    tx.connection.execute(
        "UPDATE route_health SET next_check_boot = ?, next_check_at = ? WHERE route_id IN (SELECT h.route_id"
        ' FROM route_health h JOIN route p USING (route_id) WHERE p."group" = ? AND p.removed_at IS NULL'
        " AND h.route_id <> ? AND h.probe_token IS NULL AND EXISTS (SELECT 1 FROM route_slot s"
        " WHERE s.route_id = h.route_id AND s.state = 'AVAILABLE') ORDER BY h.last_ok_at DESC LIMIT ?)",
        (tx.boot, tx.now, group, but, count),
    )


def witness(tx: Transaction, group: str) -> dict[str, Any] | None:
    """The route of a group that worked last and that may be asked now, as it is declared."""
    return tx.row(
        'SELECT p.* FROM route p JOIN route_health h USING (route_id) WHERE p."group" = ? AND p.removed_at IS NULL'
        " AND h.last_ok_at IS NOT NULL AND EXISTS (SELECT 1 FROM route_slot s WHERE s.route_id = p.route_id"
        " AND s.state = 'AVAILABLE') ORDER BY h.last_ok_at DESC LIMIT 1",
        group,
    )
