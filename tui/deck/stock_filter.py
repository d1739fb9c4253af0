"""The filter of the lists of resources and routes: words that must stand in them, `state:fault`, `-word`. Pure.

A small part of the grammar of tasks: these lists are held as a whole, so that any text of theirs can be looked at.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from taskdeck.engine.errors import UsageError

from .states import SLOTS

T = TypeVar("T")

FIELDS = ("id", "state", "pool", "group", "task", "label", "region", "exit", "error", "url")


def wanted(text: str) -> Callable[[Any], bool]:
    """Whether a resource or route is what a text asks for. Raises `UsageError`."""
    try:
        terms = [_term(word) for word in shlex.split(text)]
    except ValueError:
        raise UsageError("a quotation mark has no partner", remedy='write "two words"') from None
    return lambda item: all(term(item) for term in terms)


def chosen(items: Sequence[T], text: str) -> list[T]:
    """Those of them that a text asks for, in their order."""
    is_wanted = wanted(text)
    return [each for each in items if is_wanted(each)]


def _term(word: str) -> Callable[[Any], bool]:
    negated = len(word) > 1 and word[0] in "-!"
    word = word[1:] if negated else word
    name, colon, value = word.partition(":")
    if colon and name.lower() in FIELDS:
        choices = [each.lower().lstrip("#") for each in value.split(",") if each]
        return lambda item: _has(_values(item)[name.lower()], choices) is not negated
    if colon and name.isalpha():
        raise UsageError(f"there is no field {name}", remedy=f"known: {', '.join(FIELDS)}")
    low = word.lower()
    return lambda item: any(low in text for texts in _values(item).values() for text in texts) is not negated


def _has(texts: Sequence[str], choices: Sequence[str]) -> bool:
    """Does one of the texts match one of the choices, whole or by `*`?"""
    return any(fnmatchcase(text, choice) for text in texts for choice in choices)


def _values(item: Any) -> dict[str, list[str]]:
    """All that can be looked for, in lower case, by field."""
    get = lambda name: getattr(item, name, None)  # noqa: E731
    state = str(get("state"))
    tasks = get("tasks") or ([] if get("task") is None else [get("task")])
    found = {
        "id": [get("id")],
        "state": [state, SLOTS[state].word if state in SLOTS else ""],
        "pool": [get("pool")],
        "group": [get("group")],
        "task": tasks,
        "label": [part for name, value in item.labels.items() for part in (name, value, f"{name}={value}")],
        "region": [get("region")],
        "exit": [get("exit_ip")],
        "error": [get("last_error"), get("cooldown_reason")],
        "url": [get("url")],
    }
    return {name: [str(each).lower() for each in values if each] for name, values in found.items()}
