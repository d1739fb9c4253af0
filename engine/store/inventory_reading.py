"""Reading resources and routes for screens and verbs: who holds what, and how routes do at this moment. Writes nothing.

What the engine decides by is asked of the same functions (`store.rooms`, `route_candidates.of_wish`): both never differ.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ..clock import Clock
from ..rules import route_health
from ..rules.circuits import CircuitSettings
from ..rules.inventory_shaping import RouteFacts, slot_name
from ..rules.route_filter import RouteWish, why_not
from ..rules.route_settings import RouteSettings
from ..rules.selection import Gate, PoolRoom
from ..rules.timing import utc_text
from . import circuits, readiness, route_candidates, route_targets, slots
from . import rooms as engine_rooms
from . import routes as engine_routes
from .reading import Reader, Row
from .transaction import Redacts, Transaction, marks

_RESOURCES = (
    "SELECT p.pool, p.kind, p.labels, p.capacity, p.min_reuse, p.removed_at, p.route_id, p.route_soft, p.max_uses,"
    " p.max_age, r.resource_id IS NOT NULL AS has_check, r.state AS ready_state, r.detail AS ready_detail,"
    " r.until_at AS ready_until, r.checked_at AS ready_checked_at, r.failures AS ready_failures, s.* FROM resource_slot s"
    " LEFT JOIN resource_ready r USING (resource_id)"
    " JOIN resource p USING (resource_id) WHERE (p.removed_at IS NULL OR s.task_id IS NOT NULL)"
    " ORDER BY p.pool, p.resource_id, s.number"
)
_ROUTES = (
    "SELECT p.*, h.* FROM route p JOIN route_health h USING (route_id)"
    " WHERE (p.removed_at IS NULL OR EXISTS (SELECT 1 FROM route_slot s WHERE s.route_id = p.route_id"
    ' AND s.task_id IS NOT NULL)) {more} ORDER BY p."group", p.route_id'
)


class Moment(NamedTuple):
    """When and by which rules it is looked at."""

    clock: Clock
    boot_id: str
    settings: RouteSettings
    redactor: Redacts

    def reading(self, connection: sqlite3.Connection) -> Transaction:
        """The shape in which the store's questions take a connection; it is never begun, for nothing is written."""
        tx = Transaction(connection, self.clock, self.boot_id, self.redactor)
        tx.now, tx.boot = utc_text(self.clock.utc()), self.clock.boot()
        return tx


class Holding(NamedTuple):
    """What a task or attempt holds or held: the names of resources, and a route."""

    resources: list[str]
    route: str | None


def rooms(reader: Reader, now: str) -> tuple[Mapping[str, PoolRoom], Mapping[str, PoolRoom]]:
    """The room of every pool, and of every group and single route."""

    def question(
        connection: sqlite3.Connection,
    ) -> tuple[Mapping[str, PoolRoom], Mapping[str, PoolRoom]]:
        pools = engine_rooms.of_pools(connection, now).load()
        return readiness.without_unready(connection, pools, now), engine_rooms.of_routes(
            connection, now
        ).load()

    return reader.ask(question)


def gates(
    reader: Reader, moment: Moment, settings: CircuitSettings
) -> tuple[dict[tuple[str, str], Gate], dict[tuple[str, str], str]]:
    """Circuits that are not closed, and where a target refuses every route of a group."""

    def question(
        connection: sqlite3.Connection,
    ) -> tuple[dict[tuple[str, str], Gate], dict[tuple[str, str], str]]:
        tx = moment.reading(connection)
        return circuits.gates(tx, settings), route_targets.refused_everywhere(tx)

    return reader.ask(question)


def resources(reader: Reader) -> list[Row]:
    """The slots of all resources with the columns of their resource."""
    return _rows(reader, _RESOURCES)


def routes(reader: Reader, moment: Moment, name: str | None = None) -> list[RouteFacts]:
    """All routes, or the one of this name, with their slots and their health at this moment."""

    def question(connection: sqlite3.Connection) -> list[RouteFacts]:
        tx = moment.reading(connection)
        of_route: dict[str, list[Row]] = {}
        for slot in slots.ROUTES.rows(tx, "? IS NULL OR s.route_id = ?", name, name):
            of_route.setdefault(slot["route_id"], []).append(slot)
        more, args = ("", ()) if name is None else ("AND p.route_id = ?", (name,))
        rows = tx.rows(_ROUTES.format(more=more), *args)
        return [_facts(tx, row, of_route.get(row["route_id"], []), moment.settings) for row in rows]

    return reader.ask(question)


def _facts(tx: Transaction, row: Row, of_route: list[Row], settings: RouteSettings) -> RouteFacts:
    health = engine_routes.health_of(tx, row)
    window = settings.score.timeout_window_s
    return RouteFacts(
        row,
        of_route,
        engine_routes.standing_of(of_route),
        health,
        route_health.score(health, tx.boot, settings.score),
        sum(1 for at in health.timeouts if tx.boot - window < at <= tx.boot),
    )


def why_not_chosen(reader: Reader, moment: Moment, wish: str) -> dict[str, str]:
    """Why a task that asks for this group (or route) can't get each of its routes now, in the words of the choice itself.

    Empty for those that it can get.
    """

    def question(connection: sqlite3.Connection) -> dict[str, str]:
        tx = moment.reading(connection)
        found = route_candidates.of_wish(tx, wish, moment.settings)
        return {each.id: why_not(each, RouteWish(), tx.boot) for each in found}

    return reader.ask(question)


def latencies(reader: Reader, route_ids: Sequence[str], limit: int) -> dict[str, list[float | None]]:
    """The last results of these routes in milliseconds, the newest last; None for one that failed."""
    sql = (
        "SELECT route_id, CASE WHEN error_type IS NULL THEN ms END AS ms FROM (SELECT *, row_number() OVER"
        f" (PARTITION BY route_id ORDER BY id DESC) AS place FROM route_sample WHERE route_id IN ({marks(len(route_ids))}))"
        " WHERE place <= ? ORDER BY id"
    )
    found: dict[str, list[float | None]] = {}
    for row in _rows(reader, sql, *route_ids, limit):
        found.setdefault(row["route_id"], []).append(row["ms"])
    return found


def samples(reader: Reader, route_id: str, limit: int) -> list[Row]:
    """The last samples of a route, newest first."""
    return _rows(
        reader, "SELECT * FROM route_sample WHERE route_id = ? ORDER BY id DESC LIMIT ?", route_id, limit
    )


def targets(reader: Reader, route_id: str) -> list[Row]:
    """What targets did to a route; the refusing ones first."""
    sql = "SELECT * FROM route_target WHERE route_id = ? ORDER BY blocked_until IS NULL, target LIMIT 200"
    return _rows(reader, sql, route_id)


def held(reader: Reader) -> dict[int, Holding]:
    """What each task holds at this moment."""
    sql = (
        "SELECT s.task_id, s.{0}_id AS name, s.number, p.capacity FROM {0}_slot s JOIN {0} p USING ({0}_id)"
        " WHERE s.task_id IS NOT NULL ORDER BY s.{0}_id, s.number"
    )
    found: dict[int, Holding] = {}
    for row in _rows(reader, sql.format("resource")):
        found.setdefault(row["task_id"], Holding([], None)).resources.append(slot_name(row["name"], row))
    for row in _rows(reader, sql.format("route")):
        own = found.get(row["task_id"], Holding([], None))
        found[row["task_id"]] = own._replace(route=row["name"])
    return found


def held_by_attempts(reader: Reader, task_id: int) -> dict[int, Holding]:
    """What each attempt of a task leased, by its fence, as the audit says."""
    sql = (
        "SELECT resource_id, route_id, payload_json FROM event_log"
        " WHERE task_id = ? AND event_type = 'RESOURCE_LEASED' ORDER BY event_id"
    )
    found: dict[int, Holding] = {}
    for row in _rows(reader, sql, task_id):
        payload = _payload(row["payload_json"])
        own = found.get(payload.get("fence", 0), Holding([], None))
        if row["route_id"]:
            own = own._replace(route=row["route_id"])
        else:
            slot = payload.get("slot")
            own.resources.append(f"{row['resource_id']}/{slot}" if slot else row["resource_id"])
        found[payload.get("fence", 0)] = own
    return found


def _payload(text: str | None) -> Mapping[str, Any]:
    value = msgspec.json.decode(text) if text else None
    return value if isinstance(value, dict) else {}


def _rows(reader: Reader, sql: str, *args: Any) -> list[Row]:
    def question(connection: sqlite3.Connection) -> list[Row]:
        cursor = connection.execute(sql, args)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    return reader.ask(question)
