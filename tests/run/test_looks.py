"""When the scheduler looks again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.rules.timing import add_seconds, utc_text
from taskdeck.engine.run.looks import Looks


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def looks(clock: ManualClock) -> Iterator[Looks]:
    made = Looks(clock)
    yield made
    made.close()


async def is_called_at_once(looks: Looks) -> bool:
    resting = asyncio.create_task(looks.rest())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    called = resting.done()
    resting.cancel()
    await asyncio.gather(resting, return_exceptions=True)
    return called


async def test_a_task_that_is_due_after_the_next_look_calls_for_none(
    looks: Looks, clock: ManualClock
) -> None:
    now = utc_text(clock.utc())
    looks.begin()
    looks.end(add_seconds(now, 600))
    looks.by([add_seconds(now, 601), add_seconds(now, 700)])
    assert not await is_called_at_once(looks)
    looks.by([])
    assert not await is_called_at_once(looks)


async def test_a_task_that_is_due_before_the_next_look_calls_for_one(
    looks: Looks, clock: ManualClock
) -> None:
    now = utc_text(clock.utc())
    looks.begin()
    looks.end(add_seconds(now, 600))
    looks.by([add_seconds(now, 700), add_seconds(now, 599)])
    assert await is_called_at_once(looks)


async def test_a_task_that_comes_during_a_look_is_looked_for_whatever_the_look_before_told(
    looks: Looks, clock: ManualClock
) -> None:
    now = utc_text(clock.utc())
    looks.begin()
    looks.end(add_seconds(now, 1))
    looks.begin()  # at that second, and this one may have read the tasks already
    looks.by([add_seconds(now, 2)])
    looks.end(None)
    assert await is_called_at_once(looks)


async def test_what_is_due_and_could_not_be_had_is_looked_at_again_soon(
    looks: Looks, clock: ManualClock
) -> None:
    looks.begin()
    looks.end(utc_text(clock.utc()))
    await asyncio.wait_for(looks.rest(), 5)
