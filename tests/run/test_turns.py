"""Commands start one at a time: a short one may end first, one that lasts holds nobody up."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taskdeck.engine.edge.cgroups import Group
from taskdeck.engine.run import turns as module
from taskdeck.engine.run.groups import AttemptGroups
from taskdeck.engine.run.turns import Turns


async def take(turns: Turns, pid: int) -> None:
    async with turns:
        turns.began(pid)


def turns_with(group: Group | None) -> Turns:
    return Turns(AttemptGroups(group), ThreadPoolExecutor(1))


async def test_the_next_start_waits_for_the_end_of_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOMENT", 600.0)
    turns = turns_with(Group(tmp_path))
    await take(turns, 41)
    later = [asyncio.ensure_future(take(turns, pid)) for pid in (42, 43)]
    turns.ended(40)
    await asyncio.sleep(0)
    assert not any(each.done() for each in later)
    turns.ended(41)
    await asyncio.wait_for(later[0], 10)
    assert not later[1].done()
    turns.ended(42)
    await asyncio.wait_for(later[1], 10)


async def test_one_that_lasts_is_waited_for_no_longer_than_a_moment(tmp_path: Path) -> None:
    turns = turns_with(Group(tmp_path))
    await take(turns, 41)
    await asyncio.wait_for(take(turns, 42), 10)


async def test_a_start_that_is_given_up_leaves_its_turn_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOMENT", 600.0)
    turns = turns_with(Group(tmp_path))
    await take(turns, 41)
    given_up = asyncio.ensure_future(take(turns, 42))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    turns.ended(41)
    await asyncio.wait_for(take(turns, 43), 10)


async def test_without_groups_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOMENT", 600.0)
    turns = turns_with(None)
    await take(turns, 41)
    await asyncio.wait_for(take(turns, 42), 10)
