"""Tasks that many coroutines submit one by one share messages, and each of them is told of its own."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskdeck.engine import Submitter
from taskdeck.engine.clock import Clock, ManualClock
from taskdeck.engine.config import Config, load
from taskdeck.engine.edge.frames import MAX_BODY
from taskdeck.engine.edge.link import AsyncLink, serve
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.errors import InvalidPayload, TaskdeckError, Unavailable, UsageError
from taskdeck.engine.run import messages as m
from taskdeck.engine.run.submission import specs_of
from taskdeck.engine.submitting import BYTES_AT_ONCE, TASKS_AT_ONCE, Added
from tests.eventually import eventually

BOT = "api:bot"


class Answering:
    """An engine that answers each task with the number that is its payload, those below zero with an error of that name."""

    def __init__(self) -> None:
        self.heard: list[list[dict[str, Any]]] = []
        """The tasks of each message."""
        self.links = 0
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.says: Callable[[m.Call], Any] = answers

    async def serve(self, link: AsyncLink) -> None:
        self.links += 1
        while (body := await link.receive()) is not None:
            for message in m.from_peer(body):
                if isinstance(message, m.Call):
                    assert (message.verb, message.actor) == ("submit_each", BOT)
                    self.heard.append(specs_of(message.args["runs"]))
                    self.asked.set()
                    await self.may_answer.wait()
                    link.send(m.encode([self.says(message)]))


def answers(message: m.Call) -> m.Reply:
    return m.Reply(message.req, [answer_to(int(each["payload"])) for each in specs_of(message.args["runs"])])


def answer_to(number: int) -> Any:
    """Even ones are new, odd ones are known."""
    if number < 0:
        return InvalidPayload(f"bad {number}").as_told()
    return {"id": number, "created": False, "state": "RUNNING"} if number % 2 else number


@asynccontextmanager
async def engine_at(config: Config, engine: Answering) -> AsyncIterator[None]:
    path = config.db.parent / "e.sock"
    server = await serve(path, engine.serve)
    try:
        with DatabaseLock(config.db, role="engine", socket=path) as lock:
            lock.ask()  # whoever submits without an engine may have it for a moment
            await asyncio.to_thread(eventually, lock.acquire)
            yield
    finally:
        await server.close()


@asynccontextmanager
async def submitting(folder: Path, engine: Answering, clock: Clock | None = None) -> AsyncIterator[Submitter]:
    config = configured(folder)
    async with engine_at(config, engine), Submitter(config, BOT, clock=clock) as deck:
        yield deck


def configured(folder: Path) -> Config:
    return load(db=folder / "t.db", environ={"HOME": str(folder)}, cwd=folder)


async def told(deck: Submitter, numbers: Sequence[int]) -> list[Any]:
    return await asyncio.gather(*(deck.submit("page", number) for number in numbers), return_exceptions=True)


def ids(answers: Sequence[Any]) -> list[int]:
    """The ids, or the numbers of the errors."""
    return [each.id if isinstance(each, Added) else int(each.what.removeprefix("bad ")) for each in answers]


async def test_what_is_submitted_in_one_pass_of_the_loop_travels_together(tmp_path: Path) -> None:
    engine = Answering()
    async with submitting(tmp_path, engine) as deck:
        assert ids(await told(deck, range(64))) == [*range(64)]
        assert ids(await told(deck, range(3))) == [0, 1, 2]
        assert ids(await told(deck, range(3 * TASKS_AT_ONCE))) == [*range(3 * TASKS_AT_ONCE)]
    assert list(map(len, engine.heard)) == [64, 3, *[TASKS_AT_ONCE] * 3]
    assert engine.links == 1


async def test_each_is_told_whether_its_task_is_new_and_the_state_of_one_that_is_known(
    tmp_path: Path,
) -> None:
    async with submitting(tmp_path, Answering()) as deck:
        assert await told(deck, [2, 3]) == [Added(2, True, "PENDING"), Added(3, False, "RUNNING")]


async def test_tasks_travel_in_the_order_of_the_calls_and_neighbours_say_once_what_they_have_in_common(
    tmp_path: Path,
) -> None:
    heard = list[Any]()
    engine = Answering()
    engine.says = lambda message: heard.extend(message.args["runs"]) or answers(message)
    async with submitting(tmp_path, engine) as deck:
        await asyncio.gather(
            deck.submit("page", 0), deck.submit("page", 1), deck.submit("page", 2, key="k"),
            deck.submit("page", 3, priority=5), deck.submit("image", 4), deck.submit("page", 5),
        )  # fmt: skip
    assert heard == [
        [{"type": "page"}, ["0", "1", "2"], [None, None, "k"]],
        [{"type": "page", "priority": 5}, ["3"], None],
        [{"type": "image"}, ["4"], None],
        [{"type": "page"}, ["5"], None],
    ]


async def test_a_message_holds_so_many_bytes_in_payloads_and_keys_too(tmp_path: Path) -> None:
    engine = Answering()
    engine.says = lambda message: m.Reply(message.req, [*range(len(specs_of(message.args["runs"])))])
    third = "x" * (BYTES_AT_ONCE // 3)
    async with submitting(tmp_path, engine) as deck:
        await asyncio.gather(*(deck.submit("page", f'"{third}"') for _ in range(5)))
        await asyncio.gather(*(deck.submit("page", '"é"', key="é" * (BYTES_AT_ONCE // 6)) for _ in range(5)))
    assert list(map(len, engine.heard)) == [2, 2, 1, 2, 2, 1]


async def test_an_empty_key_or_payload_is_no_missing_one(tmp_path: Path) -> None:
    engine = Answering()
    engine.says = lambda message: m.Reply(message.req, [1])
    async with submitting(tmp_path, engine) as deck:
        await deck.submit("page", "1", key="")
        await deck.submit("page", "")
    assert engine.heard == [
        [{"type": "page", "payload": "1", "key": ""}],
        [{"type": "page", "payload": ""}],
    ]


async def test_a_payload_given_as_bytes_is_its_text(tmp_path: Path) -> None:
    engine = Answering()
    engine.says = lambda message: m.Reply(message.req, [1])
    async with submitting(tmp_path, engine) as deck:
        await deck.submit("page", '{"n": "é"}'.encode())
    assert engine.heard == [[{"type": "page", "payload": '{"n":"é"}'}]]


class Word(str):
    """A text of a type of its own."""


class Site(StrEnum):
    HOME = "home"


async def test_texts_of_types_of_their_own_keep_nobody_from_being_sent(tmp_path: Path) -> None:
    engine = Answering()
    async with submitting(tmp_path, engine) as deck:
        first, keyed, refused, last = await asyncio.gather(
            deck.submit("page", Word("2")),
            deck.submit("page", 4, key=Site.HOME),
            deck.submit("page", 6, key=Word("k")),
            deck.submit("page", 8),
            return_exceptions=True,
        )
    assert ids([first, keyed, last]) == [2, 4, 8]
    assert isinstance(refused, UsageError)
    assert engine.heard[0][1] == {"type": "page", "payload": "4", "key": "home"}


async def test_what_a_caller_changes_in_its_lists_once_it_has_called_changes_nothing(tmp_path: Path) -> None:
    engine = Answering()
    tags, payload = ["a"], [1]
    engine.says = lambda message: m.Reply(message.req, [1])
    async with submitting(tmp_path, engine) as deck:
        caller = asyncio.ensure_future(deck.submit("page", payload, tags=tags))
        await asyncio.sleep(0)
        tags.append("b")
        payload.append(2)
        await caller
    assert engine.heard == [[{"type": "page", "payload": "[1]", "tags": ["a"]}]]


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(-5, 1000), max_size=40), max_size=6), st.data())
def test_each_is_told_of_its_own_task_whichever_are_bad_and_whoever_gives_up(
    groups: list[list[int]], data: st.DataObject
) -> None:
    gives_up = [{each for each in range(len(group)) if data.draw(st.integers(0, 9)) == 0} for group in groups]

    async def all_of(folder: Path) -> None:
        async with submitting(folder, Answering()) as deck:
            await asyncio.gather(*(some(deck, *each) for each in zip(groups, gives_up, strict=True)))

    async def some(deck: Submitter, numbers: list[int], quitters: set[int]) -> None:
        callers = [asyncio.ensure_future(deck.submit("page", number)) for number in numbers]
        await asyncio.sleep(0)
        for at in quitters:
            callers[at].cancel()
        answers = await asyncio.gather(*callers, return_exceptions=True)
        for at, (number, answer) in enumerate(zip(numbers, answers, strict=True)):
            if at not in quitters:
                assert ids([answer]) == [number]

    with TemporaryDirectory() as folder:
        asyncio.run(all_of(Path(folder)))


async def test_who_gives_up_before_anything_was_sent_submits_nothing_and_harms_nobody(tmp_path: Path) -> None:
    engine = Answering()
    async with submitting(tmp_path, engine) as deck:
        first, second = (asyncio.ensure_future(deck.submit("page", number)) for number in (1, 2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).id == 2
        engine.may_answer.clear()
        engine.asked.clear()
        first, second = (asyncio.ensure_future(deck.submit("page", number)) for number in (3, 4))
        await engine.asked.wait()
        first.cancel()
        engine.may_answer.set()
        assert (await second).id == 4
        engine.asked.clear()
        engine.may_answer.clear()
        callers = [asyncio.ensure_future(deck.submit(f"type{number % 3}", number)) for number in range(9)]
        await asyncio.sleep(0)
        for at in (0, 4, 8):
            callers[at].cancel()
        engine.may_answer.set()
        assert ids([await each for at, each in enumerate(callers) if at % 4]) == [1, 2, 3, 5, 6, 7]
        quitters = [asyncio.ensure_future(deck.submit("page", 8)) for _ in range(3)]
        await asyncio.sleep(0)
        for caller in quitters:
            caller.cancel()
        await asyncio.wait(quitters)
        assert (await deck.submit("page", 10)).id == 10
    assert [[each["payload"] for each in some] for some in engine.heard] == [
        ["2"],
        ["3", "4"],
        [*"123567"],
        ["10"],
    ]


async def test_what_is_too_large_for_a_message_is_refused_alone_and_large_ones_go_one_after_the_other(
    tmp_path: Path,
) -> None:
    engine = Answering()
    async with submitting(tmp_path, engine) as deck:
        *large, huge, small = await asyncio.gather(
            *(deck.submit("page", number, tags=["x" * 600_000]) for number in range(5)),
            deck.submit("page", 5, tags=["x" * MAX_BODY]),
            deck.submit("page", 6),
            return_exceptions=True,
        )
    assert ids([*large, small]) == [0, 1, 2, 3, 4, 6]
    assert isinstance(huge, UsageError)
    assert "nothing was done" in huge.why
    assert list(map(len, engine.heard)) == [1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("payload", "fields"),
    [({"when": datetime(2026, 12, 1, tzinfo=UTC)}, {}), ({1: 2}, {}), ("1", {"tags": [object()]}),
     ("1", {"not_before": datetime(2026, 12, 1)}), ("1", {"key": "\ud800"}), ('"\ud800"', {}), ({"a": "\ud800"}, {}),
     (b'"\xff"', {}), (b"{", {}), (bytearray(b"1"), {})],
)  # fmt: skip
async def test_what_can_not_be_handed_in_is_refused_before_anything_is_sent(
    tmp_path: Path, payload: Any, fields: Any
) -> None:
    engine = Answering()
    async with submitting(tmp_path, engine) as deck:
        first, refused, last = await asyncio.gather(
            deck.submit("page", 1),
            deck.submit("page", payload, **fields),
            deck.submit("page", 2),
            return_exceptions=True,
        )
        assert ids([first, last]) == [1, 2]
        assert isinstance(refused, InvalidPayload | UsageError)
        assert refused.why
    assert list(map(len, engine.heard)) == [2]


async def test_values_are_sent_as_a_line_of_a_file_would_say_them(tmp_path: Path) -> None:
    engine = Answering()
    at = datetime(2026, 12, 1, 12, tzinfo=UTC)
    async with submitting(tmp_path, engine) as deck:
        await deck.submit("page", 7, key="k", not_before=at, priority=5)
        engine.says = lambda message: m.Reply(message.req, [answer_to(1)])
        await deck.submit("page", {"url": "ä"}, tags=("x",))
        await deck.submit("page")
        await deck.submit_command(["rsync", "a"], env={"A": "env:A"}, cwd="/tmp", timeout=5)
        await deck.submit_command(["true"])
    when = "2026-12-01T12:00:00.000000Z"
    assert [each for some in engine.heard for each in some] == [
        {"type": "page", "payload": "7", "key": "k", "not_before": when, "priority": 5},
        {"type": "page", "payload": '{"url":"ä"}', "tags": ["x"]},
        {"type": "page"},
        {"command": {"argv": ["rsync", "a"], "cwd": "/tmp", "env": {"A": "env:A"}, "pause": "stop"}, "timeout": 5},
        {"command": {"argv": ["true"], "cwd": os.getcwd(), "env": {}, "pause": "stop"}},
    ]  # fmt: skip


async def test_what_refuses_a_whole_message_is_told_to_each_as_an_error_of_its_own(tmp_path: Path) -> None:
    engine = Answering()
    engine.says = lambda message: m.Reply(message.req, error=Unavailable("the disk is full").as_told())
    async with submitting(tmp_path, engine) as deck:
        errors = await told(deck, range(3))
    assert [(type(each), each.what) for each in errors] == [(Unavailable, "the disk is full")] * 3
    assert len(set(map(id, errors))) == 3


@pytest.mark.parametrize(
    "says",
    [lambda message: m.Reply(message.req, []), lambda message: m.Reply(message.req + 1, []),
     lambda message: m.Recorded(1), lambda message: m.Reply(message.req, 7)],
)  # fmt: skip
async def test_an_engine_that_answers_something_else_has_an_unknown_fate_for_us_and_is_asked_anew(
    tmp_path: Path, says: Callable[[m.Call], Any]
) -> None:
    engine = Answering()
    async with submitting(tmp_path, engine) as deck:
        assert ids(await told(deck, range(3))) == [0, 1, 2]
        engine.says = says
        for each in await told(deck, range(3)):
            assert isinstance(each, Unavailable)
            assert "may or may not" in each.why
        engine.says = answers
        assert ids(await told(deck, range(3))) == [0, 1, 2]
    assert engine.links == 2


@asynccontextmanager
async def silence(folder: Path) -> AsyncIterator[tuple[Answering, Submitter]]:
    """An engine that does not answer while the block runs, and one who submits, for whom time flies."""
    engine = Answering()
    engine.may_answer.clear()
    async with submitting(folder, engine, ManualClock()) as deck:
        yield engine, deck
        engine.may_answer.set()


async def test_an_engine_that_is_silent_is_waited_for_no_longer_than_an_answer_may_take(
    tmp_path: Path,
) -> None:
    async with silence(tmp_path) as (_, deck):
        (error,) = await told(deck, [1])
        assert isinstance(error, Unavailable)
        assert f"(pid {os.getpid()}) has not answered 'submit'" in error.what
        assert "it may still carry it out" in error.why


async def test_what_could_not_be_sent_to_an_engine_that_is_silent_waits_no_longer_than_what_was(
    tmp_path: Path,
) -> None:
    async with silence(tmp_path) as (engine, deck):
        answers = await told(deck, range(6 * TASKS_AT_ONCE))
        assert engine.links == 1
        assert {(type(each), each.why) for each in answers} == {
            (Unavailable, "it may still carry it out when it goes on"),
            (Unavailable, "this one was not sent to it, and is not added"),
        }


async def test_few_messages_are_under_way_at_once_and_what_comes_then_gathers(tmp_path: Path) -> None:
    engine = Answering()
    engine.may_answer.clear()
    async with submitting(tmp_path, engine) as deck:
        callers = list[asyncio.Task[Added]]()
        for number in range(20):  # a pass of the loop each
            callers.append(asyncio.create_task(deck.submit("page", number)))
            await asyncio.sleep(0.001)
        engine.may_answer.set()
        assert ids(await asyncio.gather(*callers)) == [*range(20)]
    assert 2 <= len(engine.heard) <= 6
    assert Counter(each["payload"] for some in engine.heard for each in some) == Counter(map(str, range(20)))


async def test_who_closes_waits_for_what_is_under_way_and_nothing_is_taken_afterwards(tmp_path: Path) -> None:
    engine = Answering()
    engine.may_answer.clear()
    async with submitting(tmp_path, engine) as deck:
        caller = asyncio.create_task(deck.submit("page", 1))
        await engine.asked.wait()
        late = asyncio.create_task(deck.submit("page", 2))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.01, engine.may_answer.set)
        await deck.close()
        assert ids([caller.result(), late.result()]) == [1, 2]
        with pytest.raises(UsageError, match="closed"):
            await deck.submit("page", 3)


async def test_who_closes_is_not_held_up_by_what_nobody_awaits_and_the_engine_does_not_take(
    tmp_path: Path,
) -> None:
    config, path, loop = configured(tmp_path), tmp_path / "e.sock", asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as stopped, DatabaseLock(config.db, socket=path) as lock:
        stopped.setblocking(False)
        stopped.bind(str(path))
        stopped.listen()
        assert lock.acquire()
        deck = Submitter(config, BOT)
        caller = asyncio.create_task(deck.submit("page", f'"{"x" * 4 * BYTES_AT_ONCE}"'))
        peer, _ = await loop.sock_accept(stopped)
        with peer:
            while len(await loop.sock_recv(peer, 4096)) < 4096:  # until some of it has come
                pass
            caller.cancel()
            await asyncio.wait([caller])
            await asyncio.wait_for(deck.close(), 20)


@pytest.mark.parametrize("works", [True, False])
async def test_callers_in_threads_are_served_when_they_hold_all_threads_of_the_loop(
    tmp_path: Path, works: bool
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    config = configured(tmp_path)
    async with AsyncExitStack() as stack:
        if works:
            await stack.enter_async_context(engine_at(config, Answering()))
        deck = await stack.enter_async_context(Submitter(config, BOT))

        def from_a_thread() -> Added:
            asked = deck.submit("page", 2) if works else deck.submit_command(["true"])
            return asyncio.run_coroutine_threadsafe(asked, loop).result(20)

        assert (await asyncio.to_thread(from_a_thread)).created


@pytest.mark.parametrize("after", [0.0, 0.02, 0.1])
async def test_where_all_tasks_of_the_loop_are_cancelled_what_they_submit_at_their_end_is_answered(
    tmp_path: Path, after: float
) -> None:
    async with Submitter(configured(tmp_path), BOT) as deck:

        async def worker() -> Added:
            try:
                while True:
                    await deck.submit_command(["true"])
            except asyncio.CancelledError:
                return await deck.submit_command(["echo", "bye"])

        workers = [asyncio.create_task(worker()) for _ in range(TASKS_AT_ONCE + 20)]
        await asyncio.sleep(after)
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()
        ended, _ = await asyncio.wait(workers, timeout=20)
        assert sum(not each.cancelled() and each.result().created for each in ended) in (0, len(workers))
        assert len(ended) == len(workers)


@pytest.mark.parametrize("passes", [1, 2, 3, 9])
async def test_who_looks_for_an_engine_may_be_cancelled_and_no_caller_waits_for_ever(
    tmp_path: Path, passes: int
) -> None:
    async with Submitter(configured(tmp_path), BOT) as deck:
        caller = asyncio.create_task(deck.submit_command(["true"]))
        for _ in range(passes):
            await asyncio.sleep(0)
        seeking = asyncio.all_tasks() - {asyncio.current_task(), caller}
        for each in seeking:
            each.cancel()
        (answer,) = await asyncio.wait_for(asyncio.gather(caller, return_exceptions=True), 20)
        assert isinstance(answer, Added | Unavailable)
        assert (await asyncio.wait_for(deck.submit_command(["true"]), 20)).created


async def test_a_command_without_a_directory_to_run_in_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    nowhere: Any = 5
    async with Submitter(configured(tmp_path), BOT) as deck:
        with pytest.raises(UsageError, match="no directory"):
            await deck.submit_command(["true"], cwd=nowhere)
        monkeypatch.chdir(gone)
        gone.rmdir()
        with pytest.raises(UsageError, match="no directory"):
            await deck.submit_command(["true"])


async def test_without_an_engine_each_is_written_or_refused_for_itself(tmp_path: Path) -> None:
    config = configured(tmp_path)
    async with Submitter(config, BOT) as deck:
        good, bad, keyed, orphan, again = await asyncio.gather(
            deck.submit_command(["true"]),
            deck.submit_command(["true"], priority=-1),
            deck.submit_command(["true"], key="k"),
            deck.submit_command(["true"], parent=99),
            deck.submit_command(["true"], key="k"),
            return_exceptions=True,
        )
        assert [good, keyed, again] == [
            Added(1, True, "PENDING"),
            Added(2, True, "PENDING"),
            Added(2, False, "PENDING"),
        ]
        assert isinstance(bad, UsageError)
        assert isinstance(orphan, TaskdeckError)
        assert orphan.code == "not_found"
        unknown, added = await asyncio.gather(
            deck.submit("page", 1), deck.submit_command(["true"]), return_exceptions=True
        )
        assert isinstance(unknown, InvalidPayload)
        assert added == Added(3, True, "PENDING")


async def test_a_database_that_can_not_be_written_is_told_to_each(tmp_path: Path) -> None:
    config = configured(tmp_path)
    config.db.mkdir()
    async with Submitter(config, BOT) as deck:
        for each in await told(deck, range(2)):
            assert isinstance(each, TaskdeckError)
            assert each.code == "store"


async def test_without_an_engine_ids_follow_the_order_of_the_calls(tmp_path: Path) -> None:
    async with Submitter(configured(tmp_path), BOT) as deck:
        added = await asyncio.gather(
            *(deck.submit_command(["true"], priority=number % 3) for number in range(TASKS_AT_ONCE + 20))
        )
    assert ids(added) == [*range(1, TASKS_AT_ONCE + 21)]


async def test_without_an_engine_a_key_that_is_no_key_is_refused_alone(tmp_path: Path) -> None:
    keys: list[Any] = ["", 7, b"k", ["k"], "k", None]
    async with Submitter(configured(tmp_path), BOT) as deck:
        *bad, keyed, plain = await asyncio.gather(
            *(deck.submit_command(["true"], key=key) for key in keys), return_exceptions=True
        )
    for each in bad:
        assert isinstance(each, UsageError)
        assert each.what == "a key is 1 to 300 printable characters"
    assert ids([keyed, plain]) == [1, 2]


@pytest.mark.parametrize("actor", [5, "", "api:" + "x" * 100, "api:\n", "api:\ud800"])
def test_who_submits_has_a_name_that_can_be_shown(tmp_path: Path, actor: Any) -> None:
    with pytest.raises(UsageError, match="name it like api:crawler"):
        Submitter(configured(tmp_path), actor)
