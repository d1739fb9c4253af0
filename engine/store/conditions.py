"""Filters as conditions of queries: what `rules.filters` has read, said in SQL over `task t1` and `event_log t1`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import structs

from ..rules.filters import EventFilter, Filter, Range
from ..rules.timing import add_seconds
from .transaction import marks

_HAS_TAG = "EXISTS (SELECT 1 FROM json_each(t1.tags) WHERE json_each.value = ?)"
_NEEDS = "EXISTS (SELECT 1 FROM json_each(t1.needs) WHERE value = ? OR value GLOB ? || ':*')"
MOST_BRANCHES = 100
_SEARCHED = ("type", "payload", "idempotency_key", "error", "result", "progress_note")


class Condition(NamedTuple):
    """A piece of SQL with the values of its question marks."""

    text: str
    args: tuple[Any, ...] = ()


def both(conditions: Iterable[Condition]) -> Condition:
    """All of them; true where there is none."""
    return _joined(conditions, " AND ", "1")


def either(conditions: Iterable[Condition]) -> Condition:
    """At least one of them."""
    return _joined(conditions, " OR ", "0")


def task_conditions(wanted: Filter, now: str) -> Iterator[Condition]:
    """What a task must be."""
    yield from _among("state", wanted.states)
    yield from _among("type", wanted.types)
    yield from _among("idempotency_key", wanted.keys)
    yield from _among("reason", wanted.reasons)
    yield from _within("id", wanted.ids)
    yield from _within("worker_id", wanted.workers)
    yield from _within("parent_id", wanted.parents)
    yield from _aged(wanted, now)
    if wanted.pools:
        yield either([*(Condition(_NEEDS, (pool, pool)) for pool in wanted.pools), *_by_type(wanted)])
    if wanted.tags:
        yield either(Condition(_HAS_TAG, (tag,)) for tag in wanted.tags)
    for text in wanted.text:
        yield either(_holds(column, text) for column in _SEARCHED)


def branches(wanted: Filter) -> list[Filter]:
    """The filter as disjoint ones of a single state and type, each of which an index lists in the order of ids.

    Several states in one query would be found by index too, but then all of them sorted for the first page.
    """
    states = [(each,) for each in dict.fromkeys(wanted.states)] or [()]
    types = [(each,) for each in dict.fromkeys(wanted.types)] or [()]
    if len(states) * len(types) > MOST_BRANCHES:
        return [wanted]
    return [structs.replace(wanted, states=state, types=type_) for state in states for type_ in types]


def event_conditions(wanted: EventFilter, now: str) -> Iterator[Condition]:
    """What an event must be."""
    yield from _among("event_type", wanted.types)
    yield from _among("level", wanted.levels)
    yield from _among("reason", wanted.reasons)
    yield from _among("actor", wanted.actors)
    yield from _among("resource_id", wanted.resources)
    yield from _among("route_id", wanted.routes)
    yield from _within("task_id", wanted.tasks)
    yield from _within("worker_id", wanted.workers)
    yield from _aged(wanted, now)
    for text in wanted.text:
        yield either(_holds(column, text) for column in ("message", "payload_json"))


def _among(column: str, values: tuple[str, ...]) -> Iterator[Condition]:
    if len(values) == 1:
        yield Condition(f"t1.{column} = ?", values)
    elif values:
        yield Condition(f"t1.{column} IN ({marks(len(values))})", values)


def _within(column: str, ranges: tuple[Range, ...]) -> Iterator[Condition]:
    if ranges:
        yield either(_range(column, *each) for each in ranges)


def _range(column: str, first: int, last: int) -> Condition:
    if first == last:  # an index that goes on with the id then gives the order as well
        return Condition(f"t1.{column} = ?", (first,))
    return Condition(f"t1.{column} BETWEEN ? AND ?", (first, last))


def _aged(wanted: Filter | EventFilter, now: str) -> Iterator[Condition]:
    if wanted.older is not None:
        yield Condition("t1.created_at < ?", (add_seconds(now, -wanted.older),))
    if wanted.younger is not None:
        yield Condition("t1.created_at > ?", (add_seconds(now, -wanted.younger),))


def _by_type(wanted: Filter) -> Iterator[Condition]:
    """A task that names no needs has those of its type."""
    for of_type in _among("type", wanted.pooled_types):
        yield Condition(f"t1.needs IS NULL AND {of_type.text}", of_type.args)


def _holds(column: str, text: str) -> Condition:
    # SQLite folds only ASCII letters; so do we, or nothing else would match.
    folded = "".join(c.lower() if c.isascii() else c for c in text)
    return Condition(f"instr(lower(t1.{column}), ?) > 0", (folded,))


def _joined(conditions: Iterable[Condition], word: str, none: str) -> Condition:
    found = list(conditions)
    if not found:
        return Condition(none)
    return Condition(
        f"({word.join(each.text for each in found)})", tuple(arg for each in found for arg in each.args)
    )
