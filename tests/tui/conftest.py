from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blank import put_blank
from tests.seeded import Seed
from tests.tui.calls import Calls


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local zone is UTC, here and in the processes that are started."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def taskdeck(tmp_path: Path, request: pytest.FixtureRequest) -> Calls:
    """Calls on an empty database of their own; on none where a test says `new` (indirectly), so that a call must make it."""
    made = Calls(tmp_path)
    if getattr(request, "param", "") != "new":
        put_blank(made.db)
    return made


@pytest.fixture
def seed(taskdeck: Calls) -> Iterator[Seed]:
    made = Seed(taskdeck.db)
    yield made
    made.close()
