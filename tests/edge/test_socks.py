"""The SOCKS connector: it works with TLS, and no limit of a request is lost in it."""

from __future__ import annotations

import asyncio

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.http import Timeouts, session
from tests.edge.fakes.certificates import client_context, server_context
from tests.edge.fakes.judge import FakeJudge

SCHEMES = [Scheme.SOCKS4, Scheme.SOCKS4A, Scheme.SOCKS5, Scheme.SOCKS5H]
LIMITS = [Timeouts(total=0.2), Timeouts(None, 0.2, None)]


async def fetch(proxy: SocksProxy, url: str, scheme: Scheme = Scheme.SOCKS5, **options: object) -> str:
    exit = Exit(scheme, "127.0.0.1", proxy.port)
    async with session(exit, tls=client_context(), **options) as http, http.get(url) as response:  # type: ignore[arg-type]
        return await response.text()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_tls_reaches_the_target_through_a_socks_proxy(scheme: Scheme) -> None:
    async with FakeJudge(server_context()) as judge, SocksProxy() as proxy:
        assert await fetch(proxy, judge.url("/ip", host="localhost"), scheme) == "127.0.0.2"


async def test_a_name_with_a_final_dot_is_checked_without_it() -> None:
    async with FakeJudge(server_context()) as judge, SocksProxy() as proxy:
        assert await fetch(proxy, judge.url("/ip", host="localhost.")) == "127.0.0.2"


@pytest.mark.parametrize("fault", [Fault.SILENT, Fault.SILENT_TUNNEL, Fault.DRIP, Fault.DRIP_TUNNEL])
@pytest.mark.parametrize("limits", LIMITS)
async def test_a_limit_ends_a_request_in_whatever_step_the_proxy_hangs(
    limits: Timeouts, fault: Fault
) -> None:
    clock = SystemClock()
    async with (
        FakeJudge(server_context()) as judge,
        SocksProxy(behaviour=Behaviour(fault)) as proxy,
    ):
        begun = clock.monotonic()
        with pytest.raises(TimeoutError):
            await fetch(proxy, judge.url("/ip"), timeouts=limits)
        assert clock.monotonic() - begun < 1


async def test_a_cancelled_request_ends_its_socket() -> None:
    async with FakeJudge(server_context()) as judge, SocksProxy() as proxy:
        await proxy.behave(Behaviour(Fault.SILENT_TUNNEL))
        request = asyncio.create_task(fetch(proxy, judge.url("/ip"), timeouts=Timeouts(None, None, None)))
        async with asyncio.timeout(5):
            await proxy.granted.wait()
            request.cancel()
            await asyncio.wait({request})
            await proxy.idle.wait()
        assert request.cancelled()


async def test_connections_are_kept_for_the_next_request_and_closed_with_the_session() -> None:
    async with FakeJudge(server_context()) as judge, SocksProxy() as proxy:
        exit = Exit(Scheme.SOCKS5, "127.0.0.1", proxy.port)
        async with session(exit, tls=client_context()) as http:
            for _ in range(3):
                async with http.get(judge.url("/ip")) as response:
                    await response.read()
        async with asyncio.timeout(5):
            await proxy.idle.wait()
        assert proxy.requests == 1
