"""`ctx.http` goes out by the attempt's route and by nothing else; its requests are told, its failures blamed rightly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.proxy import FakeProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.rules.route_errors import ERRORS, ErrorType
from taskdeck.engine.run import messages as m
from tests.edge.fakes.certificates import server_context
from tests.edge.fakes.judge import FakeJudge
from tests.run.engine_double import EngineDouble, engine
from tests.secret_files import reference

HANDLERS = str(Path(__file__).with_name("route_handlers.py"))
PASSWORD = "hunter2pw"
Result = TypeVar("Result")


def route(proxy: FakeProxy, scheme: str = "http") -> m.LeasedRoute:
    name, password = proxy.login or ("", "")
    return m.LeasedRoute("eu-1", scheme, "127.0.0.1", proxy.port, name, reference(password))


async def driven(folder: Path, act: Callable[[EngineDouble], Result], **environ: str) -> Result:
    """Do it to a worker, in a thread: this loop serves the proxies."""

    def drive() -> Result:
        with engine(folder, HANDLERS, environ=environ) as double:
            return act(double)

    return await asyncio.to_thread(drive)


def requests(double: EngineDouble) -> list[dict[str, Any]]:
    return [json.loads(one.payload) for one in double.all(m.Note) if one.event_type == "HTTP_REQUEST"]


@pytest.mark.parametrize(
    ("kind", "scheme"), [(HttpProxy, "http"), (SocksProxy, "socks5"), (SocksProxy, "socks4a")]
)
async def test_requests_leave_by_the_leased_route_and_are_told(
    tmp_path: Path, kind: Any, scheme: str
) -> None:
    login = None if scheme == "socks4a" else ("bob", PASSWORD)

    def act(double: EngineDouble) -> None:
        fence = double.run(
            "fetch", {"url": judge.url("/ip?token=abcdef"), "times": 3}, route=leased, attempt=4
        )
        assert double.result(fence) == [[200, "127.0.0.7"]] * 3
        [told] = requests(double)
        assert (told["attempt"], told["route"], len(told["requests"])) == (4, "eu-1", 3)
        assert {(one["host"], one["method"], one["status"]) for one in told["requests"]} == {
            ("127.0.0.1", "GET", 200)
        }
        assert all(one["ms"] >= 0 for one in told["requests"])
        note = double.wait(m.Note)
        assert double.told.index(note) < double.told.index(double.outcome(fence))
        results = double.all(m.RouteResult)
        assert {(one.route_id, one.target, one.error_type, one.status) for one in results} == {
            ("eu-1", "127.0.0.1", "", 200)
        }
        assert len(results) == 3
        assert results[0].ms is not None
        assert not any(text in str(double.told) for text in ("abcdef", PASSWORD, "token"))

    async with FakeJudge() as judge, kind(leaves_from="127.0.0.7", login=login) as proxy:
        leased = route(proxy, scheme)
        await driven(tmp_path, act)


async def test_without_a_route_requests_leave_directly_and_no_proxy_of_the_environment_is_used(
    tmp_path: Path,
) -> None:
    def act(double: EngineDouble) -> None:
        assert double.result(double.run("fetch", {"url": judge.url("/ip")})) == [[200, "127.0.0.1"]]
        assert double.result(double.run("fetch_anyhow", {"url": judge.url("/ip")})) == "127.0.0.1"
        assert requests(double)[0]["route"] is None
        assert double.all(m.RouteResult) == []

    async with FakeJudge() as judge:
        await driven(tmp_path, act, http_proxy="http://127.0.0.1:1", all_proxy="http://127.0.0.1:1")


async def test_a_type_that_demands_a_route_never_goes_out_without_one(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        assert double.failure(double.run("fetch_eu", {"url": judge.url("/ip")}))["class_"] == "resource_fault"

    async with FakeJudge() as judge:
        await driven(tmp_path, act)
        assert judge.connections == 0


ROUTE_FAULTS: dict[str, tuple[Any, Any, str, str]] = {
    "refused": (HttpProxy, Behaviour(Fault.REFUSE), "http", "TCP_REFUSED"),
    "socks refused": (SocksProxy, Behaviour(Fault.REFUSE), "socks5", "TCP_REFUSED"),
    "login": (HttpProxy, Behaviour(), "http", "PROXY_AUTH"),
    "socks login": (SocksProxy, Behaviour(), "socks5", "PROXY_AUTH"),
    "tunnel": (HttpProxy, Behaviour(Fault.STATUS, status=502), "http", "TUNNEL_FAILED"),
    "denied": (HttpProxy, Behaviour(Fault.STATUS, status=403), "http", "PROXY_DENIED"),
    "socks tunnel": (SocksProxy, Behaviour(Fault.STATUS, code=4), "socks5", "TUNNEL_FAILED"),
    "socks silent": (SocksProxy, Behaviour(Fault.SILENT), "socks5", "TUNNEL_TIMEOUT"),
    "garbage": (HttpProxy, Behaviour(Fault.GARBAGE), "http", "PROXY_PROTO"),
}


@pytest.mark.parametrize("case", ROUTE_FAULTS)
async def test_a_failure_of_the_route_is_the_routes_and_not_the_tasks(tmp_path: Path, case: str) -> None:
    kind, behaviour, scheme, error_type = ROUTE_FAULTS[case]

    def act(double: EngineDouble) -> None:
        fence = double.run("fetch", {"url": judge.url("/ip"), "raise": True, "timeout": 2.0}, route=leased)
        failure = double.failure(fence)
        assert (failure["class_"], failure["detail"]) == ("resource_fault", "eu-1"), failure
        assert failure["kind"] == error_type.lower()
        [result] = double.all(m.RouteResult)
        assert (result.error_type, result.target) == (error_type, "127.0.0.1")
        assert PASSWORD not in str(double.told)
        assert PASSWORD.encode() not in (tmp_path / f"{fence}.log").read_bytes()

    tls = server_context() if case in ("tunnel", "denied") else None
    async with FakeJudge(tls) as judge, kind(behaviour=behaviour, login=("bob", "right")) as proxy:
        leased = replace_login(route(proxy, scheme), "bob", PASSWORD if "login" in case else "right")
        await driven(tmp_path, act)
        assert judge.connections == 0


def replace_login(leased: m.LeasedRoute, name: str, password: str) -> m.LeasedRoute:
    return m.LeasedRoute(leased.route_id, leased.scheme, leased.host, leased.port, name, reference(password))


async def test_a_failure_of_the_target_is_the_tasks_and_says_nothing_of_the_route(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        for path, class_, kind in [
            ("/503", "retryable", "http_503"),
            ("/429", "delayed", "http_429"),
            ("/404", "fatal", "http_404"),
            ("/silent", "retryable", "timeout"),
            ("/reset", "retryable", "connection"),
            ("/garbage", "retryable", "protocol"),
        ]:
            payload = {"url": judge.url(path), "raise": True, "timeout": 2.0}
            failure = double.failure(double.run("fetch", payload, route=leased))
            assert failure["class_"] == class_, (path, failure)
            assert failure["kind"] == kind, (path, failure)
        statuses = [(one.status, one.error_type) for one in double.all(m.RouteResult)]
        assert statuses[:3] == [(503, ""), (429, ""), (404, "")]
        assert all(status == 0 and ERRORS[ErrorType(kind)].neutral for status, kind in statuses[3:])

    async with FakeJudge() as judge, SocksProxy() as proxy:
        leased = route(proxy, "socks5")
        await driven(tmp_path, act)


async def test_an_error_that_wraps_the_routes_is_the_routes_unless_the_author_has_judged(
    tmp_path: Path,
) -> None:
    def act(double: EngineDouble) -> None:
        failure = double.failure(double.run("fetch_wrapped", {"url": judge.url("/ip")}, route=leased))
        assert (failure["class_"], failure["kind"]) == ("resource_fault", "tcp_refused")
        payload = {"url": judge.url("/ip"), "fatal": "yes"}
        assert double.failure(double.run("fetch_wrapped", payload, route=leased))["class_"] == "fatal"

    async with FakeJudge() as judge, HttpProxy(behaviour=Behaviour(Fault.REFUSE)) as proxy:
        leased = route(proxy)
        await driven(tmp_path, act)


async def test_a_library_gets_the_session_itself_and_its_requests_are_told_too(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        found = double.result(double.run("fetch_session", {"url": judge.url("/ip")}, route=leased))
        assert found == {"kind": "ClientSession", "text": "127.0.0.2"}
        assert requests(double)[0]["requests"][0]["status"] == 200

    async with FakeJudge() as judge, HttpProxy() as proxy:
        leased = route(proxy)
        await driven(tmp_path, act)


async def test_many_requests_become_few_events_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        double.result(double.run("fetch", {"url": judge.url("/204"), "times": 120}))
        told = requests(double)
        assert len(told) <= 3
        assert all(len(one["requests"]) <= 50 for one in told)
        assert sum(len(one["requests"]) + one.get("omitted", 0) for one in told) == 120

    async with FakeJudge() as judge:
        await driven(tmp_path, act)


async def test_a_captcha_is_told_as_a_refusal_by_the_target(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        fence = double.run("captcha", {"url": judge.url("/ip")}, route=leased)
        assert double.outcome(fence).kind == "succeeded"
        assert [(one.status, one.target) for one in double.all(m.RouteResult)] == [
            (200, "127.0.0.1"),
            (403, "127.0.0.1"),
        ]
        note = double.wait(m.Note, lambda one: one.event_type == "ROUTE_BLOCKED")
        assert note.message == "127.0.0.1: captcha"

    async with FakeJudge() as judge, HttpProxy() as proxy:
        leased = route(proxy)
        await driven(tmp_path, act)


async def test_of_a_refusing_url_nothing_but_its_host_is_told(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        fence = double.run(
            "captcha_by_url", {"host": "https://u:hunter2@Shop.example:8443/a?k=v"}, route=leased
        )
        assert "name the host" in double.result(fence)
        (told,) = double.all(m.RouteResult)
        assert (told.status, told.target) == (403, "shop.example")
        (note,) = (one for one in double.all(m.Note) if one.event_type == "ROUTE_BLOCKED")
        assert note.message == "shop.example: captcha"

    async with HttpProxy() as proxy:
        leased = route(proxy)
        await driven(tmp_path, act)


async def test_a_name_that_is_none_fails_the_request_and_not_its_report(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        failure = double.failure(double.run("fetch", {"url": "http://xn--a/"}))
        assert "idna" not in failure["message"].lower(), failure

    await driven(tmp_path, act)


def test_the_library_is_imported_only_where_it_is_used(tmp_path: Path) -> None:
    with engine(tmp_path, HANDLERS, fresh=True) as double:
        assert double.result(double.run("imported")) is False
