from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from taskdeck.engine.edge.link import LinkLost
from taskdeck.engine.run import messages, spool
from taskdeck.engine.run import uplink as uplinks
from taskdeck.engine.run.messages import (
    Answer,
    Note,
    Numbered,
    OnRollback,
    OperationBegin,
    Outcome,
    Progress,
    Save,
    Started,
)
from taskdeck.engine.run.spool import Spool
from taskdeck.engine.run.uplink import Uplink, _Away, _Back
from tests.faults import fault


class Engine:
    """Hears what an uplink sends."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def __call__(self, body: bytes) -> None:
        self.heard += messages.from_peer(body)


@fault("TF148")
@fault("TF179")
async def test_a_value_that_no_frame_can_carry_is_refused_alone() -> None:
    engine = Engine()
    uplink = Uplink(engine, asyncio.get_running_loop())
    uplink.post(Progress(1, 7, 1.0, 2.0, "before"))
    uplink.post(Progress(1, 7, 1.0, 2.0, "\ud800"))
    asked = uplink.ask(lambda req: OperationBegin(req, 1, 7, "\ud800\ud800"))
    uplink.post(Outcome(2, 8, "succeeded", tail="\udfff"))
    uplink.post(Progress(1, 7, 1.0, 2.0, "after"))
    answer = await asyncio.wait_for(asked, 5)
    uplink.close(5)
    assert "can't be sent" in answer.error
    assert [each.note for each in engine.heard if isinstance(each, Progress)] == ["before", "after"]
    assert [each.kind for each in engine.heard if isinstance(each, Outcome)] == ["failed"]
    assert [each.message for each in engine.heard if isinstance(each, Note)] == [
        "Progress can't be sent: UnicodeEncodeError"
    ]


async def test_a_number_past_64_bits_costs_only_itself() -> None:
    engine = Engine()
    uplink = Uplink(engine, asyncio.get_running_loop())
    uplink.post(Progress(1, 7, 10**40, 1))
    uplink.post(Progress(1, 7, 1, 1))
    uplink.close(5)
    assert [type(each) for each in engine.heard] == [Note, Progress]


async def test_what_can_wait_goes_in_one_frame_with_the_next_that_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uplinks, "PATIENCE", 600.0)
    frames: list[bytes] = []
    uplink = Uplink(frames.append, asyncio.get_running_loop())
    uplink.post(Started(1, 7, 4711), patient=True)
    uplink.post(Outcome(2, 8, "succeeded"), patient=True)
    uplink.post(Outcome(1, 7, "succeeded"))
    uplink.close(5)
    assert [[type(each) for each in messages.from_peer(frame)] for frame in frames] == [
        [Started, Outcome, Outcome]
    ]


async def test_what_can_wait_does_not_wait_for_ever(tmp_path: Path) -> None:
    reports = Reports(tmp_path)
    reports.uplink.back(reports.send, 0, [7])
    reports.uplink.post(Started(1, 7, 4711), patient=True)
    await reports.until(lambda: reports.of(Started))
    reports.uplink.close(5)


async def test_what_is_said_in_one_pass_of_the_loop_goes_in_one_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uplinks, "PATIENCE", 600.0)
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    frames: list[bytes] = []

    def send(frame: bytes) -> None:
        frames.append(frame)
        loop.call_soon_threadsafe(gone.set)

    uplink = Uplink(send, loop)
    uplink.post(Started(1, 1))
    while not uplink._waiting.empty() or uplink._urgent.is_set():
        pass  # its thread has it, and would send it alone if it might
    uplink.post(Outcome(1, 1, "succeeded"))
    uplink.post(Started(2, 2))
    uplink.post(Outcome(2, 2, "succeeded"))
    await asyncio.wait_for(gone.wait(), 5)
    uplink.close(5)
    assert [[type(each) for each in messages.from_peer(frame)] for frame in frames] == [
        [Started, Outcome, Started, Outcome]
    ]


async def test_a_handler_that_holds_the_loop_holds_up_nobodys_words() -> None:
    gone = Event()
    uplink = Uplink(lambda frame: gone.set(), asyncio.get_running_loop())
    uplink.post(Started(1, 7))
    assert gone.wait(5)  # and the loop meanwhile goes nowhere
    uplink.close(5)


class Reports:
    """An uplink with a spool, and whoever it talks to."""

    def __init__(self, folder: Path) -> None:
        self.heard: list[Any] = []
        self.fails = False
        self.failed = 0
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self.uplink = Uplink(None, self._loop, Spool(folder / "w.spool"))

    def send(self, body: bytes) -> None:
        try:
            if self.fails:
                self.failed += 1
                raise LinkLost("gone")
            self.heard += messages.from_peer(body)
        finally:
            self._loop.call_soon_threadsafe(self._news.set)

    async def until(self, fits: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not fits():
                await self._news.wait()
                self._news.clear()

    def of(self, kind: type) -> list[Any]:
        return [each for each in self.heard if isinstance(each, kind)]


async def test_without_an_engine_a_checkpoint_is_promised_by_the_file_and_an_operation_waits(
    tmp_path: Path,
) -> None:
    reports = Reports(tmp_path)
    uplink = reports.uplink
    uplink.away()
    begin = uplink.ask(lambda req: OperationBegin(req, 1, 7, "upload"))
    answer = await asyncio.wait_for(uplink.ask(lambda req: Save(req, 1, 7, '{"n":1}')), 10)
    assert answer.error == ""
    assert [type(report) for _, report in spool.read(tmp_path / "w.spool")] == [OperationBegin, Save]
    assert not begin.done()
    uplink.back(reports.send, 0, [7])
    await reports.until(lambda: reports.of(Save))
    assert [type(each) for each in reports.heard] == [Numbered, OperationBegin, Save]
    assert reports.of(OperationBegin)[0].req > 0  # its answer is still to come
    uplink.close(5)


async def test_only_what_is_not_recorded_is_said_again_and_progress_by_its_last_word(tmp_path: Path) -> None:
    reports = Reports(tmp_path)
    uplink = reports.uplink
    uplink.back(reports.send, 0, [])
    uplink.post(Started(1, 7))
    uplink.post(Note(1, 7, "NOTE", "heard"))
    await reports.until(lambda: reports.of(Note))
    reports.fails = True
    uplink.post(Note(1, 7, "NOTE", "lost on the way"))
    await reports.until(lambda: reports.failed)
    uplink.away()
    for done in range(5):
        uplink.post(Progress(1, 7, done, 5))
        uplink.post(Progress(2, 8, done, 5))
    uplink.post(Outcome(1, 7, "succeeded"))
    reports.fails, reports.heard = False, []
    uplink.back(reports.send, 2, [7])
    await reports.until(lambda: reports.of(Outcome))
    assert reports.of(Progress) == [Progress(1, 7, 4, 5)]  # 8 is not ours any more
    assert reports.heard[1] == Numbered(3)
    assert [type(each) for each in reports.heard[2:]] == [Note, Outcome]
    uplink.close(5)


async def test_a_request_that_was_recorded_and_never_answered_is_said_again_to_the_next_engine(
    tmp_path: Path,
) -> None:
    reports = Reports(tmp_path)
    uplink = reports.uplink
    uplink.back(reports.send, 0, [7])
    answered = uplink.ask(lambda req: OperationBegin(req, 1, 7, "upload"))
    asked = uplink.ask(lambda req: OperationBegin(req, 1, 7, "pay"))
    step = uplink.ask(lambda req: OnRollback(req, 1, 7, "refund", "{}"))
    await reports.until(lambda: reports.of(OnRollback))
    uplink.answered(Answer(1, {}))
    await answered
    uplink.heard(2)  # the receipt came, its answer did not
    uplink.away()
    uplink.post(Note(1, 7, "NOTE", "later"))
    reports.heard = []
    uplink.back(reports.send, 3, [7])
    await reports.until(lambda: reports.of(Note))
    assert reports.heard[0] == Numbered(2)
    assert [type(each) for each in reports.heard[1:]] == [OperationBegin, OnRollback, Numbered, Note]
    assert not asked.done()
    assert not step.done()
    for request in (2, 3):
        uplink.answered(Answer(request, {}))
    await asyncio.gather(asked, step)
    reports.heard = []
    uplink.back(reports.send, 4, [7])
    uplink.post(Note(1, 7, "NOTE", "all are answered"))
    await reports.until(lambda: reports.of(Note))
    assert [type(each) for each in reports.heard] == [Numbered, Note]
    uplink.close(5)


async def test_a_checkpoint_is_answered_though_its_engine_was_gone_for_no_time_at_all(tmp_path: Path) -> None:
    reports = Reports(tmp_path)
    uplink = reports.uplink
    uplink.back(reports.send, 0, [7])
    saved = uplink.ask(lambda req: Save(req, 1, 7, "{}"))
    await reports.until(lambda: reports.of(Save))
    uplink._take([_Away(), _Back(reports.send, 1, [7])])  # as one batch: the file had no turn to promise it
    assert len(reports.of(Save)) == 2
    uplink.answered(Answer(1, {}))
    assert (await saved).error == ""
    uplink.close(5)


async def test_an_attempt_is_known_until_its_end_is_recorded(tmp_path: Path) -> None:
    reports = Reports(tmp_path)
    uplink = reports.uplink
    uplink.fences |= {7, 8}
    uplink.back(reports.send, 0, [7, 8])
    uplink.post(Outcome(1, 7, "stopped"))
    uplink.post(Outcome(2, 8, "succeeded"))
    await reports.until(lambda: len(reports.of(Outcome)) == 2)
    assert uplink.fences == {7, 8}
    uplink.heard(2)
    uplink.close(5)
    assert uplink.fences == {7}


async def test_a_worker_that_ends_leaves_what_nobody_is_known_to_have_recorded_in_its_file(
    tmp_path: Path,
) -> None:
    reports = Reports(tmp_path)
    reports.uplink.back(reports.send, 0, [7])
    reports.uplink.post(Outcome(1, 7, "succeeded"))
    reports.uplink.close(5)
    assert spool.read(tmp_path / "w.spool") == [(1, Outcome(1, 7, "succeeded"))]
