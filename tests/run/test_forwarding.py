"""Commands and sync handlers go out by the leased route, whatever its kind, and know no password; the outcome is told."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.proxy import FakeProxy
from taskdeck.engine.demo.fakes.socks_proxy import SocksProxy
from taskdeck.engine.run import messages as m
from tests.edge.fakes.judge import FakeJudge
from tests.run.engine_double import SAMPLES, EngineDouble, engine
from tests.secret_files import reference

HANDLERS = [str(Path(__file__).with_name(name)) for name in ("route_handlers.py", "sync_handlers.py")]
PASSWORD = "hunter2pw"
LOOK = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())"


def leased(proxy: FakeProxy, scheme: str, password: str | None = None, **more: Any) -> m.LeasedRoute:
    name, right = proxy.login or ("", "")
    secret = reference(right if password is None else password)
    return m.LeasedRoute("eu-1", scheme, "127.0.0.1", proxy.port, name, secret, **more)


async def driven(folder: Path, act: Callable[[EngineDouble], Any], **environ: str) -> Any:
    def drive() -> Any:
        with engine(folder, *HANDLERS, environ=environ) as double:
            return act(double)

    return await asyncio.to_thread(drive)


def results(double: EngineDouble) -> list[tuple[str, str, int]]:
    return [(one.target, one.error_type, one.status) for one in double.all(m.RouteResult)]


@pytest.mark.parametrize(("kind", "scheme"), [(HttpProxy, "http"), (SocksProxy, "socks5")])
async def test_a_command_goes_out_by_its_route_without_knowing_its_kind_or_password(
    tmp_path: Path, kind: Any, scheme: str
) -> None:
    def act(double: EngineDouble) -> None:
        route = leased(proxy, scheme)
        show = "import os; print(dict(os.environ)); " + LOOK
        fence = double.shell(sys.executable, "-c", show, judge.url("/ip"), route=route)
        outcome = double.outcome(fence)
        assert outcome.kind == "succeeded", outcome
        assert outcome.tail.endswith("127.0.0.7")
        assert results(double) == [("127.0.0.1", "", 200)]
        assert PASSWORD not in (tmp_path / f"{fence}.log").read_text() + str(double.told)

    async with FakeJudge() as judge, kind(login=("bob", PASSWORD), leaves_from="127.0.0.7") as proxy:
        await driven(tmp_path, act)


async def test_the_way_out_ends_with_the_attempt_and_serves_nobody_else(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        script = (
            f"import os, sys, time; print(os.environ['http_proxy'], flush=True); open({str(gate)!r}).read(); "
            + LOOK
        )
        fence = double.shell(sys.executable, "-c", script, judge.url("/ip"), route=leased(proxy, "socks5"))
        double.wait(m.Started)
        url = ""
        while not url.endswith("\n"):
            url = (tmp_path / f"{fence}.log").read_text() if (tmp_path / f"{fence}.log").exists() else ""
        look = [sys.executable, "-c", LOOK, judge.url("/ip")]
        stranger = {"PATH": os.environ["PATH"], "http_proxy": url.strip()}
        found = subprocess.run(look, env=stranger, capture_output=True, text=True, check=False)
        assert "403" in found.stderr
        assert (proxy.requests, judge.connections) == (0, 0)
        gate.write_text("go")
        assert double.outcome(fence).kind == "succeeded"
        found = subprocess.run(look, env=stranger, capture_output=True, text=True, check=False)
        assert "refused" in found.stderr
        assert judge.connections == 1

    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with FakeJudge() as judge, SocksProxy(login=("bob", PASSWORD)) as proxy:
        await driven(tmp_path, act)


@pytest.mark.parametrize(
    ("behaviour", "password", "kind"),
    [
        (Behaviour(Fault.REFUSE), PASSWORD, "tcp_refused"),
        (Behaviour(Fault.RESET), PASSWORD, "tcp_reset"),
        (Behaviour(), "wrongpw", "proxy_auth"),
    ],
)
async def test_a_command_that_fails_for_its_route_is_no_fault_of_the_task_and_never_goes_direct(
    tmp_path: Path, behaviour: Behaviour, password: str, kind: str
) -> None:
    def act(double: EngineDouble) -> None:
        route = leased(proxy, "socks5", password)
        failure = double.failure(double.shell(sys.executable, "-c", LOOK, judge.url("/ip"), route=route))
        assert (failure["class_"], failure["kind"], failure["detail"]) == ("resource_fault", kind, "eu-1")
        assert results(double) == [("127.0.0.1", kind.upper(), 0)]
        fence = double.shell(
            "sh", "-c", f"{sys.executable} -c '{LOOK}' {judge.url('/ip')}; exit 65", route=route
        )
        assert double.failure(fence)["class_"] == "fatal"  # its own word stands
        assert password not in str(double.told)

    async with FakeJudge() as judge, SocksProxy(behaviour=behaviour, login=("bob", PASSWORD)) as proxy:
        await driven(tmp_path, act)
        assert judge.connections == 0


async def test_a_sync_handler_has_http_by_its_route(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        route = leased(proxy, "socks5")
        fence = double.run("sync_fetch", {"url": judge.url("/ip"), "times": 2, "blocked": True}, route=route)
        assert double.result(fence) == [[200, "127.0.0.7"]] * 2
        assert results(double) == [("127.0.0.1", "", 200)] * 2 + [("127.0.0.1", "", 403)]
        [note] = [one for one in double.all(m.Note) if one.event_type == "HTTP_REQUEST"]
        told = json.loads(note.payload)["requests"]
        assert [(one["host"], one["method"], one["status"]) for one in told] == [
            ("127.0.0.1", "GET", 200)
        ] * 2
        assert double.result(double.run("sync_fetch", {"url": judge.url("/ip")})) == [[200, "127.0.0.1"]]

    async with FakeJudge() as judge, SocksProxy(login=("bob", PASSWORD), leaves_from="127.0.0.7") as proxy:
        await driven(tmp_path, act)


async def test_the_failure_of_a_sync_handlers_route_is_the_routes(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        for url in (judge.url("/ip"), judge.url("/ip").replace("http:", "https:")):
            failure = double.failure(double.run("sync_fetch", {"url": url}, route=leased(proxy, "socks5")))
            assert (failure["class_"], failure["kind"], failure["detail"]) == (
                "resource_fault",
                "tcp_refused",
                "eu-1",
            )

    async with FakeJudge() as judge, SocksProxy(behaviour=Behaviour(Fault.REFUSE)) as proxy:
        await driven(tmp_path, act)
        assert judge.connections == 0


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_password_that_was_changed_meanwhile_is_looked_up_anew(tmp_path: Path, scheme: str) -> None:
    def act(double: EngineDouble) -> None:
        password.write_text("oldpassword")
        password.chmod(0o600)
        route = m.LeasedRoute("eu-1", scheme, "127.0.0.1", proxy.port, "bob", f"file:{password}")
        fence = double.run("fetch_twice", {"url": judge.url("/ip"), "gate": str(gate)}, route=route)
        double.wait(m.Progress)
        password.write_text("newpassword")
        proxy.login = ("bob", "newpassword")
        gate.write_text("go")
        assert double.result(fence) == ["127.0.0.7", "127.0.0.7"]
        assert {kind for _, kind, _ in results(double)} == {""}
        assert "newpassword" not in str(double.told)

    password, gate = tmp_path / "pw", tmp_path / "gate"
    os.mkfifo(gate)
    kind: Any = HttpProxy if scheme == "http" else SocksProxy
    async with FakeJudge() as judge, kind(login=("bob", "oldpassword"), leaves_from="127.0.0.7") as proxy:
        await driven(tmp_path, act)


async def test_a_password_that_cannot_be_looked_up_is_a_fault_of_the_routes_configuration(
    tmp_path: Path,
) -> None:
    def act(double: EngineDouble) -> None:
        open_file = tmp_path / "open"
        open_file.write_text(PASSWORD)
        open_file.chmod(0o644)
        for secret in ("env:NOSUCH", f"file:{open_file}", "cmd:false"):
            route = m.LeasedRoute("eu-1", "http", "127.0.0.1", proxy.port, "bob", secret)
            for fence in (
                double.run("fetch", {"url": judge.url("/ip")}, route=route),
                double.shell("true", route=route),
            ):
                failure = double.failure(fence)
                assert (failure["class_"], failure["kind"], failure["detail"]) == (
                    "resource_fault",
                    "proxy_auth",
                    "eu-1",
                )
                assert secret in failure["message"]
                told = [one for one in double.all(m.RouteResult) if one.fence == fence]
                assert [one.error_type for one in told] == ["PROXY_AUTH"]
                assert secret in told[0].detail
        assert PASSWORD not in str(double.told)

    async with FakeJudge() as judge, HttpProxy(login=("bob", PASSWORD)) as proxy:
        await driven(tmp_path, act)
        assert judge.connections == proxy.requests == 0


def test_passwords_of_routes_in_the_workers_environment_are_not_inherited(tmp_path: Path) -> None:
    environ = {"EU_PW": PASSWORD, "OTHER": "seen"}
    settings: dict[str, Any] = {"environment": ["PATH", "EU_PW", "OTHER"], "withheld": ["EU_PW"]}
    with engine(tmp_path, str(SAMPLES), HANDLERS[1], environ=environ, **settings) as double:
        fence = double.shell(sys.executable, "-c", "import os; print(sorted(os.environ))")
        assert double.outcome(fence).kind == "succeeded"
        told = (tmp_path / f"{fence}.log").read_text()
        assert "OTHER" in told
        assert "EU_PW" not in told
        assert double.result(double.run("variables", {"names": ["EU_PW", "OTHER"]})) == [None, "seen"]


@pytest.mark.parametrize("how", ["async", "command"])
@pytest.mark.parametrize("whose", ["route", "task"])
async def test_a_limit_of_bandwidth_holds_for_handlers_and_commands(
    tmp_path: Path, how: str, whose: str
) -> None:
    def act(double: EngineDouble) -> None:
        limit = {"bandwidth": 50_000.0}
        run: dict[str, Any] = {"route": leased(proxy, "socks5", None, **(limit if whose == "route" else {}))}
        run |= limit if whose == "task" else {}
        clock, url = SystemClock(), judge.url("/big")
        began = clock.monotonic()
        if how == "async":
            [[status, body]] = double.result(double.run("fetch", {"url": url, "timeout": 30}, **run))
            assert (status, len(body) >= 100_000) == (200, True)
        else:
            assert double.outcome(double.shell(sys.executable, "-c", LOOK, url, **run)).kind == "succeeded"
        assert clock.monotonic() - began >= 0.4, (
            "100 kB, of which a burst and the last piece wait for nothing"
        )
        assert [one.status for one in double.all(m.RouteResult)] == [200]

    async with FakeJudge() as judge, SocksProxy(login=("bob", PASSWORD)) as proxy:
        await driven(tmp_path, act)


async def test_without_a_route_a_target_that_refuses_is_no_fault_of_one(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        for more in ({}, {"route": m.LeasedRoute("home", "direct", "", 0, "", "")}):
            fence = double.shell(sys.executable, "-c", LOOK, url, bandwidth=1e6, **more)
            failure = double.failure(fence)
            assert (failure["class_"], failure["detail"]) == ("retryable", "1"), failure
        assert results(double) == [("127.0.0.1", "INTERNAL", 0)]  # of the route of the second

    async with FakeJudge() as judge:
        url = judge.url("/ip")
    await driven(tmp_path, act)


async def test_behind_the_limit_a_failing_route_is_still_the_routes_fault(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        route = leased(proxy, "socks5", bandwidth=1e6)
        for url in (judge.url("/ip"), judge.url("/ip").replace("http:", "https:")):
            fence = double.run("fetch", {"url": url}, route=route)
            failure = double.failure(fence)
            assert (failure["class_"], failure["kind"]) == ("resource_fault", "tcp_refused")
            told = [one for one in double.all(m.RouteResult) if one.fence == fence]
            assert [(one.error_type, one.target) for one in told] == [("TCP_REFUSED", "127.0.0.1")]

    async with FakeJudge() as judge, SocksProxy(behaviour=Behaviour(Fault.REFUSE)) as proxy:
        await driven(tmp_path, act)
        assert judge.connections == 0
