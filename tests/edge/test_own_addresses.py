"""This host's addresses without an exit: learned in both families, believed for a while, asked again before a conviction."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator

import pytest

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.edge.own_addresses import BELIEVED, JUST_NOW, OwnAddresses
from tests.edge.fakes.judge import FakeJudge
from tests.edge.ipv6 import needs_ipv6

FOUR, SIX = ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")
ELSEWHERE = ipaddress.ip_address("203.0.113.9")


@pytest.fixture
async def judge() -> AsyncIterator[FakeJudge]:
    async with FakeJudge() as judge:
        yield judge


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def own(clock: ManualClock, *judges: FakeJudge, given: tuple[str, ...] = ()) -> OwnAddresses:
    return OwnAddresses([each.url("/ip") for each in judges], clock, given=given)


@needs_ipv6
async def test_both_families_are_asked(clock: ManualClock) -> None:
    judge = FakeJudge()
    judge.host = "localhost"
    async with judge:
        urls = [judge.url("/ip", host) for host in ("127.0.0.1", "[::1]")]
        assert await OwnAddresses(urls, clock).learn() == {FOUR, SIX}


async def test_a_family_that_leads_nowhere_is_left_out(judge: FakeJudge, clock: ManualClock) -> None:
    addresses = own(clock, judge)
    assert await addresses.learn() == {FOUR}
    assert await addresses.has(FOUR)
    assert not await addresses.has(ELSEWHERE)


async def test_many_checks_at_once_ask_once(judge: FakeJudge, clock: ManualClock) -> None:
    addresses = own(clock, judge)
    await asyncio.gather(*(addresses.learn() for _ in range(8)))
    assert len(judge.asked) == 1
    clock.advance(BELIEVED + 1)
    await addresses.learn()
    assert len(judge.asked) == 2


async def test_an_old_address_convicts_nobody(judge: FakeJudge, clock: ManualClock) -> None:
    addresses = own(clock, judge)
    judge.told = "203.0.113.9"
    assert await addresses.learn() == {ELSEWHERE}
    judge.told = "203.0.113.10"  # the line got another address; an exit may well have the old one now
    clock.advance(JUST_NOW + 1)
    assert not await addresses.has(ELSEWHERE)
    assert await addresses.has(ipaddress.ip_address("203.0.113.10"))


async def test_a_service_that_is_down_gives_way_to_the_next(judge: FakeJudge, clock: ManualClock) -> None:
    async with FakeJudge() as broken:
        broken.told = "<html>busy</html>"
        assert await own(clock, broken, judge).learn() == {FOUR}
        assert broken.asked


async def test_the_last_answer_stays_while_nobody_answers(judge: FakeJudge, clock: ManualClock) -> None:
    addresses = own(clock, judge)
    await addresses.learn()
    await judge.leave()
    clock.advance(BELIEVED + 1)
    assert await addresses.learn() == {FOUR}


async def test_given_addresses_need_no_question(clock: ManualClock) -> None:
    addresses = OwnAddresses((), clock, given=["203.0.113.9", "2001:db8::7"])
    assert await addresses.has(ELSEWHERE)
    assert await addresses.has(ipaddress.ip_address("2001:db8:0::7"))
    assert not await addresses.has(FOUR)


async def test_where_nobody_tells_an_address_it_is_said_once_a_look(
    judge: FakeJudge, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await judge.leave()
    addresses = own(clock, judge)
    assert await addresses.learn() == frozenset()
    assert not await addresses.has(FOUR)
    assert [record.getMessage() for record in caplog.records] == [
        "no address of this host is known, so that leaking routes can't be found: none of ip_urls answers"
    ]
