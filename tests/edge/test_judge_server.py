"""A judge of one's own: right answers, and bounds that hold against whoever finds it on the internet."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.judge_server import JudgeServer, Listen, renew, server_tls
from taskdeck.engine.edge.judging import Judge, Outside
from taskdeck.engine.edge.probing import probe
from taskdeck.engine.errors import Unavailable, UsageError
from tests.edge.fakes.certificates import authority, client_context, server_context
from tests.edge.ipv6 import needs_ipv6


@pytest.fixture
async def judge() -> AsyncIterator[JudgeServer]:
    async with JudgeServer([Listen("127.0.0.1", 0)]) as judge:
        yield judge


@asynccontextmanager
async def connected(
    judge: JudgeServer, **options: Any
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*judge.places[0], **options)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def said(judge: JudgeServer, request: bytes) -> bytes:
    """All that is answered to these bytes, until the server ends the connection."""
    async with connected(judge) as (reader, writer):
        writer.write(request)
        return await rest(reader)


async def rest(reader: asyncio.StreamReader) -> bytes:
    answer = b""
    with suppress(ConnectionError):  # hung up on while still talking
        while more := await reader.read(65536):
            answer += more
    return answer


async def get(judge: JudgeServer, path: str) -> tuple[int, bytes]:
    answer = await said(judge, f"GET {path} HTTP/1.1\r\nhost: judge\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"server: taskdeck" in head.lower()
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/nonce?n=0123abcDEF", 200, b"0123abcDEF"),
        ("/nonce?a=b&n=x-_", 200, b"x-_"),
        ("/ip", 200, b"127.0.0.1"),
        ("/204", 204, b""),
        ("/nonce", 400, b"write /nonce?n=NONCE"),
        ("/nonce?n=%3Cscript%3E", 400, b"write /nonce?n=NONCE"),
        (f"/nonce?n={'a' * 129}", 400, b"write /nonce?n=NONCE"),
        ("/", 404, b"this is a judge"),
        ("/../etc/passwd", 404, b"this is a judge"),
    ],
)
async def test_it_answers_three_questions_and_explains_itself(
    judge: JudgeServer, path: str, status: int, body: bytes
) -> None:
    got, text = await get(judge, path)
    assert got == status
    assert text.startswith(body)
    assert body or not text


async def test_headers_claim_no_address(judge: JudgeServer) -> None:
    answer = await said(
        judge, b"GET /ip HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 1.2.3.4\r\nforwarded: for=1.2.3.4\r\n\r\n"
    )
    assert answer.endswith(b"127.0.0.1")


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /nonce?n=a HTTP/1.1\r\nhost: a\r\ncontent-length: 999999999\r\n\r\n" + b"x" * 70_000,
        b"GET /ip HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /ip HTTP/1.1\r\n" + b"x: y\r\n" * 10_000 + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00garbage\r\n\r\n",
        b"GET /ip HTTP/1.1\r\nhost: a\r\n\r\n" * 100,
    ],
)
async def test_hostile_requests_get_an_error_or_one_answer_and_the_connection_ends(
    judge: JudgeServer, request_: bytes, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    answer = await said(judge, request_)
    assert len(answer) < 2000
    assert answer.count(b"HTTP/1.") <= 1
    assert (capfd.readouterr().err, caplog.records) == ("", [])
    assert await get(judge, "/ip") == (200, b"127.0.0.1")


@pytest.mark.parametrize("begun", [b"", b"GET /ip HTTP/1.1\r\nhost:"])
async def test_who_says_nothing_or_half_a_request_is_hung_up_on(begun: bytes) -> None:
    async with JudgeServer([Listen("127.0.0.1", 0)], longest=0.05) as judge, asyncio.timeout(30):
        assert await said(judge, begun) == b""


async def test_one_connection_too_many_is_closed_and_the_others_stay() -> None:
    async with (
        asyncio.timeout(30),
        JudgeServer([Listen("127.0.0.1", 0)], most=1) as judge,
        connected(judge) as (reader, writer),
    ):
        writer.write(b"GET /ip HTTP/1.1\r\n")  # accepted in this order, so it is in before the next
        assert await said(judge, b"") == b""
        writer.write(b"host: a\r\n\r\n")
        assert (await rest(reader)).endswith(b"127.0.0.1")


async def test_checks_of_a_real_exit_pass_over_tls() -> None:
    async with (
        JudgeServer([Listen("127.0.0.1", 0)], server_context()) as judge,
        SocksProxy(leaves_from="127.0.0.7") as proxy,
    ):
        exit = Exit(Scheme.SOCKS5, "127.0.0.1", proxy.port)
        result = await probe(
            exit, [Judge(judge.url("/nonce"))], Outside((judge.url("/ip"),)), tls=client_context()
        )
        assert (result.ok, result.exit_ip, result.verified) == (True, "127.0.0.7", True), result.detail
        assert (await probe(exit, [Judge(judge.url("/204"), status=204)], tls=client_context())).ok


def asked_over_tls(judge: JudgeServer) -> ssl.SSLSocket:
    """A connection on which everything is said but the goodbye, which this peer keeps to itself."""
    caller = client_context().wrap_socket(
        socket.create_connection(judge.places[0]), server_hostname="127.0.0.1"
    )
    caller.sendall(b"GET /204 HTTP/1.1\r\nhost: a\r\n\r\n")
    while caller.recv(65536):
        pass
    return caller


def hung_up(caller: socket.socket, within: float) -> bool:
    """Has the other side closed the connection itself, beneath TLS?"""
    poll = select.poll()
    poll.register(caller, select.POLLRDHUP)
    return bool(poll.poll(within * 1000))


async def test_a_peer_without_a_goodbye_does_not_outlast_the_judge() -> None:
    async with JudgeServer([Listen("127.0.0.1", 0)], server_context()) as judge:
        caller = await asyncio.to_thread(asked_over_tls, judge)
    with caller:
        assert hung_up(caller, within=0)


async def test_a_peer_without_a_goodbye_is_hung_up_on() -> None:
    async with JudgeServer([Listen("127.0.0.1", 0)], server_context(), longest=0.05) as judge:
        with await asyncio.to_thread(asked_over_tls, judge) as caller:
            assert await asyncio.to_thread(hung_up, caller, within=20)


@needs_ipv6
async def test_it_listens_at_several_addresses() -> None:
    async with JudgeServer([Listen("127.0.0.1", 0), Listen("::1", 0)]) as judge:
        four, six = judge.places
        assert (four.host, six.host) == ("127.0.0.1", "::1")
        outside = Outside((f"http://[::1]:{six.port}/ip",))
        result = await probe(Exit(Scheme.DIRECT), [Judge(judge.url("/nonce"))], outside)
        assert result.exit_ip == "::1"


async def test_a_port_in_use_is_told(judge: JudgeServer) -> None:
    with pytest.raises(
        Unavailable, match=r"nothing can listen at 127\.0\.0\.1 port \d+: Address already in use"
    ):
        async with JudgeServer([judge.places[0]]):
            pass


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::]:8443", ("::", 8443)),
        (":8443", ("0.0.0.0", 8443)),
        ("judge.example.net:0", ("judge.example.net", 0)),
    ],
)
def test_addresses_to_listen_at_are_read(text: str, place: tuple[str, int]) -> None:
    assert Listen.read(text) == place


@pytest.mark.parametrize("text", ["", "8443", "host", "::1:80", "[::1]", "host:99999", "host:-1", "[x]:1"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"such as 0\.0\.0\.0:8443"):
        Listen.read(text)


def certificate(folder: Path, name: str) -> tuple[str, str]:
    leaf = authority("good").issue_cert("127.0.0.1", common_name=name)
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    leaf.cert_chain_pems[0].write_to_path(str(cert))
    leaf.private_key_pem.write_to_path(str(key))
    return str(cert), str(key)


async def shown(judge: JudgeServer) -> int:
    """The serial number of the certificate that a new connection gets."""
    async with connected(judge, ssl=client_context()) as (_, writer):
        return int(writer.get_extra_info("ssl_object").getpeercert()["serialNumber"], 16)


async def test_a_renewed_certificate_is_shown_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    context = server_tls(*first)
    async with JudgeServer([Listen("127.0.0.1", 0)], context) as judge:
        before = await shown(judge)
        with pytest.raises(UsageError, match="no certificate with its key"):
            renew(context, second[0], first[1])
        assert await shown(judge) == before
        renew(context, *second)
        assert await shown(judge) != before


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_files_that_are_no_certificate_are_named(tmp_path: Path, content: str | None) -> None:
    files = [tmp_path / "cert.pem", tmp_path / "key.pem"]
    for file in files:
        if content:
            file.write_text(content)
    with pytest.raises(UsageError, match=r"cert\.pem"):
        server_tls(str(files[0]), str(files[1]))
