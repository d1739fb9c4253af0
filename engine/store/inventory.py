"""What there is: resources and routes as the configuration (or a person) declares them, brought into the database.

A declaration that is gone is not deleted: it takes no new lease, and its history stays. Passwords never come here, only the
reference to them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..errors import NotFound, Refused
from ..rules import resources as rules
from . import models as t
from .inserting import insert_row
from .slots import RESOURCES, ROUTES, SlotTable
from .transaction import Transaction

if TYPE_CHECKING:
    from ..rules.route_merge import KnownRoute


class Declared(NamedTuple):
    """One declaration: its id, how many slots, and the columns of its row (JSON columns as text)."""

    id: str
    capacity: int
    columns: Mapping[str, Any]


def json(value: Any) -> str:
    """The text of a JSON column."""
    return msgspec.json.encode(value).decode()


def sync_resources(tx: Transaction, declared: Sequence[Declared], origin: str = "config") -> list[str]:
    """Bring the resources of one origin to what is declared. Returns the ids that are new, changed or gone."""
    return _sync(tx, RESOURCES, declared, origin)


def knows_route(tx: Transaction, route_id: str) -> bool:
    """Is there a route of this id that is not removed?"""
    query = t.Route.select().where(t.Route.route_id == route_id, t.Route.removed_at.is_null())
    return bool(query.count(tx.db))


def add_route(tx: Transaction, declared: Declared) -> None:
    """Add one route that no configuration declares."""
    put_route(tx, declared, "cli")


def put_route(tx: Transaction, declared: Declared, origin: str) -> None:
    """Bring one route to what is declared of it; columns that it does not name stay as they are."""
    _upsert(tx, ROUTES, declared, origin)
    _health_rows(tx, [declared])


def remove_route(tx: Transaction, route_id: str, actor: str) -> str:
    """Take out a route that a person has added or imported. Returns what became of it.

    A live lease goes on to its end; its history stays, and adding or importing it again brings it back. Raises `NotFound`,
    and `Refused` for one that the configuration declares.
    """
    row = tx.row("SELECT origin FROM route WHERE route_id = ? AND removed_at IS NULL", route_id)
    if row is None:
        raise NotFound(f"there is no route {route_id!r}", remedy="see: taskdeck route list")
    if row["origin"] == "config":
        raise Refused(
            f"route {route_id} is declared by the configuration",
            "it would be back with the next reload",
            f"take its [[routes]] table out there, or: taskdeck route disable {route_id}",
        )
    tx.connection.execute(
        "UPDATE route SET removed_at = ?, updated_at = ?, config_rev = config_rev + 1 WHERE route_id = ?",
        (tx.now, tx.now, route_id),
    )
    tx.connection.execute("DELETE FROM affinity WHERE route_id = ?", (route_id,))
    tx.event("OPERATOR_ROUTE", actor=actor, route_id=route_id, reason="removed")
    held = [slot["task_id"] for slot in ROUTES.rows(tx, "s.route_id = ?", route_id) if slot["task_id"]]
    return (
        f"is removed{'; ' + ', '.join(f'#{each}' for each in held) + ' keeps it to its end' if held else ''}"
    )


def known_routes(connection: sqlite3.Connection) -> list[KnownRoute]:
    """Every route that there is or was, as an import compares it."""
    from ..rules.route_merge import KnownRoute

    sql = (
        'SELECT route_id, scheme, host, port, username, origin, removed_at, secret_ref, "group", labels, capacity,'
        " expected_regions, (SELECT count(*) FROM route_slot s WHERE s.route_id = route.route_id"
        " AND s.task_id IS NOT NULL) FROM route ORDER BY route_id"
    )
    return [
        KnownRoute(
            name,
            (scheme, host, port, username),
            {
                "secret_ref": reference,
                "group": group,
                "labels": msgspec.json.decode(labels),
                "capacity": capacity,
                "expected_regions": msgspec.json.decode(regions),
            },
            origin,
            held,
            removed is not None,
        )
        for name, scheme, host, port, username, origin, removed, reference, group, labels, capacity, regions, held in (
            connection.execute(sql)
        )
    ]


def sync_routes(tx: Transaction, declared: Sequence[Declared], origin: str = "config") -> list[str]:
    """Bring the routes of one origin to what is declared; each has a health row. Returns the ids that differ."""
    changed = _sync(tx, ROUTES, declared, origin)
    _health_rows(tx, declared)
    return changed


def _health_rows(tx: Transaction, declared: Sequence[Declared]) -> None:
    tx.connection.executemany(
        "INSERT INTO route_health (route_id, model, consecutive_successes, consecutive_failures, recent_timeouts,"
        " cooldown_level, degraded, checks, updated_at) SELECT ?, '{}', 0, 0, 0, 0, 0, 0, ?"
        " WHERE NOT EXISTS (SELECT 1 FROM route_health WHERE route_id = ?)",
        [(each.id, tx.now, each.id) for each in declared],
    )


def _sync(tx: Transaction, slots: SlotTable, declared: Sequence[Declared], origin: str) -> list[str]:
    touched = [each.id for each in declared if _upsert(tx, slots, each, origin)]
    known = tx.connection.execute(
        f"SELECT {slots.id_column} FROM {slots.parent} WHERE origin = ? AND removed_at IS NULL", (origin,)
    )
    names = {each.id for each in declared}
    gone = [name for (name,) in known.fetchall() if name not in names]
    tx.connection.executemany(
        f"UPDATE {slots.parent} SET removed_at = ?, updated_at = ? WHERE {slots.id_column} = ?",
        [(tx.now, tx.now, name) for name in gone],
    )
    return touched + gone


def _upsert(tx: Transaction, slots: SlotTable, each: Declared, origin: str) -> bool:
    """Insert or change one. Returns whether anything differs from what was known."""
    row = tx.row(f"SELECT * FROM {slots.parent} WHERE {slots.id_column} = ?", each.id)
    if row is not None and not _differs(row, each) and not row["removed_at"]:
        return False
    columns: dict[str, Any] = {
        **each.columns,
        "capacity": each.capacity,
        "origin": origin,
        "updated_at": tx.now,
    }
    if row is None:
        insert_row(tx.connection, slots.parent, {slots.id_column: each.id, "config_rev": 1, **columns})
    else:
        model: Any = t.Resource if slots is RESOURCES else t.Route
        columns |= {"config_rev": row["config_rev"] + 1, "removed_at": None}
        model.update(columns).where(getattr(model, slots.id_column) == each.id).execute(tx.db)
        if slots is ROUTES and (row["removed_at"] or any(row[name] != each.columns[name] for name in EXIT)):
            _another_exit(tx, each.id)
        _edited(tx, slots, each.id)
    _fit_slots(tx, slots, each)
    return True


def _differs(row: Mapping[str, Any], each: Declared) -> bool:
    return row["capacity"] != each.capacity or any(row[name] != value for name, value in each.columns.items())


def _edited(tx: Transaction, slots: SlotTable, name: str) -> None:
    """What was out of service is tried with its new declaration now."""
    for row in slots.rows(tx, f"s.{slots.id_column} = ?", name):
        change = rules.edited(slots.as_rule(row), tx.boot)
        if change is not None:
            slots.apply(tx, row, change, message="its declaration was changed")


EXIT = ("scheme", "host", "port", "username", "secret_ref", "expected_ip", "expected_regions")
"""What makes a route the exit that it is: with any other of these, what was measured says nothing any more."""


def _another_exit(tx: Transaction, route_id: str) -> None:
    """Nothing is known of it: it is checked now, with its address, and before anybody gets it. Its level is remembered."""
    tx.connection.execute(
        "UPDATE route_health SET model = '{}', score = NULL, latency_ms = NULL, degraded = 0, consecutive_successes = 0,"
        " consecutive_failures = 0, recent_timeouts = 0, last_error_type = NULL, last_error_detail = NULL, last_ok_at = NULL,"
        " exit_seen_at = NULL, checks = 0, next_check_boot = ?, next_check_at = ?, updated_at = ? WHERE route_id = ?",
        (tx.boot, tx.now, tx.now, route_id),
    )


def _fit_slots(tx: Transaction, slots: SlotTable, each: Declared) -> None:
    """As many slots as the capacity says: new ones AVAILABLE, surplus idle ones gone, surplus busy ones drained."""
    sql = f"SELECT ifnull(max(number), 0) FROM {slots.table} WHERE {slots.id_column} = ?"
    (last,) = tx.connection.execute(sql, (each.id,)).fetchone()
    for number in range(last + 1, each.capacity + 1):
        insert_row(
            tx.connection,
            slots.table,
            {slots.id_column: each.id, "number": number, "state": "AVAILABLE", "fence": 0}
            | {"drain": 0, "uses": 0, "rechecks": 0, "fresh_since": tx.now, "updated_at": tx.now},
        )
    if not last:
        return
    model: Any = t.ResourceSlot if slots is RESOURCES else t.RouteSlot
    for row in slots.rows(tx, f"s.{slots.id_column} = ?", each.id):
        if row["number"] > each.capacity:
            _withdraw(tx, slots, model, row)
        elif row["last_error"] == WITHDRAWN:
            _bring_back(tx, slots, model, row)


WITHDRAWN = "the capacity was reduced"
"""What stands in a slot that is too many and still busy; it marks what a larger capacity brings back."""


def _withdraw(tx: Transaction, slots: SlotTable, model: Any, row: Mapping[str, Any]) -> None:
    """One slot too many: an idle one goes, a busy one when its attempt ends."""
    if row["task_id"] is None:
        model.delete().where(model.id == row["id"]).execute(tx.db)
    else:
        model.update(drain=1, last_error=WITHDRAWN).where(model.id == row["id"]).execute(tx.db)


def _bring_back(tx: Transaction, slots: SlotTable, model: Any, row: Mapping[str, Any]) -> None:
    """A slot that was only too many for a while: busy or drained meanwhile, it is one like the others again."""
    if row["state"] == "DISABLED":
        slots.apply(tx, row, rules.enable(slots.as_rule(row), tx.boot, CONFIGURATION), actor=CONFIGURATION)
    model.update(drain=0, last_error=None).where(model.id == row["id"]).execute(tx.db)


CONFIGURATION = "config:capacity"
"""The actor of what a person did by changing the configuration."""
