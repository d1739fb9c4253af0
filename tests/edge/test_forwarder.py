"""The local proxy leads out by its exit whatever its kind, and by nothing else; only those it was opened for may use it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.proxy import FakeProxy
from taskdeck.engine.demo.fakes.server import FakeServer, Reader, Writer
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.forwarder import Forwarder
from taskdeck.engine.edge.http import session
from taskdeck.engine.edge.peers import holder, peer_of
from taskdeck.engine.edge.probe_errors import Finding
from taskdeck.engine.edge.proxy_requests import ERROR_HEADER, Unclear, read_request
from taskdeck.engine.rules.route_errors import ErrorType
from tests.edge.fakes.certificates import client_context, server_context
from tests.edge.fakes.judge import FakeJudge

PASSWORD = "p@ss:w%"


@dataclass
class Around:
    """What a forwarder asks, from memory."""

    now: Exit
    later: list[Exit] = field(default_factory=list)
    admitted: bool = True
    findings: list[Finding] = field(default_factory=list)
    counted: int = 0
    wait: float = 0.0

    async def exit(self) -> Exit:
        return self.now

    async def renew(self) -> bool:
        if self.later:
            self.now = self.later.pop()
            return True
        return False

    async def admits(self, theirs: tuple[str, int], ours: tuple[str, int]) -> bool:
        return self.admitted

    def took(self, count: int) -> float:
        self.counted += count
        return self.wait

    def found(self, finding: Finding) -> None:
        self.findings.append(finding)

    @property
    def told(self) -> list[tuple[str, int]]:
        """Error types (empty = none) and statuses."""
        return [(one.verdict.error_type if one.verdict else "", one.status) for one in self.findings]


@asynccontextmanager
async def forwarder(around: Around, within: float = 5.0) -> AsyncIterator[tuple[Forwarder, int]]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    made = Forwarder(around, SystemClock(), within=within, tls=client_context())
    await made.serve(listener)
    try:
        yield made, listener.getsockname()[1]
    finally:
        await made.close()


async def fetch(port: int, url: str, **options: Any) -> tuple[int, str, str]:
    """Status, body and the error that the forwarder told."""
    exit = Exit(Scheme.HTTP, "127.0.0.1", port)
    async with session(exit, tls=client_context()) as http, http.request("GET", url, **options) as response:
        return response.status, await response.text(), response.headers.get(ERROR_HEADER, "")


def exit_of(proxy: FakeProxy, scheme: str, *login: str) -> Exit:
    return Exit(Scheme(scheme), "localhost" if scheme == "https" else "127.0.0.1", proxy.port, *login)


KINDS: list[tuple[Any, str, tuple[str, ...]]] = [
    (HttpProxy, "http", ("bob", PASSWORD)),
    (HttpProxy, "https", ("bob", PASSWORD)),
    (SocksProxy, "socks4", ()),
    (SocksProxy, "socks5", ("bob", PASSWORD)),
]


@pytest.mark.parametrize(("kind", "scheme", "login"), KINDS)
@pytest.mark.parametrize("secure", [False, True])
async def test_a_program_without_login_and_socks_goes_out_by_the_exit(
    kind: Any, scheme: str, login: tuple[str, ...], secure: bool
) -> None:
    tls = server_context() if scheme == "https" else None
    judge_tls = server_context() if secure else None
    async with FakeJudge(judge_tls) as judge, kind(login=login or None, tls=tls) as proxy:
        around = Around(exit_of(proxy, scheme, *login))
        async with forwarder(around) as (made, port):
            assert await fetch(port, judge.url("/ip", "localhost")) == (200, "127.0.0.2", "")
            assert around.told == [("", 0 if secure else 200)]
            assert around.findings[0].host == "localhost"
            assert 0 < around.counted <= made.received
            assert made.connections == 1


async def test_a_body_and_the_status_and_headers_of_a_plain_answer_pass() -> None:
    class Echo(FakeServer):
        async def serve(self, reader: Reader, writer: Writer) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(200_000)
            assert b"proxy-" not in head.lower()
            assert b"connection: close" in head.lower()
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Slow\r\nRetry-After: 7\r\n")
            writer.write(
                f"X: {head.split(None, 2)[1].decode()}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            )
            await writer.drain()

    for kind, scheme, first in (
        (SocksProxy, "socks5", "new"),
        (SocksProxy, "socks5", "old"),  # refused before any of the body is under way
        (HttpProxy, "http", "new"),
    ):
        async with Echo() as target, kind(login=("bob", "new")) as proxy:
            new = exit_of(proxy, scheme, "bob", "new")
            around = Around(exit_of(proxy, scheme, "bob", first), later=[new])
            async with forwarder(around) as (made, port):
                url = f"http://127.0.0.1:{target.port}/a?b=c"
                status, body, _ = await fetch(port, url, data=b"x" * 200_000)
                assert (status, len(body), made.sent) == (429, 200_000, 200_000)
                assert [(one.status, one.retry_after) for one in around.findings] == [(429, "7")]


class Counts(FakeServer):
    """Answers a body in chunks with its length and its last bytes; `bodies` are those that came whole."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []
        self.heads: list[bytes] = []

    async def serve(self, reader: Reader, writer: Writer) -> None:
        self.heads.append(head := (await reader.readuntil(b"\r\n\r\n")).lower())
        if b"expect: 100-continue" in head:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += await reader.readexactly(size)
            assert await reader.readexactly(2) == b"\r\n"
        assert await reader.readexactly(2) == b"\r\n"
        self.bodies.append(body)
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(str(len(body)))}\r\n\r\n{len(body)}".encode())
        await writer.drain()


@pytest.mark.parametrize(("kind", "scheme"), [(SocksProxy, "socks5"), (HttpProxy, "http")])
@pytest.mark.parametrize("expecting", [False, True])
async def test_a_body_in_chunks_passes_whatever_its_length(kind: Any, scheme: str, expecting: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for size in (1, 100_000, 3):
            yield b"x" * size

    async with Counts() as target, kind(login=("bob", PASSWORD)) as proxy:
        around = Around(exit_of(proxy, scheme, "bob", PASSWORD))
        async with forwarder(around) as (made, port):
            url = f"http://127.0.0.1:{target.port}/"
            assert (await fetch(port, url, data=pieces(), expect100=expecting))[:2] == (200, "100004")
            assert made.sent == 100_004
            assert around.told == [("", 200)]
    assert target.bodies == [b"x" * 100_004]
    assert b"transfer-encoding: chunked" in target.heads[0]
    assert b"content-length" not in target.heads[0]


HEAD = "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("body", "whole"),
    [
        (b"3;name=value\r\nabc\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n", b"abc"),
        (b"0\r\n\r\n", b""),
        (b"A\r\n0123456789\r\n00\r\n\r\nGET http://127.0.0.1/ HTTP/1.1\r\n\r\n", b"0123456789"),
        (b"3\r\nabcd\r\n0\r\n\r\n", None),
        (b"-3\r\nabc\r\n0\r\n\r\n", None),
        (b"0x3\r\nabc\r\n0\r\n\r\n", None),
        (b"3\nabc\r\n0\r\n\r\n", None),
        (b"1" * 70_000, None),
        (b"0\r\n" + b"X: 1\r\n" * 200, None),
    ],
)
async def test_a_body_whose_chunks_are_wrong_is_never_whole_for_the_target(
    body: bytes, whole: bytes | None
) -> None:
    async with Counts() as target, SocksProxy() as proxy:
        async with forwarder(Around(exit_of(proxy, "socks5"))) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD.format(port=target.port).encode() + body)
            answer = await asyncio.wait_for(reader.read(), 10)
            assert answer.startswith(b"HTTP/1.1 400 " if whole is None else b"HTTP/1.1 200 ")
            assert answer.count(b"HTTP/1.1") == 1
            writer.close()
        assert target.bodies == ([] if whole is None else [whole])


async def test_a_body_in_chunks_that_its_sender_cuts_off_is_cut_off_for_the_target() -> None:
    async with Counts() as target, SocksProxy() as proxy:
        async with forwarder(Around(exit_of(proxy, "socks5"))) as (made, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD.format(port=target.port).encode() + b"5\r\nab")
            while made.sent < 2:
                await SystemClock().pause(0.005)
            writer.close()
        await asyncio.wait_for(target.idle.wait(), 10)
        assert target.bodies == []


E = ErrorType
FAILURES: list[tuple[Any, str, Behaviour, ErrorType]] = [
    (HttpProxy, "http", Behaviour(Fault.REFUSE), E.TCP_REFUSED),
    (SocksProxy, "socks5", Behaviour(Fault.REFUSE), E.TCP_REFUSED),
    (SocksProxy, "socks5", Behaviour(Fault.SILENT), E.TUNNEL_TIMEOUT),
    (SocksProxy, "socks5", Behaviour(Fault.STATUS, code=4), E.TUNNEL_FAILED),
    (HttpProxy, "http", Behaviour(Fault.GARBAGE), E.PROXY_PROTO),
    (HttpProxy, "http", Behaviour(Fault.RESET), E.TCP_RESET),
]


@pytest.mark.parametrize(("kind", "scheme", "behaviour", "expected"), FAILURES)
@pytest.mark.parametrize("secure", [False, True])
async def test_where_the_exit_fails_no_byte_goes_another_way(
    kind: Any, scheme: str, behaviour: Behaviour, expected: ErrorType, secure: bool
) -> None:
    import aiohttp

    async with FakeJudge(server_context() if secure else None) as judge, kind(behaviour=behaviour) as proxy:
        around = Around(exit_of(proxy, scheme))
        async with forwarder(around, within=0.3 if expected.timeout else 5.0) as (_, port):
            if secure:
                with pytest.raises(aiohttp.ClientHttpProxyError) as told:
                    await fetch(port, judge.url("/ip"))
                assert told.value.message == expected
            else:
                status, _, kind_told = await fetch(port, judge.url("/ip"))
                assert (status, kind_told) == (504 if expected.timeout else 502, expected)
            assert [kind for kind, _ in around.told] == [expected]
            assert judge.connections == 0


@pytest.mark.parametrize("secure", [False, True])
async def test_a_refused_login_is_looked_up_anew_and_the_client_notices_nothing(secure: bool) -> None:
    async with (
        FakeJudge(server_context() if secure else None) as judge,
        HttpProxy(login=("bob", "new")) as proxy,
    ):
        old, new = (exit_of(proxy, "http", "bob", password) for password in ("old", "new"))
        around = Around(old, later=[new])
        async with forwarder(around) as (_, port):
            assert (await fetch(port, judge.url("/ip")))[1] == "127.0.0.2"
            assert [kind for kind, _ in around.told] == [""]
        refused = Around(old)
        async with forwarder(refused) as (_, port):
            with pytest.raises(Exception, match="PROXY_AUTH") if secure else nothing_raised():
                assert (await fetch(port, judge.url("/ip")))[2] == "PROXY_AUTH"
            assert [kind for kind, _ in refused.told] == ["PROXY_AUTH"]


def nothing_raised() -> Any:
    import contextlib

    return contextlib.nullcontext()


async def test_who_is_not_of_the_attempt_is_refused_before_anything_goes_out() -> None:
    async with FakeJudge() as judge, SocksProxy() as proxy:
        around = Around(exit_of(proxy, "socks5"), admitted=False)
        async with forwarder(around) as (_, port):
            assert (await fetch(port, judge.url("/ip")))[::2] == (403, "NOT_YOURS")
        assert proxy.requests == judge.connections == 0


async def test_when_it_is_closed_its_connections_end_and_nobody_gets_another() -> None:
    async with FakeJudge() as judge, SocksProxy() as proxy:
        around = Around(exit_of(proxy, "socks5"))
        async with forwarder(around) as (made, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"CONNECT 127.0.0.1:{judge.port} HTTP/1.1\r\n\r\n".encode())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            await made.close()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            await asyncio.wait_for(proxy.idle.wait(), 5)


async def test_bytes_wait_as_long_as_they_are_told_to() -> None:
    class Slow(Around):
        def took(self, count: int) -> float:
            super().took(count)
            return 0.01 * (self.counted / 65536)

    async with FakeJudge() as judge, SocksProxy() as proxy:
        around = Slow(exit_of(proxy, "socks5"))
        async with forwarder(around) as (_, port):
            clock = SystemClock()
            began = clock.monotonic()
            _, body, _ = await fetch(port, judge.url("/big"))
            assert len(body) >= 100_000
            assert clock.monotonic() - began >= 0.01
            assert around.counted >= 100_000


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET ftp://h/ HTTP/1.1\r\n\r\n",
        b"GET https://h/ HTTP/1.1\r\n\r\n",
        b"GET http://u:p@h/ HTTP/1.1\r\n\r\n",
        b"CONNECT h HTTP/1.1\r\n\r\n",
        b"CONNECT h:70000 HTTP/1.1\r\n\r\n",
        b"GET http://h/ HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET http://h/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST http://h/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST http://h/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST http://h/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST http://h/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
        b"POST http://h/ HTTP/1.1\r\nTransfer-Encoding : chunked\r\nContent-Length: 3\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ],
)
def test_what_is_unclear_is_not_passed_on(head: bytes) -> None:
    with pytest.raises(Unclear):
        read_request(head)


async def test_the_process_at_the_other_end_is_found_by_its_socket() -> None:
    met: list[asyncio.StreamWriter] = []

    async def serve(_: Any, writer: asyncio.StreamWriter) -> None:
        met.append(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for host in ("127.0.0.1", "::ffff:127.0.0.1"):
        _, writer = await asyncio.open_connection(host, port)
        while not met:
            await SystemClock().pause(0.005)
        served = met.pop()
        theirs, ours = served.get_extra_info("peername"), served.get_extra_info("sockname")
        peer = peer_of(theirs, ours)
        assert peer is not None
        assert peer.uid == os.getuid()
        assert holder(peer.inode, [1, os.getpid()]) == os.getpid()
        assert holder(peer.inode, [1]) is None
        assert peer_of((theirs[0], 1), ours) is None
        for end in (writer, served):
            end.close()
            await end.wait_closed()
    server.close()
    await server.wait_closed()
