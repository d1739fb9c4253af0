"""Filters as conditions of queries: what `rules.filters` has read, said in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peewee import SQL, Expression, fn

from ..rules.filters import EventFilter, Filter, Range
from ..rules.timing import add_seconds
from . import tables as t

_HAS_TAG = "EXISTS (SELECT 1 FROM json_each(t1.tags) WHERE json_each.value = ?)"
_NEEDS = "EXISTS (SELECT 1 FROM json_each(t1.needs) WHERE value = ? OR value GLOB ? || ':*')"
_SEARCHED = (
    t.Task.type,
    t.Task.payload,
    t.Task.idempotency_key,
    t.Task.error,
    t.Task.result,
    t.Task.progress_note,
)


def task_conditions(wanted: Filter, now: str) -> Iterator[Any]:
    yield from _among(t.Task.state, wanted.states)
    yield from _among(t.Task.type, wanted.types)
    yield from _among(t.Task.idempotency_key, wanted.keys)
    yield from _among(t.Task.reason, wanted.reasons)
    yield from _within(t.Task.id, wanted.ids)
    yield from _within(t.Task.worker_id, wanted.workers)
    yield from _within(t.Task.parent_id, wanted.parents)
    yield from _aged(t.Task.created_at, wanted, now)
    if wanted.pools:
        named = _any(SQL(_NEEDS, [pool, pool]) for pool in wanted.pools)
        yield named | (t.Task.needs.is_null() & t.Task.type.in_(wanted.pooled_types))
    if wanted.tags:
        yield _any(SQL(_HAS_TAG, [tag]) for tag in wanted.tags)
    for text in wanted.text:
        yield _any(_holds(field, text) for field in _SEARCHED)


def event_conditions(wanted: EventFilter, now: str) -> Iterator[Any]:
    yield from _among(t.Event.event_type, wanted.types)
    yield from _among(t.Event.level, wanted.levels)
    yield from _among(t.Event.reason, wanted.reasons)
    yield from _among(t.Event.actor, wanted.actors)
    yield from _among(t.Event.resource_id, wanted.resources)
    yield from _among(t.Event.route_id, wanted.routes)
    yield from _within(t.Event.task_id, wanted.tasks)
    yield from _within(t.Event.worker_id, wanted.workers)
    yield from _aged(t.Event.created_at, wanted, now)
    for text in wanted.text:
        yield _any(_holds(field, text) for field in (t.Event.message, t.Event.payload_json))


def _among(field: Any, values: tuple[str, ...]) -> Iterator[Expression]:
    if values:
        yield field.in_(values)


def _within(field: Any, ranges: tuple[Range, ...]) -> Iterator[Any]:
    if ranges:
        yield _any(field.between(first, last) for first, last in ranges)


def _aged(field: Any, wanted: Filter | EventFilter, now: str) -> Iterator[Any]:
    if wanted.older is not None:
        yield field < add_seconds(now, -wanted.older)
    if wanted.younger is not None:
        yield field > add_seconds(now, -wanted.younger)


def _holds(field: Any, text: str) -> Expression:
    # SQLite folds only ASCII letters; so do we, or nothing else would match.
    folded = "".join(c.lower() if c.isascii() else c for c in text)
    return fn.INSTR(fn.LOWER(field), folded) > 0


def _any(conditions: Iterator[Any]) -> Any:
    found = next(conditions)
    for condition in conditions:
        found = found | condition
    return found
