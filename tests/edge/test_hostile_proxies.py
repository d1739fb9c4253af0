"""Peers that end, hang, drip or flood at each point of a handshake, and answers made to harm: a check ends with the right
error type, nothing stays open, nothing of it reaches a log or a screen as it came.
"""

from __future__ import annotations

import asyncio
import gzip

import pytest

from taskdeck.engine.demo.fakes.messages import answer
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.edge.probing import Budgets, Judge, ProbeResult, probe
from taskdeck.engine.rules.route_errors import ErrorType
from tests.edge.fakes.certificates import client_context, server_context
from tests.edge.fakes.scripted import End, ScriptedProxy

T = ErrorType
SECURE, PLAIN = "https://judge.example/nonce", "http://judge.example/nonce"
PASSWORD = "s3cr@t:pw/%41"
PATIENT = Budgets(total=60, connect=30, read=30)
GRANT = b"HTTP/1.1 200 OK\r\n\r\n"


async def checked(
    proxy: ScriptedProxy, scheme: Scheme, url: str = SECURE, budgets: Budgets = PATIENT
) -> ProbeResult:
    """Check through this proxy; afterwards no connection is left."""
    password = PASSWORD if scheme in (Scheme.HTTP, Scheme.HTTPS) else None
    exit = Exit(scheme, "127.0.0.1", proxy.port, "bob" if password else None, password)
    result = await probe(exit, [Judge(url)], budgets=budgets, tls=client_context())
    async with asyncio.timeout(30):
        await proxy.idle.wait()
    for secret in (PASSWORD, "Ym9iOnMzY3J", "\x1b", "\x07", "\r", "\n"):
        assert secret not in result.detail
    assert len(result.detail) <= 250
    return result


Point = tuple[str, list[bytes], bool]
"""Its name, what was answered so far, and whether what follows waits for the client."""

WEB: list[Point] = [
    ("first word", [], True),
    ("half an answer", [b"HTTP/1.1 20"], False),
    ("tunnel", [GRANT], True),
]
SOCKS5: list[Point] = [
    ("first word", [], True),
    ("login or not", [b"\5\0"], True),
    ("half an answer", [b"\5\0", b"\5\0\0\1\x7f"], False),
    ("tunnel", [b"\5\0", b"\5\0\0\1\x7f\0\0\1\0\1"], True),
]
SOCKS4: list[Point] = [
    ("first word", [], True),
    ("half an answer", [b"\0\x5a\0"], False),
    ("tunnel", [b"\0\x5a" + bytes(6)], True),
]
POINTS = {Scheme.HTTP: WEB, Scheme.HTTPS: WEB, Scheme.SOCKS5: SOCKS5, Scheme.SOCKS4A: SOCKS4}


def expected(scheme: Scheme, point: str, end: End) -> set[ErrorType]:
    """What each end means at each point."""
    if end is End.SILENCE:
        return {T.TUNNEL_TIMEOUT}
    if end is End.RESET:
        return {T.TCP_RESET}
    if point == "tunnel":
        return {T.TCP_RESET} if end in (End.CLOSE, End.HALF_CLOSE) else {T.TARGET_TLS}
    if end in (End.CLOSE, End.HALF_CLOSE):
        return {T.TCP_RESET} if scheme in (Scheme.HTTP, Scheme.HTTPS) else {T.PROXY_PROTO}
    # drips and floods complete a SOCKS answer that had begun well, and are then no TLS
    went_well = point == "half an answer" and scheme in (Scheme.SOCKS5, Scheme.SOCKS4A)
    return {T.TARGET_TLS} if went_well else {T.PROXY_PROTO}


@pytest.mark.parametrize("scheme", POINTS)
async def test_each_end_at_each_point_of_a_handshake_has_its_error_type(
    scheme: Scheme, caplog: pytest.LogCaptureFixture
) -> None:
    async def one(point: Point, end: End) -> ErrorType | None:
        _, answers, waits = point
        tls = server_context() if scheme is Scheme.HTTPS else None
        budgets = Budgets(connect=0.1) if end is End.SILENCE else PATIENT
        async with ScriptedProxy(answers, end, waits=waits, tls=tls) as proxy:
            return (await checked(proxy, scheme, budgets=budgets)).error_type

    cases = [(point, end) for point in POINTS[scheme] for end in End]
    found = await asyncio.gather(*(one(*case) for case in cases))
    wrong = {
        (point[0], end.value): error
        for (point, end), error in zip(cases, found, strict=True)
        if error not in expected(scheme, point[0], end)
    }
    assert wrong == {}
    assert [record.getMessage() for record in caplog.records] == []  # asyncio has nothing to complain about


@pytest.mark.parametrize(
    "flood",
    [b"x: y\r\n", b"x" * 999, b"x: " + b"a" * 8000 + b"\r\n", b"HTTP/1.1 200 OK\r\n"],
    ids=["headers", "one line", "long headers", "answers"],
)
@pytest.mark.parametrize("url", [SECURE, PLAIN])
async def test_headers_without_end_are_no_answer(url: str, flood: bytes) -> None:
    async with ScriptedProxy([b"HTTP/1.1 200 OK\r\n"], End.FLOOD, waits=False, flood=flood) as proxy:
        assert (await checked(proxy, Scheme.HTTP, url)).error_type is T.PROXY_PROTO


@pytest.mark.parametrize(("url", "error"), [(SECURE, T.TUNNEL_TIMEOUT), (PLAIN, T.PROBE_TIMEOUT)])
async def test_a_promise_over_and_over_is_not_waited_for(url: str, error: ErrorType) -> None:
    flood = b"HTTP/1.1 102 Processing\r\n\r\n"
    limits = Budgets(connect=0.2, read=0.2)
    async with ScriptedProxy([flood], End.FLOOD, waits=False, flood=flood) as proxy:
        assert (await checked(proxy, Scheme.HTTP, url, limits)).error_type is error


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
    ],
    ids=["chunked", "long", "until it ends"],
)
async def test_a_body_without_end_is_read_a_little_way(head: bytes) -> None:
    chunk = b"400\r\n" + b"z" * 0x400 + b"\r\n" if b"chunked" in head else b"z"
    async with ScriptedProxy([head], End.FLOOD, waits=False, flood=chunk) as proxy:
        result = await checked(proxy, Scheme.HTTP, PLAIN)
        assert (result.error_type, result.detail) == (T.PROBE_BODY, "the answer is longer than 4096 bytes")


async def test_a_packed_answer_is_not_unpacked() -> None:
    bomb = answer(200, gzip.compress(bytes(20_000_000)), content_encoding="gzip")
    async with ScriptedProxy([bomb], End.SILENCE, waits=False) as proxy:
        assert (await checked(proxy, Scheme.HTTP, PLAIN)).error_type is T.PROBE_BODY


@pytest.mark.parametrize("cut", [End.CLOSE, End.RESET])
async def test_an_answer_that_is_cut_off_is_not_the_judges(cut: End) -> None:
    half = b"HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\nabc"
    async with ScriptedProxy([half], cut, waits=False) as proxy:
        assert (await checked(proxy, Scheme.HTTP, PLAIN)).error_type in (T.PROBE_BODY, T.TCP_RESET)


HOSTILE = f"\x1b]0;owned\x07\x1b[2J[@click=app.quit]x[/]\u202e bob:{PASSWORD} Basic Ym9iOnMzY3JAdDpwdy8lNDE=".encode()


@pytest.mark.parametrize("url", [SECURE, PLAIN])
@pytest.mark.parametrize("scheme", [Scheme.HTTP, Scheme.HTTPS])
async def test_a_refusal_with_hostile_text_shows_none_of_it(scheme: Scheme, url: str) -> None:
    refusal = b"HTTP/1.1 407 " + HOSTILE.replace(b"\x07", b"") + b"\r\nproxy-authenticate: Basic realm=x\r\n"
    reply = refusal + b"content-length: %d\r\n\r\n" % len(HOSTILE) + HOSTILE
    tls = server_context() if scheme is Scheme.HTTPS else None
    async with ScriptedProxy([reply], End.CLOSE, waits=False, tls=tls) as proxy:
        result = await checked(proxy, scheme, url)
        assert result.error_type in (T.PROXY_AUTH, T.PROXY_PROTO)


async def test_a_page_with_hostile_text_is_quoted_harmlessly() -> None:
    async with ScriptedProxy([answer(200, HOSTILE)], End.CLOSE, waits=False) as proxy:
        result = await checked(proxy, Scheme.HTTP, PLAIN)
        assert result.error_type is T.PROBE_BODY
        assert "app.quit" in result.detail


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed_and_no_cookie_kept(status: int) -> None:
    async with ScriptedProxy([], End.SILENCE) as target:
        reply = answer(status, location=f"http://127.0.0.1:{target.port}/", set_cookie="a=b")
        async with ScriptedProxy([reply], End.CLOSE, waits=False) as proxy:
            assert (await checked(proxy, Scheme.HTTP, PLAIN)).error_type is T.PROBE_REDIRECT
            assert proxy.connections == 2  # stage 1 and the one question
        assert target.connections == 0


SOCKS_LIES = {
    "another version": ([b"\4\0"], T.PROXY_PROTO),
    "a login nobody has": ([b"\5\2"], T.PROXY_AUTH),
    "an unknown method": ([b"\5\x80"], T.PROXY_PROTO),
    "no method suits": ([b"\5\xff"], T.PROXY_AUTH),
    "a grant of another version": ([b"\5\0", b"\4\0\0\1" + bytes(6)], T.PROXY_PROTO),
    "a grant for an odd kind of address": ([b"\5\0", b"\5\0\0\x09" + bytes(6)], T.PROXY_PROTO),
    "a grant for a long name": ([b"\5\0", b"\5\0\0\3\xff" + b"a" * 255 + b"\0\1"], T.TCP_RESET),
    "words before their turn": ([b"\5\0", b"\5\0\0\1" + bytes(6) + b"HTTP/1.1 200 OK\r\n\r\n"], T.TARGET_TLS),
}


@pytest.mark.parametrize("lie", SOCKS_LIES)
async def test_a_socks_proxy_that_breaks_its_protocol_is_told(lie: str) -> None:
    answers, error = SOCKS_LIES[lie]
    async with ScriptedProxy(answers, End.CLOSE) as proxy:
        assert (await checked(proxy, Scheme.SOCKS5)).error_type is error


async def test_a_peer_that_is_gone_again_after_the_handshake_of_tcp_is_cut_off() -> None:
    async with ScriptedProxy([], End.RESET, waits=False) as proxy:
        assert (await checked(proxy, Scheme.HTTP)).error_type is T.TCP_RESET
