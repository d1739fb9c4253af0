"""Around the lists: one pane alone, copying, what a start recovered, what is kept, and terminals that are slow."""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from textual._compositor import LayoutUpdate

from taskdeck.engine.store import holds
from taskdeck.tui.deck import clipboard, kept
from taskdeck.tui.deck.bridge import PACE, SLOW_PACE
from taskdeck.tui.deck.throughput import STEP, Throughput
from tests.faults import fault
from tests.inventoried import Inventory
from tests.seeded import Seed
from tests.tui.deck.decks import deck


@pytest.fixture
def seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seed]:
    from taskdeck.engine import views
    from taskdeck.engine.clock import ManualClock

    clock = ManualClock()
    monkeypatch.setattr(views, "now", clock.utc)
    monkeypatch.setattr(views, "system_clock", lambda: clock)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    made = Seed(tmp_path / "deck.db", clock)
    yield made
    made.close()


async def test_what_a_start_recovered_is_shown_until_it_is_put_away(seed: Seed) -> None:
    for _ in range(9):
        seed.task()
    with seed.writing() as tx:
        message = "#5 resumes at page 310; #7 in doubt: upload:42; see; #9: starts again"
        tx.event("ENGINE_RECOVERED", actor="engine", message=message, payload={"tasks": 4}, ours=True)
    async with deck(seed.path) as opened:
        await opened.reads("Recovered  4 of an earlier engine, 1 more in the events; esc hides this")
        for line in (
            "#5      resumes at page 310",
            "#7      in doubt: upload:42; see",
            "#9      starts again",
        ):
            await opened.reads(line)
        await opened.press("shift+tab", "G", "enter")
        await opened.reads("#9 shell")
        await opened.press("q", "escape")
        await opened.becomes(lambda: "of an earlier engine" not in opened.text)
        seed.task()
        await opened.reads("WAIT 10")
        assert "of an earlier engine" not in opened.text


async def test_no_recovery_is_told_of_tasks_that_ended_nor_after_an_orderly_stop(
    seed: Seed,
) -> None:
    ended, goes_on = seed.task(state="SUCCESS", reason="done"), seed.task()
    with seed.writing() as tx:
        message = f"#{ended} resumes at page 310; #{goes_on} starts again"
        tx.event("ENGINE_RECOVERED", actor="engine", message=message, payload={"tasks": 2}, ours=True)
    async with deck(seed.path) as opened:
        await opened.reads("Recovered  1 of an earlier engine; esc hides this")
        await opened.reads("starts again")
        with seed.writing() as tx:
            tx.event("ENGINE_STOPPED", actor="engine", message="engine 1", ours=True)
        await opened.becomes(lambda: "of an earlier engine" not in opened.text)


async def test_a_start_that_recovered_nothing_or_long_ago_is_no_news(seed: Seed) -> None:
    with seed.writing() as tx:
        tx.event(
            "ENGINE_RECOVERED", actor="engine", message="#1 starts again", payload={"tasks": 1}, ours=True
        )
    seed.clock.advance(3_600)
    seed.task()
    with seed.writing() as tx:
        tx.event(
            "ENGINE_RECOVERED", actor="engine", message="nothing was running", payload={"tasks": 0}, ours=True
        )
    async with deck(seed.path) as opened:
        await opened.reads("nothing was running")
        assert "of an earlier engine" not in opened.text


async def test_a_row_that_goes_right_after_a_key_stands_there_until_rows_may_move(seed: Seed) -> None:
    first, second = seed.task("first"), seed.task("second")
    async with deck(seed.path) as opened:
        await opened.reads("WAIT  second")
        await opened.press("j")
        seed.sql("UPDATE task SET state = 'SUCCESS', reason = 'done' WHERE id = ?", first)
        await opened.reads("OK 1")
        assert not any(line.strip() == "»" for line in opened.lines)
        await opened.becomes(lambda: "WAIT  first" not in opened.text)
        await opened.reads(f">◦ {second} ")


async def test_a_pane_alone_and_all_of_them_again(seed: Seed) -> None:
    inventory = Inventory(seed)
    inventory.resources(*({"id": f"gpu-{n:02}", "pool": "gpu"} for n in range(15)))
    seed.task()
    async with deck(seed.path) as opened:
        await opened.reads("gpu-00")
        assert "gpu-14" not in opened.text
        await opened.press("shift+tab", "shift+tab", "z")
        await opened.reads("gpu-14")
        await opened.loses("Queue")
        assert "1 Overview" in opened.lines[1], "what is around the panes stays"
        await opened.press("escape")
        await opened.reads("[Resources]")
        await opened.reads("Queue")
        await opened.press("2", "z")
        await opened.reads("1 of 1")
        await opened.press("z", "1")
        await opened.reads("Events")
    async with deck(seed.path, (160, 48)) as opened:
        await opened.press("2")
        await opened.reads("[Summary]")
        await opened.press("tab", "z")
        await opened.becomes(lambda: "Tasks  1 of" not in opened.text)
        await opened.loses(" Log ")
        await opened.press("z", "tab", "z")
        await opened.reads("[Log]")
        await opened.loses("Summary")


async def test_what_is_under_the_cursor_is_copied(
    seed: Seed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = seed.task("fetch", {"url": "http://example.org"})
    async with deck(seed.path) as opened:
        sent: list[str] = []
        assert opened.app._driver is not None
        monkeypatch.setattr(opened.app._driver, "write", sent.append)
        await opened.reads("fetch")
        await opened.press("y")
        file = tmp_path / "state" / "taskdeck" / "clipboard.txt"
        told = f"copied {task}; also in {file}"
        await opened.becomes(lambda: "".join(told.split()) in "".join(opened.text.split()))
        assert f"\x1b]52;c;{base64.b64encode(str(task).encode()).decode()}\x07" in sent
        assert file.read_text() == str(task)
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        await opened.press("Y")
        await opened.reads("copied all of 1")
        assert json.loads(file.read_text())["type"] == "fetch"


def test_a_text_that_is_too_long_for_terminals_is_only_kept(tmp_path: Path) -> None:
    text = "x" * (clipboard.MOST + 1)
    assert clipboard.sequence(text) == ""
    assert clipboard.keep(text, tmp_path / "c", {}) == str(tmp_path / "c")
    assert clipboard.sequence("a", {"STY": "1"}) == "\x1bP\x1b]52;c;YQ==\x07\x1b\\"
    (tmp_path / "other").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    assert clipboard.keep("secret", tmp_path / "link", {}) == ""
    assert (tmp_path / "other").read_text() == "mine"


async def test_colours_and_what_was_typed_are_there_the_next_time(seed: Seed) -> None:
    seed.task()
    async with deck(seed.path) as opened:
        await opened.press("colon")
        await opened.type("theme textual-light")
        await opened.becomes(lambda: opened.app.theme == "textual-light")
    async with deck(seed.path) as opened:
        assert opened.app.theme == "textual-light"
        await opened.press("colon", "up")
        await opened.reads(":theme textual-light")


async def test_two_decks_at_once_keep_what_was_typed_in_either(seed: Seed) -> None:
    seed.task()
    async with deck(seed.path) as first, deck(seed.path) as second:
        for opened, line in ((first, "theme textual-light"), (second, "filter x"), (first, "tasks")):
            await opened.press("colon")
            await opened.type(line)
            await opened.becomes(lambda said=line, by=opened: said in by.app._prompt.typed.get(":", ()))
    known, _ = kept.load(kept.folder() / kept.NAME)
    assert known.theme == "textual-light"
    assert known.history == {":": ["tasks", "theme textual-light", "filter x"]}


def test_what_decks_keep_is_bounded_told_once_and_without_secrets(tmp_path: Path) -> None:
    file = tmp_path / "state" / kept.NAME
    kept.add(file, theme="nord", typed={":": [str(n) for n in range(kept.REMEMBERED)], "/": ["x"]})
    kept.add(
        file, theme="", typed={":": ["7", "my secret"]}, clear=lambda text: text.replace("secret", "***")
    )
    known, trouble = kept.load(file)
    assert (known.theme, trouble, known.history["/"]) == ("nord", "", ["x"])
    assert known.history[":"][:4] == ["7", "my ***", "0", "1"]
    assert len(known.history[":"]) == kept.REMEMBERED
    assert known.history[":"].count("7") == 1
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == [kept.NAME]


def test_decks_that_end_together_lose_nothing_of_each_other(tmp_path: Path) -> None:
    file = tmp_path / kept.NAME

    def end(number: int) -> None:
        kept.add(file, theme="", typed={":": [f"line {number}"]})

    with ThreadPoolExecutor(8) as together:
        list(together.map(end, range(40)))
    assert sorted(kept.load(file)[0].history[":"]) == sorted(f"line {number}" for number in range(40))


async def test_a_file_of_the_deck_that_is_damaged_is_left_out_and_told(seed: Seed) -> None:
    file = kept.folder() / kept.NAME
    file.parent.mkdir(parents=True)
    file.write_text('{"version": 1, "history": 7}')
    async with deck(seed.path) as opened:
        await opened.reads("is left out, since it can't be read")


async def test_a_terminal_that_cannot_keep_up_is_given_less(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed.task()
    async with deck(seed.path) as opened:
        assert opened.app.bridge.pace == PACE
        monkeypatch.setattr(opened.app._driver, "is_behind", True, raising=False)
        await opened.reads("slow link")
        assert opened.app.bridge.pace == SLOW_PACE


def test_ends_of_tasks_are_counted_by_the_minute() -> None:
    ends = Throughput()
    for second in range(10 * STEP):
        ends.tick({"SUCCESS": 100 + second, "FAILED": 5, "PENDING": 9})
    assert ends.told(6, ascii=True).endswith(f" {10 * STEP - 1} ended/min")
    assert Throughput().told(6, ascii=True) == ""


@fault("TF201")
async def test_each_waiting_task_says_why_and_until_when(seed: Seed) -> None:
    inventory = Inventory(seed)
    inventory.resources({"id": "gpu-1", "pool": "gpu"})
    running = seed.running(seed.worker())
    inventory.take(running, pools={"gpu": 1})
    seed.task("needs_gpu", needs='["gpu:1"]')
    seed.task("held_type")
    seed.task("later", next_run_at="2026-11-29T14:17:00.000000Z")
    seed.task(
        "again", state="RETRYING", reason="retry", next_run_at="2099-11-29T12:00:48.000000Z", error='"429"'
    )
    with seed.writing() as tx:
        holds.hold(tx, "type:held_type", "cli:ann")
    async with deck(seed.path, (160, 48)) as opened:
        await opened.press("2")
        await opened.reads("of 5")
        for note in ("2h17m", "type held_type is", "pool gpu: 0 of 1"):
            await opened.reads(note)
        for why in (
            "retries at 2099-11-29 12:00:48",
            "due at 2026-11-29 14:17:00",
            "held_type is held by cli:ann",
        ):
            await opened.reads(why)
            await opened.press("j")
        await opened.becomes(lambda: opened.text.count("pool gpu: 0 of 1") == 2)


async def test_a_focus_that_moves_draws_lines_and_not_the_whole_screen(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with deck(seed.path) as opened:
        await opened.pilot.pause()
        pictures: list[object] = []
        monkeypatch.setattr(opened.app, "_display", lambda screen, picture: pictures.append(picture))
        await opened.press("tab")
        await opened.reads("[Events]")
        assert pictures
        assert not any(isinstance(each, LayoutUpdate) for each in pictures)
