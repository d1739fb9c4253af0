"""Journeys: real processes from end to end. After every one, nothing is left running and the audit replays to the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.decks import JOBS, Deck


@pytest.fixture
def deck(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deck]:
    """A taskdeck of this test's own, with the handlers of `jobs.py`; `new` where a test says so (indirectly)."""
    deck = Deck(tmp_path, JOBS, new=getattr(request, "param", "") == "new")
    try:
        yield deck
        deck.stop()
    finally:
        deck.clean_up()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deck]:
    """A taskdeck that works, for all tests of a module that leave it working."""
    deck = Deck(tmp_path_factory.mktemp("shared"), JOBS)
    try:
        deck.start()
        deck.until_ready()
        yield deck
        deck.stop()
    finally:
        deck.clean_up()
