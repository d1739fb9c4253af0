"""A port that speaks another protocol than the declared one is found, without telling anybody a password."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.proxy import FakeProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge import siblings
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.judging import Judge
from tests.edge.fakes.certificates import client_context, server_context
from tests.edge.fakes.judge import FakeJudge

LOGIN = ("bob", "s3cret-word")


@pytest.fixture
async def judge() -> AsyncIterator[FakeJudge]:
    async with FakeJudge(server_context()) as judge:
        yield judge


async def spoken(declared: Scheme, proxy: FakeProxy, judge: FakeJudge, seconds: float = 90) -> Scheme | None:
    """Nobody here is silent to a wrong protocol unless it says so, so that plenty of time costs none."""
    exit = Exit(declared, "127.0.0.1", proxy.port, *LOGIN)
    question = Judge(judge.url("/nonce"))
    return await siblings.spoken(exit, question, seconds, tls=client_context(), clock=SystemClock())


@pytest.mark.parametrize("login", [None, LOGIN])
async def test_an_http_proxy_declared_as_socks_is_found(
    judge: FakeJudge, login: tuple[str, str] | None
) -> None:
    async with HttpProxy(login=login) as proxy:
        assert await spoken(Scheme.SOCKS5, proxy, judge) is Scheme.HTTP


@pytest.mark.parametrize("login", [None, LOGIN])
async def test_a_socks_proxy_declared_as_http_is_found(
    judge: FakeJudge, login: tuple[str, str] | None
) -> None:
    async with SocksProxy(login=login) as proxy:
        assert await spoken(Scheme.HTTPS, proxy, judge) is Scheme.SOCKS5


async def test_a_proxy_behind_tls_is_found(judge: FakeJudge) -> None:
    async with HttpProxy(tls=server_context()) as proxy:
        assert await spoken(Scheme.SOCKS5H, proxy, judge) is Scheme.HTTPS


async def test_no_login_goes_along(judge: FakeJudge) -> None:
    heard = bytearray()

    class Listener(HttpProxy):
        async def speak(self, first, reader, writer, fault) -> None:  # type: ignore[no-untyped-def]
            heard.extend(first + await reader.read(65536))

    async with Listener() as proxy:
        assert await spoken(Scheme.HTTPS, proxy, judge) is None
    assert b"CONNECT" in heard
    assert b"uthorization" not in heard
    assert b"s3cret-word" not in heard


async def test_a_proxy_that_says_nothing_in_any_protocol_gets_no_advice(
    judge: FakeJudge,
) -> None:
    async with SocksProxy(behaviour=Behaviour(Fault.SILENT)) as proxy:
        assert await spoken(Scheme.SOCKS5, proxy, judge, 0.3) is None


async def test_no_more_time_is_spent_than_is_given(judge: FakeJudge) -> None:
    async with SocksProxy(behaviour=Behaviour(Fault.SILENT)) as proxy:
        assert await spoken(Scheme.HTTP, proxy, judge, 0.0) is None
        assert proxy.requests == 0
