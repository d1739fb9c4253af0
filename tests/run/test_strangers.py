"""Whoever may reach the socket: strange words are cut off and told to nobody, calls are answered in their order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.config import load
from taskdeck.engine.edge.frames import MAX_BODY
from taskdeck.engine.edge.link import connect, open_link, serve
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.run import messages as m
from taskdeck.engine.run.engine import Engine
from tests.faults import fault

TOKEN = "wrong-tok3n-hunter2"
SAID = {
    "a text": TOKEN.encode(),
    "a line": f"AUTH {TOKEN}\n".encode(),
    "nothing": msgspec.msgpack.encode([]),
    "an unknown message": msgspec.msgpack.encode([[TOKEN, 1]]),
    "a message of other types": msgspec.msgpack.encode([["Hello", {"role": TOKEN}]]),
    "a hello of a stranger": m.encode([m.Hello(TOKEN), m.Call(1, TOKEN, {}, TOKEN)]),
    "a call before a hello": m.encode([m.Call(1, "stop", {}, TOKEN)]),
    "a call of an unknown verb": m.encode([m.Hello("client"), m.Call(1, TOKEN, {"token": TOKEN}, "cli:ann")]),
}


@fault("TF176")
@pytest.mark.parametrize("body", SAID.values(), ids=SAID)
async def test_a_wrong_token_at_the_control_socket_is_in_no_log(
    body: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    config = load(db=tmp_path / "t.db", environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    engine = Engine(config, ManualClock(), verbs={}, together={}, redactor=Redactor(), code_version="0")
    server = await serve(tmp_path / "r" / "s.sock", engine._serve)
    try:
        link = await open_link(server.path)
        link.send(body)
        answer = await link.receive()
        assert answer is None or b"knows no verb" in answer
        link.close()
        await link.wait_closed()
    finally:
        await server.close()
    told = caplog.text + "".join(capfd.readouterr())
    assert "hunter2" not in told


async def test_calls_that_are_carried_out_at_the_same_time_are_answered_in_their_order(
    tmp_path: Path,
) -> None:
    second_is_done = asyncio.Event()

    async def first(engine: Engine, calls: Sequence[Any]) -> list[Any]:
        await second_is_done.wait()
        return ["first"]

    async def second(engine: Engine, calls: Sequence[Any]) -> list[Any]:
        second_is_done.set()
        return ["second"]

    config = load(db=tmp_path / "t.db", environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    together = {"first": first, "second": second}
    engine = Engine(config, ManualClock(), verbs={}, together=together, redactor=Redactor(), code_version="0")
    server = await serve(tmp_path / "r" / "s.sock", engine._serve)
    try:
        link = await open_link(server.path)
        calls = [m.Call(number, verb, {}, "cli:ann") for number, verb in enumerate(together)]
        link.send(m.encode([m.Hello("client"), *calls]))
        replies: list[Any] = []
        while len(replies) < 2:
            replies += m.to_peer(await link.receive() or b"")
        assert [(reply.req, reply.value) for reply in replies] == [(0, "first"), (1, "second")]
        link.close()
    finally:
        await server.close()


async def test_answers_that_are_too_large_together_are_told_apart_and_one_that_is_too_large_is_refused(
    tmp_path: Path,
) -> None:
    large, too_large = "x" * (MAX_BODY // 3), "x" * MAX_BODY

    async def told(engine: Engine, calls: Sequence[Any]) -> list[Any]:
        return [large] * 4 + [too_large] + [large] * 4

    config = load(db=tmp_path / "t.db", environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    engine = Engine(
        config, ManualClock(), verbs={}, together={"told": told}, redactor=Redactor(), code_version="0"
    )
    server = await serve(tmp_path / "r" / "s.sock", engine._serve)
    try:
        link = await open_link(server.path)
        link.send(
            m.encode([m.Hello("client"), *(m.Call(number, "told", {}, "cli:ann") for number in range(9))])
        )
        replies: list[Any] = []
        async with asyncio.timeout(30):
            while len(replies) < 9:
                replies += m.to_peer(await link.receive() or b"")
        assert [reply.req for reply in replies] == list(range(9))
        assert [len(reply.value or "") for reply in replies] == [*[len(large)] * 4, 0, *[len(large)] * 4]
        assert "too large to be told" in replies[4].error["what"]
        link.close()
    finally:
        await server.close()


@pytest.mark.parametrize("how", ["verbs", "together"])
async def test_what_was_not_begun_when_its_asker_had_gone_is_not_carried_out(
    tmp_path: Path, how: str
) -> None:
    done: list[str] = []

    async def verb(engine: Engine, args: Any, actor: str) -> None:
        done.append(actor)

    async def together(engine: Engine, calls: Sequence[Any]) -> list[Any]:
        done.extend(actor for _, actor in calls)
        return [None] * len(calls)

    ways: dict[str, Any] = {"verbs": {}, "together": {}}
    ways[how] = {"pause": verb if how == "verbs" else together}
    config = load(db=tmp_path / "t.db", environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    engine = Engine(config, ManualClock(), **ways, redactor=Redactor(), code_version="0")
    server = await serve(tmp_path / "r" / "s.sock", engine._serve)
    try:
        for actor in ("gone", "there"):  # the loop does nothing meanwhile, as that of a stopped engine
            link = connect(server.path, 5)
            link.send(m.encode([m.Hello("client"), m.Call(1, "pause", {}, actor)]))
            if actor == "gone":
                link.close()
        assert await asyncio.to_thread(link.receive, 10)
        assert done == ["there"]
        link.close()
    finally:
        await server.close()
