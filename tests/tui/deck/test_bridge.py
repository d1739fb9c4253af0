"""The bridge: what is wanted is read, and read again when it has changed; the loop is never kept waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from taskdeck.engine.errors import NotFound, NotPermitted
from taskdeck.tui.deck import reads
from taskdeck.tui.deck.bridge import Bridge, Question, Trouble
from taskdeck.tui.deck.widgets.row_ids import Unread
from tests.seeded import Seed
from tests.tui.deck.decks import settings


@pytest.fixture
def seed(tmp_path: Path) -> Iterator[Seed]:
    made = Seed(tmp_path / "deck.db")
    yield made
    made.close()


class Listener:
    """Hears what a bridge brings."""

    def __init__(self, path: Path, **how: Any) -> None:
        self.heard: list[tuple[str, Any]] = []
        self._came = threading.Condition()
        self.bridge = Bridge(settings(path), self._take, monotonic, **how)

    def _take(self) -> None:
        with self._came:
            self.heard += self.bridge.take().items()
            self._came.notify_all()

    def until(self, is_so: Callable[[list[tuple[str, Any]]], Any]) -> None:
        """Wait until what was heard is so."""
        with self._came:
            assert self._came.wait_for(lambda: is_so(self.heard), 10), self.heard


@pytest.fixture
def listener(seed: Seed) -> Iterator[Listener]:
    made = Listener(seed.path)
    made.bridge.start()
    yield made
    made.bridge.stop()


def test_what_is_wanted_is_read_at_once_and_again_when_the_database_changes(
    seed: Seed, listener: Listener
) -> None:
    listener.bridge.show({"counts": Question(lambda view: view.counts()["PENDING"])})
    listener.until(lambda heard: ("counts", 0) in heard)
    seed.task()
    listener.until(lambda heard: ("counts", 1) in heard)


def test_what_stays_the_same_is_not_read_again(listener: Listener) -> None:
    asked: list[int] = []
    listener.bridge.show(
        {"once": Question(lambda view: asked.append(1)), "often": Question(lambda view: len(asked), every=1)}
    )
    listener.until(lambda heard: sum(name == "often" for name, _ in heard) > 3)
    assert len(asked) == 1


def test_another_key_is_another_question(listener: Listener) -> None:
    listener.bridge.show({"it": Question(lambda view: "one", key=1)})
    listener.until(lambda heard: ("it", "one") in heard)
    listener.bridge.show({"it": Question(lambda view: "two", key=2)})
    listener.until(lambda heard: ("it", "two") in heard)


def test_what_fails_is_told_and_the_rest_is_read(listener: Listener) -> None:
    listener.bridge.show({"wrong": Question(lambda view: 1 / 0), "right": Question(lambda view: "right")})
    listener.until(lambda heard: ("right", "right") in heard)
    listener.until(lambda heard: any(name == "wrong" and isinstance(value, Trouble) for name, value in heard))


def test_a_view_that_can_read_nothing_any_more_is_opened_anew(listener: Listener) -> None:
    broken: list[int] = []

    def read(view: Any) -> str:
        broken.append(id(view))
        if len(set(broken)) == 1:
            raise OSError("disk I/O error")
        return "read"

    listener.bridge.show({"it": Question(read, every=1)})
    listener.until(lambda heard: ("it", "read") in heard)


def test_a_missing_database_is_told_and_tried_again(tmp_path: Path) -> None:
    listener = Listener(tmp_path / "later.db")
    listener.bridge.show({"counts": Question(lambda view: view.counts()["PENDING"])})
    listener.bridge.start()
    listener.until(lambda heard: any(isinstance(value, Trouble) for _, value in heard))
    made = Seed(tmp_path / "later.db")
    made.task()
    listener.until(lambda heard: ("counts", 1) in heard)
    listener.bridge.stop()
    made.close()


async def test_a_question_is_answered_and_its_refusal_raised(seed: Seed, listener: Listener) -> None:
    task = seed.task()
    assert (await listener.bridge.ask(lambda view: view.task(task))).id == task
    with pytest.raises(NotFound):
        await listener.bridge.ask(lambda view: view.task(99))


async def test_the_loop_goes_on_while_something_slow_is_read(listener: Listener) -> None:
    gate = threading.Event()
    slow = asyncio.ensure_future(listener.bridge.ask(lambda view: gate.wait(10)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not slow.done()
    gate.set()
    assert await slow


async def test_acts_go_to_the_store_and_a_read_only_bridge_refuses_them(seed: Seed) -> None:
    task = seed.task()
    bridge = Listener(seed.path).bridge
    assert (await bridge.act("pause", ids=[task]))[0]["ok"]
    with pytest.raises(NotPermitted):
        await Listener(seed.path, read_only=True).bridge.act("pause", ids=[task])


def test_a_bridge_that_nobody_listens_to_ends(seed: Seed) -> None:
    bridge = Bridge(settings(seed.path), lambda: False, monotonic)
    bridge.show({"often": Question(lambda view: 1, every=1)})
    bridge.start()
    bridge._thread.join(5)
    assert not bridge._thread.is_alive()


def test_of_a_long_list_only_what_is_looked_at_is_read_and_every_place_is_right(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskdeck.engine import views

    for name, size in {"FIRST": 6, "LAST": 4, "AROUND": 5, "EDGE": 2}.items():
        monkeypatch.setattr(reads, name, size)
    whole = [seed.task(state="FAILED", reason="exit") if n % 3 else seed.task() for n in range(90)][::-1]
    wanted = views.parse("state:failed")
    failed = [each for each in whole if each % 3 != 1]
    with views.open_view(settings(seed.path)) as view:
        for ids, right in ((reads.TaskIds(views.Filter()), whole), (reads.TaskIds(wanted), failed)):
            for around in (None, *right, *map(Unread, range(len(right)))):
                ids.around = around
                found = ids(view)
                assert len(found) == len(right)
                assert all(each in (Unread(place), right[place]) for place, each in enumerate(found)), (
                    f"around {around}: {list(found)}"
                )
                place = right.index(around) if isinstance(around, int) else around.place if around else 0
                near = found[max(place - 2, 0) : place + 3]
                known = [each for each in near if isinstance(each, int)]
                assert known == near, f"around {around}: {list(found)}"
                assert all(found.index(each) == right.index(each) for each in known)
                assert not found.is_whole
    monkeypatch.setattr(reads, "FIRST", 100)
    with views.open_view(settings(seed.path)) as view:
        assert list(reads.TaskIds(views.Filter())(view)) == whole


def test_ids_are_asked_for_as_ranges() -> None:
    assert reads.ranges([7, 3, 1, 2, 9]) == ((1, 3), (7, 7), (9, 9))


def test_the_log_of_an_attempt_that_ends_is_shown_once(seed: Seed, tmp_path: Path) -> None:
    from taskdeck.engine import views

    log = tmp_path / "logs" / "1.log"
    log.parent.mkdir()
    log.write_text("good 1\ngood 2\n")
    stream = reads.LogStream(seed.running(seed.worker(), log_path="1.log"))
    with views.open_view(settings(seed.path)) as view:
        assert stream(view).take() == ["good 1", "good 2"]
        seed.sql("UPDATE attempt SET ended_at = dispatched_at, outcome = 'succeeded', reason = 'done'")
        assert stream(view).take() == []
        with log.open("a") as more:
            more.write("what was still on its way\n")
        assert stream(view).take() == ["what was still on its way"]


def test_the_log_of_a_task_goes_on_with_its_next_attempt(seed: Seed, tmp_path: Path) -> None:
    from taskdeck.engine import views

    (tmp_path / "logs").mkdir()
    for number in (1, 2):
        (tmp_path / "logs" / f"{number}.log").write_text(f"of {number}\n")
    task = seed.running(seed.worker(), log_path="1.log")
    stream = reads.LogStream(task)
    with views.open_view(settings(seed.path)) as view:
        assert stream(view).take() == ["of 1"]
        seed.sql("UPDATE attempt SET ended_at = dispatched_at, outcome = 'RETRY', reason = 'error'")
        seed.sql(
            "INSERT INTO attempt(task_id, number, worker_id, fence, dispatched_at, log_path)"
            " SELECT task_id, 2, worker_id, fence + 100, dispatched_at, '2.log' FROM attempt"
        )
        assert stream(view).take() == ["--- attempt 2 ---", "of 2"]
