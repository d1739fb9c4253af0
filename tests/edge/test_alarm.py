"""The alarm by which the scheduler keeps due times."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing

import pytest

from taskdeck.engine.edge import alarm as module
from taskdeck.engine.edge.alarm import Alarm


class NoTimers:
    """A C library without timerfd."""


@pytest.fixture(params=["kernel", "loop"], autouse=True)
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "loop":
        monkeypatch.setattr(module.ctypes, "CDLL", lambda _: NoTimers())


async def test_it_rings_not_before_its_time_and_can_be_set_again() -> None:
    loop, rung = asyncio.get_running_loop(), asyncio.Event()
    with closing(Alarm(rung.set)) as alarm:
        began = loop.time()
        alarm.set(0.02)
        await asyncio.wait_for(rung.wait(), 10)
        assert loop.time() - began >= 0.02
        rung.clear()
        alarm.set(0)
        await asyncio.wait_for(rung.wait(), 10)


async def test_what_is_set_anew_or_stopped_does_not_ring() -> None:
    rung, later = asyncio.Event(), asyncio.Event()
    with closing(Alarm(rung.set)) as alarm:
        alarm.set(0.0)
        alarm.set(600.0)
        alarm.stop()
        alarm.stop()
        with closing(Alarm(later.set)) as other:
            other.set(0.02)
            await asyncio.wait_for(later.wait(), 10)
        assert not rung.is_set()


async def test_a_closed_one_gives_its_descriptor_back() -> None:
    before = os.listdir("/proc/self/fd")
    with closing(Alarm(lambda: None)) as alarm:
        alarm.set(0.0)
    assert os.listdir("/proc/self/fd") == before
