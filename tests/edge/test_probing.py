"""Checks of exits over real sockets: each error of the table, every budget, and no secret in any result."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
import warnings
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from aiohttp_socks import ProxyConnector
from msgspec.structs import replace

from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.proxy import FakeProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.http import session
from taskdeck.engine.edge.judging import Address, IsOwn
from taskdeck.engine.edge.probing import Budgets, Judge, Outside, ProbeResult, probe
from taskdeck.engine.edge.traffic import Traffic
from taskdeck.engine.errors import UsageError
from taskdeck.engine.rules.route_errors import ErrorType
from tests.edge.fakes.certificates import client_context, server_context
from tests.edge.fakes.judge import FakeJudge
from tests.faults import fault

NAME, PASSWORD = "bob", "s3cr@t:pw/%41"
DIRECT = Exit(Scheme.DIRECT)
PATIENT = Budgets(20, 30, 30, 30, 50)
"""On a machine however busy, nothing else than a hanging peer comes to its end."""
QUICK = {
    ErrorType.TUNNEL_TIMEOUT: replace(PATIENT, connect=0.08),
    ErrorType.PROBE_TIMEOUT: replace(PATIENT, read=0.08),
}
"""What a test waits for is short, all else patient."""

KINDS: dict[Scheme, type[FakeProxy]] = {
    Scheme.HTTP: HttpProxy,
    Scheme.HTTPS: HttpProxy,
    Scheme.SOCKS4: SocksProxy,
    Scheme.SOCKS4A: SocksProxy,
    Scheme.SOCKS5: SocksProxy,
    Scheme.SOCKS5H: SocksProxy,
}


@dataclass
class Course:
    """One judge and one fake proxy, with the exit that leads through it."""

    judge: FakeJudge
    proxy: FakeProxy
    exit: Exit

    def question(self, path: str = "/nonce", **expected: object) -> Judge:
        return Judge(self.judge.url(path), **expected)  # type: ignore[arg-type]

    def outside(self, path: str = "/ip", own: Iterable[str] = (), **expected: object) -> Outside:
        return Outside((self.judge.url(path),), is_own(own), **expected)  # type: ignore[arg-type]

    async def check(
        self, judge: Judge | None = None, outside: Outside | None = None, budgets: Budgets = PATIENT
    ) -> ProbeResult:
        judge = judge or self.question()
        result = await probe(self.exit, [judge], outside, budgets=budgets, tls=client_context())
        assert_no_secret(result)
        return result


def is_own(addresses: Iterable[str]) -> IsOwn:
    """These are this host's addresses."""

    async def has(address: Address) -> bool:
        return str(address) in addresses

    return has


def assert_no_secret(result: ProbeResult) -> None:
    for secret in (PASSWORD, "s3cr%40t", "Ym9iOnMzY3J"):
        assert secret not in repr(result)


@asynccontextmanager
async def course(
    scheme: Scheme,
    behaviour: Behaviour | None = None,
    *,
    secure: bool = True,
    judged_by: str = "good",
    proxied_by: str = "good",
    login: bool = True,
    leaves_from: str = "127.0.0.2",
) -> AsyncIterator[Course]:
    # SOCKS4 has no password
    has_password = scheme not in (Scheme.SOCKS4, Scheme.SOCKS4A)
    async with AsyncExitStack() as stack:
        judge = await stack.enter_async_context(FakeJudge(server_context(by=judged_by) if secure else None))
        proxy = await stack.enter_async_context(
            KINDS[scheme](
                behaviour=behaviour,
                login=(NAME, PASSWORD) if login else None,
                leaves_from=leaves_from,
                tls=server_context(by=proxied_by) if scheme is Scheme.HTTPS else None,
            )
        )
        password = PASSWORD if has_password else None
        yield Course(judge, proxy, Exit(scheme, "127.0.0.1", proxy.port, NAME, password))


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("scheme", KINDS)
async def test_a_good_exit_passes_all_three_stages(scheme: Scheme, secure: bool) -> None:
    async with course(scheme, secure=secure, leaves_from="127.0.0.7") as at:
        result = await at.check(outside=at.outside(own={"127.0.0.1"}))
        assert (result.ok, result.error_type, result.detail) == (True, None, "")
        assert [stage.name for stage in result.stages] == ["tcp", "probe", "exit"]
        assert all(stage.ok and stage.ms > 0 for stage in result.stages)
        assert result.exit_ip == "127.0.0.7"
        assert result.verified is secure
        assert result.passed == 3
        # each stage had a connection of its own, and the judge's answer came over none that existed before
        assert at.judge.asked == [("127.0.0.7", "/nonce"), ("127.0.0.7", "/ip")]
        assert at.proxy.requests == 2


async def test_without_a_proxy_there_is_no_first_stage_and_no_leak() -> None:
    async with FakeJudge(server_context()) as judge:
        outside = Outside((judge.url("/ip"),), is_own({"127.0.0.1"}))
        result = await probe(
            DIRECT, [Judge(judge.url("/nonce"))], outside, budgets=PATIENT, tls=client_context()
        )
        assert (result.ok, result.exit_ip) == (True, "127.0.0.1")
        assert [stage.name for stage in result.stages] == ["probe", "exit"]


async def test_each_check_asks_with_another_nonce() -> None:
    async with course(Scheme.SOCKS5) as at:
        at.judge.asked.clear()
        assert {(await at.check()).ok for _ in range(3)} == {True}
        assert not (await at.check(at.question("/nonce", text="0123456789abcdef"))).ok


def status(code: int) -> Behaviour:
    return Behaviour(Fault.STATUS, status=code)


def code(number: int) -> Behaviour:
    return Behaviour(Fault.STATUS, code=number)


T = ErrorType
TUNNELS = [Scheme.HTTP, Scheme.HTTPS, Scheme.SOCKS4A, Scheme.SOCKS5]
HTTP, SOCKS = [Scheme.HTTP, Scheme.HTTPS], [Scheme.SOCKS4, Scheme.SOCKS4A, Scheme.SOCKS5, Scheme.SOCKS5H]

ROWS: list[tuple[list[Scheme], Behaviour, bool, ErrorType | None]] = [
    (TUNNELS, Behaviour(Fault.REFUSE), True, T.TCP_REFUSED),
    (TUNNELS, Behaviour(Fault.SILENT), True, T.TUNNEL_TIMEOUT),
    (TUNNELS, Behaviour(Fault.SILENT_TUNNEL), True, T.TUNNEL_TIMEOUT),
    (TUNNELS, Behaviour(Fault.DRIP_TUNNEL), True, T.TUNNEL_TIMEOUT),
    (TUNNELS, Behaviour(Fault.RESET_TUNNEL), True, T.TCP_RESET),
    (TUNNELS, Behaviour(Fault.GARBAGE), True, T.PROXY_PROTO),
    (TUNNELS, Behaviour(delay=5), True, T.TUNNEL_TIMEOUT),
    (HTTP, Behaviour(Fault.DRIP), True, T.TUNNEL_TIMEOUT),
    ([Scheme.SOCKS5], Behaviour(Fault.DRIP), True, T.TUNNEL_TIMEOUT),
    (TUNNELS, Behaviour(Fault.RESET), True, T.TCP_RESET),
    (HTTP, Behaviour(Fault.CLOSE), True, T.TCP_RESET),
    (SOCKS, Behaviour(Fault.CLOSE), True, T.PROXY_PROTO),
    (HTTP, status(401), True, T.PROXY_AUTH),
    (HTTP, status(407), True, T.PROXY_AUTH),
    (HTTP, status(402), True, T.PROXY_DENIED),
    (HTTP, status(403), True, T.PROXY_DENIED),
    (HTTP, status(429), True, T.PROXY_DENIED),
    (HTTP, status(500), True, T.TUNNEL_FAILED),
    (HTTP, status(502), True, T.TUNNEL_FAILED),
    (HTTP, status(503), True, T.TUNNEL_FAILED),
    (HTTP, status(599), True, T.TUNNEL_FAILED),
    (HTTP, status(201), True, T.PROXY_PROTO),
    (HTTP, status(405), True, T.PROXY_PROTO),
    (HTTP, Behaviour(Fault.REDIRECT), True, T.PROBE_REDIRECT),
    (HTTP, Behaviour(Fault.SPLIT_HEADER), True, None),
    # a plain request, which an HTTP proxy answers in its own name
    ([Scheme.HTTP], Behaviour(Fault.SILENT), False, T.PROBE_TIMEOUT),
    ([Scheme.HTTP], Behaviour(Fault.SILENT_TUNNEL), False, T.PROBE_TIMEOUT),
    ([Scheme.HTTP], Behaviour(Fault.DRIP), False, T.PROBE_TIMEOUT),
    ([Scheme.HTTP], Behaviour(Fault.RESET), False, T.TCP_RESET),
    ([Scheme.HTTP], Behaviour(Fault.CLOSE), False, T.TCP_RESET),
    ([Scheme.HTTP], Behaviour(Fault.GARBAGE), False, T.PROXY_PROTO),
    ([Scheme.HTTP], status(401), False, T.PROXY_AUTH),
    ([Scheme.HTTP], status(407), False, T.PROXY_AUTH),
    ([Scheme.HTTP], status(403), False, T.PROBE_STATUS),
    ([Scheme.HTTP], status(503), False, T.PROBE_STATUS),
    ([Scheme.HTTP], Behaviour(Fault.REDIRECT), False, T.PROBE_REDIRECT),
    ([Scheme.HTTP], Behaviour(Fault.OWN_PAGE), False, T.PROBE_BODY),
    ([Scheme.HTTP, *SOCKS], Behaviour(Fault.TAMPER), False, T.PROBE_BODY),
    (SOCKS, Behaviour(Fault.SILENT_TUNNEL), False, T.PROBE_TIMEOUT),
    (SOCKS, Behaviour(Fault.RESET_TUNNEL), False, T.TCP_RESET),
    # SOCKS replies
    ([Scheme.SOCKS5], code(1), True, T.TUNNEL_FAILED),
    ([Scheme.SOCKS5], code(2), True, T.PROXY_DENIED),
    ([Scheme.SOCKS5], code(3), True, T.TUNNEL_FAILED),
    ([Scheme.SOCKS5], code(4), True, T.TUNNEL_FAILED),
    ([Scheme.SOCKS5], code(5), True, T.TUNNEL_FAILED),
    ([Scheme.SOCKS5], code(7), True, T.PROXY_PROTO),
    ([Scheme.SOCKS5], code(99), True, T.PROXY_PROTO),
    ([Scheme.SOCKS4], code(91), True, T.TUNNEL_FAILED),
    ([Scheme.SOCKS4], code(93), True, T.PROXY_AUTH),
]


@pytest.mark.parametrize(
    ("scheme", "behaviour", "secure", "expected"),
    [
        pytest.param(
            scheme, how, secure, expected, id=f"{scheme} {how.fault} {how.status} {how.code} {secure}"
        )
        for schemes, how, secure, expected in ROWS
        for scheme in schemes
    ],
)
async def test_each_fault_of_a_proxy_has_its_error_type_within_the_budget(
    scheme: Scheme, behaviour: Behaviour, secure: bool, expected: ErrorType | None
) -> None:
    async with course(scheme, behaviour, secure=secure) as at:
        result = await at.check(budgets=QUICK.get(expected or T.INTERNAL, PATIENT))
        assert result.error_type == expected, result.detail
        assert result.ok is (expected is None)
        if expected:
            assert result.detail
            assert result.latency_ms is None
            assert result.stages[-1].error_type == expected
            assert (result.passed == 0) is (expected is T.TCP_REFUSED)


JUDGE_ROWS = [
    ("/silent", T.PROBE_TIMEOUT),
    ("/drip", T.PROBE_TIMEOUT),
    ("/drip-body", T.PROBE_TIMEOUT),
    ("/big", T.PROBE_BODY),
    ("/garbage", T.PROBE_BODY),
    ("/redirect", T.PROBE_REDIRECT),
    ("/reset", T.TCP_RESET),
    ("/204", T.PROBE_STATUS),
    ("/403", T.PROBE_STATUS),
    ("/401", T.PROBE_STATUS),
    ("/503", T.PROBE_STATUS),
    ("/ip", T.PROBE_BODY),
]


@pytest.mark.parametrize(("path", "expected"), JUDGE_ROWS)
@pytest.mark.parametrize("scheme", TUNNELS)
async def test_what_comes_out_of_a_tunnel_is_laid_at_the_targets_door(
    scheme: Scheme, path: str, expected: ErrorType
) -> None:
    async with course(scheme) as at:
        result = await at.check(at.question(path), budgets=QUICK.get(expected or T.INTERNAL, PATIENT))
        assert result.error_type == expected, result.detail


@pytest.mark.parametrize("scheme", [*TUNNELS, Scheme.SOCKS4])
async def test_a_target_that_the_exit_cannot_reach_is_a_failed_tunnel(scheme: Scheme) -> None:
    async with course(scheme) as at:
        await at.judge.leave()
        assert (await at.check()).error_type is T.TUNNEL_FAILED


async def test_a_target_that_cannot_be_reached_directly_is_a_failed_tunnel_too() -> None:
    async with FakeJudge() as judge:
        await judge.leave()
        result = await probe(DIRECT, [Judge(judge.url("/nonce"))], budgets=PATIENT)
        assert result.error_type is T.TUNNEL_FAILED
    result = await probe(DIRECT, [Judge("http://nobody.invalid/")], budgets=PATIENT)
    assert result.error_type in (T.TUNNEL_FAILED, T.TUNNEL_TIMEOUT)


@pytest.mark.parametrize("scheme", [Scheme.HTTP, Scheme.SOCKS5])
async def test_an_unknown_name_of_a_proxy_is_told_apart(scheme: Scheme) -> None:
    result = await probe(Exit(scheme, "nobody.invalid", 1080), [Judge("http://127.0.0.1/")], budgets=PATIENT)
    assert result.error_type in (T.DNS_PROXY, T.TCP_TIMEOUT)  # the latter where a resolver is asked and dead


@pytest.mark.parametrize(
    ("scheme", "name", "password"),
    [
        (Scheme.HTTP, None, None),
        (Scheme.HTTP, "bob", "wrong-s3cret"),
        (Scheme.HTTPS, "", PASSWORD),
        (Scheme.SOCKS5, None, None),
        (Scheme.SOCKS5, "bob", "wrong-s3cret"),
        (Scheme.SOCKS4, "eve", None),
    ],
)
@fault("TF188")
async def test_a_wrong_or_missing_login_is_a_fault_of_the_configuration(
    scheme: Scheme, name: str | None, password: str | None
) -> None:
    async with course(scheme) as at:
        at.exit = Exit(scheme, "127.0.0.1", at.proxy.port, name, password)
        result = await at.check()
        assert result.error_type is T.PROXY_AUTH, result.detail
        assert "wrong-s3cret" not in repr(result)
        assert T.PROXY_AUTH.fatal


@pytest.mark.parametrize("scheme", [*TUNNELS, Scheme.SOCKS4])
async def test_somebody_elses_certificate_for_the_target_is_an_interception(scheme: Scheme) -> None:
    async with course(scheme, judged_by="mallory") as at:
        assert (await at.check()).error_type is T.TLS_INTERCEPT


async def test_somebody_elses_certificate_for_the_proxy_is_the_proxys() -> None:
    async with course(Scheme.HTTPS, proxied_by="mallory") as at:
        result = await at.check()
        assert result.error_type is T.PROXY_TLS
        assert "self-signed" in result.detail or "issuer" in result.detail


async def test_a_proxy_that_speaks_no_tls_though_its_scheme_says_so_is_told() -> None:
    async with course(Scheme.HTTP) as at:
        at.exit = Exit(Scheme.HTTPS, "127.0.0.1", at.proxy.port)
        assert (await at.check()).error_type in (T.PROXY_TLS, T.TCP_RESET)


@pytest.mark.parametrize("scheme", TUNNELS)
async def test_a_target_that_speaks_no_tls_is_the_targets_fault(scheme: Scheme) -> None:
    async with course(scheme, secure=False) as at:
        url = at.judge.url("/nonce").replace("http:", "https:")
        assert (await at.check(Judge(url))).error_type in (T.TARGET_TLS, T.TCP_RESET)


async def test_a_socks_exit_whose_port_is_an_http_proxys_ends_in_time() -> None:
    async with course(Scheme.HTTP) as at:
        at.exit = Exit(Scheme.SOCKS5, "127.0.0.1", at.proxy.port)
        assert (await at.check(budgets=QUICK[T.TUNNEL_TIMEOUT])).error_type is T.TUNNEL_TIMEOUT


async def test_an_http_exit_whose_port_is_a_socks_proxys_is_told() -> None:
    async with course(Scheme.SOCKS5) as at:
        at.exit = Exit(Scheme.HTTP, "127.0.0.1", at.proxy.port)
        assert (await at.check()).error_type in (T.TCP_RESET, T.PROXY_PROTO)


# --- what is asked, and which answer is right --------------------------------------------------------------------


@fault("TF183")
async def test_a_page_of_the_proxys_own_is_never_a_pass_whatever_its_status() -> None:
    async with course(Scheme.HTTP, Behaviour(Fault.OWN_PAGE), secure=False) as at:
        result = await at.check()
        assert (result.ok, result.error_type) == (False, T.PROBE_BODY)
        assert "please pay" in result.detail
        assert not (await at.check(at.question(pattern="ok|{nonce}"))).ok
    async with course(Scheme.HTTP, Behaviour(Fault.OWN_PAGE)) as at:
        assert not (await at.check()).ok


@fault("TF186")
async def test_a_proxy_that_injects_a_script_or_shows_the_own_address_fails() -> None:
    async with course(Scheme.HTTP, Behaviour(Fault.TAMPER), secure=False) as at:
        assert (await at.check()).error_type is T.PROBE_BODY
    async with course(Scheme.HTTP, leaves_from="127.0.0.1") as at:
        result = await at.check(outside=at.outside(own={"::1", "127.0.0.1"}))
        assert (result.ok, result.error_type, result.passed) == (False, T.EXIT_IP_LEAK, 2)
        assert result.latency_ms is None


async def test_a_judge_may_answer_nothing_a_fixed_text_or_a_pattern() -> None:
    async with course(Scheme.SOCKS5) as at:
        assert (await at.check(at.question("/204", status=204))).ok
        assert (await at.check(at.question("/ip", text="127.0.0.2\n"))).ok
        assert (await at.check(at.question("/nonce", pattern="{nonce}"))).ok
        assert (await at.check(at.question("/ip?a=b", pattern=r"127\.0\.0\.\d+"))).ok
        assert not (await at.check(at.question("/ip", pattern=r"127"))).ok


@pytest.mark.parametrize(
    "make",
    [
        lambda: Judge("ftp://judge.example/"),
        lambda: Judge("https://judge.example/#part"),
        lambda: Judge("https://judge.example/", pattern="("),
        lambda: Outside(("judge.example",)),
        lambda: Outside(("https://judge.example/ip",), expected_ip="1.2.3.400"),
    ],
)
def test_a_question_without_a_possible_answer_is_refused(make: object) -> None:
    with pytest.raises(UsageError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("expected_ip", "error"),
    [
        ("127.0.0.2", None),
        ("127.0.0.0/8", None),
        ("::ffff:7f00:2", T.EXIT_IP_MISMATCH),
        ("127.0.0.3", T.EXIT_IP_MISMATCH),
        ("10.0.0.0/8", T.EXIT_IP_MISMATCH),
    ],
)
async def test_an_exit_must_show_the_address_that_is_expected(
    expected_ip: str, error: ErrorType | None
) -> None:
    async with course(Scheme.SOCKS5) as at:
        result = await at.check(outside=at.outside(expected_ip=expected_ip))
        assert (result.error_type, result.exit_ip) == (error, "127.0.0.2")


REGIONS = {"127.0.0.2": "DE"}


@pytest.mark.parametrize(
    ("wanted", "region_of", "lenient", "error"),
    [
        ({"de", "fr"}, REGIONS.get, False, None),
        ({"US"}, REGIONS.get, False, T.REGION_MISMATCH),
        ({"US"}, REGIONS.get, True, T.REGION_MISMATCH),
        ({"US"}, {}.get, False, T.REGION_UNKNOWN),
        ({"US"}, {}.get, True, None),
        ({"US"}, None, False, T.REGION_UNKNOWN),
        ({"US"}, {}.__getitem__, False, T.GEO_UNAVAILABLE),
        (set(), {}.__getitem__, False, None),
        (set(), REGIONS.get, False, None),
    ],
)
async def test_an_exit_must_be_in_an_expected_region(
    wanted: set[str], region_of: object, lenient: bool, error: ErrorType | None
) -> None:
    async with course(Scheme.HTTP) as at:
        outside = at.outside(
            expected_regions=frozenset(wanted), region_of=region_of, allow_unknown_region=lenient
        )
        result = await at.check(outside=outside)
        assert result.error_type == error
        assert result.exit_region == ("DE" if region_of == REGIONS.get else None)
        assert result.stages[1].ok


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/nonce", T.EXIT_PARSE),
        ("/503", T.EXIT_PARSE),
        ("/redirect", T.EXIT_PARSE),
        ("/big", T.EXIT_PARSE),
        ("/reset", T.TCP_RESET),
    ],
)
async def test_a_service_that_tells_no_address_fails_the_last_stage_alone(
    path: str, error: ErrorType
) -> None:
    async with course(Scheme.SOCKS5) as at:
        result = await at.check(outside=at.outside(path))
        assert (result.error_type, result.passed, result.exit_ip) == (error, 2, None)


@pytest.mark.parametrize("path", ["/silent", "/drip-body"])
async def test_the_last_stage_has_its_own_limit(path: str) -> None:
    async with course(Scheme.SOCKS5) as at:
        result = await at.check(outside=at.outside(path), budgets=replace(PATIENT, exit=0.1))
        # on a busy machine the handshakes alone may take that long
        assert result.error_type in (T.PROBE_TIMEOUT, T.TUNNEL_TIMEOUT)
        assert (result.passed, result.exit_ip) == (2, None)


# --- budgets, time, cancelling -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.SILENT, Fault.SILENT_TUNNEL, Fault.DRIP, Fault.DRIP_TUNNEL])
@pytest.mark.parametrize("scheme", TUNNELS)
async def test_the_outer_budget_holds_where_the_inner_ones_do_not(scheme: Scheme, fault: Fault) -> None:
    async with (
        course(scheme, Behaviour(fault)) as at,
        asyncio.timeout(30),
    ):  # half of what the inner ones allow
        budgets = Budgets(tcp=60, connect=60, read=60, exit=60, total=0.15)
        result = await probe(at.exit, [at.question()], budgets=budgets, tls=client_context())
        if scheme is Scheme.SOCKS4A and fault is Fault.DRIP:
            return  # its eight bytes are soon dripped
        assert result.error_type is T.BUDGET_EXCEEDED
        assert T.BUDGET_EXCEEDED.timeout


@pytest.mark.parametrize("scheme", [Scheme.SOCKS5, Scheme.HTTP])
async def test_worked_example_34_a_tunnel_that_is_granted_and_then_silent_ends_within_its_budget(
    scheme: Scheme,
) -> None:
    async with course(scheme, Behaviour(Fault.SILENT_TUNNEL)) as at:
        result = await at.check(budgets=Budgets())  # connect 5 s
        assert (result.ok, result.error_type) == (False, T.TUNNEL_TIMEOUT)
        assert 5000 <= result.stages[-1].ms < 6000 + result.lag_ms


@fault("TF191")
async def test_many_exits_that_never_answer_are_checked_at_once_and_the_loop_stays_usable() -> None:
    async with course(Scheme.HTTP, Behaviour(Fault.SILENT)) as at, asyncio.timeout(30):
        checks = asyncio.gather(*(at.check() for _ in range(20)))
        while at.proxy.requests < 20:  # each waits for its answer, and for no other check
            await asyncio.wait({asyncio.ensure_future(asyncio.sleep(0.01))})
        assert not checks.done()
        await at.proxy.hang_up()
        assert {result.error_type for result in await checks} == {T.TCP_RESET}
        sweep = (at.check(budgets=replace(PATIENT, connect=0.1)) for _ in range(20))
        assert {result.error_type for result in await asyncio.gather(*sweep)} == {T.TUNNEL_TIMEOUT}


async def test_worked_example_35_a_latency_measured_while_the_loop_was_blocked_is_dropped() -> None:
    async with course(Scheme.HTTP, Behaviour(delay=0.05)) as at:
        result = await probe(at.exit, [at.question()], budgets=PATIENT, tls=client_context())
        assert result.ok
        if result.lag_ms < 50:  # this machine may be busy by itself
            assert result.latency_ms is not None
            assert result.latency_ms >= 50
        asyncio.get_running_loop().call_later(0.03, time.sleep, 0.2)
        result = await probe(at.exit, [at.question()], budgets=PATIENT, tls=client_context())
        assert (result.ok, result.latency_ms) == (True, None)
        assert result.lag_ms > 100


async def test_a_latency_ends_with_the_headers_and_counts_every_handshake() -> None:
    async with course(Scheme.HTTP, Behaviour(delay=0.1)) as at:
        result = await probe(at.exit, [at.question()], budgets=PATIENT, tls=client_context())
        assert result.stages[1].ms >= 100


async def test_a_check_that_is_cancelled_ends_at_once_and_leaves_no_connection() -> None:
    async with course(Scheme.SOCKS5, Behaviour(Fault.SILENT_TUNNEL)) as at:
        check = asyncio.create_task(probe(at.exit, [at.question()], budgets=PATIENT, tls=client_context()))
        async with asyncio.timeout(5):
            await at.proxy.granted.wait()
            check.cancel()
            await asyncio.wait({check})
            assert check.cancelled()
            await at.proxy.idle.wait()


async def given_up(scheme: Scheme, turns: int, *, waits: bool) -> bool:
    """Cancel a check after so many turns of the loop; `waits` for its end. False: it was through before."""
    async with course(scheme) as at:
        check = asyncio.create_task(probe(at.exit, [at.question()], budgets=PATIENT, tls=client_context()))
        for _ in range(turns):
            await asyncio.sleep(0)
        if check.done():
            return False
        check.cancel()
        if waits:
            await asyncio.wait({check})
        return True


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("scheme", [Scheme.HTTP, Scheme.HTTPS, Scheme.SOCKS5])
def test_a_check_that_is_cancelled_at_any_point_leaves_nothing_open_even_where_its_loop_ends_at_once(
    scheme: Scheme, waits: bool
) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ResourceWarning)
        turns = next(turns for turns in count() if not asyncio.run(given_up(scheme, turns, waits=waits)))
        gc.collect()
    assert turns > 20, "it was cancelled on its way"
    assert [str(each.message) for each in found] == []


class Watched(Traffic):
    """Keeps the sockets that it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.sockets: list[socket.socket] = []

    def socket(self, address: tuple[Any, ...]) -> socket.socket:
        self.sockets.append(super().socket(address))
        return self.sockets[-1]


@contextmanager
def mute_proxy(asked: threading.Event) -> Iterator[int]:
    """A TLS proxy that takes one request, sets `asked`, and says nothing more, no goodbye either. Yields its port."""
    over = threading.Event()

    def serve() -> None:
        with server_context().wrap_socket(listener.accept()[0], server_side=True) as peer:
            peer.recv(1)
            asked.set()
            over.wait()

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        serving = thread.submit(serve)
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
        serving.result()


async def test_a_tls_proxy_that_says_no_goodbye_holds_no_connection_that_was_given_up() -> None:
    asked, traffic = threading.Event(), Watched()
    with mute_proxy(asked) as port:
        exit = Exit(Scheme.HTTPS, "127.0.0.1", port)
        async with session(exit, tls=client_context(), fresh=True, traffic=traffic) as http:
            request = asyncio.create_task(http.get("https://judge.example/"))
            await asyncio.to_thread(asked.wait)
            request.cancel()
            await asyncio.wait({request})
        assert [sock.fileno() for sock in traffic.sockets] == [-1]


async def test_a_check_over_its_budget_leaves_no_connection() -> None:
    async with course(Scheme.SOCKS5, Behaviour(Fault.SILENT_TUNNEL)) as at:
        budgets = Budgets(connect=60, read=60, total=0.2)
        await probe(at.exit, [at.question()], budgets=budgets, tls=client_context())
        async with asyncio.timeout(5):
            await at.proxy.idle.wait()


async def test_the_outer_budget_holds_even_where_a_library_does_not_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # the connector of aiohttp-socks as it comes, which doesn't end when cancelled in a TLS handshake
    stock = ProxyConnector(host="127.0.0.1", port=1, rdns=True)
    monkeypatch.setattr("taskdeck.engine.edge.socks.SocksConnector", lambda *_, **__: stock)
    async with course(Scheme.SOCKS5, Behaviour(Fault.SILENT_TUNNEL), login=False) as at:
        stock._proxy_port = at.proxy.port
        async with asyncio.timeout(30):  # by itself it would take a minute
            result = await probe(at.exit, [at.question()], budgets=replace(PATIENT, total=0.15))
        assert result.error_type is T.BUDGET_EXCEEDED
    await stock.close()


async def test_a_flapping_proxy_is_judged_anew_each_time() -> None:
    pattern = (Fault.NONE, Fault.RESET, Fault.NONE)
    async with course(Scheme.HTTP, Behaviour(pattern=pattern)) as at:
        assert [(await at.check()).ok for _ in range(6)] == [True, False, True] * 2


async def test_a_proxy_that_comes_back_is_found_on_its_old_port() -> None:
    async with course(Scheme.HTTP) as at:
        await at.proxy.behave(Behaviour(Fault.REFUSE))
        assert (await at.check()).error_type is T.TCP_REFUSED
        await at.proxy.behave(Behaviour())
        assert (await at.check()).ok
