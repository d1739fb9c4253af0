"""Keys at the speed of a fast typist."""

from __future__ import annotations

import asyncio

import pytest

TURNS = 20
"""Turns of the loop that a key gets before the next one comes: enough for its way up through all widgets."""


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
