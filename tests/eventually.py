"""Waiting for what another process does. Loads next to nothing: programs that tests start wait too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taskdeck.engine.clock import SystemClock

PATIENCE = 15.0
"""Seconds."""


def eventually(fits: Callable[[], Any], what: str = "it") -> Any:
    """Wait until `fits` says something true, and return that."""
    clock = SystemClock()
    end = clock.monotonic() + PATIENCE
    while not (found := fits()):
        assert clock.monotonic() < end, f"{what} never came"
        clock.sleep(0.01)
    return found
