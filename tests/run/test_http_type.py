"""The built-in type `http`: one request, its answer as the result, its status judged."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.demo.fakes.messages import answer, read_body, read_head
from taskdeck.engine.demo.fakes.server import FakeServer, Reader, Writer
from taskdeck.engine.run import messages as m
from tests.run.engine_double import EngineDouble, engine


class Echo(FakeServer):
    """Answers `/echo` with the request; `/big` with much; `/busy` with 429; anything else by its number."""

    async def serve(self, reader: Reader, writer: Writer) -> None:
        head = await read_head(reader)
        body = (await read_body(reader, head)).decode()
        method, path, _ = head.first
        if path == "/big":
            writer.write(answer(200, b"x" * 100_000, etag="v1", set_cookie="session=hunter2"))
        elif path == "/echo":
            told = "|".join(
                [method, head.headers.get("x-token", ""), head.headers.get("content-type", ""), body]
            )
            writer.write(answer(200, told.encode("latin-1"), content_type="text/plain; charset=latin-1"))
        elif path == "/busy":
            writer.write(answer(429, b"", retry_after="7"))
        elif path == "/moved":
            writer.write(answer(302, b"", location="/echo"))
        elif path == "/broken":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        else:
            writer.write(answer(int(path.strip("/"))))
        await writer.drain()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


async def driven(folder: Path, act: Callable[[EngineDouble], None], **environ: str) -> None:
    def drive() -> None:
        with engine(folder, environ=environ) as double:
            act(double)

    await asyncio.to_thread(drive)


async def test_an_answer_becomes_the_result(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        payload: dict[str, Any] = {
            "url": site.url("/echo"),
            "method": "POST",
            "headers": {"x-token": "env:TOKEN"},
        }
        found = double.result(double.run("http", payload | {"body": {"é": 1}}))
        assert (found["status"], found["body"]) == (200, 'POST|from-outside|application/json|{"\\u00e9": 1}')
        assert found["bytes"] == len(found["body"])
        assert found["ms"] > 0
        found = double.result(double.run("http", payload | {"body": "as it is", "method": "PUT"}))
        assert found["body"].endswith("as it is")
        found = double.result(double.run("http", {"url": site.url("/big")}))
        assert (found["bytes"], len(found["body"]), found["cut"]) == (100_000, 65_536, True)
        assert found["headers"] == {"content-length": "100000", "etag": "v1"}
        assert double.result(double.run("http", {"url": site.url("/moved")}))["status"] == 200

    async with Echo() as site:
        await driven(tmp_path, act, TOKEN="from-outside")


async def test_a_status_is_judged_by_the_rules_unless_it_is_expected(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        for path, class_, delay in [
            ("/busy", "delayed", 7),
            ("/503", "retryable", None),
            ("/404", "fatal", None),
            ("/403", "fatal", None),
        ]:
            failure = double.failure(double.run("http", {"url": site.url(path + "")}))
            assert (failure["class_"], failure["delay"]) == (class_, delay), failure
            assert failure["message"].startswith("127.0.0.1 answered ")
        assert (
            double.result(double.run("http", {"url": site.url("/404"), "expect": [200, 404]}))["status"]
            == 404
        )
        assert (
            double.failure(double.run("http", {"url": site.url("/204"), "expect": [200]}))["kind"]
            == "http_204"
        )
        found = double.result(double.run("http", {"url": site.url("/moved"), "expect": [302]}))
        assert found["headers"]["location"] == "/echo"

    async with Echo() as site:
        await driven(tmp_path, act)


async def test_a_body_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        target = folder / "page"
        found = double.result(double.run("http", {"url": site.url("/big"), "save_to": str(target)}))
        assert (found["bytes"], found["saved_to"], "body" in found) == (100_000, str(target), False)
        assert target.read_bytes() == b"x" * 100_000
        payload = {"url": site.url("/broken"), "save_to": str(target)}
        assert double.failure(double.run("http", payload))["class_"] == "retryable"
        assert target.stat().st_size == 100_000
        assert [path.name for path in folder.iterdir()] == ["page"]
        payload["save_to"] = str(tmp_path / "nowhere" / "page")
        failure = double.failure(double.run("http", payload))
        assert (failure["class_"], failure["kind"]) == ("fatal", "not_found")

    folder = tmp_path / "saved"
    folder.mkdir()
    async with Echo() as site:
        await driven(tmp_path, act)


async def test_only_a_regular_file_is_replaced_and_a_link_stays_one(tmp_path: Path) -> None:
    def act(double: EngineDouble) -> None:
        for path in (folder / "pipe", folder / "to_pipe", folder):
            failure = double.failure(double.run("http", {"url": site.url("/big"), "save_to": str(path)}))
            assert (failure["class_"], failure["kind"]) == ("fatal", "not_a_file")
            assert str(path) in failure["message"]
        assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
        for link, real in [("to_page", "real/page"), ("to_nothing", "real/new")]:
            payload = {"url": site.url("/big"), "save_to": str(folder / link)}
            assert double.result(double.run("http", payload))["saved_to"] == str(folder / link)
            assert (folder / link).is_symlink()
            assert (folder / real).read_bytes() == b"x" * 100_000
            assert not (folder / real).is_symlink()
        failure = double.failure(
            double.run("http", {"url": site.url("/big"), "save_to": str(folder / "loop")})
        )
        assert failure["class_"] == "fatal"
        assert sorted(path.name for path in (folder / "real").iterdir()) == ["new", "page"]

    folder = tmp_path / "saved"
    (folder / "real").mkdir(parents=True)
    (folder / "real/page").write_text("old")
    os.mkfifo(folder / "pipe")
    links = {"to_pipe": "pipe", "to_page": "real/page", "to_nothing": "real/new", "loop": "loop"}
    for link, target in links.items():
        (folder / link).symlink_to(target)
    async with Echo() as site:
        await driven(tmp_path, act)


@pytest.mark.parametrize(
    ("behaviour", "kind"), [(Behaviour(), None), (Behaviour(Fault.REFUSE), "tcp_refused")]
)
async def test_it_goes_out_by_the_tasks_route(tmp_path: Path, behaviour: Behaviour, kind: str | None) -> None:
    def act(double: EngineDouble) -> None:
        fence = double.run(
            "http", {"url": site.url("/204")}, route=m.LeasedRoute("eu-1", "http", "127.0.0.1", proxy.port)
        )
        if kind is None:
            assert double.result(fence)["status"] == 204
            assert proxy.targets == [f"127.0.0.1:{site.port}"]
        else:
            failure = double.failure(fence)
            assert (failure["class_"], failure["kind"], failure["detail"]) == ("resource_fault", kind, "eu-1")

    async with Echo() as site, HttpProxy(behaviour=behaviour) as proxy:
        await driven(tmp_path, act)


def test_a_request_that_cannot_be_meant_is_refused_before_it_runs(tmp_path: Path) -> None:
    url = "http://example.org/"
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "url"),
        ({"url": "ftp://example.org/"}, "url must be"),
        ({"url": "http://[/"}, "url must be"),
        ({"url": "http://example.org/a b"}, "space or a control character"),
        ({"url": "http://example.org/\r\nX: y"}, "space or a control character"),
        ({"url": "http://example.org/\0"}, "space or a control character"),
        ({"url": "http://xn--a/"}, "url must be"),
        ({"url": "http://a.xn--a.example:80/x"}, "url must be"),
        ({"url": url, "metod": "GET"}, "unknown key"),
        ({"url": url, "method": "get it"}, "method"),
        ({"url": url, "headers": {"x": "a\r\nb: c"}}, "bad header"),
        ({"url": url, "expect": [99]}, "expect"),
        ({"url": url, "timeout": "soon"}, "duration"),
        ({"url": url, "timeout": 0}, "timeout"),
        ({"url": url, "save_to": "page.html"}, "absolute"),
    ]
    with engine(tmp_path) as double:
        import json

        double.wait(m.Manifest)
        for number, (payload, why) in enumerate(cases, 1):
            double.say(m.Validate(number, "http", json.dumps(payload)))
            problem = double.wait(m.Validated, lambda one, number=number: one.req == number).problem
            assert why in problem, (payload, problem)
        failure = double.failure(double.run("http", {"url": "http://xn--a/"}))
        assert (failure["class_"], failure["kind"]) == ("fatal", "invalid_payload")
        double.say(m.Validate(99, "http", json.dumps({"url": "http://m\u00fcnchen.xn--mnchen-3ya.example/"})))
        assert double.wait(m.Validated, lambda one: one.req == 99).problem == ""
