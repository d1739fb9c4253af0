"""The limits of one task, put together in one place.

The task's own, else the configuration's for its type, else the handler's, else the general ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from ..config import Config
from ..rules.needs import parse_needs
from ..rules.route_filter import RouteDemand
from ..rules.selection import COMMAND_TYPE
from ..rules.settings import TypeSettings
from ..rules.tasks import POLICY
from .messages import TypeInfo, from_stored


class Policy(msgspec.Struct, frozen=True):
    """What applies to one task. Durations in seconds; `timeout` None = none."""

    timeout: float | None
    max_retry: int
    base: float
    max_delay: float
    max_delays: int
    on_lost: str
    on_exhausted: str
    checkpoint_version: int
    migrates: bool
    typed_checkpoint: bool
    exit_words: dict[str, str]
    """What exit codes mean, by the code as a text."""
    needs: dict[str, int]
    route: str
    allow_direct: bool
    demand: RouteDemand
    bandwidth: float = 0.0
    """Bytes a second that an attempt may receive; 0 = as many as come."""


_OWN = itemgetter(*POLICY)
"""The columns of a task that its policy hangs on."""
_OWN_NEEDS = itemgetter("type", "needs", "route", "allow_direct")

MOST_KNOWN = 1000
"""Policies that are kept."""

K = TypeVar("K")


class Policies:
    """Answers for every type. `publish` takes what the newest worker declares."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._declared: dict[str, TypeInfo] = {}
        self._forget()

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self._config

    @config.setter
    def config(self, config: Config) -> None:
        self._config = config
        self._forget()

    def publish(self, types: list[TypeInfo]) -> None:
        """Take over the declarations of a worker's manifest."""
        self._declared = {info.name: info for info in types}
        self._forget()

    def load(self, settings: Mapping[str, str]) -> None:
        """Take over what was published before: name → settings JSON, as the store keeps it."""
        self._declared = {name: from_stored(text) for name, text in settings.items()}
        self._forget()

    @property
    def declared(self) -> Mapping[str, TypeInfo]:
        """The types that handlers exist for, by name."""
        return self._declared

    def of(self, task: Mapping[str, Any]) -> Policy:
        """The policy of a task row. Most tasks of a type have the same one, which is put together once."""
        return self.of_own(_OWN(task))

    def of_own(self, own: tuple[Any, ...]) -> Policy:
        """The policy of a task of which these are the values of `POLICY`."""
        known = self._known
        return known.get(own) or _kept(
            known, own, lambda: self._put_together(dict(zip(POLICY, own, strict=True)))
        )

    def _put_together(self, task: Mapping[str, Any]) -> Policy:
        for column in (
            "timeout",
            "max_retry",
            "bandwidth",
        ):  # a row that no worker could read is this task's trouble alone
            if not isinstance(task[column], int | float | None):
                raise ValueError(f"{column} is no number: {task[column]!r}")
        general = self.config.retry
        own = self.config.types.get(task["type"], TypeSettings())
        declared = self._declared.get(task["type"])
        return Policy(
            timeout=_first(task["timeout"], own.timeout, declared and declared.timeout) or None,
            max_retry=_first(
                task["max_retry"], own.max_retry, declared and declared.max_retry, general.max_retry
            ),
            base=_first(own.base, declared and declared.base, general.base),
            max_delay=_first(own.max_delay, declared and declared.max_delay, general.max_delay),
            max_delays=general.max_delays,
            on_lost=_first(task["on_lost"], own.on_lost, declared and declared.on_lost, "rerun"),
            on_exhausted=self._on_exhausted(task["type"], own, declared),
            checkpoint_version=declared.checkpoint_version if declared else 1,
            migrates=bool(declared and declared.migrates),
            typed_checkpoint=bool(declared and declared.typed_checkpoint),
            bandwidth=_first(task["bandwidth"], own.bandwidth, declared and declared.bandwidth) or 0.0,
            demand=self.demand_of(task["type"]),
            exit_words={str(code): word for code, word in own.exit_codes.items()},
            **self.needs_of(task),
        )

    def demand_of(self, type_name: str) -> RouteDemand:
        """What tasks of a type ask of their routes beyond the group."""
        own, routing = self.config.types.get(type_name, TypeSettings()), self.config.routing
        return RouteDemand(
            frozenset(own.route_labels),
            frozenset(own.regions),
            _first(own.strategy, routing.strategy),
            _first(own.unique_exit_ip, routing.unique_exit_ip),
            own.affinity or "",
            own.affinity_hard,
        )

    def _forget(self) -> None:
        """New ones, not emptied: a thread that is putting a policy together must not leave an old one in them."""
        self._known: dict[tuple[Any, ...], Policy] = {}
        self._known_needs: dict[tuple[Any, ...], dict[str, Any]] = {}

    def needs_of(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """What an attempt of this task must hold: `needs` (pool → count), `route`, `allow_direct`."""
        return _kept(self._known_needs, _OWN_NEEDS(task), lambda: self._needs(task))

    def _needs(self, task: Mapping[str, Any]) -> dict[str, Any]:
        own = self.config.types.get(task["type"], TypeSettings())
        declared = self._declared.get(task["type"])
        words = msgspec.json.decode(task["needs"]) if task["needs"] else None
        return {
            "needs": parse_needs(_first(words, own.needs, declared and declared.needs, ())),
            "route": _first(task["route"], own.route, declared and declared.route, ""),
            "allow_direct": bool(
                _first(task["allow_direct"], own.allow_direct, declared and declared.allow_direct)
            ),
        }

    def route_of_lane(self, lane: str) -> str:
        """The group of routes that the tasks of a lane ask for, unless one of them differs."""
        type_name, _, wished = lane.partition("|")
        needs, _, route = wished.rpartition("|")
        row = {"type": type_name, "needs": needs or None, "route": route or None, "allow_direct": None}
        return self.needs_of(row)["route"]

    def types_in(self, pools: Collection[str]) -> tuple[str, ...]:
        """The types whose tasks need one of these pools, unless a task says otherwise itself."""
        names = {*self._declared, *self.config.types}
        nothing = {"needs": None, "route": None, "allow_direct": None}
        return tuple(
            name
            for name in sorted(names)
            if not self.needs_of({"type": name, **nothing})["needs"].keys().isdisjoint(pools)
        )

    def _on_exhausted(self, type_name: str, own: TypeSettings, declared: TypeInfo | None) -> str:
        if f"types.{type_name}.on_exhausted" in self.config.sources:
            return own.on_exhausted
        return (declared and declared.on_exhausted) or own.on_exhausted

    def caps(self) -> dict[str, int]:
        """The concurrency of each type that has a limit."""
        caps = {name: info.concurrency for name, info in self._declared.items() if info.concurrency}
        caps |= {name: own.concurrency for name, own in self.config.types.items() if own.concurrency}
        if self.config.shell.concurrency and COMMAND_TYPE not in self.config.types:
            caps[COMMAND_TYPE] = self.config.shell.concurrency
        return caps


def _kept(known: dict[tuple[Any, ...], K], key: tuple[Any, ...], make: Callable[[], K]) -> K:
    found = known.get(key)
    if found is None:
        found = make()
        if len(known) < MOST_KNOWN:
            known[key] = found
    return found


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
