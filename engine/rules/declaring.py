"""The lists of tables `[[resources]]` and `[[routes]]` put together: every declaration, its origin, every mistake.

Each id is declared once, and each exit by one route. What single keys may be is told by `declarations`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import Problem
from .checks import Wrong, checks_of, shown
from .declarations import (
    LISTS,
    ResourceDeclaration,
    RouteDeclaration,
    declared_resources,
    required,
    route_of,
)
from .needs import NAME, parse_needs
from .origins import Origin
from .settings import unknown_key

OriginOf = Callable[..., Origin]


class Declared:
    """Collects declarations in the order of the file; adds each mistake to `problems`."""

    def __init__(self, problems: list[Problem]) -> None:
        self.resources: list[ResourceDeclaration] = []
        self.routes: list[RouteDeclaration] = []
        self.sources: dict[str, str] = {}
        self._problems = problems
        self._first: dict[tuple[str, ...], Origin] = {}
        self._whole = True

    def take(self, name: str, tables: Any, origin: OriginOf) -> None:
        """All tables of the list `name`."""
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            self._wrong(origin(name), _no_list(name, tables))
            return
        for number, table in enumerate(tables):
            self._table(name, number, table, origin)

    def _table(self, name: str, number: int, table: dict[str, Any], origin: OriginOf) -> None:
        label = f"{name}[{_label(table.get('id'), number)}]"

        def place(key: str = "") -> Origin:
            found = origin(name, str(number), *([key] if key else []))
            return found._replace(key=f"{label}.{key}" if key else label)

        values = self._values(name, table, place)
        if values is None:
            return
        try:
            made = declared_resources(values) if name == "resources" else [route_of(values)]
        except Wrong as wrong:
            self._wrong(place("url"), wrong)
            return
        for each in made:
            self._keep(name, each, table, place)

    def _values(
        self, name: str, table: dict[str, Any], place: Callable[..., Origin]
    ) -> dict[str, Any] | None:
        """The checked values of one table, or None where one is wrong or missing."""
        checks, values, found = checks_of(LISTS[name]), {}, len(self._problems)
        for key, raw in table.items():
            try:
                if key not in checks:
                    raise unknown_key((name, key))
                values[key] = checks[key].read(raw)
            except Wrong as wrong:
                self._wrong(place(key), wrong)
        for missing in sorted(required(name) - set(table)):
            self._wrong(place(), Wrong(f'"{missing}" is missing', _EXAMPLES[name]))
        return values if len(self._problems) == found else None

    def _keep(self, name: str, made: Any, table: dict[str, Any], place: Callable[..., Origin]) -> None:
        if not self._is_new((name, made.id), place("id"), f"{made.id} is declared twice"):
            return
        if isinstance(made, RouteDeclaration):
            exit = (name, made.scheme, made.host, str(made.port), made.username)
            if made.scheme != "direct" and not self._is_new(exit, place("url"), "another route has this url"):
                return
            self.routes.append(made)
        else:
            self.resources.append(made)
        for key in made.settings():
            if key in table:
                self.sources[f"{name}.{made.id}.{key}"] = place(key).text

    def _is_new(self, key: tuple[str, ...], at: Origin, what: str) -> bool:
        first = self._first.setdefault(key, at)
        if first is at:
            return True
        remedy = "name one of them otherwise" if len(key) == 2 else "remove one of the two"
        self._wrong(at, Wrong(f"{what}, first on line {first.line}", remedy))
        return False

    def _wrong(self, at: Origin, wrong: Wrong) -> None:
        self._whole = False
        self._problems.append(at.problem(wrong))

    def check_needs(self, needs: Mapping[str, tuple[str, ...]], origin: Callable[[str], Origin]) -> None:
        """Whether what each type needs is there; nothing is said where no resources are declared here."""
        if not self.resources or not self._whole:
            return
        there: dict[str, int] = {}
        for each in self.resources:
            there[each.pool] = there.get(each.pool, 0) + each.capacity
        for type_name, words in needs.items():
            for pool, count in parse_needs(words).items():
                if count > there.get(pool, 0):
                    self._problems.append(origin(type_name).problem(_too_few(pool, count, there)))


def _too_few(pool: str, count: int, there: Mapping[str, int]) -> Wrong:
    if pool in there:
        return Wrong(f'pool "{pool}" has {there[pool]}, not {count}', "declare more of them, or need fewer")
    return Wrong(f'there is no pool "{pool}"', f"declared: {', '.join(there)}")


def _label(id: Any, number: int) -> str:
    return id if isinstance(id, str) and NAME.fullmatch(id) else f"#{number + 1}"


def _no_list(name: str, raw: Any) -> Wrong:
    remedy = f"write [[{name}]] above each of them"
    if name == "routes":
        remedy += "; settings for all routes stand in [routing]"
    return Wrong(f"expected a list of tables, got {shown(raw)}", remedy)


_EXAMPLES = {
    "resources": 'write id = "browser-1" and pool = "browser"',
    "routes": 'write id = "eu-1" and url = "http://user@host:port"',
}
