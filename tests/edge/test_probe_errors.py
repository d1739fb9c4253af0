"""The table of error types for what loopback can't show, and the texts that come with it."""

from __future__ import annotations

import base64
import errno
import os
import socket
import ssl

import aiohttp
import aiohttp_socks
import pytest
import python_socks
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.edge.exits import Exit, Scheme, secret_url
from taskdeck.engine.edge.judging import Judge, read_address
from taskdeck.engine.edge.probe_errors import LONGEST_DETAIL, Circumstances, Verdict, classify, foreign
from taskdeck.engine.rules.route_errors import ErrorType

T = ErrorType
PASSWORD = "s3cr@t:pw/%41"
HTTP = Exit(Scheme.HTTP, "proxy.example.net", 8080, "bob", PASSWORD)
SOCKS = Exit(Scheme.SOCKS5, "proxy.example.net", 1080, "bob", PASSWORD)


def system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


ROWS = [
    ("tcp", socket.gaierror(socket.EAI_NONAME, "Name or service not known"), T.DNS_PROXY),
    ("tcp", socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), T.DNS_PROXY),
    ("tcp", system_error(errno.ECONNREFUSED), T.TCP_REFUSED),
    ("tcp", OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), [Errno 111] …"), T.TCP_REFUSED),
    ("tcp", OSError("Multiple exceptions: [Errno 101] Network is unreachable, [Errno 111] …"), T.TCP_UNREACHABLE),
    ("tcp", system_error(errno.EHOSTUNREACH), T.TCP_UNREACHABLE),
    ("tcp", system_error(errno.ENETUNREACH), T.TCP_UNREACHABLE),
    ("tcp", system_error(errno.EMFILE), T.TCP_UNREACHABLE),
    ("tcp", TimeoutError(), T.TCP_TIMEOUT),
    ("tcp", system_error(errno.ETIMEDOUT), T.TCP_TIMEOUT),
    ("probe", aiohttp.ConnectionTimeoutError("Connection timeout to host http://judge"), T.TUNNEL_TIMEOUT),
    ("probe", aiohttp.SocketTimeoutError("Timeout on reading data from socket"), T.PROBE_TIMEOUT),
    ("probe", aiohttp_socks.ProxyTimeoutError("Proxy connection timed out: 60"), T.TUNNEL_TIMEOUT),
    ("probe", python_socks.ProxyTimeoutError("Proxy connection timed out: 60"), T.TUNNEL_TIMEOUT),
    (
        "probe",
        aiohttp.ClientOSError(None, "SSL handshake is taking longer than 60.0 seconds: aborting the connection"),
        T.TUNNEL_TIMEOUT,
    ),
    (
        "probe",
        raised_from(aiohttp_socks.ProxyConnectionError("Could not connect"), system_error(errno.ECONNREFUSED)),
        T.TCP_REFUSED,
    ),
    (
        "probe",
        raised_from(aiohttp_socks.ProxyConnectionError("Could not connect"), socket.gaierror(-2, "unknown")),
        T.DNS_PROXY,
    ),
    ("probe", aiohttp_socks.ProxyError("No acceptable authentication methods were offered"), T.PROXY_AUTH),
    ("probe", aiohttp_socks.ProxyError("Username and password authentication failure"), T.PROXY_AUTH),
    ("probe", aiohttp_socks.ProxyError("Invalid authentication response"), T.PROXY_PROTO),
    ("probe", aiohttp_socks.ProxyError("Malformed connect reply"), T.PROXY_PROTO),
    ("probe", aiohttp_socks.ProxyError("TTL expired", error_code=6), T.TUNNEL_FAILED),
    ("probe", python_socks.ProxyError("Address type not supported", error_code=8), T.PROXY_PROTO),
    ("probe", aiohttp.ServerDisconnectedError(), T.TCP_RESET),
    ("probe", aiohttp.ClientOSError(errno.ECONNRESET, "Connection reset by peer"), T.TCP_RESET),
    ("probe", raised_from(aiohttp.ClientConnectionError("cut"), ConnectionResetError()), T.TCP_RESET),
    ("probe", ssl.SSLCertVerificationError(1, "certificate verify failed"), T.TLS_INTERCEPT),
    ("probe", ssl.SSLError(1, "wrong version number"), T.TARGET_TLS),
    ("probe", ZeroDivisionError("our own mistake"), T.INTERNAL),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "error", "expected"), ROWS)
def test_each_error_of_a_library_has_its_type(stage: str, error: Exception, expected: ErrorType) -> None:
    verdict = classify(error, Circumstances(SOCKS, stage))
    assert verdict.error_type is expected
    assert verdict.detail


def test_a_timeout_after_the_handshakes_is_the_answers() -> None:
    assert classify(TimeoutError(), Circumstances(HTTP, "probe")).error_type is T.TUNNEL_TIMEOUT
    assert (
        classify(TimeoutError(), Circumstances(HTTP, "probe", connected=True)).error_type is T.PROBE_TIMEOUT
    )


def test_a_tls_error_is_found_behind_one_that_it_led_to() -> None:
    error = TypeError("SSLProtocol._abort() takes 1 positional argument but 2 were given")
    error.__context__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
    assert classify(error, Circumstances(HTTP, "probe")).error_type is T.TLS_INTERCEPT


def test_errors_in_a_circle_end() -> None:
    one, other = OSError("one"), OSError("other")
    one.__cause__, other.__cause__ = other, one
    assert classify(one, Circumstances(HTTP, "probe")).error_type is T.INTERNAL


def said_about(exit: Exit, text: str) -> list[str]:
    """Every text about an exit that outside text can get into."""
    body = text.encode()
    verdicts = [
        classify(ZeroDivisionError(text), Circumstances(exit, "probe")),
        classify(ssl.SSLError(1, text), Circumstances(exit, "probe")),
        classify(aiohttp_socks.ProxyError(text), Circumstances(exit, "probe")),
        Judge("http://judge.example/").judge(exit, 200, body, "0"),
        read_address(exit, 200, body),
    ]
    return [verdict.detail for verdict in verdicts if isinstance(verdict, Verdict)]


@pytest.mark.parametrize("exit", [HTTP, SOCKS, Exit(Scheme.HTTP, "h.example", 80, "bob", "x1")])
def test_a_login_that_comes_back_from_outside_is_in_no_detail(exit: Exit) -> None:
    password = exit.password or ""
    header = base64.b64encode(f"bob:{password}".encode()).decode()
    for text in (
        f"you said {password}",
        secret_url(exit),
        f"407, url='{secret_url(exit)}'",
        f"it was {header}",
    ):
        for detail in said_about(exit, text):
            for secret in (password, header, secret_url(exit)):
                assert secret not in detail


@given(st.text(max_size=500))
def test_outside_text_is_harmless_and_short(text: str) -> None:
    shown = foreign(text, HTTP)
    assert len(shown) <= LONGEST_DETAIL
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in shown)
    assert shown.encode() is not None
    for detail in said_about(HTTP, text.encode("utf-8", "replace").decode()):
        assert len(detail) <= LONGEST_DETAIL + 60
        assert "\x1b" not in detail


@pytest.mark.parametrize(
    ("body", "address"),
    [
        (b"192.0.2.1\n", "192.0.2.1"),
        (b" 2001:DB8::1 ", "2001:db8::1"),
        (b"::ffff:192.0.2.1", "192.0.2.1"),
        (b"192.0.2.1, 10.0.0.1", None),
        (b"3221225985", None),
        (b"192.0.2.01", None),
        (b"fe80::1%eth0", None),
        (b"<b>192.0.2.1</b>", None),
        (b"", None),
    ],
)
def test_an_address_is_read_strictly(body: bytes, address: str | None) -> None:
    read = read_address(HTTP, 200, body)
    if address is None:
        assert isinstance(read, Verdict)
        assert read.error_type is T.EXIT_PARSE
    else:
        assert str(read) == address
