"""Resources and routes in a real database, used and checked through the store as the engine does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskdeck.engine.rules.declarations import declared_route
from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.rules.route_health import Sample
from taskdeck.engine.rules.route_settings import RouteSettings
from taskdeck.engine.store import inventory, route_candidates, routes, slots, tasks
from taskdeck.engine.store.inventory import Declared, json
from tests.seeded import Seed


class Inventory:
    """Writes resources and routes beside a seed's tasks; every method is one committed transaction."""

    def __init__(self, seed: Seed) -> None:
        self.seed = seed

    def resources(self, *declared: Mapping[str, Any]) -> None:
        """Resources by `id`, `pool`, and what else differs."""
        rows = [
            Declared(
                each["id"],
                each.get("capacity", 1),
                {
                    "pool": each["pool"],
                    "kind": "unit",
                    "labels": json(each.get("labels", {})),
                    "min_reuse": each.get("min_reuse", 0.0),
                },
            )
            for each in declared
        ]
        with self.seed.writing() as tx:
            inventory.sync_resources(tx, rows)

    def route(self, **raw: Any) -> None:
        """A route, as the configuration would declare it."""
        each = declared_route(raw)
        columns = {
            **{
                name: getattr(each, name)
                for name in ("scheme", "host", "port", "username", "secret_ref", "group")
            },
            "labels": json(each.labels),
            "min_reuse": each.min_reuse,
            "expected_ip": each.expected_ip,
            "expected_regions": json(list(each.expected_regions)),
        }
        with self.seed.writing() as tx:
            inventory.add_route(tx, Declared(each.id, each.capacity, columns))

    def take(self, task_id: int, *, pools: Mapping[str, int] | None = None, route: str | None = None) -> None:
        """The running attempt of this task leases and uses these."""
        with self.seed.writing() as tx:
            attempt = tx.row("SELECT fence FROM attempt WHERE task_id = ? ORDER BY number DESC", task_id)
            assert attempt
            task = tasks.get(tx, task_id) | {"fence": attempt["fence"]}
            for pool, count in (pools or {}).items():
                slots.take_from_pool(tx, pool, count, task, 300.0, f"task:{task_id}/1")
            if route:
                assert route_candidates.claim_slot(tx, route, task, 300.0, f"task:{task_id}/1")
            slots.started(tx, attempt["fence"])

    def give_back(self, task_id: int, **how: Any) -> None:
        """The attempt ends; what it held is free, rests or is in fault."""
        with self.seed.writing() as tx:
            attempt = tx.row("SELECT fence FROM attempt WHERE task_id = ? ORDER BY number DESC", task_id)
            assert attempt
            slots.release(tx, attempt["fence"], **how)

    def probed(
        self, route: str, error: ErrorType | None = None, ms: float | None = None, **details: Any
    ) -> None:
        """The result of a check."""
        stages = 3 if error is None else 1
        with self.seed.writing() as tx:
            routes.claim_probe(tx, route, "token", 20.0)
            routes.record(
                tx,
                route,
                Sample(tx.boot, error, ms, stages),
                source="probe",
                settings=RouteSettings(),
                uniform=lambda low, high: (low + high) / 2,
                token="token",
                details=details,
            )
