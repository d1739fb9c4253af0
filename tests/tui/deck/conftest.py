"""Keys at the speed of a fast typist, and style sheets that are read once for all decks of a process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

TURNS = 20
"""Turns of the loop that a key gets before the next one comes: enough for its way up through all widgets."""
READ: dict[tuple[Any, ...], list[RuleSet]] = {}
"""The rules of each style sheet, by all that they depend on: its text, its place and the colours that it names."""

_read = Stylesheet._parse_rules


@pytest.fixture(autouse=True)
def keys_do_not_wait_for_an_idle_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pilot waits after each key until the process does nothing, for up to a second where threads read a database.

    What a key leads to is waited for by who looks at it.
    """

    async def give_way(min_sleep: float = 0, max_sleep: float = 0) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    monkeypatch.setattr("textual.app.wait_for_idle", give_way)
    monkeypatch.setattr("textual.pilot.wait_for_idle", give_way)


@pytest.fixture(autouse=True)
def style_sheets_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual keeps what it has read for as long as one app lives, and a person has only one; reading it all takes a tenth
    of what a deck of a test costs."""

    def rules_of(sheet: Stylesheet, css: str, *how: Any, **named: Any) -> list[RuleSet]:
        key = (css, *how, *named.items(), *sheet._variables.items())
        if key not in READ:
            READ[key] = _read(sheet, css, *how, **named)
        return READ[key]

    monkeypatch.setattr(Stylesheet, "_parse_rules", rules_of)
