"""A deck whose engine does not answer says so, of the engine and of each act, and takes it back when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskdeck.engine import commands
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.tui.deck import app
from tests.seeded import Seed
from tests.tui.deck.decks import deck
from tests.tui.frozen import frozen


@pytest.fixture
def seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seed]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(app, "ASKED_EVERY", 0.05)
    made = Seed(tmp_path / "deck.db")
    yield made
    made.close()


async def test_the_header_marks_an_engine_that_does_not_answer_until_it_does(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed.task()
    with frozen(seed.path, monkeypatch) as engine:
        async with deck(seed.path) as opened:
            await opened.reads("ENGINE SILENT")
            engine.go_on()
            await opened.loses("ENGINE SILENT")


async def test_an_act_that_is_not_answered_is_told_as_asked_and_later_what_became_of_it(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed.task()
    with frozen(seed.path, monkeypatch) as engine:
        async with deck(seed.path, size=(120, 24)) as opened:
            await opened.press("2")
            await opened.reads("#1")
            await opened.press("p")
            await opened.reads("pause #1 asked; the engine is silent: it begins, or hangs")
            engine.go_on(pause=[{"id": 1, "ok": True, "message": "is paused"}])
            await opened.reads("#1 is paused")
            assert engine.asked.count("pause") == 1


async def test_an_act_that_is_never_answered_is_told_as_one_that_may_still_be_done(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed.task()
    monkeypatch.setattr(commands, "ANSWER_WITHIN", 0.5)
    with frozen(seed.path, monkeypatch):
        async with deck(seed.path) as opened:
            await opened.press("2")
            await opened.reads("WAIT  shell")
            await opened.press("p")
            await opened.reads("pause #1 was not answered and may still be done: ")


async def test_an_engine_that_this_deck_has_stopped_is_no_engine_that_has_gone(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = DatabaseLock(seed.path, role="engine", incarnation="x")
    assert lock.acquire()
    async with deck(seed.path) as opened:

        async def end_engine(asked: object) -> dict[str, object]:
            return {"engine": True, "supervisors": [], "outlived": {}}

        monkeypatch.setattr(opened.app.bridge, "end_engine", end_engine)
        await opened.becomes(lambda: opened.app.heading and opened.app.heading.engine.running)
        await opened.press("colon")
        await opened.type("stop")
        await opened.reads("the engine stopped")
        lock.release()
        await opened.becomes(lambda: opened.app.heading and not opened.app.heading.engine.running)
        await opened.reads("the engine stopped")
        assert app.GONE not in opened.text


async def test_that_the_engine_has_gone_is_told_only_until_another_works(seed: Seed) -> None:
    lock = DatabaseLock(seed.path, role="engine", incarnation="x")
    assert lock.acquire()
    async with deck(seed.path) as opened:
        await opened.becomes(lambda: opened.app.heading and opened.app.heading.engine.running)
        lock.release()
        await opened.reads(app.GONE)
        with DatabaseLock(seed.path, role="engine", incarnation="y") as another:
            await opened.becomes(another.acquire)  # who looks whether it is held keeps it for a moment
            await opened.loses(app.GONE)
