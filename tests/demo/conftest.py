"""One world for all tests of a module that only look at it or work in it under keys of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.runs import Ran, recorded
from tests.demo.worlds import World, world


@pytest.fixture(scope="module")
def demo_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(Path(tmp_path_factory.mktemp("world"))) as made:
        yield made


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The recorded demo; it takes ten to twenty seconds, once. Nobody changes it."""
    return recorded(tmp_path_factory.getbasetemp())


@pytest.fixture
def copy(ran: Ran, tmp_path: Path) -> Ran:
    """A copy of the recorded demo, to be damaged."""
    return ran.copy(tmp_path)
