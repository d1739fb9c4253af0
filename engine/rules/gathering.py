"""Settings from several sources laid over each other, with the origin of each value and every mistake.

Later sources win. Nothing is read here: tables and variables come in as values, and what a path means (which
needs the file system) is asked of the `place` that the caller brings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from ..errors import Problem
from .checks import TYPE_NAME, Duration, Wrong, checks_of, shown
from .declarations import LISTS
from .declaring import Declared
from .origins import Origin
from .settings import TABLES, meant_variable, table_type, unknown_key, unknown_table
from .timing import format_duration
from .toml_lines import KeyLine, line_of

Key = tuple[str, ...]
Place = Callable[[Key, Any, PurePath | None], Any]
"""Makes the value in force of a key, its checked value, and the directory where relative paths start."""


class Gathered:
    """Collects values, their origins and every mistake."""

    def __init__(self, place: Place) -> None:
        self.problems: list[Problem] = []
        self.types: set[str] = set()
        self.declared = Declared(self.problems)
        self._place = place
        self._values: dict[Key, Any] = {}
        self._origins: dict[Key, Origin] = {}
        self._broken: set[Key] = set()

    def file(self, name: str, base: PurePath, data: Mapping[str, Any], lines: list[KeyLine]) -> None:
        """Take every key of a file that stands in `base`, or note what is wrong with it."""
        file = name

        def origin(*key: str) -> Origin:
            line = line_of(lines, key)
            return Origin(f"{file}:{line}", file, line, ".".join(key), base)

        for name, table in data.items():
            if name in LISTS:
                self.declared.take(name, table, origin)
            elif name not in TABLES and name != "types":
                self._wrong((name,), origin(name), unknown_table(name, isinstance(table, dict)))
            elif not isinstance(table, dict):
                wrong = Wrong(f"expected a table, got {shown(table)}", f"write [{name}] on a line of its own")
                self._wrong((name,), origin(name), wrong)
            elif name == "types":
                self._types_table(table, origin)
            else:
                self._table((name,), table, origin)

    def _types_table(self, table: dict[str, Any], origin: Callable[..., Origin]) -> None:
        for name, settings in table.items():
            if not isinstance(settings, dict):
                wrong = Wrong(
                    f"expected a table, got {shown(settings)}", "write [types.NAME] with its keys below"
                )
                self._wrong(("types", name), origin("types", name), wrong)
            elif not TYPE_NAME.fullmatch(name):
                remedy = "a type's name has 1 to 64 of A-Z a-z 0-9 _ . : -"
                self._wrong(
                    ("types", name), origin("types", name), Wrong("this can't be the name of a type", remedy)
                )
            else:
                self.types.add(name)
                self._table(("types", name), settings, origin)

    def _table(self, path: Key, table: dict[str, Any], origin: Callable[..., Origin]) -> None:
        for key, raw in table.items():
            inner = ".".join((*path, key))
            if inner not in TABLES:
                self.put((*path, key), raw, origin(*path, key))
            elif isinstance(raw, dict):
                self._table((*path, key), raw, origin)
            else:
                wrong = Wrong(f"expected a table, got {shown(raw)}", f"write [{inner}] on a line of its own")
                self._wrong((*path, key), origin(*path, key), wrong)

    def variables(self, environ: Mapping[str, str], base: PurePath | None) -> None:
        """Take the `TASKDECK_TABLE__KEY` variables; a name that looks like one but isn't is a mistake."""
        for name in sorted(environ):
            # TASKDECK_RESOURCE_<POOL> tells a command what it leased: a pool's name may hold anything
            if name.startswith("TASKDECK_") and not name.startswith("TASKDECK_RESOURCE_"):
                origin = Origin(f"environment {name}", "environment", None, name, base)
                self._variable(name.removeprefix("TASKDECK_"), environ[name], origin)

    def _variable(self, name: str, text: str, origin: Origin) -> None:
        table, double, key = name.partition("__")
        table = table.lower()
        path = self._type_path(key) if table == "types" else (table, *key.lower().split("__"))
        if not double:
            if table in LISTS or table == "types":
                remedy = (
                    f"write [[{table}]] in a file" if table in LISTS else "write TASKDECK_TYPES__NAME__KEY"
                )
                self._wrong((name,), origin, Wrong("this sets nothing", remedy))
            elif meant := meant_variable(name):
                self._wrong((name,), origin, Wrong("unknown variable", f"did you mean {meant}?"))
        elif table in LISTS:
            self._wrong(
                (name,), origin, Wrong(f"no variable declares {table}", f"write [[{table}]] in a file")
            )
        elif table not in TABLES and table != "types":
            self._wrong((name,), origin, unknown_table(table, True))
        elif path is None:
            self._wrong(
                (name,), origin, Wrong("this names no key of a type", "write TASKDECK_TYPES__NAME__KEY")
            )
        elif table != "types" and ".".join(path[:-1]) not in TABLES:
            self._wrong((name,), origin, unknown_key(path[:2]))
        else:
            check = checks_of(table_type(path)).get(path[-1])
            self.put(path, check.from_text(text) if check else text, origin)

    def _type_path(self, rest: str) -> Key | None:
        """`FETCH__TIMEOUT` → the declared type of that name in whatever case, else the lower-case one."""
        name, double, key = rest.rpartition("__")
        if not double or not TYPE_NAME.fullmatch(name):
            return None
        declared = {known.lower(): known for known in self.types}
        name = (
            name
            if name in self.types
            else declared.get(name.lower(), name.lower() if name.isupper() else name)
        )
        self.types.add(name)
        return "types", name, key.lower()

    def put(self, path: Key, raw: Any, origin: Origin) -> None:
        """Check one value and keep it, or note what is wrong."""
        check = checks_of(table_type(path)).get(path[-1])
        try:
            if check is None:
                raise unknown_key(path)
            self._values[path] = self._place(path, check.read(raw), origin.base)
            self._origins[path] = origin
        except Wrong as wrong:
            self._wrong(path, origin, wrong)

    def _wrong(self, path: Key, origin: Origin, wrong: Wrong) -> None:
        self._broken.add(path)
        self.problems.append(origin.problem(wrong))

    def is_broken(self, *path: str) -> bool:
        """Is there a mistake in this key, or in the table that it stands in?"""
        return any(path[:length] in self._broken for length in range(1, len(path) + 1))

    def relations(self) -> None:
        """Check the values that bound each other, where each is right in itself."""
        self._less(("engine", "heartbeat"), ("engine", "suspect_after"), strict=True)
        self._less(("engine", "suspect_after"), ("engine", "lease"), strict=True)
        self._less(("retry", "base"), ("retry", "max_delay"))
        self._less(("storage", "pause_free_bytes"), ("storage", "warn_free_bytes"))
        self._less(("storage", "wal_warn_bytes"), ("storage", "wal_pause_bytes"))
        self._less(("routing", "score", "enter"), ("routing", "score", "leave"))
        self._less(("routing", "cooldown", "base_s"), ("routing", "cooldown", "max_s"))
        self._less(("routing", "blocked", "base_s"), ("routing", "blocked", "max_s"))
        for name in sorted(self.types):
            own = {key: ("types", name, key) for key in ("base", "max_delay")}
            used = [path if path in self._values else ("retry", key) for key, path in own.items()]
            if used != [("retry", "base"), ("retry", "max_delay")]:
                self._less(*used)
        needs = {name: self._values.get(("types", name, "needs"), ()) for name in sorted(self.types)}
        self.declared.check_needs(needs, lambda name: self._origins["types", name, "needs"])

    def _less(self, small: Key, large: Key, *, strict: bool = False) -> None:
        low, high = self._effective(small), self._effective(large)
        if self._broken & {small, large} or low < high or (low == high and not strict):
            return
        at = small if small in self._origins else large
        other = large if at == small else small
        bound = (
            ("less than" if strict else "at most") if at == small else ("more than" if strict else "at least")
        )
        told = self._origins[other].text if other in self._origins else "default"
        what = f"must be {bound} {'.'.join(other)} ({self._shown(other)}, {told})"
        self._wrong(at, self._origins[at], Wrong(f"{what}, got {self._shown(at)}", "change one of them"))

    def _effective(self, path: Key) -> float:
        return self._values[path] if path in self._values else getattr(table_type(path)(), path[-1])

    def _shown(self, path: Key) -> str:
        is_duration = isinstance(checks_of(table_type(path))[path[-1]], Duration)
        return format_duration(self._effective(path)) if is_duration else f"{self._effective(path):g}"

    def values(self, *table: str) -> dict[str, Any]:
        """The keys that were set in this table; what is missing keeps its default."""
        return {path[-1]: value for path, value in self._values.items() if path[:-1] == table}

    def sources(self) -> dict[str, str]:
        """Where each key that was set came from, by its dotted name."""
        named = {".".join(path): origin.text for path, origin in self._origins.items()}
        return named | self.declared.sources
