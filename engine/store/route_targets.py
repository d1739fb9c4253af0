"""What targets do to routes: counts, blocks and witnesses. What a result means is decided in `rules.route_targets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..rules import route_targets as rules
from ..rules.route_settings import BlockedSettings
from ..rules.route_targets import Block, RouteTarget
from .slots import FREE
from .transaction import ENGINE, Transaction

MOST_TARGETS = 500
"""Targets remembered of one route: a crawler meets millions."""


class Refusal(NamedTuple):
    """What one more refusal came to: is the route blocked there since now, is it the target's affair, or the route's."""

    blocked: bool
    circuit: bool
    route: bool


def reached(tx: Transaction, route_id: str, target: str) -> None:
    """The route got through to the target, whatever it said."""
    _set(
        tx,
        route_id,
        target,
        {"reached_boot": tx.boot, "last_reached_at": tx.now, "boot_id": tx.boot_id},
    )


def succeeded(tx: Transaction, route_id: str, target: str) -> None:
    """The target answered as it should."""
    _save(tx, route_id, target, rules.succeeded(_of(tx, route_id, target)))


def failed(tx: Transaction, route_id: str, target: str) -> None:
    """The target failed by itself."""
    _save(tx, route_id, target, rules.failed(_of(tx, route_id, target)))


def refused(
    tx: Transaction,
    route_id: str,
    target: str,
    settings: BlockedSettings,
    *,
    retry_after: float | None = None,
    since: float = 0.0,
) -> Refusal:
    """The target refuses the route once more. Blocks of the route from before `since` (boot clock) count no more."""
    known = _of(tx, route_id, target)
    now = rules.refused(known, tx.boot, settings, retry_after)
    blocked = now.level > known.level
    _save(tx, route_id, target, now, blocked=blocked)
    if not blocked:
        return Refusal(False, False, False)
    tx.event(
        "ROUTE_BLOCKED",
        actor=ENGINE,
        route_id=route_id,
        level="warning",
        reason="refused",
        message=f"{target} until {_until(tx, now)}",
        payload={"target": target, "until": _until(tx, now), "level": now.level},
    )
    blocks = _blocks(tx, route_id, target)
    return Refusal(
        True,
        rules.circuit_opens(blocks, target, tx.boot, settings),
        rules.route_is_blocked([each for each in blocks if each.at > since], route_id, tx.boot, settings),
    )


def witnessed_at(tx: Transaction, target: str, but: str) -> float | None:
    """When (boot clock) another route than `but` last got through to this target."""
    sql = "SELECT max(reached_boot) FROM route_target WHERE target = ? AND route_id <> ? AND boot_id = ?"
    return tx.connection.execute(sql, (target, but, tx.boot_id)).fetchone()[0]


def blocked_at(tx: Transaction, target: str) -> dict[str, float]:
    """The routes that this target refuses now, and until when (boot clock)."""
    if not target:
        return {}
    sql = "SELECT route_id, blocked_until_boot FROM route_target WHERE target = ? AND blocked_until_boot > ?"
    return dict(tx.connection.execute(sql, (target, tx.boot)).fetchall())


def refused_everywhere(tx: Transaction) -> dict[tuple[str, str], str]:
    """(group or route, target) → when it ends (UTC text), where a target refuses every route of it that could be had now."""
    sql = (
        "SELECT wish, target, min(until) FROM (SELECT {wish} AS wish, t.target, t.blocked_until AS until"
        " FROM route_target t JOIN route p USING (route_id) WHERE p.removed_at IS NULL AND t.blocked_until_boot > :now)"
        " AS refused WHERE NOT EXISTS (SELECT 1 FROM route p JOIN route_slot s USING (route_id)"
        f" WHERE p.removed_at IS NULL AND {{wish}} = refused.wish AND {FREE}"
        " AND NOT EXISTS (SELECT 1 FROM route_target b WHERE b.route_id = p.route_id"
        " AND b.target = refused.target AND b.blocked_until_boot > :now)) GROUP BY wish, target"
    )
    any_block = (
        "SELECT 1 FROM route_target WHERE blocked_until IS NOT NULL AND blocked_until_boot > ? LIMIT 1"
    )
    if tx.connection.execute(any_block, (tx.boot,)).fetchone() is None:
        return {}
    found: dict[tuple[str, str], str] = {}
    for wish in ("p.route_id", 'p."group"'):
        for name, target, until in tx.connection.execute(sql.format(wish=wish), {"now": tx.boot}):
            found[name, target] = until
    return found


def next_unblocked(tx: Transaction) -> str | None:
    """When the next block ends (UTC text)."""
    sql = "SELECT min(blocked_until) FROM route_target WHERE blocked_until IS NOT NULL AND blocked_until_boot > ?"
    return tx.connection.execute(sql, (tx.boot,)).fetchone()[0]


def rebase(tx: Transaction) -> None:
    """After a reboot blocks go on by the UTC time at which they end; witnesses of the boot before are none."""
    rows = tx.rows("SELECT * FROM route_target WHERE boot_id IS NOT NULL AND boot_id <> ?", tx.boot_id)
    for row in rows:
        until = tx.boot_at(row["blocked_until"]) if row["blocked_until"] else None
        tx.connection.execute(
            "UPDATE route_target SET blocked_until_boot = ?, blocked_boot = NULL, reached_boot = NULL, boot_id = ?"
            " WHERE route_id = ? AND target = ?",
            (until, tx.boot_id, row["route_id"], row["target"]),
        )


def _of(tx: Transaction, route_id: str, target: str) -> RouteTarget:
    row = tx.row("SELECT * FROM route_target WHERE route_id = ? AND target = ?", route_id, target)
    if row is None:
        return RouteTarget()
    counts = {name: row[name] for name in ("ok", "fail", "blocked", "consecutive_blocked", "level")}
    return RouteTarget(**counts, blocked_until=row["blocked_until_boot"])


def _save(tx: Transaction, route_id: str, target: str, now: RouteTarget, *, blocked: bool = False) -> None:
    columns: dict[str, Any] = {
        **{name: getattr(now, name) for name in ("ok", "fail", "blocked", "consecutive_blocked", "level")},
        "blocked_until": _until(tx, now),
        "blocked_until_boot": now.blocked_until,
        "boot_id": tx.boot_id,
    }
    if blocked:
        columns |= {"blocked_boot": tx.boot, "last_blocked_at": tx.now}
    _set(tx, route_id, target, columns)


def _set(tx: Transaction, route_id: str, target: str, columns: Mapping[str, Any]) -> None:
    place = (route_id, target)
    added = tx.connection.execute(
        "INSERT OR IGNORE INTO route_target(route_id, target) VALUES (?, ?)", place
    ).rowcount
    tx.connection.execute(
        f"UPDATE route_target SET {', '.join(f'{name} = ?' for name in columns)} WHERE route_id = ? AND target = ?",
        (*columns.values(), *place),
    )
    if added:
        _forget_the_oldest(tx, route_id)


def _until(tx: Transaction, target: RouteTarget) -> str | None:
    return None if target.blocked_until is None else tx.utc_at(target.blocked_until)


def _blocks(tx: Transaction, route_id: str, target: str) -> list[Block]:
    rows = tx.rows(
        "SELECT route_id, target, blocked_boot FROM route_target WHERE blocked_boot IS NOT NULL AND boot_id = ?"
        " AND (route_id = ? OR target = ?)",
        tx.boot_id,
        route_id,
        target,
    )
    return [Block(row["route_id"], row["target"], row["blocked_boot"]) for row in rows]


def _forget_the_oldest(tx: Transaction, route_id: str) -> None:
    """Keep what is blocked and the targets met last: a route that crawls would remember every host there is."""
    tx.connection.execute(
        "DELETE FROM route_target WHERE route_id = ? AND coalesce(blocked_until, '') <= ? AND target NOT IN"
        " (SELECT target FROM route_target WHERE route_id = ? ORDER BY coalesce(last_reached_at, '') DESC LIMIT ?)",
        (route_id, tx.now, route_id, MOST_TARGETS),
    )
