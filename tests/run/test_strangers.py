"""Whoever may reach the socket: strange words are cut off and told to nobody, calls are answered in their order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.config import load
from taskdeck.engine.edge.frames import MAX_BODY
from taskdeck.engine.edge.link import AsyncLink, connect, open_link, serve
from taskdeck.engine.errors import Unavailable
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.run import messages as m
from taskdeck.engine.run.clients import CALLS_AT_ONCE, GROUPS_AT_ONCE, Clients
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


@asynccontextmanager
async def calling(folder: Path, **ways: Any) -> AsyncIterator[AsyncLink]:
    """A client's link to an engine that is called in these ways, its hello said."""
    config = load(db=folder / "t.db", environ={"HOME": str(folder)}, cwd=folder)
    known = {"verbs": {}, "together": {}, **ways}
    engine = Engine(config, ManualClock(), **known, redactor=Redactor(), code_version="0")
    server = await serve(folder / "r" / "s.sock", engine._serve)
    try:
        link = await open_link(server.path)
        link.send(m.encode([m.Hello("client")]))
        async with asyncio.timeout(30):
            yield link
        link.close()
    finally:
        await server.close()


async def replies_of(link: AsyncLink, count: int) -> list[Any]:
    replies: list[Any] = []
    while len(replies) < count:
        body = await link.receive()
        assert body is not None
        replies += m.to_peer(body)
    return replies


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


async def test_a_verb_that_goes_alone_begins_behind_all_that_came_before_and_others_behind_it(
    tmp_path: Path,
) -> None:
    begun: list[str] = []

    async def together(engine: Engine, calls: Sequence[Any]) -> list[Any]:
        begun.extend(actor for _, actor in calls)
        await asyncio.sleep(0.01)
        begun.append("done")
        return [None] * len(calls)

    async def alone(engine: Engine, args: Any, actor: str) -> None:
        begun.append(actor)
        await asyncio.sleep(0.01)
        begun.append("done")

    async with calling(tmp_path, verbs={"pause": alone}, together={"submit": together}) as link:
        verbs = ["submit", "submit", "pause", "pause", "submit"]
        for number, verb in enumerate(verbs):
            link.send(m.encode([m.Call(number, verb, {}, str(number))]))
        assert [reply.req for reply in await replies_of(link, 5)] == [0, 1, 2, 3, 4]
    assert begun == ["0", "1", "done", "2", "done", "3", "done", "4", "done"]


async def test_however_many_calls_come_at_once_a_few_hundred_are_begun_and_all_are_answered(
    tmp_path: Path,
) -> None:
    under_way, most = 0, 0

    async def together(engine: Engine, calls: Sequence[Any]) -> list[Any]:
        nonlocal under_way, most
        under_way += len(calls)
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= len(calls)
        return [args["number"] for args, _ in calls]

    async with calling(tmp_path, together={"submit": together}) as link:
        for number in range(1000):
            link.send(m.encode([m.Call(number, "submit", {"number": number}, "cli:ann")]))
        told = await replies_of(link, 1000)
    assert [(reply.req, reply.value) for reply in told] == [(number, number) for number in range(1000)]
    assert most == CALLS_AT_ONCE * GROUPS_AT_ONCE


async def test_a_refusal_before_anything_is_begun_is_an_answer_and_the_next_call_is_heard(
    tmp_path: Path,
) -> None:
    def closed(engine: Engine, calls: Sequence[Any]) -> Any:
        raise Unavailable("the engine is stopping and takes no more changes")

    async with calling(tmp_path, together={"submit": closed}) as link:
        for number in (1, 2):
            link.send(m.encode([m.Call(number, "submit", {}, "cli:ann")]))
            (reply,) = await replies_of(link, 1)
            assert (reply.req, reply.error["code"]) == (number, Unavailable.code)


async def test_rubbish_behind_a_call_cuts_the_link_and_nothing_that_came_with_it_is_begun(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[str] = []

    async def alone(engine: Engine, args: Any, actor: str) -> None:
        begun.append(actor)

    async with calling(tmp_path, verbs={"pause": alone}) as link:
        link.send(m.encode([m.Call(1, "pause", {}, "cli:ann")]))
        await replies_of(link, 1)
        link.send(m.encode([m.Call(2, "pause", {}, "cli:bob")]))
        link.send(TOKEN.encode())
        assert await link.receive() is None
    assert begun == ["cli:ann"]
    assert "its link is cut" in caplog.text
    assert "hunter2" not in caplog.text


class Heard:
    """A link that stays open, and on which is heard what a test says."""

    def __init__(self) -> None:
        self.bodies, self.sent = list[bytes](), list[bytes]()
        self.closed = False

    def say(self, *bodies: bytes) -> None:
        self.bodies += bodies
        self.tell()

    def on_arrival(self, call: Callable[[], None]) -> None:
        self.tell = call

    def received(self) -> bytes | None:
        return self.bodies.pop(0) if self.bodies else None

    def is_abandoned(self) -> bool:
        return False

    def send(self, body: bytes, *, at_once: bool) -> None:
        self.sent.append(body)


async def served(link: Any) -> tuple[list[list[str]], asyncio.Future[Any], asyncio.Task[None]]:
    """A client whose calls wait for one commit: who asked in each group that was begun, the commit, and the serving."""
    begun, written = list[list[str]](), asyncio.get_running_loop().create_future()

    def together(calls: Sequence[Any]) -> Any:
        begun.append([actor for _, actor in calls])
        return written

    serving = asyncio.create_task(Clients({}, {"submit": together}).serve(link, []))
    await asyncio.sleep(0)
    return begun, written, serving


async def test_rubbish_while_a_call_is_carried_out_lets_that_end_and_begins_nothing_that_came_behind_it() -> (
    None
):
    link = Heard()
    begun, written, serving = await served(link)
    link.say(m.encode([m.Call(1, "submit", {}, "cli:ann")]))
    link.say(TOKEN.encode(), m.encode([m.Call(2, "submit", {}, "cli:bob")]))
    written.set_result(["written"])
    with pytest.raises(msgspec.DecodeError):
        await serving
    link.say(m.encode([m.Call(3, "submit", {}, "cli:bob")]))
    assert begun == [["cli:ann"]]
    assert link.sent == [m.encode([m.Reply(1, "written")])]


async def test_what_is_nested_too_deep_behind_calls_that_are_carried_out_cuts_the_link_when_it_is_met() -> (
    None
):
    link = Heard()
    begun, written, serving = await served(link)
    calls = [m.Call(number, "submit", {}, "cli:ann") for number in range(2 * CALLS_AT_ONCE * GROUPS_AT_ONCE)]
    deep = m.encode([m.Call(0, "submit", {"specs": TOKEN}, "cli:ann")])
    deep = deep.replace(msgspec.msgpack.encode(TOKEN), b"\x91" * 20_000 + b"\xc0")
    link.say(
        m.encode(calls[: len(calls) // 2]), m.encode(calls[len(calls) // 2 :]), deep, m.encode(calls[:1])
    )
    assert [*map(len, begun)] == [CALLS_AT_ONCE] * GROUPS_AT_ONCE
    written.set_result([None] * CALLS_AT_ONCE)
    with pytest.raises(RecursionError):
        await serving
    assert sum(map(len, begun)) <= len(calls)


async def test_on_a_link_that_an_engine_closes_as_it_ends_nothing_more_is_begun_though_it_has_not_ended() -> (
    None
):
    link = Heard()
    begun, written, serving = await served(link)
    link.say(
        m.encode([m.Call(n, "submit", {}, "cli:ann") for n in range(2 * CALLS_AT_ONCE * GROUPS_AT_ONCE)])
    )
    link.closed = True  # the peer has not taken all that it was told
    written.set_result([None] * CALLS_AT_ONCE)
    await serving
    assert [*map(len, begun)] == [CALLS_AT_ONCE] * GROUPS_AT_ONCE


@pytest.mark.parametrize("how", ["verbs", "together"])
async def test_an_answer_that_no_frame_can_carry_ends_the_link_so_that_nobody_waits_for_it(
    tmp_path: Path, how: str
) -> None:
    async def verb(engine: Engine, args: Any, actor: str) -> str:
        return "\ud800"

    async def together(engine: Engine, calls: Sequence[Any]) -> list[str]:
        return ["\ud800"] * len(calls)

    async with calling(tmp_path, **{how: {"pause": verb if how == "verbs" else together}}) as link:
        link.send(m.encode([m.Call(1, "pause", {}, "cli:ann")]))
        assert await link.receive() is None


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
