"""The inventory of the configuration: its resources and routes as rows, rests carried over a reboot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import Config
from ..errors import Refused, UsageError
from ..rules.checks import Wrong
from ..rules.declarations import RouteDeclaration, declared_route
from ..rules.route_urls import BadRouteUrl, parse_route_url
from ..store import circuits, inventory, readiness, route_targets, slots
from ..store.inventory import Declared, json
from ..store.tasks import ENGINE
from ..store.transaction import Transaction


def take_inventory(tx: Transaction, config: Config) -> list[str]:
    """Bring the database to what is declared. Returns the ids that are new, changed or gone."""
    slots.rebase(tx)
    circuits.rebase(tx)
    route_targets.rebase(tx)
    changed = inventory.sync_resources(
        tx,
        [
            Declared(
                each.id,
                each.capacity,
                {
                    "pool": each.pool,
                    "kind": each.kind,
                    "labels": json(each.labels),
                    "min_reuse": each.min_reuse,
                    "max_uses": each.max_uses,
                    "max_age": each.max_age,
                    "route_id": each.route,
                    "route_soft": int(each.route_soft),
                },
            )
            for each in config.resources
        ],
    )
    readiness.sync(tx, [each.id for each in config.resources if each.ready])
    changed += inventory.sync_routes(tx, [_route(each) for each in config.routes])
    if changed:
        tx.event(
            "INVENTORY_CHANGED",
            actor=ENGINE,
            reason="configuration",
            message=f"{len(changed)} resources and routes",
            payload={"ids": changed[:100]},
        )
    return changed


def add_route(tx: Transaction, args: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """Add one route that a person names: `id`, `url` without its password, `password` reference, `group` and so on.

    Without an id it is host-port.
    Raises `UsageError` for one that can't be, `Refused` for an id that the configuration or another route has.
    """
    try:
        given = {key: value for key, value in args.items() if value is not None}
        declared = declared_route({"id": _id_from(given.get("url")), **given})
    except (Wrong, TypeError) as wrong:
        what = wrong.what if isinstance(wrong, Wrong) else str(wrong)
        remedy = wrong.remedy if isinstance(wrong, Wrong) else ""
        subject = f"route {args['id']!r}" if args.get("id") else "the route"
        raise UsageError(f"{subject}: {what}", remedy=remedy) from None
    if inventory.knows_route(tx, declared.id):
        raise Refused(f"there is a route {declared.id!r} already", remedy="see: taskdeck route list")
    inventory.add_route(tx, _route(declared))
    tx.event("OPERATOR_ROUTE", actor=actor, route_id=declared.id, reason="added", message=declared.shown())
    return {"id": declared.id, "url": declared.shown()}


def _id_from(url: Any) -> str:
    """`proxy.example.net-3128`: of a url that can't be read nothing is taken, since a password may stand anywhere in it."""
    try:
        parsed = parse_route_url(str(url))
    except BadRouteUrl:
        return "new"  # it is refused anyway
    from ..rules.route_merge import id_of  # with all that reads lists of routes

    return id_of(parsed.scheme, parsed.host, parsed.port)


def _route(each: RouteDeclaration) -> Declared:
    columns = {
        "scheme": each.scheme,
        "host": each.host,
        "port": each.port,
        "username": each.username,
        "secret_ref": each.secret_ref,
        "group": each.group,
        "labels": json(each.labels),
        "min_reuse": each.min_reuse,
        "expected_ip": each.expected_ip,
        "bandwidth": each.bandwidth,
        "expected_regions": json(list(each.expected_regions)),
        "max_uses": each.max_uses,
        "max_age": each.max_age,
        "ip_policy": each.ip_policy,
    }
    return Declared(each.id, each.capacity, columns)
