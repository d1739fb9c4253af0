"""The virtual log: it follows until somebody looks back, and costs what is seen."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from taskdeck.tui.deck.widgets.cells import chopped
from taskdeck.tui.deck.widgets.virtual_log import VirtualLog
from tests.faults import fault
from tests.tui.deck.hostile import HOSTILE, UNWANTED
from tests.tui.deck.stages import grid, resize, staged, until, whole_grid

LINES = [f"{n} {'ERROR' if n % 50 == 7 else 'INFO'} line" for n in range(300)]


class Million(Sequence[str]):
    """Lines that nobody holds."""

    def __init__(self) -> None:
        self.asked = 0

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: Any) -> Any:
        self.asked += 1
        return f"line {index}"


def log() -> VirtualLog:
    return VirtualLog(pace=0.01)


async def test_a_log_opens_at_its_end_and_follows() -> None:
    async with staged(log(), (30, 3)) as (app, pilot):
        assert grid(app.widget) == ["no output yet", "", ""]
        app.widget.open(LINES[:])
        assert grid(app.widget) == ["297 INFO line", "298 INFO line", "299 INFO line"]
        app.widget.append(["more", "and more"])
        await until(pilot, lambda: grid(app.widget) == ["299 INFO line", "more", "and more"])
        assert app.widget.status == "follow ON"


async def test_a_look_back_ends_following_and_counts_what_comes() -> None:
    async with staged(log(), (30, 3)) as (app, pilot):
        app.widget.open(LINES[:])
        await pilot.press("k", "up")
        before = grid(app.widget)
        assert before == ["295 INFO line", "296 INFO line", "297 INFO line"]
        app.widget.append(["new"] * 1_234)
        await until(pilot, lambda: "1,234 new" in app.widget.status)
        assert grid(app.widget) == before
        assert app.widget.status == "follow off  1,234 new"
        await pilot.press("G")
        assert app.widget.status == "follow ON"
        assert grid(app.widget) == ["new", "new", "new"]


async def test_up_in_a_log_that_fits_goes_on_following() -> None:
    async with staged(log(), (30, 4)) as (app, pilot):
        app.widget.open(["one", "two"])
        await pilot.press("k", "pageup", "g")
        assert app.widget.following
        assert grid(app.widget) == ["one", "two", "", ""]


async def test_the_keys_move_the_window_from_end_to_end() -> None:
    async with staged(log(), (30, 10)) as (app, pilot):
        app.widget.open(LINES[:])
        tops = []
        for key in ("g", "j", "pagedown", "k", "G", "ctrl+u", "pagedown", "pagedown", "home", "end"):
            await pilot.press(key)
            tops.append(int(grid(app.widget)[0].split()[0]))
        assert tops == [0, 1, 10, 9, 290, 281, 290, 290, 0, 290]
        assert app.of(VirtualLog.Older)


async def test_a_million_lines_cost_what_is_seen() -> None:
    million = Million()
    async with staged(log(), (30, 10)) as (app, pilot):
        app.widget.open(million)
        await pilot.press("g", "pagedown", "G", "k")
        assert grid(app.widget)[-1] == "line 999998"
        assert million.asked < 100


async def test_a_search_through_a_million_lines_runs_in_a_thread() -> None:
    async with staged(log(), (30, 9)) as (app, pilot):
        app.widget.open(Million())
        app.widget.search("LINE 30000")
        await until(pilot, lambda: app.widget.not_found)
        app.widget.search("line 30000")
        await until(pilot, lambda: grid(app.widget)[3] == "line 30000")


async def test_a_million_lines_are_narrowed_in_a_thread() -> None:
    class Some(Million):
        def __len__(self) -> int:
            return 50_000

        def __getitem__(self, index: Any) -> Any:
            return f"{index} {'ERROR' if index % 1_000 == 0 else 'INFO'}"

    async with staged(log(), (30, 2)) as (app, pilot):
        app.widget.open(Some())
        app.widget.set_level("error")
        assert grid(app.widget)[-1] == "49999 INFO"
        await until(pilot, lambda: grid(app.widget) == ["48000 ERROR", "49000 ERROR"])


@pytest.mark.parametrize("wrap", [False, True])
async def test_whatever_is_done_the_window_is_full_and_its_lines_follow_each_other(wrap: bool) -> None:
    choice = random.Random(11)
    async with staged(log(), (12, 7)) as (app, _):
        widget = app.widget
        widget.open([])
        widget.wrap = wrap
        texts: list[str] = []

        def grow() -> None:
            lines = ["x" * choice.randrange(40) for _ in range(choice.randrange(5))]
            texts.extend(lines)
            widget.append(lines)

        acts = [widget.action_up, widget.action_down, widget.action_page_up, widget.action_page_down]
        acts += [widget.action_top, widget.action_bottom, grow, grow]
        for _ in range(400):
            act = choice.choice(acts)
            act()
            widget._catch_up()
            rows = [row for text in texts for row in (chopped(text, 12) if wrap else [text[:12]])]
            shown = whole_grid(widget)
            if not rows:
                continue
            seen = [row.ljust(12) for row in rows]
            assert len(shown) == 7
            places = [at for at in range(max(len(seen) - 6, 1)) if seen[at : at + 7] == shown[: len(seen)]]
            assert places, act
            if widget.following:
                assert places[-1] == max(len(seen) - 7, 0)


async def test_ten_thousand_lines_are_held_and_the_place_is_kept() -> None:
    async with staged(log(), (30, 3)) as (app, pilot):
        app.widget.open([f"line {n}" for n in range(20_000)])
        assert app.widget.lines == range(10_000, 20_000)
        await pilot.press("k", "k", "k")
        app.widget.append(f"line {n}" for n in range(20_000, 25_000))
        await until(pilot, lambda: app.widget.lines == range(15_000, 25_000))
        assert grid(app.widget)[0] == "line 19994"
        app.widget.append(f"line {n}" for n in range(25_000, 40_000))
        await until(pilot, lambda: grid(app.widget)[0] == "line 30000")


async def test_older_lines_come_before_without_moving_the_window() -> None:
    async with staged(log(), (30, 3)) as (app, pilot):
        app.widget.open(["c", "d", "e", "f"])
        await pilot.press("g")
        app.widget.prepend(["a", "b"])
        assert grid(app.widget) == ["c", "d", "e"]
        await pilot.press("k", "k", "k")
        assert grid(app.widget) == ["a", "b", "c"]


async def test_wrapped_lines_are_scrolled_by_rows() -> None:
    async with staged(log(), (10, 4)) as (app, pilot):
        app.widget.open(["0123456789" * 3, "short", "字" * 7])
        assert grid(app.widget) == ["0123456789", "short", "字字字字字", ""]
        await pilot.press("w")
        assert grid(app.widget) == ["0123456789", "short", "字字字字字", "字字"]
        await pilot.press("k")
        assert grid(app.widget) == ["0123456789", "0123456789", "short", "字字字字字"]
        await pilot.press("k", "k", "k")
        assert grid(app.widget) == ["0123456789", "0123456789", "0123456789", "short"]
        await pilot.press("j", "j", "j", "j")
        assert grid(app.widget)[-1] == "字字"


async def test_long_lines_are_scrolled_sideways() -> None:
    async with staged(log(), (10, 2)) as (app, pilot):
        app.widget.open(["0123456789abcdefgh"])
        await pilot.press("L")
        assert grid(app.widget)[0] == "56789abcde"
        await pilot.press("L", "L")
        assert grid(app.widget)[0] == "89abcdefgh"
        await pilot.press("H", "H")
        assert grid(app.widget)[0] == "0123456789"


async def test_a_level_narrows_the_log_and_what_comes() -> None:
    async with staged(log(), (30, 3)) as (app, pilot):
        app.widget.open(LINES[:])
        await pilot.press("l", "l", "l")
        assert app.widget.status == "follow ON  level>=error"
        assert grid(app.widget) == ["157 ERROR line", "207 ERROR line", "257 ERROR line"]
        app.widget.append(["INFO no", "ERROR yes", "  belongs to it", "no"])
        await until(pilot, lambda: grid(app.widget) == ["257 ERROR line", "ERROR yes", "  belongs to it"])
        await pilot.press("l")
        assert grid(app.widget)[-1] == "no"


async def test_matches_and_errors_are_gone_to_around_the_end() -> None:
    async with staged(log(), (30, 3)) as (app, pilot):
        app.widget.open(LINES[:])
        await pilot.press("g", "e")
        assert grid(app.widget)[1] == "7 ERROR line"
        await pilot.press("E")
        assert grid(app.widget)[1] == "257 ERROR line"
        app.widget.search("7 error")
        assert grid(app.widget)[1] == "257 ERROR line"
        await pilot.press("n")
        assert grid(app.widget)[1] == "7 ERROR line"
        await pilot.press("n", "N", "N")
        assert grid(app.widget)[1] == "257 ERROR line"
        app.widget.search("7 Error")
        assert app.widget.status == "follow off  /7 Error: not found"
        app.widget.search("")
        await pilot.press("n")
        assert app.widget.status == "follow off"


@fault("TF167")
async def test_any_size_is_drawn() -> None:
    async with staged(log()) as (app, pilot):
        app.widget.open([*LINES, "字" * 300])
        for wrap in (False, True):
            for size in ((20, 5), (1, 1), (200, 50), (3, 2), (80, 24)):
                await resize(app, pilot, size)
                assert {app.widget.render_line(y).cell_length for y in range(size[1])} == {size[0]}
            assert app.widget.wrap == wrap
            await pilot.press("w")


@fault("TF152", "TF153", "TF157", "TF162")
@pytest.mark.parametrize("ascii", [False, True])
async def test_hostile_lines_are_shown_harmless(ascii: bool) -> None:
    async with staged(log(), (60, 30), ascii=ascii) as (app, pilot):
        app.widget.open(list(HOSTILE))
        app.widget.append(HOSTILE)
        for key in ("w", "g", "G", "w", "L", "g"):
            await pilot.press(key)
            assert not UNWANTED.search("".join(whole_grid(app.widget)))
        for text in HOSTILE:
            app.widget.search(text)
            assert not UNWANTED.search("".join(whole_grid(app.widget)) + app.widget.status)
