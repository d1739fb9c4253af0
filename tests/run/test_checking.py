"""Checks of declared routes with all that the settings name, against fakes on real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.proxy import FakeProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.edge.exits import Exit, Scheme
from taskdeck.engine.errors import TaskdeckError, Unavailable
from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.rules.route_settings import RouteSettings
from taskdeck.engine.run.checking import Checks
from taskdeck.engine.run.passwords import Passwords
from tests.edge.fakes.certificates import authority, server_context
from tests.edge.fakes.judge import FakeJudge
from tests.faults import fault
from tests.secret_files import reference

T = ErrorType

PASSWORDS = Passwords(SystemClock(), lambda _: None)


@dataclass
class Lab:
    """A judge, a proxy that leaves from 127.0.0.2, and checks between them."""

    judge: FakeJudge
    proxy: FakeProxy

    def checks(self, find_regions: Any = None, **settings: Any) -> Checks:
        asked: dict[str, Any] = {
            "probe_urls": (self.judge.url("/nonce"),),
            "ip_urls": (self.judge.url("/ip"),),
        }
        return Checks(RouteSettings(**(asked | settings)), SystemClock(), PASSWORDS, find_regions)

    def row(self, **columns: Any) -> dict[str, Any]:
        return {
            "route_id": "eu-1",
            "scheme": "socks5",
            "host": "127.0.0.1",
            "port": self.proxy.port,
            "username": "",
            "secret_ref": None,
            "expected_ip": None,
            "expected_regions": "[]",
            "config_rev": 1,
        } | columns


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    async with FakeJudge() as judge, SocksProxy() as proxy:
        yield Lab(judge, proxy)


class Atlas:
    """A region database of one entry."""

    source = "an atlas"

    def region(self, address: str) -> str | None:
        return {"127.0.0.2": "DE"}.get(address)


def atlas(_: Path | None) -> Atlas:
    return Atlas()


def nothing(_: Path | None) -> Atlas:
    raise Unavailable("regions can't be looked up", "iptocc is not installed", "install taskdeck[geo]")


@fault("TF188")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("login", [("", "p@ss:w%41/+ "), ("bob", ":@%"), ("b@b", "%3A"), ("key", "")])
async def test_a_declared_login_comes_to_the_proxy_as_it_is_and_a_refused_one_is_the_configurations_fault(
    tmp_path: Path, scheme: str, login: tuple[str, str]
) -> None:
    ca = tmp_path / "ca.pem"
    authority("good").cert_pem.write_to_path(str(ca))
    name, password = login
    tls = server_context() if scheme == "https" else None
    async with FakeJudge(server_context()) as judge, HttpProxy(login=login, tls=tls) as proxy:
        lab = Lab(judge, proxy)
        row = lab.row(scheme=scheme, host="localhost", username=name, secret_ref=reference(password) or None)
        checks = lab.checks(ca_file=ca, ask_directly=False)
        assert (await checks.check(row, full=False)).result.ok
        proxy.login = (name, "another")
        refused = (await checks.check(row, full=False)).result
        assert (refused.error_type, refused.passed) == (T.PROXY_AUTH, 1)


async def test_a_full_check_tells_address_region_and_whose_word_that_is(lab: Lab) -> None:
    found = await lab.checks(atlas).check(lab.row(expected_regions='["DE","FR"]'), full=True)
    assert found.result.ok
    assert (found.result.exit_ip, found.result.exit_region) == ("127.0.0.2", "DE")
    assert (found.region_source, found.advice) == ("an atlas", "")
    assert not found.result.verified  # it was asked in plain HTTP


async def test_a_short_check_leaves_the_address_alone(lab: Lab) -> None:
    found = await lab.checks().check(lab.row(), full=False)
    assert (found.result.ok, found.result.exit_ip, found.region_source) == (True, None, None)
    assert {path for _, path in lab.judge.asked} == {"/nonce"}


@pytest.mark.parametrize(
    ("columns", "settings", "error"),
    [
        ({"expected_regions": '["US"]'}, {}, T.REGION_MISMATCH),
        ({"expected_regions": '["US"]', "expected_ip": "127.0.0.0/24"}, {}, None),
        ({"expected_ip": "127.0.0.3"}, {}, T.EXIT_IP_MISMATCH),
        ({}, {"own_ips": ("127.0.0.2",)}, T.EXIT_IP_LEAK),
        ({}, {"own_ips": ("127.0.0.2",), "ask_directly": False}, T.EXIT_IP_LEAK),
    ],
)
async def test_what_is_expected_of_an_exit_is_held_against_it(
    lab: Lab, columns: dict[str, str], settings: dict[str, Any], error: ErrorType | None
) -> None:
    found = await lab.checks(atlas, **settings).check(lab.row(**columns), full=True)
    assert found.result.error_type == error, found.result.detail


async def test_an_exit_that_shows_this_hosts_own_address_leaks(lab: Lab) -> None:
    lab.proxy.leaves_from = "127.0.0.1"
    assert (await lab.checks().check(lab.row(), full=True)).result.error_type is T.EXIT_IP_LEAK
    # nobody may ask what the own address is, and none is given: then a leak can't be seen
    found = await lab.checks(ask_directly=False).check(lab.row(), full=True)
    assert (found.result.error_type, found.result.exit_ip) == (None, "127.0.0.1")


@pytest.mark.parametrize(("policy", "error"), [("deny", T.REGION_UNKNOWN), ("allow", None)])
async def test_an_address_in_no_known_region_is_as_the_policy_says(
    lab: Lab, policy: str, error: ErrorType | None
) -> None:
    lab.proxy.leaves_from = "127.0.0.9"
    checks = lab.checks(atlas, unknown_region=policy)
    assert (await checks.check(lab.row(expected_regions='["DE"]'), full=True)).result.error_type == error


@pytest.mark.parametrize(("policy", "error"), [("deny", T.GEO_UNAVAILABLE), ("allow", None)])
async def test_without_region_data_a_route_is_not_blamed(
    lab: Lab, policy: str, error: ErrorType | None
) -> None:
    checks = lab.checks(nothing, unknown_region=policy)
    result = (await checks.check(lab.row(expected_regions='["DE"]'), full=True)).result
    assert result.error_type == error
    assert error is None or "taskdeck[geo]" in result.detail
    assert T.GEO_UNAVAILABLE.neutral
    assert (await checks.check(lab.row(), full=True)).result.ok  # who expects no region needs no data


async def test_another_judge_is_asked_where_the_first_is_broken(lab: Lab) -> None:
    urls = (lab.judge.url("/503"), lab.judge.url("/nonce"))
    checks = lab.checks(probe_urls=urls)
    result = (await checks.check(lab.row(), full=False)).result
    assert result.ok
    assert [(each.url, each.error_type) for each in result.asked] == [
        (urls[0], T.PROBE_STATUS),
        (urls[1], None),
    ]
    # whoever remembers which judge is broken names the order
    again = (await checks.check(lab.row(), full=False, urls=urls[::-1])).result
    assert [each.url for each in again.asked] == [urls[1]]


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"probe_status": 204}, "/204"),
        ({"probe_expect": "127.0.0.2"}, "/ip"),
        ({"probe_expect": r"re:127\.0\.0\.\d"}, "/ip"),
        ({"probe_expect": "re:{nonce}"}, "/nonce"),
    ],
)
async def test_the_right_answer_is_as_configured(lab: Lab, settings: dict[str, Any], path: str) -> None:
    checks = lab.checks(**settings, probe_urls=(lab.judge.url(path),))
    assert (await checks.check(lab.row(), full=False)).result.ok
    wrong = lab.checks(**settings, probe_urls=(lab.judge.url("/other"),))
    assert not (await wrong.check(lab.row(), full=False)).result.ok


async def test_an_own_authority_is_trusted_where_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "judge-ca.pem"
    authority("good").cert_pem.write_to_path(str(file))
    async with FakeJudge(server_context()) as judge, SocksProxy() as proxy:
        lab = Lab(judge, proxy)
        assert (await lab.checks().check(lab.row(), full=False)).result.error_type is T.TLS_INTERCEPT
        result = (await lab.checks(ca_file=file).check(lab.row(), full=True)).result
        assert (result.error_type, result.verified) == (None, True)


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_an_authority_that_cannot_be_read_is_named_and_read_anew(
    lab: Lab, tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "judge-ca.pem"
    if content:
        file.write_text(content)
    checks = lab.checks(ca_file=file)
    with pytest.raises(TaskdeckError, match=r"judge-ca\.pem can't be read"):
        await checks.check(lab.row(), full=False)
    authority("good").cert_pem.write_to_path(str(file))
    assert (await checks.check(lab.row(), full=False)).result.ok


async def test_a_port_that_speaks_another_protocol_gets_advice_after_the_second_silence(lab: Lab) -> None:
    async with HttpProxy() as proxy:
        lab.proxy = proxy
        checks = lab.checks(connect_timeout_s=0.2, budget_s=90)
        row = lab.row()
        advices = [(await checks.check(row, full=False)).advice for _ in range(3)]
        assert advices == ["", *["its port speaks http: write http:// in its url"] * 2]
        await proxy.idle.wait()
        asked = proxy.connections
        await checks.check(row, full=False)
        await proxy.idle.wait()
        assert proxy.connections <= asked + 2  # stage 1 and 2: the other protocols were tried once
        await checks.check({**row, "config_rev": 2, "scheme": "http"}, full=False)


async def test_control_goes_direct_or_through_another_exit(lab: Lab) -> None:
    checks = lab.checks()
    assert (await checks.control()).ok
    assert (await checks.control(Exit(Scheme.SOCKS5, "127.0.0.1", lab.proxy.port))).ok
    assert [address for address, _ in lab.judge.asked] == ["127.0.0.1", "127.0.0.2"]
    await lab.judge.leave()
    assert (await checks.control()).error_type is T.TUNNEL_FAILED


async def test_an_anchor_stands_or_does_not(lab: Lab) -> None:
    checks = lab.checks()
    assert await checks.anchor("127.0.0.1", lab.judge.port) is None
    await lab.judge.leave()
    verdict = await checks.anchor("127.0.0.1", lab.judge.port)
    assert verdict
    assert verdict.error_type is T.TCP_REFUSED


async def test_a_silent_proxy_gets_no_advice_that_would_be_a_guess(lab: Lab) -> None:
    await lab.proxy.behave(Behaviour(Fault.SILENT))
    checks = lab.checks(connect_timeout_s=0.1, budget_s=0.4)
    assert [(await checks.check(lab.row(), full=False)).advice for _ in range(3)] == [""] * 3
