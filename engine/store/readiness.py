"""What the checks of resources found, and which may be handed out now. What an answer means is in `rules.readiness`.

A row is there for each resource that has a check. Whoever checks has claimed that before; one that died is retaken when its
time is over.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ..rules import readiness as rules
from ..rules.readiness import CHECKING, NOT_READY, READY, ReadySettings
from ..rules.resource_states import FAULT, ResourceEvent
from ..rules.resources import Change
from ..rules.selection import PoolRoom
from .slots import ENGINE, FREE, RESOURCES
from .transaction import Transaction, marks


def sync(tx: Transaction, declared: Iterable[str]) -> None:
    """A row for each of these, and none for any other."""
    names = list(declared)
    tx.connection.execute(f"DELETE FROM resource_ready WHERE resource_id NOT IN ({marks(len(names))})", names)
    tx.connection.executemany(
        "INSERT INTO resource_ready (resource_id) VALUES (?) ON CONFLICT DO NOTHING",
        [(one,) for one in names],
    )


def without_unready(
    connection: sqlite3.Connection, pools: Mapping[str, PoolRoom], now: str
) -> Mapping[str, PoolRoom]:
    """The rooms of pools without what is free there and not ready at this UTC time, and with the words why. Reads only."""
    cursor = connection.execute(
        "SELECT p.pool, r.resource_id, r.state, r.detail, r.until_at, count(*) FROM resource_ready r"
        " JOIN resource p USING (resource_id) JOIN resource_slot s USING (resource_id)"
        f" WHERE r.state IN (?, ?) AND r.until_at > ? AND p.removed_at IS NULL AND {FREE}"
        " GROUP BY r.resource_id ORDER BY r.resource_id",
        (NOT_READY, CHECKING, now),
    )
    rooms: dict[str, PoolRoom] = {}
    for pool, name, state, detail, until, count in cursor.fetchall():
        room = rooms.get(pool) or pools[pool]
        words = "; ".join(filter(None, (room.words, _words(name, state, detail or "", until))))
        rooms[pool] = replace(room, free=max(0, room.free - count), words=words)
    return {**pools, **rooms} if rooms else pools


def next_due(tx: Transaction) -> str | None:
    """When the next check of one that is not ready may be made (UTC text)."""
    sql = "SELECT min(until_at) FROM resource_ready WHERE state IN (?, ?) AND until_at > ?"
    return tx.connection.execute(sql, (NOT_READY, CHECKING, tx.now)).fetchone()[0]


def claim(tx: Transaction, pools: Iterable[str], limit: int, seconds: Mapping[str, float]) -> list[str]:
    """Claim the checks that are due of free resources in these pools, the least recently used first. Returns their ids.

    `seconds` is for how long, by resource.
    """
    names = list(pools)
    rows = tx.rows(
        "SELECT r.resource_id, min(coalesce(s.last_used_at, '')) AS used FROM resource_ready r"
        " JOIN resource p USING (resource_id) JOIN resource_slot s USING (resource_id)"
        f" WHERE p.removed_at IS NULL AND p.pool IN ({marks(len(names))}) AND {FREE}"
        " AND (r.until_boot IS NULL OR r.until_boot <= ? OR r.boot_id IS NOT ?)"
        " GROUP BY r.resource_id ORDER BY used, r.resource_id LIMIT ?",
        *names,
        tx.boot,
        tx.boot_id,
        limit,
    )
    claimed = [row["resource_id"] for row in rows if row["resource_id"] in seconds]
    for name in claimed:
        _write(tx, name, CHECKING, tx.boot + seconds[name])
    return claimed


def give_up(tx: Transaction, name: str) -> None:
    """Its check was not ended: it is due again."""
    _write(tx, name, None, tx.boot)


def record(tx: Transaction, name: str, ok: bool, detail: str, settings: ReadySettings) -> None:
    """Let an answer count, with its events."""
    row = tx.row("SELECT * FROM resource_ready WHERE resource_id = ?", name)
    if row is None:
        return
    detail = tx.redactor.text(detail)
    found = rules.judge(ok, row["failures"], tx.boot, settings)
    _write(tx, name, found.state, found.until, detail=detail, failures=found.failures)
    if ok != (row["failures"] == 0):
        _tell(tx, name, ok, detail)
    if found.fault:
        _fault(tx, name, f"{found.failures} checks in a row failed: {detail}")


def _fault(tx: Transaction, name: str, why: str) -> None:
    """Nobody gets it until it was tried again, or a person has looked."""
    for slot in RESOURCES.rows(tx, f"s.resource_id = ? AND {FREE}", name):
        RESOURCES.apply(tx, slot, Change(FAULT, ResourceEvent.FATAL_ERROR), message=why, error=why)
    tx.event(
        "ALERT_RAISED",
        actor=ENGINE,
        level="error",
        reason="resource_fault",
        message=f"{name}: {why}",
        resource_id=name,
    )


def _tell(tx: Transaction, name: str, ok: bool, detail: str) -> None:
    tx.event(
        "RESOURCE_READY" if ok else "RESOURCE_NOT_READY",
        actor=ENGINE,
        level="info" if ok else "warning",
        reason="checked",
        message=detail,
        resource_id=name,
    )


def _write(tx: Transaction, name: str, state: str | None, until: float, **more: Any) -> None:
    columns = {
        "state": state,
        "until_boot": until,
        "until_at": tx.utc_at(until),
        "boot_id": tx.boot_id,
        **more,
    }
    if state in (READY, NOT_READY):
        columns["checked_at"] = tx.now
    names = ", ".join(f"{column} = ?" for column in columns)
    tx.connection.execute(
        f"UPDATE resource_ready SET {names} WHERE resource_id = ?", (*columns.values(), name)
    )


def _words(name: str, state: str, detail: str, until: str) -> str:
    if state == CHECKING:
        return f"{name} is being checked"
    return f"{name} is not ready{': ' if detail else ''}{detail} (asked again at {until[11:19]})"
