"""Each row of the error table from a situation on real sockets; a row without a situation fails the suite."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.judging import Address, Judge, Outside
from taskdeck.engine.edge.own_addresses import OwnAddresses
from taskdeck.engine.edge.probing import Budgets, ProbeResult, connect, probe
from taskdeck.engine.rules.route_errors import ERRORS, ErrorType
from taskdeck.engine.rules.routes import Control, verdict_of
from tests.edge.fakes.certificates import client_context, server_context
from tests.edge.fakes.judge import FakeJudge

T = ErrorType
Situation = Callable[[], Awaitable[ErrorType | None]]
SITUATIONS: dict[ErrorType, Situation] = {}


def row(error: ErrorType) -> Callable[[Situation], Situation]:
    """The situation that this row is for."""

    def noted(situation: Situation) -> Situation:
        SITUATIONS[error] = situation
        return situation

    return noted


@pytest.mark.parametrize("error", ERRORS)
async def test_each_row_of_the_table_comes_from_a_situation_on_real_sockets(error: ErrorType) -> None:
    async with asyncio.timeout(30):
        assert await SITUATIONS[error]() is error


async def check(
    exit: Exit, judge: Judge | str, outside: Outside | None = None, budgets: Budgets | None = None
) -> ProbeResult:
    asked = judge if isinstance(judge, Judge) else Judge(judge)
    patient = Budgets(total=25, connect=20, read=20)
    return await probe(exit, [asked], outside, budgets=budgets or patient, tls=client_context())


def through(proxy: HttpProxy | SocksProxy, scheme: Scheme = Scheme.SOCKS5) -> Exit:
    return Exit(scheme, "127.0.0.1", proxy.port)


async def behind_socks(
    behaviour: Behaviour, path: str = "/nonce", budgets: Budgets | None = None
) -> ErrorType | None:
    """A SOCKS proxy that behaves so, before an honest judge with TLS."""
    async with FakeJudge(server_context()) as judge, SocksProxy(behaviour=behaviour) as proxy:
        return (await check(through(proxy), judge.url(path), budgets=budgets)).error_type


async def seen_outside(**expected: object) -> ErrorType | None:
    """An exit that shows 127.0.0.2, and what was expected of it."""
    async with FakeJudge() as judge, SocksProxy() as proxy:
        path = str(expected.pop("path", "/ip"))
        outside = Outside((judge.url(path),), **expected)  # type: ignore[arg-type]
        return (await check(through(proxy), judge.url("/nonce"), outside)).error_type


# --- stage 1 -----------------------------------------------------------------------------------------------------


@row(T.DNS_PROXY)
async def _a_name_that_nobody_knows() -> ErrorType | None:
    def nobody_knows(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.MonkeyPatch.context() as patch:  # a resolver far away may take its time, or not be there
        patch.setattr(socket, "getaddrinfo", nobody_knows)
        return (await check(Exit(Scheme.HTTP, "nobody.invalid", 80), "http://127.0.0.1/")).error_type


@row(T.TCP_REFUSED)
async def _nobody_listens() -> ErrorType | None:
    return await behind_socks(Behaviour(Fault.REFUSE))


@row(T.TCP_UNREACHABLE)
async def _no_way_there() -> ErrorType | None:
    return (await check(Exit(Scheme.HTTP, "255.255.255.255", 80), "http://127.0.0.1/")).error_type


@row(T.TCP_TIMEOUT)
async def _a_full_backlog() -> ErrorType | None:
    """Whoever comes after the queue is full gets no answer at all, as behind a firewall."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        try:
            exit = Exit(Scheme.HTTP, *full.getsockname())
            return (await check(exit, "http://127.0.0.1/", budgets=Budgets(tcp=0.1))).error_type
        finally:
            for each in waiting:
                each.close()


# --- stage 2 -----------------------------------------------------------------------------------------------------


@row(T.TCP_RESET)
async def _reset_on_the_first_byte() -> ErrorType | None:
    return await behind_socks(Behaviour(Fault.RESET))


@row(T.PROXY_TLS)
async def _a_stranger_in_the_proxys_place() -> ErrorType | None:
    async with FakeJudge(server_context()) as judge, HttpProxy(tls=server_context(by="mallory")) as proxy:
        return (await check(through(proxy, Scheme.HTTPS), judge.url("/nonce"))).error_type


@row(T.PROXY_PROTO)
async def _garbage() -> ErrorType | None:
    return await behind_socks(Behaviour(Fault.GARBAGE))


@row(T.PROXY_AUTH)
async def _a_wrong_login() -> ErrorType | None:
    async with FakeJudge() as judge, HttpProxy(login=("bob", "right")) as proxy:
        exit = Exit(Scheme.HTTP, "127.0.0.1", proxy.port, "bob", "wrong")
        return (await check(exit, judge.url("/nonce"))).error_type


@row(T.PROXY_DENIED)
async def _forbidden_by_its_rules() -> ErrorType | None:
    return await behind_socks(Behaviour(Fault.STATUS, code=2))


@row(T.TUNNEL_FAILED)
async def _nobody_at_the_target() -> ErrorType | None:
    async with FakeJudge(server_context()) as judge, SocksProxy() as proxy:
        await judge.leave()
        return (await check(through(proxy), judge.url("/nonce"))).error_type


@row(T.TUNNEL_TIMEOUT)
async def _granted_and_silent() -> ErrorType | None:
    return await behind_socks(Behaviour(Fault.SILENT_TUNNEL), budgets=Budgets(connect=0.1))


@row(T.TLS_INTERCEPT)
async def _a_stranger_in_the_targets_place() -> ErrorType | None:
    async with FakeJudge(server_context(by="mallory")) as judge, SocksProxy() as proxy:
        return (await check(through(proxy), judge.url("/nonce"))).error_type


@row(T.TARGET_TLS)
async def _no_tls_at_the_target() -> ErrorType | None:
    async with FakeJudge() as judge, SocksProxy() as proxy:
        return (await check(through(proxy), judge.url("/nonce").replace("http:", "https:"))).error_type


@row(T.PROBE_TIMEOUT)
async def _a_judge_that_drips() -> ErrorType | None:
    return await behind_socks(Behaviour(), "/drip-body", Budgets(connect=20, read=0.1))


@row(T.PROBE_STATUS)
async def _a_judge_that_is_ill() -> ErrorType | None:
    return await behind_socks(Behaviour(), "/503")


@row(T.PROBE_REDIRECT)
async def _a_captive_portal() -> ErrorType | None:
    async with FakeJudge() as judge, HttpProxy(behaviour=Behaviour(Fault.REDIRECT)) as proxy:
        return (await check(through(proxy, Scheme.HTTP), judge.url("/nonce"))).error_type


@row(T.PROBE_BODY)
async def _a_script_put_in() -> ErrorType | None:
    async with FakeJudge() as judge, HttpProxy(behaviour=Behaviour(Fault.TAMPER)) as proxy:
        return (await check(through(proxy, Scheme.HTTP), judge.url("/nonce"))).error_type


# --- stage 3 -----------------------------------------------------------------------------------------------------


@row(T.EXIT_PARSE)
async def _no_address() -> ErrorType | None:
    return await seen_outside(path="/nonce")


@row(T.EXIT_IP_MISMATCH)
async def _another_address() -> ErrorType | None:
    return await seen_outside(expected_ip="203.0.113.0/24")


@row(T.EXIT_IP_LEAK)
async def _this_hosts_own_address() -> ErrorType | None:
    async with FakeJudge() as judge, SocksProxy(leaves_from="127.0.0.1") as proxy:
        urls = (judge.url("/ip"),)
        outside = Outside(urls, OwnAddresses(urls, SystemClock()).has)
        return (await check(through(proxy), judge.url("/nonce"), outside)).error_type


@row(T.REGION_MISMATCH)
async def _in_another_country() -> ErrorType | None:
    return await seen_outside(expected_regions=frozenset({"US"}), region_of={"127.0.0.2": "DE"}.get)


@row(T.REGION_UNKNOWN)
async def _in_no_known_country() -> ErrorType | None:
    return await seen_outside(expected_regions=frozenset({"US"}), region_of={}.get)


# --- at any stage ------------------------------------------------------------------------------------------------


@row(T.BUDGET_EXCEEDED)
async def _slow_in_all_stages() -> ErrorType | None:
    return await behind_socks(Behaviour(Fault.SILENT), budgets=Budgets(60, 60, 60, 60, total=0.1))


@row(T.GEO_UNAVAILABLE)
async def _no_region_data() -> ErrorType | None:
    return await seen_outside(expected_regions=frozenset({"US"}), region_of={}.__getitem__)


@row(T.INTERNAL)
async def _a_mistake_of_ours() -> ErrorType | None:
    async def broken(_: Address) -> bool:
        raise ZeroDivisionError

    return await seen_outside(is_own=broken)


@row(T.CANCELLED)
async def _cancelled() -> ErrorType | None:
    async with FakeJudge() as judge, SocksProxy(behaviour=Behaviour(Fault.SILENT)) as proxy:
        task = asyncio.create_task(check(through(proxy), judge.url("/nonce")))
        while not proxy.requests:
            await asyncio.wait({task}, timeout=0.01)
        task.cancel()
        await asyncio.wait({task})
        return T.CANCELLED if task.cancelled() else None


async def controlled(judge: FakeJudge, anchor: FakeJudge) -> ErrorType | None:
    """What the control probes of a doubtful cycle say: the judge asked directly, and an anchor."""
    direct = await check(Exit(Scheme.DIRECT), judge.url("/nonce"))
    stands = await connect(Exit(Scheme.HTTP, "127.0.0.1", anchor.port), 20)
    return verdict_of(Control(direct=direct.ok, anchors=stands is None))


@row(T.PROBE_TARGET_DOWN)
async def _the_judge_is_down() -> ErrorType | None:
    async with FakeJudge() as judge, FakeJudge() as anchor:
        assert await controlled(judge, anchor) is None
        await judge.leave()
        return await controlled(judge, anchor)


@row(T.LOCAL_NET_DOWN)
async def _nothing_can_be_reached() -> ErrorType | None:
    async with FakeJudge() as judge, FakeJudge() as anchor:
        await judge.leave()
        await anchor.leave()
        return await controlled(judge, anchor)
