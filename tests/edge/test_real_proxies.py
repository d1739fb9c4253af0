"""Checks through proxies as they are in the wild, asked by the judge that a user can run. Skipped where they are missing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.edge import siblings
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.judge_server import JudgeServer, Listen
from taskdeck.engine.edge.judging import Judge, Outside
from taskdeck.engine.edge.own_addresses import OwnAddresses
from taskdeck.engine.edge.probing import Budgets, ProbeResult, probe
from taskdeck.engine.rules.route_errors import ErrorType
from tests.edge import real_proxies
from tests.edge.fakes.certificates import client_context, server_context
from tests.edge.fakes.judge import FakeJudge
from tests.edge.real_proxies import NAME, PASSWORD, RealProxy

pytestmark = pytest.mark.proxies

T = ErrorType
PATIENT = Budgets(20, 30, 30, 30, 50)


@pytest.fixture(scope="module")
def tinyproxy() -> Iterator[RealProxy]:
    with real_proxies.tinyproxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def microsocks() -> Iterator[RealProxy]:
    with real_proxies.microsocks() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def dante() -> Iterator[RealProxy]:
    with real_proxies.dante() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def squid() -> Iterator[RealProxy]:
    with real_proxies.squid() as proxy:
        yield proxy


@pytest.fixture(params=[False, True], ids=["http", "https"])
async def judge(request: pytest.FixtureRequest) -> AsyncIterator[JudgeServer]:
    tls = server_context("127.0.0.1", "localhost") if request.param else None
    async with JudgeServer([Listen("127.0.0.1", 0)], tls) as judge:
        yield judge


async def check(exit: Exit, judge: JudgeServer, budgets: Budgets = PATIENT) -> ProbeResult:
    urls = (judge.url("/ip"),)
    outside = Outside(urls, OwnAddresses(urls, SystemClock(), budgets=PATIENT, tls=client_context()).has)
    result = await probe(exit, [Judge(judge.url("/nonce"))], outside, budgets=budgets, tls=client_context())
    assert PASSWORD not in repr(result)
    return result


WAYS = [
    ("tinyproxy", Scheme.HTTP, (NAME, PASSWORD)),
    ("squid", Scheme.HTTP, (None, None)),
    ("squid", Scheme.HTTPS, (None, None)),
    ("microsocks", Scheme.SOCKS5, (NAME, PASSWORD)),
    ("microsocks", Scheme.SOCKS5H, (NAME, PASSWORD)),
    ("dante", Scheme.SOCKS4, (None, None)),
    ("dante", Scheme.SOCKS5, (None, None)),
]
each_way = pytest.mark.parametrize(("name", "scheme", "login"), WAYS, ids=lambda each: str(each)[:12])
Login = tuple[str | None, str | None]


@each_way
async def test_a_good_one_passes_and_shows_its_own_address(
    request: pytest.FixtureRequest, judge: JudgeServer, name: str, scheme: Scheme, login: Login
) -> None:
    proxy: RealProxy = request.getfixturevalue(name)
    result = await check(proxy.exit(*login, scheme), judge)
    assert (result.ok, result.exit_ip) == (True, proxy.leaves_from), result.detail
    assert result.verified is judge.url().startswith("https")


@each_way
async def test_a_judge_that_is_down_is_no_fault_of_the_proxy(
    request: pytest.FixtureRequest, name: str, scheme: Scheme, login: Login
) -> None:
    proxy: RealProxy = request.getfixturevalue(name)
    async with FakeJudge(server_context()) as judge:
        await judge.leave()
        result = await probe(
            proxy.exit(*login, scheme), [Judge(judge.url("/nonce"))], budgets=PATIENT, tls=client_context()
        )
        assert result.error_type is T.TUNNEL_FAILED, result.detail
        assert T.TUNNEL_FAILED.of_target


@each_way
async def test_a_judge_that_never_answers_ends_the_check_in_time(
    request: pytest.FixtureRequest, name: str, scheme: Scheme, login: Login
) -> None:
    proxy: RealProxy = request.getfixturevalue(name)
    async with FakeJudge(server_context()) as judge:
        budgets = Budgets(20, 30, 0.1, 30, 50)
        result = await probe(
            proxy.exit(*login, scheme), [Judge(judge.url("/silent"))], budgets=budgets, tls=client_context()
        )
        assert result.error_type is T.PROBE_TIMEOUT, result.detail


@pytest.mark.parametrize("password", [None, "wrong-Word"])
@pytest.mark.parametrize("name", ["tinyproxy", "microsocks"])
async def test_a_wrong_or_missing_login_is_the_configurations_fault(
    request: pytest.FixtureRequest, judge: JudgeServer, name: str, password: str | None
) -> None:
    proxy: RealProxy = request.getfixturevalue(name)
    result = await check(proxy.exit(NAME if password else None, password), judge)
    assert result.error_type is T.PROXY_AUTH, result.detail


async def test_what_the_proxy_forbids_is_told_apart(dante: RealProxy) -> None:
    with real_proxies.tinyproxy("127.0.0.2", "ConnectPort 1") as strict:
        async with FakeJudge(server_context()) as judge:
            exit = strict.exit(NAME, PASSWORD)
            result = await probe(exit, [Judge(judge.url("/nonce"))], budgets=PATIENT, tls=client_context())
            assert result.error_type is T.PROXY_DENIED, result.detail
    result = await probe(dante.exit(), [Judge("http://127.0.0.66:9/nonce")], budgets=PATIENT)
    assert result.error_type is T.PROXY_DENIED, result.detail


async def test_one_that_leaves_from_this_hosts_own_address_leaks(judge: JudgeServer) -> None:
    with real_proxies.microsocks("127.0.0.1") as proxy:
        result = await check(proxy.exit(NAME, PASSWORD), judge)
        assert (result.error_type, result.exit_ip) == (T.EXIT_IP_LEAK, "127.0.0.1")


@pytest.mark.parametrize(
    ("name", "declared", "spoken"),
    [
        ("squid", Scheme.SOCKS5, Scheme.HTTP),
        ("tinyproxy", Scheme.SOCKS5, Scheme.HTTP),
        ("microsocks", Scheme.HTTP, Scheme.SOCKS5),
        ("dante", Scheme.HTTP, Scheme.SOCKS5),
    ],
)
async def test_the_protocol_of_a_wrongly_declared_one_is_found(
    request: pytest.FixtureRequest, name: str, declared: Scheme, spoken: Scheme
) -> None:
    proxy: RealProxy = request.getfixturevalue(name)
    async with FakeJudge(server_context()) as judge:
        exit = proxy.exit(scheme=declared)
        question = Judge(judge.url("/nonce"))
        found = await siblings.spoken(exit, question, 90, tls=client_context(), clock=SystemClock())
        assert found is spoken
