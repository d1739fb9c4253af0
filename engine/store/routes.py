"""Routes: their health, who may be chosen, the probe claims, and what samples change. What they mean is in the rules.

A live lease is never revoked for health: what a busy slot should become is remembered as `pending` and done at its release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..rules import route_cooldown, route_health
from ..rules import routes as schedule
from ..rules.resource_states import (
    AVAILABLE,
    BUSY,
    COOLDOWN,
    DISABLED,
    FAULT,
    RESTING,
    CooldownReason,
    ResourceState,
)
from ..rules.resources import Change
from ..rules.route_cooldown import Group, Standing, Uniform
from ..rules.route_drift import IpPolicy, Seen, drift
from ..rules.route_errors import ErrorType
from ..rules.route_health import RouteHealth, Sample
from ..rules.route_settings import RouteSettings
from ..rules.timing import add_seconds, seconds_between
from .slots import ENGINE, ROUTES
from .transaction import Transaction, marks

Row = dict[str, Any]


def standing_of(slots: list[Row]) -> Standing:
    """One standing for all slots of a route: what keeps any of them out for its health is the route's."""
    for wanted in (FAULT, COOLDOWN):
        for row in slots:
            out = row["state"] == wanted and (wanted is FAULT or not only_rests(row))
            if out:
                return _standing(row)
    if all(row["state"] == DISABLED for row in slots):
        return Standing(DISABLED)
    for state in (AVAILABLE, *BUSY, COOLDOWN, DISABLED):
        for row in slots:
            if row["state"] == state:
                return _standing(row)
    return Standing()


def only_rests(row: Mapping[str, Any]) -> bool:
    return row["cooldown_reason"] in RESTING


def _standing(row: Mapping[str, Any]) -> Standing:
    return Standing(
        ResourceState(row["state"]),
        CooldownReason(row["cooldown_reason"]) if row["cooldown_reason"] else None,
        row["cooldown_until_boot"] or 0.0,
        msgspec.json.decode(row["pending"], type=Change) if row["pending"] else None,
    )


def health_of(tx: Transaction, row: Mapping[str, Any]) -> RouteHealth:
    """The health model of a `route_health` row; one of another boot knows times of another clock and starts anew."""
    if row["model"] == "{}" or row["boot_id"] != tx.boot_id:
        return RouteHealth(cooldown_level=row["cooldown_level"])
    return msgspec.json.decode(row["model"], type=RouteHealth)


def is_held_by(tx: Transaction, route_id: str, fence: int) -> bool:
    """Does the attempt of this fence hold a slot of this route?"""
    return bool(ROUTES.rows(tx, "s.route_id = ? AND s.fence = ? AND s.task_id IS NOT NULL", route_id, fence))


def slots_of(tx: Transaction, route_id: str) -> list[Row]:
    """The slots of a route."""
    return ROUTES.rows(tx, "s.route_id = ?", route_id)


def count(tx: Transaction) -> int:
    """How many routes there are, whoever declared them."""
    return tx.connection.execute("SELECT count(*) FROM route WHERE removed_at IS NULL").fetchone()[0]


def due_for_probe(tx: Transaction, limit: int) -> list[Row]:
    """Routes whose probe is due and that nobody probes now, with their declaration; the longest due first."""
    sql = (
        f"SELECT p.*, {_SIZE} FROM {_PROBED} AND (h.next_check_boot IS NULL OR h.next_check_boot <= ?)"
        " ORDER BY coalesce(h.next_check_boot, 0), p.route_id LIMIT ?"
    )
    return tx.rows(sql, tx.boot, limit)


_PROBED = (
    "route p JOIN route_health h USING (route_id) WHERE p.removed_at IS NULL"
    ' AND NOT EXISTS (SELECT 1 FROM group_state g WHERE g.name = p."group" AND g.frozen_at IS NOT NULL)'
    " AND EXISTS (SELECT 1 FROM route_slot s WHERE s.route_id = p.route_id AND s.state <> 'DISABLED')"
)
"""Routes that are checked at all: not those that are switched off, nor those of a frozen group."""

_SIZE = '(SELECT count(*) FROM route q WHERE q."group" = p."group" AND q.removed_at IS NULL) AS group_size'


def references(tx: Transaction) -> dict[str, bool]:
    """Where the passwords of all routes stand → has a route that there still is its own there?

    Commands are left out: they are run only where a route is used.
    """
    sql = "SELECT secret_ref, max(removed_at IS NULL) FROM route WHERE secret_ref NOT LIKE 'cmd:%' GROUP BY secret_ref"
    return {reference: bool(still) for reference, still in tx.connection.execute(sql)}


def declared(tx: Transaction, route_ids: list[str]) -> list[Row]:
    """These routes as they are declared, with what a probe needs; unknown ones are left out."""
    return tx.rows(
        f"SELECT p.*, {_SIZE} FROM route p JOIN route_health h USING (route_id)"
        f" WHERE p.removed_at IS NULL AND p.route_id IN ({marks(len(route_ids))}) ORDER BY p.route_id",
        *route_ids,
    )


def needs_exit_stage(tx: Transaction, route_id: str, settings: RouteSettings) -> bool:
    """Whether the next probe also asks for the address at the other end."""
    row = _health_row(tx, route_id)
    seen = row["exit_seen_at"]
    seen_boot = None if seen is None else tx.boot - seconds_between(seen, tx.now)
    return schedule.needs_exit_stage(
        standing_of(slots_of(tx, route_id)), row["checks"], seen_boot, tx.boot, settings
    )


def put_off(tx: Transaction, route_id: str, seconds: float) -> None:
    """No probe for now: it is given up and looked at again later."""
    tx.connection.execute(
        "UPDATE route_health SET probe_token = NULL, probe_until_boot = NULL, next_check_boot = ?, next_check_at = ?"
        " WHERE route_id = ?",
        (tx.boot + seconds, add_seconds(tx.now, seconds), route_id),
    )


def at_start(tx: Transaction, settings: RouteSettings) -> None:
    """What an engine that starts knows of routes: results of another boot or from long ago prove nothing any more.

    Checks that are due or unknown spread over an interval, each route always at the same place in it. Those of the engine
    before have ended with it.
    """
    sql = "SELECT h.*, p.config_rev FROM route_health h JOIN route p USING (route_id) WHERE p.removed_at IS NULL"
    for row in tx.rows(sql):
        health = schedule.after_start(health_of(tx, row), tx.boot, settings)
        at = row["next_check_boot"]
        if row["boot_id"] != tx.boot_id or at is None or at <= tx.boot:
            at = schedule.first_probe_at(row["route_id"], tx.boot, settings.interval_s)
        tx.connection.execute(
            "UPDATE route_health SET model = ?, boot_id = ?, next_check_boot = ?, next_check_at = ?,"
            " probe_token = NULL, probe_until_boot = NULL WHERE route_id = ?",
            (
                msgspec.json.encode(health).decode(),
                tx.boot_id,
                at,
                tx.utc_at(at),
                row["route_id"],
            ),
        )


def next_probe(tx: Transaction) -> float | None:
    """Seconds until the next probe is due; None without routes."""
    at = tx.connection.execute(f"SELECT min(h.next_check_boot) FROM {_PROBED}").fetchone()[0]
    return None if at is None else max(0.0, at - tx.boot)


def claim_probe(tx: Transaction, route_id: str, token: str, seconds: float) -> bool:
    """Only one probe of a route at a time; one that died is retaken when its claim has run out."""
    row = _health_row(tx, route_id)
    if not schedule.may_probe(_claim(row), tx.boot):
        return False
    changed = tx.connection.execute(
        "UPDATE route_health SET probe_token = ?, probe_until_boot = ?, next_check_boot = ?, probe_rev = ?"
        " WHERE route_id = ? AND probe_token IS ?",
        (token, tx.boot + seconds, tx.boot + seconds, row["config_rev"], route_id, row["probe_token"]),
    )
    return changed.rowcount == 1


def return_unproven(tx: Transaction, settings: RouteSettings, uniform: Uniform) -> bool:
    """Where no judge is configured nothing can prove a route: its rest over, it returns and starts slowly. Did any?"""
    rows = ROUTES.rows(
        tx, "s.state = 'FAULT' OR (s.state = 'COOLDOWN' AND coalesce(s.cooldown_until_boot, 0) <= ?)", tx.boot
    )
    returned = False
    for route_id in dict.fromkeys(row["route_id"] for row in rows):
        health = health_of(tx, _health_row(tx, route_id))
        standing = standing_of(slots_of(tx, route_id))
        judgement = route_cooldown.unproven(standing, health, tx.boot, settings.cooldown)
        for change in judgement.changes:
            _change_all(tx, slots_of(tx, route_id), change, "its rest is over, and there is no judge to ask")
        if judgement.changes:
            _save_health(tx, route_id, judgement.health, settings, uniform)
            returned = True
    return returned


def drop_claim(tx: Transaction, route_id: str, token: str) -> None:
    """The check of this claim came to nothing, and nobody has taken it over."""
    tx.connection.execute(
        "UPDATE route_health SET probe_token = NULL, probe_until_boot = NULL WHERE route_id = ? AND probe_token = ?",
        (route_id, token),
    )


def _claim(row: Mapping[str, Any]) -> schedule.ProbeClaim | None:
    if row["probe_token"] is None:
        return None
    return schedule.ProbeClaim(row["probe_token"], row["probe_until_boot"] or 0.0, row["probe_rev"] or 0)


def prepare_probe(tx: Transaction, route_id: str, settings: RouteSettings) -> bool:
    """A route in FAULT whose re-check is due goes to COOLDOWN(PROBE), so that a probe may free it. Shall it be probed?

    Not while its only slot is in use: many providers allow one connection at a time.
    """
    row = _health_row(tx, route_id)
    slots = slots_of(tx, route_id)
    standing, health = standing_of(slots), health_of(tx, row)
    if len(slots) == 1 and standing.state in BUSY:
        return False
    if standing.state is FAULT:
        change = route_cooldown.recheck(standing, health, tx.boot, settings.cooldown)
        if change is None:
            return False
        _change_all(tx, slots, change, "its re-check is due")
    return standing.state is not DISABLED


def record(
    tx: Transaction,
    route_id: str,
    sample: Sample,
    *,
    source: str,
    settings: RouteSettings,
    uniform: Uniform,
    token: str | None = None,
    details: Mapping[str, Any] | None = None,
    target: str | None = None,
) -> bool:
    """Let one sample count: health, changes of state, the ring of samples, when to probe next, and the events.

    A probe's result with another token than the claim's is dropped. Returns whether it counted.
    """
    row = _health_row(tx, route_id)
    if token is not None and not schedule.result_counts(_claim(row), token, row["config_rev"]):
        return False
    keep_sample(tx, route_id, sample, source, target, settings.samples_kept)
    if token is not None:
        _probed_event(tx, route_id, sample, details or {})
        _drift_event(tx, row, details or {})
    elif row["frozen_at"] and sample.error is not None:
        return False  # the network or the judge is down: nobody knows whose failure it is
    judgement = route_cooldown.judge(
        standing_of(slots_of(tx, route_id)),
        health_of(tx, row),
        sample,
        _group(tx, route_id),
        settings,
        uniform,
    )
    for change in judgement.changes:
        why = sample.error.value if sample.error else "a probe passed"
        _change_all(tx, slots_of(tx, route_id), change, why)
    _save(tx, route_id, judgement.health, sample, settings, uniform, details or {}, probe=token is not None)
    if judgement.alert:
        error = sample.error.value if sample.error else ""
        tx.event(
            "ALERT_RAISED",
            actor=ENGINE,
            route_id=route_id,
            level="error",
            reason="route_fault",
            message=error,
        )
    return True


def verify_soon(tx: Transaction, route_ids: list[str], settings: RouteSettings) -> bool:
    """Check these before they are handed out: now, or soon after a check that told nothing good. Is any due now?"""
    due = False
    for route_id in route_ids:
        row = _health_row(tx, route_id)
        last = health_of(tx, row).last_at
        at = tx.boot if last is None else max(tx.boot, last + settings.fast_interval_s)
        if row["boot_id"] != tx.boot_id or row["next_check_boot"] is None or at < row["next_check_boot"]:
            _next_check(tx, route_id, at)
            due = due or at <= tx.boot
    return due


def _next_check(tx: Transaction, route_id: str, at: float) -> None:
    tx.connection.execute(
        "UPDATE route_health SET next_check_boot = ?, next_check_at = ?, boot_id = ? WHERE route_id = ?",
        (at, tx.utc_at(at), tx.boot_id, route_id),
    )


def is_told(tx: Transaction, route_id: str, source: str, error: ErrorType) -> bool:
    """Has this attempt told of this error of the route already?"""
    sql = "SELECT 1 FROM route_sample WHERE route_id = ? AND source = ? AND error_type = ? LIMIT 1"
    return tx.connection.execute(sql, (route_id, source, error.value)).fetchone() is not None


def last_target(tx: Transaction, route_id: str, source: str) -> str:
    """The target that this attempt told of last."""
    sql = "SELECT target FROM route_sample WHERE route_id = ? AND source = ? ORDER BY id DESC LIMIT 1"
    row = tx.connection.execute(sql, (route_id, source)).fetchone()
    return (row and row[0]) or ""


def recovered_at(tx: Transaction, route_id: str) -> float:
    """When (boot clock) the route came back from its last cooldown; 0 where it had none."""
    return health_of(tx, _health_row(tx, route_id)).recovered_at or 0.0


def rest_from_refusals(tx: Transaction, route_id: str, settings: RouteSettings, uniform: Uniform) -> None:
    """So many targets refuse the route that it needs a rest: COOLDOWN(BLOCKED), at its release where it is held."""
    row, slots = _health_row(tx, route_id), slots_of(tx, route_id)
    judgement = route_cooldown.refused_by_many(
        standing_of(slots), health_of(tx, row), tx.boot, settings.cooldown, uniform
    )
    for change in judgement.changes:
        _change_all(tx, slots, change, "too many targets refuse it")
    if judgement.changes:
        _save_health(tx, route_id, judgement.health, settings, uniform)


def probe_soon(tx: Transaction, route_id: str) -> None:
    """Its next probe is due now."""
    tx.connection.execute(
        "UPDATE route_health SET next_check_boot = ?, next_check_at = ? WHERE route_id = ?",
        (tx.boot, tx.now, route_id),
    )


def _change_all(tx: Transaction, slots: list[Row], change: Change, message: str) -> None:
    """Each idle slot changes now; a busy one remembers it for its release; a DISABLED one is left alone."""
    for row in slots:
        state = ResourceState(row["state"])
        if state is DISABLED:
            continue
        if state in BUSY:
            if change.to in (COOLDOWN, FAULT):
                _remember(tx, row, change, message)
            continue
        if change.to is AVAILABLE and state is not COOLDOWN:
            continue
        ROUTES.apply(tx, row, change, message=message, error=message if change.to is FAULT else None)


def _remember(tx: Transaction, row: Row, change: Change, message: str) -> None:
    if row["pending"] is not None and change.to is not FAULT:
        return
    tx.connection.execute(
        "UPDATE route_slot SET pending = ?, updated_at = ? WHERE id = ?",
        (msgspec.json.encode(change).decode(), tx.now, row["id"]),
    )
    tx.event(
        "ROUTE_STATE",
        actor=ENGINE,
        route_id=row["route_id"],
        task_id=row["task_id"],
        level="warning",
        reason="remembered",
        message=f"{change.to} at its release: {message}",
    )


def _health_row(tx: Transaction, route_id: str) -> Row:
    row = tx.row(
        'SELECT h.*, p.config_rev, p."group", p.ip_policy, g.frozen_at FROM route_health h JOIN route p USING (route_id)'
        ' LEFT JOIN group_state g ON g.name = p."group" WHERE h.route_id = ?',
        route_id,
    )
    assert row is not None, route_id
    return row


def _group(tx: Transaction, route_id: str) -> Group:
    sql = (
        "SELECT count(DISTINCT s.route_id), count(DISTINCT CASE WHEN s.state IN ('COOLDOWN','FAULT')"
        " AND coalesce(s.cooldown_reason, '') NOT IN ('USE','EXPIRED','MANUAL') AND s.route_id <> ? THEN s.route_id END)"
        " FROM route_slot s JOIN route p USING (route_id) WHERE p.removed_at IS NULL AND s.state <> 'DISABLED'"
        ' AND p."group" = (SELECT "group" FROM route WHERE route_id = ?)'
    )
    enabled, ejected = tx.connection.execute(sql, (route_id, route_id)).fetchone()
    return Group(enabled=max(1, enabled), ejected=ejected)


def keep_sample(
    tx: Transaction, route_id: str, sample: Sample, source: str, target: str | None, kept: int
) -> None:
    """One more sample in the ring of the route, which holds so many."""
    tx.connection.execute(
        "INSERT INTO route_sample(route_id, at, source, stage, error_type, ms, target) VALUES (?,?,?,?,?,?,?)",
        (
            route_id,
            tx.now,
            source,
            sample.stages,
            sample.error.value if sample.error else None,
            sample.latency_ms,
            target,
        ),
    )
    tx.connection.execute(
        "DELETE FROM route_sample WHERE route_id = ? AND id <= (SELECT max(id) FROM route_sample WHERE route_id = ?) - ?"
        " AND id NOT IN (SELECT id FROM route_sample WHERE route_id = ? ORDER BY id DESC LIMIT ?)",
        (route_id, route_id, kept, route_id, kept),
    )


def count_bytes(tx: Transaction, route_id: str, count: int) -> None:
    """So many bytes went through it for a check, whatever becomes of its result: somebody may pay for each."""
    if count:
        tx.connection.execute(
            "UPDATE route_health SET probe_bytes = probe_bytes + ? WHERE route_id = ?", (count, route_id)
        )


def _probed_event(tx: Transaction, route_id: str, sample: Sample, details: Mapping[str, Any]) -> None:
    tx.event(
        "ROUTE_PROBED",
        actor=ENGINE,
        route_id=route_id,
        level="info" if sample.error is None else "warning",
        reason=sample.error.value if sample.error else "passed",
        message=str(details.get("detail") or ""),
        payload={
            "stages": sample.stages,
            "ms": {
                name: details[name]
                for name in ("tcp_ms", "probe_ms", "exit_ms")
                if details.get(name) is not None
            },
            "exit_ip": details.get("exit_ip"),
            "bytes": details.get("bytes"),
        },
    )


def _drift_event(tx: Transaction, row: Row, details: Mapping[str, Any]) -> None:
    """Tell of an exit that is not where it was; `row` is what was known before."""
    before = Seen(row["exit_ip"], row["exit_region"], row["region_source"])
    now = Seen(*(details.get(name) for name in ("exit_ip", "exit_region", "region_source")))
    if found := drift(before, now, IpPolicy(row["ip_policy"])):
        tx.event(
            "ROUTE_DRIFT",
            actor=ENGINE,
            route_id=row["route_id"],
            level="warning" if found.alarming else "info",
            reason=found.what,
            message=found.message,
            payload={"before": before._asdict(), "now": now._asdict()},
        )


def _save(
    tx: Transaction,
    route_id: str,
    health: RouteHealth,
    sample: Sample,
    settings: RouteSettings,
    uniform: Uniform,
    details: Mapping[str, Any],
    *,
    probe: bool,
) -> None:
    columns: dict[str, Any] = {"last_error_type": sample.error.value if sample.error else None}
    if sample.error is None:
        columns["last_ok_at"] = tx.now
    if probe:
        columns |= {
            "probe_token": None,
            "probe_until_boot": None,
            "last_check_at": tx.now,
            "last_stage": sample.stages,
        }
        columns["last_error_detail"] = tx.redactor.text(str(details.get("detail") or "")) or None
        for name in ("tcp_ms", "probe_ms", "exit_ms"):
            columns[name] = details.get(name)
        if details.get("exit_ip"):
            seen = ("exit_ip", "exit_region", "region_source")
            columns |= {name: details.get(name) for name in seen}
        if sample.error is None:
            columns["verified"] = details.get("verified")
        if sample.error is not None and sample.stages == 2:
            columns["exit_seen_at"] = None  # what is wrong there is looked at again, until it is right
        elif details.get("exit_ip"):
            columns |= {"exit_seen_at": tx.now, "checks": 0}
    more = ", checks = checks + 1" if probe and "checks" not in columns else ""
    _save_health(tx, route_id, health, settings, uniform, columns, more)


def _save_health(
    tx: Transaction,
    route_id: str,
    health: RouteHealth,
    settings: RouteSettings,
    uniform: Uniform,
    others: Mapping[str, Any] | None = None,
    more: str = "",
) -> None:
    slots = slots_of(tx, route_id)
    known = route_health.score(health, tx.boot, settings.score)
    first_at = schedule.first_probe_at(route_id, tx.boot, settings.interval_s)
    at = schedule.next_probe_at(
        standing_of(slots), health, first_at, settings, uniform, capacity=slots[0]["capacity"] if slots else 1
    )
    if at is None:
        at = tx.boot + settings.interval_s  # busy with its only slot, or DISABLED: look again later
    columns: dict[str, Any] = {
        "model": msgspec.json.encode(health).decode(),
        "score": known.shown if known else None,
        "latency_ms": health.latency_ms,
        "consecutive_successes": health.consecutive_successes,
        "consecutive_failures": health.consecutive_failures,
        "recent_timeouts": len(health.timeouts),
        "cooldown_level": health.cooldown_level,
        "degraded": int(health.degraded),
        "next_check_boot": at,
        "next_check_at": tx.utc_at(at),
        "boot_id": tx.boot_id,
        "updated_at": tx.now,
        **(others or {}),
    }
    names = ", ".join(f"{name} = ?" for name in columns)
    tx.connection.execute(
        f"UPDATE route_health SET {names}{more} WHERE route_id = ?", (*columns.values(), route_id)
    )
