"""What an exit is, what of it is shown, and sessions that leave through it."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.pretty import pretty_repr

from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.exits import BadExit, Exit, Scheme, secret_url
from taskdeck.engine.edge.http import Timeouts, session
from tests.edge.fakes.judge import FakeJudge
from tests.faults import fault

PASSWORD = "s3:cr@t/%41"
DIRECT = Exit(Scheme.DIRECT)


def an_exit(**fields: object) -> Exit:
    return replace(Exit(Scheme.HTTP, "proxy.example.net", 8080, "bob", PASSWORD), **fields)  # type: ignore[arg-type]


def test_a_password_stands_in_no_text_of_an_exit() -> None:
    exit = an_exit()
    for text in (repr(exit), str(exit), exit.shown(), f"{exit}", "%s %r" % (exit, exit), pretty_repr(exit)):  # noqa: UP031
        assert PASSWORD not in text
        assert "cr%40t" not in text
    assert exit.shown() == "http://bob@proxy.example.net:8080"


def test_a_name_that_stands_alone_may_be_a_key_and_is_not_shown() -> None:
    assert an_exit(password=None).shown() == "http://***@proxy.example.net:8080"
    assert an_exit(scheme=Scheme.SOCKS4, password=None).shown() == "socks4://bob@proxy.example.net:8080"


def test_an_exit_with_an_ipv6_address_has_it_in_brackets() -> None:
    assert an_exit(host="2001:db8::1").shown() == "http://bob@[2001:db8::1]:8080"
    assert DIRECT.shown() == "direct"


printable = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=40)


@given(printable.filter(lambda name: ":" not in name), printable)
@fault("TF188")
def test_a_login_comes_back_out_of_its_url_exactly_as_it_was(name: str, password: str) -> None:
    for scheme in (Scheme.HTTP, Scheme.HTTPS, Scheme.SOCKS5):
        parts = urlsplit(secret_url(an_exit(scheme=scheme, username=name, password=password)))
        assert (unquote(parts.username or ""), unquote(parts.password or "")) == (name, password)
        assert (parts.hostname, parts.port) == ("proxy.example.net", 8080)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"scheme": "ftp"}, "scheme"),
        ({"host": ""}, "host"),
        ({"host": "999.1.1.1"}, "host"),
        ({"host": "a b"}, "host"),
        ({"host": "a..b"}, "host"),
        ({"host": "a" * 64 + ".example"}, "host"),
        ({"host": "proxy.example.net\n"}, "host"),
        ({"host": "fe80::1%eth0"}, "host"),
        ({"host": "evil.example/@h"}, "host"),
        ({"port": 0}, "port"),
        ({"port": 99999}, "port"),
        ({"scheme": "direct"}, "direct"),
        ({"username": "a:b"}, "colon"),
        ({"password": "密码-s3cret"}, "8859"),
        ({"password": "s3cret\r\nx: y"}, "control"),
        ({"scheme": "socks4"}, "SOCKS4"),
        ({"scheme": "socks5", "username": None}, "SOCKS5"),
        ({"scheme": "socks5", "password": "päss-s3cret"}, "ASCII"),
        ({"scheme": "socks5", "password": "s3cret" * 50}, "255"),
    ],
)
def test_an_exit_that_no_library_could_use_is_refused_without_its_password(
    fields: dict[str, object], word: str
) -> None:
    with pytest.raises(BadExit) as caught:
        an_exit(**fields)
    assert word in str(caught.value)
    assert str(fields.get("password", PASSWORD)) not in str(caught.value)


def test_an_exit_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(an_exit())) == an_exit()


def test_describing_an_exit_imports_no_http_library() -> None:
    code = (
        "import sys, taskdeck.engine.edge.probing as p, taskdeck.engine.edge.exits as e; e.Exit('direct'); "
        "print('aiohttp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_warming_up_imports_all_that_a_session_needs() -> None:
    code = (
        "import sys, taskdeck.engine.edge.http as e; e.warm_up(); "
        "print({'aiohttp', 'aiohttp_socks', 'python_socks'} <= set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


async def fetch(exit: Exit, url: str, **options: object) -> tuple[int, str]:
    async with session(exit, **options) as http, http.get(url) as response:  # type: ignore[arg-type]
        return response.status, await response.text()


WAYS = {
    "http": (HttpProxy, Scheme.HTTP),
    "socks4": (SocksProxy, Scheme.SOCKS4),
    "socks4a": (SocksProxy, Scheme.SOCKS4A),
    "socks5": (SocksProxy, Scheme.SOCKS5),
    "socks5h": (SocksProxy, Scheme.SOCKS5H),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_target_sees_the_address_of_the_exit(way: str) -> None:
    kind, scheme = WAYS[way]
    async with FakeJudge() as judge, kind(leaves_from="127.0.0.9") as proxy:
        exit = Exit(scheme, "127.0.0.1", proxy.port)
        assert await fetch(exit, judge.url("/ip")) == (200, "127.0.0.9")


async def test_without_a_proxy_a_target_sees_this_host() -> None:
    async with FakeJudge() as judge:
        assert await fetch(DIRECT, judge.url("/ip")) == (200, "127.0.0.1")


@pytest.mark.parametrize(
    ("way", "seen"), [(way, "127.0.0.1" if way == "socks4" else "localhost") for way in WAYS]
)
async def test_names_are_resolved_by_the_exit_where_its_protocol_can_carry_them(way: str, seen: str) -> None:
    kind, scheme = WAYS[way]
    async with FakeJudge() as judge, kind() as proxy:
        await fetch(Exit(scheme, "127.0.0.1", proxy.port), judge.url("/ip", host="localhost"))
        assert proxy.targets == [f"{seen}:{judge.port}"]


@pytest.mark.parametrize("name", ["bob", ""])
@pytest.mark.parametrize("password", ["x", "p@ss:w%41/?#", " ä¢ "])
@fault("TF188")
async def test_an_http_proxy_gets_exactly_the_login_that_was_given(name: str, password: str) -> None:
    async with FakeJudge() as judge, HttpProxy(login=(name, password)) as proxy:
        exit = Exit(Scheme.HTTP, "127.0.0.1", proxy.port, name, password)
        assert await fetch(exit, judge.url("/ip")) == (200, "127.0.0.2")


@pytest.mark.parametrize("way", ["socks4", "socks5"])
async def test_a_socks_proxy_gets_exactly_the_login_that_was_given(way: str) -> None:
    _, scheme = WAYS[way]
    async with FakeJudge() as judge, SocksProxy(login=("bob", "p@ss:w%41/?# ")) as proxy:
        password = None if scheme is Scheme.SOCKS4 else "p@ss:w%41/?# "
        exit = Exit(scheme, "127.0.0.1", proxy.port, "bob", password)
        assert await fetch(exit, judge.url("/ip")) == (200, "127.0.0.2")


async def test_the_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "*")
    async with FakeJudge() as judge, HttpProxy() as proxy:
        assert (await fetch(DIRECT, judge.url("/ip")))[1] == "127.0.0.1"
        exit = Exit(Scheme.HTTP, "127.0.0.1", proxy.port)
        assert (await fetch(exit, judge.url("/ip")))[1] == "127.0.0.2"


@pytest.mark.parametrize("way", WAYS)
async def test_an_exit_that_is_gone_is_never_gone_round(way: str) -> None:
    kind, scheme = WAYS[way]
    async with FakeJudge() as judge, kind(behaviour=Behaviour(Fault.REFUSE)) as proxy:
        with pytest.raises(Exception, match=r"(?i)connect"):
            await fetch(Exit(scheme, "127.0.0.1", proxy.port), judge.url("/ip"))
        assert judge.connections == 0


@pytest.mark.parametrize(
    "limits", [Timeouts(total=0.2), Timeouts(None, 0.2, None), Timeouts(None, None, 0.2)]
)
@pytest.mark.parametrize("way", WAYS)
async def test_each_limit_ends_a_request_through_a_silent_proxy(way: str, limits: Timeouts) -> None:
    kind, scheme = WAYS[way]
    if limits.read and scheme is not Scheme.HTTP:
        return  # nothing is read yet by the session itself: that wait belongs to connecting
    async with FakeJudge() as judge, kind(behaviour=Behaviour(Fault.SILENT)) as proxy:
        if limits.connect and scheme is Scheme.HTTP:
            limits = replace(limits, read=0.2)  # a plain request is sent before the proxy says anything
        exit = Exit(scheme, "127.0.0.1", proxy.port)
        async with asyncio.timeout(2):
            with pytest.raises(TimeoutError):
                await fetch(exit, judge.url("/ip"), timeouts=limits)
