"""Worked examples of the routes' model that need more than a rule: a proxy that tells a login, a listener nobody reaches."""

from __future__ import annotations

import asyncio
import base64
import logging
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientConnectionError

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.config import Config
from taskdeck.engine.demo.fakes.faults import Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.messages import read_head
from taskdeck.engine.demo.fakes.server import FakeServer, Reader, Writer
from taskdeck.engine.edge.applog import JsonLines, LogFile
from taskdeck.engine.edge.exits import Exit, secret_url
from taskdeck.engine.rules.declarations import RouteDeclaration
from taskdeck.engine.rules.route_settings import RouteSettings
from taskdeck.engine.rules.settings import LoggingSettings
from taskdeck.engine.run import messages as m
from taskdeck.engine.run.checking import Checks
from taskdeck.engine.run.known_secrets import learn_all
from taskdeck.engine.run.passwords import Passwords
from taskdeck.engine.run.prober import Prober
from tests.edge.fakes.certificates import authority, server_context
from tests.edge.fakes.judge import FakeJudge
from tests.run.engine_double import engine
from tests.run.ticking import Engine
from tests.scratch import Scratch
from tests.tui.calls import Calls

PASSWORD = "s3cr@t/pw%41"
FORMS = {PASSWORD, "s3cr%40t", base64.b64encode(f"bob:{PASSWORD}".encode()).decode()[:20]}


class Blabbing(HttpProxy):
    """Refuses every login, and says in its answer which one that was."""

    async def speak(self, first: bytes, reader: Reader, writer: Writer, fault: Fault) -> None:
        login = (await read_head(reader, first)).headers["proxy-authorization"]
        plain = base64.b64decode(login.split()[1]).decode()
        head = f"HTTP/1.1 407 {plain} is wrong\r\nX-Login: {login}\r\nContent-Length: {len(plain)}\r\n\r\n{plain}"
        writer.write(head.encode())


class Failing(Checks):
    """Every second check ends in an error of a library whose text and traceback hold the URL with its login."""

    async def check(self, row: Any, **options: Any) -> Any:
        if row["route_id"] == "odd":
            exit = Exit(row["scheme"], row["host"], row["port"], row["username"], PASSWORD)
            raise ClientConnectionError(f"cannot connect to {secret_url(exit)}") from OSError(PASSWORD)
        return await super().check(row, **options)


class InTheScratch:
    """Writes as an engine's writer does."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch

    async def write(self, unit: Any, *args: Any) -> Any:
        return self._scratch.do(unit, *args)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_worked_example_32_a_refused_password_is_in_no_event_screen_or_log_nor_is_one_in_a_traceback(
    scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    log = LogFile(tmp_path / "engine.log", LoggingSettings(), of=tmp_path / "engine.log")
    log.setFormatter(JsonLines(scratch.tx.redactor))
    monkeypatch.setattr(logging.getLogger("taskdeck"), "handlers", [log])
    monkeypatch.setenv("PW", PASSWORD)
    ca = tmp_path / "ca.pem"
    authority("good").cert_pem.write_to_path(str(ca))
    tls = server_context() if scheme == "https" else None
    async with Blabbing(tls=tls) as proxy, FakeJudge(server_context()) as judge:
        settings = RouteSettings((judge.url("/nonce"),), ca_file=ca, starts_per_s=1000.0, ask_directly=False)
        scratch.declare(
            *(
                RouteDeclaration(name, scheme, "localhost", proxy.port, "bob", "env:PW", "eu")
                for name in ("eu-1", "odd")
            )
        )
        scratch.do(learn_all)  # as at the start of an engine
        passwords = Passwords(SystemClock(), scratch.tx.redactor.learn)
        config = Config(routing=settings, routes=scratch.config.routes)
        prober = Prober(config, SystemClock(), InTheScratch(scratch), passwords, lambda: None, Failing)  # type: ignore[arg-type]
        await prober.check_now(["eu-1", "odd"])
        await prober.stop()
        assert proxy.requests > 0, scratch.query(
            "SELECT last_error_type, last_error_detail FROM route_health"
        )
    assert scratch.one("SELECT last_error_type FROM route_health WHERE route_id = 'eu-1'") == "PROXY_AUTH"
    told = (tmp_path / "engine.log").read_text()
    assert "Traceback" in told
    assert "ClientConnectionError" in told
    taskdeck = Calls(tmp_path)
    for words in (("events",), ("events", "--json"), ("route", "list"), ("route", "show", "eu-1", "--json")):
        told += taskdeck(*words).out
    assert "PROXY_AUTH" in told
    told += str(scratch.query("SELECT * FROM event_log")) + str(scratch.query("SELECT * FROM route_health"))
    assert [form for form in FORMS if form in told] == []


class Listener(FakeServer):
    """Says hello to whoever comes."""

    async def serve(self, reader: Reader, writer: Writer) -> None:
        await read_head(reader, b"")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


async def test_worked_example_33_while_its_route_cools_down_no_socket_to_the_target_is_opened(
    scratch: Scratch, tmp_path: Path
) -> None:
    scratch.declare(RouteDeclaration("eu-1", "http", "127.0.0.1", 9, group="eu"))
    scratch.do(
        lambda tx: tx.connection.execute(
            "UPDATE route_slot SET state = 'COOLDOWN', cooldown_reason = 'HEALTH', cooldown_until_boot = ?",
            (tx.boot + 60,),
        )
    )
    ticking = Engine(scratch)

    def begun(url: str, **fields: Any) -> list[m.Run]:
        look = f'{{"argv": ["{sys.executable}", "-c", "import urllib.request as u; u.urlopen({url!r})"]}}'
        scratch.add("shell", payload=look, route="eu", target="127.0.0.1", **fields)
        return ticking.tick()

    def drive(url: str) -> None:
        with engine(tmp_path) as double:
            for number, more in enumerate(({}, {"allow_direct": True})):
                runs = begun(url, **more)
                assert len(runs) == number
                for run in runs:
                    double.wait(m.Manifest)
                    double.say(msgspec.structs.replace(run, log_path=str(tmp_path / "one.log")))
                    outcome = double.outcome(run.fence)
                    assert outcome.kind == "succeeded", outcome
                assert listener.connections == number

    async with Listener() as listener:
        await asyncio.to_thread(drive, f"http://127.0.0.1:{listener.port}/")
