"""Resources and routes as asked from outside: how they stand, and what tasks and attempts hold. Reads, never writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..clock import Clock
from ..config import Config
from ..errors import NotFound
from ..rules.inventory_models import ResourceView, RouteView
from ..rules.inventory_shaping import InventoryShaper
from ..rules.redaction import Redactor
from ..rules.tasks import TaskState

if TYPE_CHECKING:
    from sqlite3 import Connection

    from ..store.inventory_reading import Moment
    from ..store.reading import Reader
    from .policies import Policies
    from .route_wishes import Routes

Row = dict[str, Any]

HOLDING = frozenset({TaskState.RUNNING, TaskState.PAUSED, TaskState.LOST})
"""States in which a task may hold resources and a route."""


class Stock:
    """What there is of one database. The store is loaded with the first question, since not every look asks one."""

    def __init__(self, reader: Reader, clock: Clock, config: Config, redactor: Redactor) -> None:
        self._reader = reader
        self._clock = clock
        self._config = config
        self._redactor = redactor
        self._shaper = InventoryShaper(redactor)

    def resources(self, name: str | None = None) -> list[ResourceView]:
        """All resources, or the one of this name (`gpu`, or one slot: `gpu/2`). Raises `NotFound`."""
        from ..store import inventory_reading as reading

        found = [self._shaper.resource(row) for row in reading.resources(self._reader)]
        if name is None:
            return found
        if not (chosen := [each for each in found if name in (each.id, each.resource)]):
            raise NotFound(f"there is no resource {name!r}", remedy="see: taskdeck resource list")
        return chosen

    def routes(self) -> list[RouteView]:
        """All routes as they stand at this moment."""
        from ..store import inventory_reading as reading

        return [self._shaper.route(each) for each in reading.routes(self._reader, self.moment())]

    def route(self, route_id: str, samples: int) -> RouteView:
        """One route with everything about it. Raises `NotFound`."""
        from ..store import inventory_reading as reading

        moment = self.moment()
        found = reading.routes(self._reader, moment, route_id)
        if not found:
            raise NotFound(f"there is no route {route_id!r}", remedy="see: taskdeck route list")
        return self._shaper.route(
            found[0],
            slots=[self._shaper.slot(row) for row in found[0].slots],
            samples=[self._shaper.sample(row) for row in reading.samples(self._reader, route_id, samples)],
            targets=[self._shaper.target(row) for row in reading.targets(self._reader, route_id)],
            why_not=reading.why_not_chosen(self._reader, moment, route_id).get(route_id, ""),
        )

    def why_not(self, wish: str) -> dict[str, str]:
        """Why each route of a group can't be chosen now; empty for those that can."""
        from ..store import inventory_reading as reading

        return reading.why_not_chosen(self._reader, self.moment(), wish)

    def no_route(self, policies: Policies) -> Callable[[Row], str]:
        """A question to ask of waiting tasks: why each gets no route now, or which one is verified for it first.

        What it reads of routes it reads once; nothing is read or loaded before it is asked.
        """

        @cache
        def routes() -> tuple[Moment, Routes]:
            from .route_wishes import Routes

            return self.moment(), Routes(self._config.routing)

        def question(connection: Connection, row: Row) -> str:
            moment, known = routes()
            return known.why_none(moment.reading(connection), row, policies)

        return lambda row: self._reader.ask(lambda connection: question(connection, row))

    def latencies(self, route_ids: Sequence[str], limit: int) -> dict[str, list[float | None]]:
        """The last results of these routes in milliseconds, the newest last; None for one that failed."""
        from ..store import inventory_reading as reading

        return reading.latencies(self._reader, route_ids, limit)

    def held(self, rows: Sequence[Row]) -> Callable[[Row], dict[str, Any]]:
        """What each of these tasks holds now; where none can hold anything nothing is read."""
        if not any(row["state"] in HOLDING for row in rows):
            return lambda row: {}
        from ..store.inventory_reading import held

        found = held(self._reader)
        return lambda row: found[row["id"]]._asdict() if row["id"] in found else {}

    def attempts(self, task_id: int, rows: Sequence[Row]) -> Iterator[tuple[Row, dict[str, Any]]]:
        """Each attempt of a task with what it held."""
        from ..store.inventory_reading import Holding, held_by_attempts

        found = held_by_attempts(self._reader, task_id)
        for row in rows:
            yield row, found.get(row["fence"], Holding([], None))._asdict()

    def moment(self) -> Moment:
        """Now, and the rules in force."""
        from ..edge import identity
        from ..store.inventory_reading import Moment

        return Moment(self._clock, identity.boot_id(), self._config.routing, self._redactor)
