"""One stream through an exit of any kind; each way of failing has its verdict, and leaves nothing open."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.proxy import FakeProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.local_faults import local_fault
from taskdeck.engine.edge.tunnels import NoTunnel, open_tunnel
from taskdeck.engine.rules.route_errors import ErrorType
from tests.edge.fakes.certificates import client_context, server_context
from tests.edge.fakes.judge import FakeJudge

PASSWORD = "p@ss:w%"


def exit_of(proxy: FakeProxy, scheme: str, *login: str) -> Exit:
    return Exit(Scheme(scheme), "localhost" if scheme == "https" else "127.0.0.1", proxy.port, *login)


async def asked(exit: Exit, judge: FakeJudge, host: str = "127.0.0.1") -> bytes:
    """The address that the judge sees, asked for over TLS with the target."""
    stream = await open_tunnel(exit, host, judge.port, within=5.0, tls=client_context())
    try:
        await stream.writer.start_tls(client_context(), server_hostname="localhost")
        stream.writer.write(b"GET /ip HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        return (await stream.reader.read()).rpartition(b"\r\n")[2]
    finally:
        stream.writer.transport.abort()


@pytest.mark.parametrize(
    ("kind", "scheme", "login"),
    [
        (HttpProxy, "http", ("bob", PASSWORD)),
        (HttpProxy, "https", ("bob", PASSWORD)),
        (SocksProxy, "socks4", ()),
        (SocksProxy, "socks4a", ()),
        (SocksProxy, "socks5", ("bob", PASSWORD)),
        (SocksProxy, "socks5h", ()),
    ],
)
async def test_a_stream_through_any_kind_of_exit_carries_tls(
    kind: Any, scheme: str, login: tuple[str, ...]
) -> None:
    tls = server_context() if scheme == "https" else None
    async with FakeJudge(server_context()) as judge, kind(login=login or None, tls=tls) as proxy:
        assert await asked(exit_of(proxy, scheme, *login), judge, "localhost") == b"127.0.0.2"
        by_name = scheme != "socks4"
        assert [target.startswith("localhost") for target in proxy.targets] == [by_name]


async def test_without_a_proxy_the_stream_is_direct() -> None:
    async with FakeJudge(server_context()) as judge:
        assert await asked(Exit(Scheme.DIRECT), judge) == b"127.0.0.1"


E = ErrorType
FAILURES: dict[str, tuple[Any, str, Behaviour, ErrorType]] = {
    "refused": (HttpProxy, "http", Behaviour(Fault.REFUSE), E.TCP_REFUSED),
    "socks refused": (SocksProxy, "socks5", Behaviour(Fault.REFUSE), E.TCP_REFUSED),
    "silent": (HttpProxy, "http", Behaviour(Fault.SILENT), E.TUNNEL_TIMEOUT),
    "drip": (HttpProxy, "http", Behaviour(Fault.DRIP), E.TUNNEL_TIMEOUT),
    "socks silent": (SocksProxy, "socks5", Behaviour(Fault.SILENT), E.TUNNEL_TIMEOUT),
    "reset": (HttpProxy, "http", Behaviour(Fault.RESET), E.TCP_RESET),
    "closed": (HttpProxy, "http", Behaviour(Fault.CLOSE), E.PROXY_PROTO),
    "garbage": (HttpProxy, "http", Behaviour(Fault.GARBAGE), E.PROXY_PROTO),
    "denied": (HttpProxy, "http", Behaviour(Fault.STATUS, status=403), E.PROXY_DENIED),
    "tunnel": (HttpProxy, "http", Behaviour(Fault.STATUS, status=502), E.TUNNEL_FAILED),
    "socks tunnel": (SocksProxy, "socks5", Behaviour(Fault.STATUS, code=4), E.TUNNEL_FAILED),
    "redirect": (HttpProxy, "http", Behaviour(Fault.REDIRECT), E.PROBE_REDIRECT),
    "login": (HttpProxy, "http", Behaviour(), E.PROXY_AUTH),
    "socks login": (SocksProxy, "socks5", Behaviour(), E.PROXY_AUTH),
    "no TLS": (HttpProxy, "https", Behaviour(), E.PROXY_TLS),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_each_way_of_failing_has_its_verdict_and_no_password_in_it(case: str) -> None:
    kind, scheme, behaviour, expected = FAILURES[case]
    async with kind(behaviour=behaviour, login=("bob", "right")) as proxy:
        exit = exit_of(proxy, scheme, "bob", "wrongpw" if "login" in case else "right")
        within = 0.3 if expected.timeout else 5.0
        with pytest.raises(NoTunnel) as told:
            await open_tunnel(exit, "127.0.0.1", 9, within=within, tls=client_context())
        assert told.value.verdict.error_type is expected, told.value
        assert "wrongpw" not in str(told.value)
        await asyncio.wait_for(proxy.idle.wait(), 5)


async def test_a_stranger_to_the_proxys_authority_is_its_fault() -> None:
    async with HttpProxy(tls=server_context(by="bad")) as proxy:
        with pytest.raises(NoTunnel) as told:
            await open_tunnel(exit_of(proxy, "https"), "localhost", 9, within=5.0, tls=client_context())
        assert told.value.verdict.error_type is E.PROXY_TLS


async def test_a_cancelled_tunnel_leaves_nothing_open() -> None:
    async with HttpProxy(behaviour=Behaviour(Fault.SILENT)) as proxy:
        waiting = asyncio.ensure_future(open_tunnel(exit_of(proxy, "http"), "127.0.0.1", 9, within=60.0))
        while proxy.requests == 0:
            await SystemClock().pause(0.005)
        waiting.cancel()
        await asyncio.wait({waiting})
        await asyncio.wait_for(proxy.idle.wait(), 5)


def test_what_this_host_is_short_of_is_nobodys_fault() -> None:
    def wrapped(error: OSError) -> Exception:
        outer = RuntimeError("in a library")
        outer.__cause__ = error
        return outer

    for number in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL):
        assert local_fault(wrapped(OSError(number, ""))) is E.LOCAL_NET_DOWN
    assert local_fault(OSError(errno.EMFILE, "")) is E.INTERNAL
    assert local_fault(socket.gaierror(socket.EAI_AGAIN, "")) is E.LOCAL_NET_DOWN
    for error in (
        socket.gaierror(socket.EAI_NONAME, ""),
        ConnectionRefusedError(errno.ECONNREFUSED, ""),
        ValueError(),
    ):
        assert local_fault(error) is None
