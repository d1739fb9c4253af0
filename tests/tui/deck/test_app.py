"""The deck as a person uses it: views, keys, filters, commands, acts."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from textual.events import Key
from textual.widgets import Input

from taskdeck.engine import commands
from taskdeck.engine.clock import ManualClock, SystemClock
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.tui.deck.screens.detail import DetailPage
from taskdeck.tui.deck.widgets.lines import StatusLine
from taskdeck.tui.deck.widgets.panes import ResourceTable
from tests.faults import fault
from tests.inventoried import Inventory
from tests.run.test_stopping import DIES, hold_at_rest, supervised
from tests.seeded import Seed
from tests.tui.deck.decks import Open, deck, settings
from tests.tui.deck.hostile import HOSTILE, UNWANTED


@pytest.fixture
def seed(tmp_path: Path) -> Iterator[Seed]:
    made = Seed(tmp_path / "deck.db")
    yield made
    made.close()


@pytest.fixture
def filled(seed: Seed) -> Seed:
    """Tasks in most states, resources and routes."""
    inventory = Inventory(seed)
    inventory.resources({"id": "gpu-1", "pool": "gpu"}, {"id": "gpu-2", "pool": "gpu"})
    inventory.route(id="eu", url="http://127.0.0.1:9")
    running = seed.running(seed.worker(), progress_done=3, progress_total=10, progress_note="page 3")
    inventory.take(running, pools={"gpu": 1})
    seed.task(state="FAILED", reason="exit", error='{"kind": "exit", "message": "no such option"}')
    seed.task(state="NEEDS_REVIEW", reason="max_retry")
    seed.task(payload={"argv": ["echo", "waits"]})
    return seed


async def test_the_views_are_opened_by_keys_and_clicks_and_show_what_is_theirs(filled: Seed) -> None:
    async with deck(filled.path) as opened:
        await the_overview_shows_resources_routes_the_queue_and_events(opened)
        await number_keys_open_the_views_and_minus_goes_back(opened)
        await a_click_on_a_view_opens_it(opened)
        await the_inbox_holds_what_a_person_must_settle(opened)


async def the_overview_shows_resources_routes_the_queue_and_events(opened: Open) -> None:
    for text in ("gpu-1", "Resources", "Routes", "Queue", "Events", "eu", "30%", "WAIT", "NO ENGINE"):
        await opened.reads(text)


async def number_keys_open_the_views_and_minus_goes_back(opened: Open) -> None:
    for key, title in (
        ("2", "Tasks"),
        ("3", "Inbox"),
        ("4", "Resources"),
        ("5", "Routes"),
        ("7", "Events"),
    ):
        await opened.press(key)
        await opened.reads(f"[{key} {title}")
    await opened.press("minus")
    await opened.reads("[5 Routes]")


async def a_click_on_a_view_opens_it(opened: Open) -> None:
    await opened.press("1")
    await opened.reads("[1 Overview]")
    await opened.pilot.click("#tabs", offset=(opened.lines[1].index("Routes"), 0))
    await opened.reads("[5 Routes]")


async def the_inbox_holds_what_a_person_must_settle(opened: Open) -> None:
    await opened.reads("Inbox:1!")
    await opened.press("3")
    await opened.reads("REVW")
    await opened.reads("1 of 1")


async def test_a_filter_narrows_the_list_and_one_that_cannot_be_read_says_so(filled: Seed) -> None:
    async with deck(filled.path) as opened:
        await opened.press("2")
        await opened.reads("1 of 4")
        await a_filter_that_cannot_be_read_says_so_and_keeps_what_was_shown(opened)
        await what_is_wrong_with_a_long_remedy_is_shown_whole(opened)
        await a_filter_narrows_the_list_and_escape_widens_it_again(opened)


async def a_filter_that_cannot_be_read_says_so_and_keeps_what_was_shown(opened: Open) -> None:
    await opened.press("slash")
    await opened.type("state:nosuch")
    await opened.reads("is no state")
    await opened.reads("1 of 4")
    await opened.press("escape")
    await opened.loses("is no state")


async def what_is_wrong_with_a_long_remedy_is_shown_whole(opened: Open) -> None:
    await opened.press("slash")
    await opened.type("foo:bar")
    await opened.reads("put plain text in double quotes")
    await opened.press("escape")
    await opened.loses("double quotes")


async def a_filter_narrows_the_list_and_escape_widens_it_again(opened: Open) -> None:
    await opened.press("slash")
    await opened.type("state:failed")
    await opened.reads("1 of 1")
    await opened.reads("FAIL  shell")
    await opened.press("escape")
    await opened.reads("3 of 4")


async def test_the_task_under_the_cursor_is_opened_explained_and_acted_on_by_keys(filled: Seed) -> None:
    async with deck(filled.path) as opened:
        await opened.press("2")
        await opened.reads("WAIT  shell")
        await enter_opens_a_task_and_its_sections(opened)
        await w_says_why_a_task_waits(opened)
        await a_task_is_paused_and_goes_on_by_key(opened)
        await a_cancel_waits_for_second_thoughts_and_is_taken_back(opened)
        await a_kill_asks_first(opened)


async def enter_opens_a_task_and_its_sections(opened: Open) -> None:
    await opened.press("enter")
    await opened.reads("[Summary]")
    await opened.reads("why")
    await opened.reads("echo waits")
    await opened.press("right_square_bracket")
    await opened.reads("[Attempts]")
    await opened.press("escape")
    await opened.reads("1 of 4")


async def w_says_why_a_task_waits(opened: Open) -> None:
    await opened.press("w")
    await opened.reads("Why #4")
    await opened.reads("engine")
    await opened.press("escape")
    await opened.loses("Why #4")


async def a_task_is_paused_and_goes_on_by_key(opened: Open) -> None:
    await opened.press("p")
    await opened.reads("PAUSE")
    await opened.press("p")
    await opened.reads("WAIT  shell")


async def a_cancel_waits_for_second_thoughts_and_is_taken_back(opened: Open) -> None:
    await opened.press("c")
    await opened.reads("u takes it back")
    await opened.press("u")
    await opened.reads("taken back")
    await opened.press("u")
    await opened.reads("nothing to take back")
    await opened.reads("WAIT  shell")


async def a_kill_asks_first(opened: Open) -> None:
    await opened.press("K")
    await opened.reads("kill #4?")
    await opened.reads("#4 echo waits")
    await opened.pilot.pause(0.5)
    await opened.press("y")
    await opened.reads("CANC  shell")


async def test_whoever_leaves_at_once_still_gets_the_cancel(filled: Seed) -> None:
    async with deck(filled.path) as opened:
        await opened.press("2")
        await opened.reads("WAIT  shell")
        await opened.press("c", "q")
    later = ManualClock(SystemClock().utc() + timedelta(seconds=6))
    commands.call(settings(filled.path), "settle", "deck", clock=later, ids=[])  # as any write would
    async with deck(filled.path) as opened:
        await opened.press("2")
        await opened.reads("CANC")


async def test_a_type_and_everything_are_held_back_and_what_is_held_is_said(filled: Seed) -> None:
    async with deck(filled.path, size=(120, 24)) as opened:
        await a_type_and_everything_are_held_back_and_shown_in_the_header(opened)
        await a_hold_of_an_unknown_name_and_what_is_held_still_are_said(opened)


async def a_type_and_everything_are_held_back_and_shown_in_the_header(opened: Open) -> None:
    await opened.press("colon")
    await opened.type("pause type:shell")
    await opened.reads("HELD type:shell")
    await opened.press("colon")
    await opened.type("hold")
    await opened.reads("HELD all type:shell")
    await opened.press("colon")
    await opened.type("resume type:shell")
    await opened.press("colon")
    await opened.type("release")
    await opened.becomes(lambda: "HELD" not in opened.lines[0])


async def a_hold_of_an_unknown_name_and_what_is_held_still_are_said(opened: Open) -> None:
    await opened.press("colon")
    await opened.type("pause type:nosuch")
    await opened.reads("nothing is known of type nosuch; it is held all the same")
    await opened.press("colon")
    await opened.type("pause all")
    await opened.reads("everything is held")
    await opened.press("colon")
    await opened.type("resume all")
    await opened.reads("everything goes on; still held: type:nosuch")


async def test_a_cancel_that_would_change_nothing_is_refused_at_once(seed: Seed) -> None:
    seed.task(state="CANCELLED", reason="user_cancel")
    async with deck(seed.path) as opened:
        await opened.press("2")
        await opened.reads("CANC  shell")
        await opened.press("c")
        await opened.reads("#1 is cancelled already")
        assert "takes it back" not in opened.text


@pytest.mark.parametrize("size", [(80, 24), (40, 10)], ids=["80x24", "40x10"])
async def test_a_refusal_is_shown_whole_with_its_remedy_and_the_line_is_one_again_behind_it(
    seed: Seed, size: tuple[int, int]
) -> None:
    task_id = seed.task(state="SUCCESS", reason="done", finished_at="2026-11-29T12:00:00.000000Z")
    async with deck(seed.path, size) as opened:
        await opened.press("2")
        await opened.reads("1 of 1")
        await opened.press("r")
        await opened.becomes(lambda: f"taskdeck retry --again {task_id}" in " ".join(opened.text.split()))
        opened.app.say("short")
        await opened.reads("short")
        await opened.becomes(lambda: opened.app.query_one(StatusLine).size.height == 1)


async def test_marks_choose_what_an_act_is_for_and_refusals_keep_theirs(filled: Seed) -> None:
    async with deck(filled.path) as opened:
        await opened.press("2")
        await opened.reads("WAIT  shell")
        await opened.press("a")
        await opened.reads("4 marked")
        await opened.press("colon")
        await opened.type("discard")
        await opened.reads("refused")
        await opened.reads("3 marked")
        await opened.reads("DEAD")


async def test_the_log_of_an_attempt_is_followed(filled: Seed, tmp_path: Path) -> None:
    task = filled.running(filled.worker(), log_path="one.log")
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "one.log"
    log.write_text("first line\n")
    async with deck(filled.path) as opened:
        await opened.press("colon")
        await opened.type(f"log {task}")
        await opened.reads("first line")
        await opened.reads("/ search")
        await opened.loses("[ attempt")
        with log.open("a") as file:
            file.write("second \x1b[2J[/bold] line\n")
        await opened.reads("second [/bold] line")
        with log.open("a") as file:
            file.write("a question without an end? ")
        await opened.reads("a question without an end?")
        await opened.press("q")
        await opened.reads("[1 Overview]")


async def test_commands_open_tasks_and_say_what_they_do_not_know(filled: Seed) -> None:
    async with deck(filled.path) as opened:
        await opened.press("colon")
        await opened.type("task 2")
        await opened.reads("#2 shell")
        await opened.press("colon")
        await opened.type("task 99")
        await opened.reads("there is no task #99")
        await opened.press("escape", "colon")
        await opened.type("stpo")
        await opened.reads("is no command")
        await opened.press("escape", "colon", "t", "h", "tab")
        await opened.reads(":theme")
        await opened.reads("tab complete")


async def test_the_help_is_made_of_the_keys_as_they_are_bound_now(filled: Seed) -> None:
    async with deck(filled.path, (80, 60)) as opened:
        opened.app.update_keymap({"task.pause": "x"})
        await opened.press("2", "question_mark")
        await opened.reads("pause, or let go on")
        line = next(line for line in opened.lines if "pause, or let go on" in line)
        assert " x " in line
        for what in ("why does it not run?", "filter this list", "the view Routes", "leave the deck at once"):
            await opened.reads(what)


async def test_a_read_only_deck_refuses_acts(filled: Seed) -> None:
    async with deck(filled.path, read_only=True) as opened:
        await opened.reads("[RO]")
        await opened.press("2")
        await opened.reads("WAIT  shell")
        await opened.press("p")
        await opened.reads("only reads")


async def test_a_resource_is_taken_out_of_service_or_drained_and_put_back_by_the_same_key(
    filled: Seed,
) -> None:
    async with deck(filled.path) as opened:
        await opened.press("4")
        await a_resource_is_taken_out_of_service_and_put_back(opened)
        await a_busy_resource_is_drained_and_put_back_by_the_same_key(opened)


async def a_resource_is_taken_out_of_service_and_put_back(opened: Open) -> None:
    await opened.reads("gpu-2")
    await opened.press("j", "p")
    await opened.reads("⊘ gpu-2")
    await opened.press("p")
    await opened.reads("◦ gpu-2")


async def a_busy_resource_is_drained_and_put_back_by_the_same_key(opened: Open) -> None:
    await opened.press("k", "p")
    await opened.reads("gpu-1 is drained")
    table = opened.app.page.query_one(ResourceTable)
    await opened.becomes(lambda: table.current.drain)
    await opened.press("p")
    await opened.reads("gpu-1 is RUNNING")
    await opened.becomes(lambda: not table.current.drain)


async def test_the_keys_at_the_bottom_are_those_of_the_list_again_once_the_help_is_closed(
    filled: Seed,
) -> None:
    async with deck(filled.path) as opened:
        await opened.press("2")
        await opened.reads("c cancel")
        for key in ("question_mark", "escape", "q"):
            await opened.press("question_mark")
            await opened.reads("esc close")
            await opened.press(key)
            await opened.reads("c cancel")


async def test_a_database_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    from taskdeck.tui.deck.app import DeckApp
    from tests.tui.deck.decks import Open, settings

    app = DeckApp(settings(tmp_path / "later.db"))
    async with app.run_test(size=(80, 24)) as pilot:
        opened = Open(app, pilot)
        await opened.reads("no database yet")
        made = Seed(tmp_path / "later.db")
        made.task()
        await opened.reads("WAIT 1")
        await opened.loses("no database")
        made.close()


@fault("TF276")
async def test_an_empty_database_shows_empty_panes_that_say_their_remedies_whole_in_half_a_screen(
    seed: Seed,
) -> None:
    async with deck(seed.path) as opened:
        await opened.reads("none; [[resources]] declares some")
        await opened.reads("none; [[routes]] declares some")
        await opened.reads("nothing runs and nothing waits")
        for key in "234567":
            await opened.press(key)
        await opened.press("2", "p", "c", "r", "w", "l", "e", "enter", "space")
        await opened.reads("0 of 0")


@fault("TF165")
async def test_what_falls_on_the_keyboard_by_the_thousand_costs_the_loop_a_bounded_line(filled: Seed) -> None:
    async with deck(filled.path) as opened:
        await opened.press("2")
        await opened.press("slash")
        line = opened.app.query_one("#prompt-line", Input)
        line.insert_text_at_cursor("x" * 499)
        await opened.press("x", "y", "z")
        assert len(line.value) == 500


@fault("TF166")
async def test_a_task_that_is_gone_is_said_to_be_gone(filled: Seed) -> None:
    async with deck(filled.path) as opened:
        await opened.press("2")
        await opened.reads("WAIT  shell")
        await opened.press("enter")
        await opened.reads("[Summary]")
        assert isinstance(opened.app.page, DetailPage)
        opened.app.page._task_id = 99  # nothing of taskdeck removes a task: as if it had
        opened.app.ask()
        await opened.reads("there is no task #99")
        await opened.press("q")
        await opened.reads("1 of 4")


@fault("TF167")
async def test_any_size_is_survived_on_every_page(filled: Seed) -> None:
    async with deck(filled.path) as opened:
        for key in ("1", "2", "5", "7"):
            await opened.press(key)
            for size in ((200, 50), (20, 5), (1, 1), (160, 48), (60, 20), (80, 24)):
                await opened.pilot.resize_terminal(*size)
            await opened.reads("Overview")
        await opened.pilot.resize_terminal(30, 8)
        await opened.reads("too small")


@fault("TF152", "TF153", "TF157", "TF162")
async def test_hostile_texts_reach_no_pane(seed: Seed) -> None:
    for text in HOSTILE:
        harmless = text.encode("utf-8", "replace").decode()
        seed.task(type=harmless[:200] or "x", payload={"argv": ["echo", harmless]}, tags=[harmless[:50]])
    ids = range(1, len(HOSTILE) + 1)
    async with deck(seed.path, (160, 48)) as opened:
        await opened.press("2")
        await opened.reads(f"of {len(HOSTILE)}")
        for _ in ids:
            await opened.press("j")
            assert not UNWANTED.search(opened.text.replace("\n", ""))
        await opened.press("enter")
        for _ in range(5):
            await opened.press("right_square_bracket")
            assert not UNWANTED.search(opened.text.replace("\n", ""))
        await opened.press("w")
        await opened.pilot.pause(0.3)
        assert not UNWANTED.search(opened.text.replace("\n", ""))


async def test_ascii_alone_where_that_is_asked_for(filled: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKDECK_ASCII", "1")
    async with deck(filled.path) as opened:
        for key in "123457":
            await opened.press(key)
            await opened.pilot.pause(0.3)
            assert opened.text.isascii()


def test_no_two_actions_share_a_key_in_one_place() -> None:
    from taskdeck.tui.deck import keys

    for place in (keys.TASK, keys.RESOURCE, keys.ROUTE, keys.TEXT, keys.SECTIONS):
        bound = [key for each in [*keys.ANYWHERE, *place] for key in each.key.split(",")]  # pyright: ignore
        assert len(bound) == len(set(bound))
        assert all(each.id for each in place), inspect.getsource(keys)  # pyright: ignore


async def test_more_than_a_few_tasks_are_asked_about_first(seed: Seed) -> None:
    for _ in range(12):
        seed.task()
    async with deck(seed.path) as opened:
        await opened.press("2")
        await opened.reads("of 12")
        await opened.press("a", "c")
        await opened.reads("cancel 12 tasks?")
        await opened.pilot.pause(0.5)
        await opened.press("n")
        await opened.reads("WAIT  shell")
        await opened.press("c")
        await opened.reads("cancel 12 tasks?")
        await opened.pilot.pause(0.5)
        await opened.press("y")
        await opened.reads("CANC  shell")


async def test_a_question_shows_its_answers_in_any_room(seed: Seed) -> None:
    for _ in range(12):
        seed.task(payload={"argv": ["sh", "-c", "x" * 300]})
    async with deck(seed.path) as opened:
        await opened.press("2")
        await opened.reads("of 12")
        await opened.press("a", "K")
        await opened.reads("kill 12 tasks?")
        await opened.reads("and 7 more")
        for size in ((80, 24), (40, 10), (34, 7), (24, 5)):
            await opened.pilot.resize_terminal(*size)
            await opened.becomes(lambda: "y kill" in opened.text)


async def test_an_alert_leaves_the_counts_in_sight_on_the_smallest_screen(filled: Seed) -> None:
    filled.sql(
        "INSERT INTO standing_alert(reason, subject, message, since) VALUES ('no_resource', 'gpu', 'all at fault', ?)",
        "2026-11-29T12:00:00.000000Z",
    )
    with DatabaseLock(filled.path, role="engine", incarnation="x") as lock:
        assert lock.acquire()
        async with deck(filled.path, (40, 10)) as opened:
            await opened.becomes(lambda: "NO RESOURCE" in opened.lines[0])
            assert "RUN 1 WAIT 1" in opened.lines[0]


async def test_new_tasks_come_into_sight_and_the_cursor_stays_on_its_own(seed: Seed) -> None:
    seed.task("first")
    async with deck(seed.path) as opened:
        await opened.press("2")
        await opened.reads(">◦ 1       WAIT  first")
        seed.task("second")
        await opened.reads(" ◦ 2       WAIT  second")
        await opened.reads(">◦ 1       WAIT  first")


@fault("TF165")
async def test_ctrl_c_leaves_only_when_it_is_pressed_twice_and_keys_behind_it_mean_nothing(
    filled: Seed,
) -> None:
    async with deck(filled.path) as opened:
        await opened.press("ctrl+c")
        await opened.reads("ctrl+c again leaves the deck")
        assert opened.app.is_running
        await opened.press("ctrl+c")
        await opened.becomes(lambda: not opened.app.is_running)
    for key in ("e", "w", "l", "1", "question_mark"):  # its pages are gone, and it still reads what was typed
        await opened.app.on_event(Key(key, None))


async def test_a_pane_that_cannot_be_drawn_takes_none_of_the_others_with_it(
    filled: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskdeck.tui.deck import reads

    monkeypatch.setattr(reads, "routes", lambda view: [object()])
    async with deck(filled.path) as opened:
        await opened.reads("gpu-1")
        await opened.reads("routes can't be shown")
        await opened.press("2")
        await opened.reads("WAIT  shell")


async def test_a_key_that_is_typed_while_a_page_closes_reaches_the_one_below(filled: Seed) -> None:
    """However many turns of the loop it comes after the key that closes the page."""
    async with deck(filled.path) as opened:
        await opened.press("2")
        await opened.reads("1 of 4")
        for turns in range(4, 8):
            with _noted(f"{turns} turns after q"):
                await opened.press("l")
                await opened.reads("Log of #4")
                await _typed_fast(opened, "q", turns, "space")
                await _one_is_marked_and_is_not_again(opened)


async def test_a_key_that_is_typed_right_after_enter_is_for_what_enter_opens(filled: Seed) -> None:
    async with deck(filled.path) as opened:
        await opened.press("2")
        await opened.reads("1 of 4")
        for turns in range(4):
            with _noted(f"{turns} turns after enter"):
                await _typed_fast(opened, "enter", turns, "q", "space")
                await _one_is_marked_and_is_not_again(opened)


async def _one_is_marked_and_is_not_again(opened: Open) -> None:
    await opened.reads("1 marked")
    await opened.press("escape", "g")
    await opened.loses("1 marked")
    await opened.reads("1 of 4")


@contextmanager
def _noted(what: str) -> Iterator[None]:
    """Whatever fails says that it was this."""
    try:
        yield
    except AssertionError as error:
        error.add_note(what)
        raise


async def _typed_fast(opened: Open, first: str, turns: int, *others: str) -> None:
    """The other keys come so many turns of the loop after the first, whatever that has led to by then."""
    opened.app.simulate_key(first)
    for _ in range(turns):
        await asyncio.sleep(0)
    for key in others:
        opened.app.simulate_key(key)


async def test_stop_ends_the_supervisor_of_an_engine_that_died_before_it_starts_another(seed: Seed) -> None:
    async with deck(seed.path) as opened:
        await opened.press("colon", *"stop")
        with supervised(seed.path, DIES) as supervisor:
            assert supervisor.stdout
            assert supervisor.stdout.readline() == "died\n"
            hold_at_rest(supervisor)
            await opened.press("enter")
            await opened.reads(f"its supervisor was ended before another came: pid {supervisor.pid}")
            assert supervisor.wait(5) == 0


async def test_stop_without_an_engine_says_so_and_a_deck_that_only_reads_stops_nothing(seed: Seed) -> None:
    async with deck(seed.path) as opened:
        await opened.press("colon")
        await opened.type("stop")
        await opened.reads("the engine was not running")
    with supervised(seed.path, "import signal; signal.pause()") as supervisor:
        async with deck(seed.path, read_only=True) as opened:
            await opened.press("colon")
            await opened.type("stop")
            await opened.reads("this deck only reads")
        assert supervisor.poll() is None
