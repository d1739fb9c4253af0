from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.seeded import Seed
from tests.tui.calls import Calls


@pytest.fixture
def taskdeck(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


@pytest.fixture
def seed(taskdeck: Calls) -> Iterator[Seed]:
    made = Seed(taskdeck.db)
    yield made
    made.close()
