"""Where names are resolved, and IPv6 at both ends of a proxy."""

from __future__ import annotations

import pytest

from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.proxy import FakeProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.judging import Judge, Outside
from taskdeck.engine.edge.probing import Budgets, ProbeResult, probe
from taskdeck.engine.rules.route_errors import ErrorType
from tests.edge.fakes.certificates import client_context, server_context
from tests.edge.fakes.judge import FakeJudge
from tests.edge.ipv6 import needs_ipv6

KINDS: dict[Scheme, type[FakeProxy]] = {
    Scheme.HTTP: HttpProxy,
    Scheme.HTTPS: HttpProxy,
    Scheme.SOCKS4A: SocksProxy,
    Scheme.SOCKS5: SocksProxy,
    Scheme.SOCKS5H: SocksProxy,
}


def made(scheme: Scheme, leaves_from: str) -> FakeProxy:
    tls = server_context("localhost", "127.0.0.1", "::1") if scheme is Scheme.HTTPS else None
    return KINDS.get(scheme, SocksProxy)(leaves_from=leaves_from, tls=tls)


async def check(exit: Exit, url: str, ip_url: str = "") -> ProbeResult:
    outside = Outside((ip_url,)) if ip_url else None
    budgets = Budgets(20, 30, 30, 30, 50)
    return await probe(exit, [Judge(url)], outside, budgets=budgets, tls=client_context())


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("scheme", [*KINDS, Scheme.SOCKS4])
async def test_names_are_resolved_by_the_exit_except_with_socks4(scheme: Scheme, secure: bool) -> None:
    """A name that is looked up here tells the network around this host where the exit goes."""
    async with FakeJudge(server_context() if secure else None) as judge, made(scheme, "127.0.0.2") as proxy:
        result = await check(Exit(scheme, "127.0.0.1", proxy.port), judge.url("/nonce", "localhost"))
        assert result.ok, result.detail
        host = "127.0.0.1" if scheme is Scheme.SOCKS4 else "localhost"
        assert proxy.targets == [f"{host}:{judge.port}"]


@needs_ipv6
@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("scheme", [Scheme.HTTP, Scheme.HTTPS, Scheme.SOCKS5, Scheme.SOCKS5H])
async def test_a_proxy_and_a_target_may_both_be_ipv6(scheme: Scheme, secure: bool) -> None:
    judge = FakeJudge(server_context("::1") if secure else None)
    proxy = made(scheme, "::1")
    judge.host = proxy.host = "::1"
    async with judge, proxy:
        urls = [judge.url(path, "[::1]") for path in ("/nonce", "/ip")]
        result = await check(Exit(scheme, "::1", proxy.port), *urls)
        assert (result.error_type, result.exit_ip) == (None, "::1"), result.detail
        assert proxy.targets[0].endswith(
            f"::1]:{judge.port}" if scheme in (Scheme.HTTP, Scheme.HTTPS) else f"::1:{judge.port}"
        )


@needs_ipv6
async def test_an_exit_of_the_other_family_is_a_tunnel_that_fails_until_a_judge_of_its_own_is_asked() -> None:
    judges = [FakeJudge(), FakeJudge()]
    judges[1].host = "::1"
    async with judges[0], judges[1], made(Scheme.SOCKS5, "::1") as proxy:
        exit = Exit(Scheme.SOCKS5, "127.0.0.1", proxy.port)
        urls = [judges[0].url("/nonce"), judges[1].url("/nonce", "[::1]")]
        assert (await check(exit, urls[0])).error_type is ErrorType.TUNNEL_FAILED
        result = await probe(exit, [Judge(url) for url in urls], budgets=Budgets(20, 30, 30, 30, 50))
        assert (result.ok, [each.error_type for each in result.asked]) == (
            True,
            [ErrorType.TUNNEL_FAILED, None],
        )


async def test_socks4_has_no_ipv6_and_its_tunnel_fails() -> None:
    async with made(Scheme.SOCKS4, "127.0.0.2") as proxy:
        result = await check(Exit(Scheme.SOCKS4, "127.0.0.1", proxy.port), "http://[::1]:1/nonce")
        assert result.error_type is ErrorType.TUNNEL_FAILED
