"""The tables of docs/states.md, read from the page: what the state machines must do. Knows nothing of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "states.md"

Moves = dict[str, dict[str, frozenset[str]]]
"""From → to → for which reasons, or by which events."""


def tables(section: str) -> list[list[list[str]]]:
    """The tables under a heading of the page, in order; each its rows without the head, each row its cells."""
    text = PAGE.read_text("utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    found: list[list[list[str]]] = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        _head, _rule, *rows = block.strip().splitlines()
        found.append([[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows])
    return found


def moves(section: str) -> Moves:
    """The first table under a heading: which changes there are, and for what."""
    return {
        state: {to: _words(reasons) for to, reasons in re.findall(r"([A-Z_]+) \(([a-z_, ]+)\)", changes)}
        for state, changes in tables(section)[0]
    }


@cache
def narrower() -> dict[str, frozenset[str]]:
    """The table of events that are for routes only, or alone bring a route back."""
    return {what: _words(events) for what, events in tables("Resources and routes")[1]}


@cache
def cooldown_reasons() -> dict[str, frozenset[str]]:
    """The reasons that each event may give to a cooldown."""
    rows = tables("Resources and routes")[2]
    return {event: _words(reasons) for events, reasons in rows for event in _words(events)}


@cache
def unit_reasons() -> frozenset[str]:
    """The reasons that time alone ends, as the text names them."""
    text = " ".join(PAGE.read_text("utf-8").split())
    named = re.search(r"Time alone ends ([A-Z, ]+?) and ([A-Z]+), the only ones that a unit can have", text)
    assert named
    return _words(f"{named[1]}, {named[2]}")


@cache
def persons_acts() -> frozenset[str]:
    """The reasons that only a person may have: those that begin with `user_`, and those that the text names."""
    text = " ".join(PAGE.read_text("utf-8").split())
    named = re.search(r"Reasons that begin with `user_`, and `([a-z_]+)`.*? are a person's acts", text)
    assert named
    return frozenset({named[1], *(each for each in reasons_of(moves("Tasks")) if each.startswith("user_"))})


def reasons_of(stated: Moves) -> Iterator[str]:
    """Every reason or event that a table knows, each once, in order."""
    found = {reason for row in stated.values() for reasons in row.values() for reason in reasons}
    return iter(sorted(found))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split(", "))
