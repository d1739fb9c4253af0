"""The virtual list: the cursor is an item, only what is seen is asked for and drawn."""

from __future__ import annotations

import random
from typing import Any

import pytest

from taskdeck.tui.deck.widgets.columns import Column, widths
from taskdeck.tui.deck.widgets.looks import joined
from taskdeck.tui.deck.widgets.row_window import find
from taskdeck.tui.deck.widgets.virtual_list import VirtualList
from tests.faults import fault
from tests.tui.deck.hostile import HOSTILE, UNWANTED
from tests.tui.deck.stages import grid, resize, staged, until, whole_grid

COLUMNS = (Column("id", "ID", 7, "right"), Column("type", "TYPE", 8), Column("note", "NOTE", 6, flex=True))


class Rows:
    """A provider that counts."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.notes: dict[Any, str] = {}

    def __call__(self, id: Any) -> dict[str, tuple[str, str]]:
        self.asked.append(id)
        note = self.notes.get(id, f"note {id}")
        return {"id": (str(id), ""), "type": ("csv", "info"), "note": (note, "dim")}


def listed(rows: Any = None, **more: Any) -> VirtualList:
    return VirtualList(COLUMNS, rows or Rows(), **more)


async def test_rows_are_drawn_in_columns_below_their_titles() -> None:
    async with staged(listed(), (30, 5)) as (app, _):
        app.widget.set_rows([3, 1, 2])
        assert grid(app.widget) == [
            "      ID TYPE     NOTE",
            ">      3 csv      note 3",
            "       1 csv      note 1",
            "       2 csv      note 2",
            "",
        ]


async def test_a_million_rows_cost_what_is_seen() -> None:
    rows = Rows()
    async with staged(listed(rows), (40, 11)) as (app, pilot):
        app.widget.set_rows(range(1, 1_000_001))
        await pilot.press("G")
        await pilot.pause()
        assert app.widget.cursor_id == 1_000_000
        assert grid(app.widget)[-1].startswith(">1000000")
        await pilot.press("g", "pagedown")
        assert app.widget.cursor_id == 10
        assert len(rows.asked) < 100


async def test_the_keys_move_the_cursor_and_say_so() -> None:
    async with staged(listed(), (40, 6)) as (app, pilot):
        app.widget.set_rows(range(1, 21))
        seen = []
        for key in ("j", "down", "k", "G", "up", "home", "end", "pageup", "ctrl+d", "g"):
            await pilot.press(key)
            seen.append(app.widget.cursor_id)
        assert seen == [2, 3, 2, 20, 19, 1, 20, 16, 20, 1]
        assert [message.id for message in app.of(VirtualList.Moved)] == [1, *seen]
        await pilot.press("enter")
        assert [message.id for message in app.of(VirtualList.Selected)] == [1]


async def test_the_cursor_stays_on_its_item_when_others_come_and_go() -> None:
    async with staged(listed(), (30, 6)) as (app, _):
        app.widget.set_rows(list(range(100, 130)))
        app.widget.move_to(110)
        line = grid(app.widget).index(">    110 csv      note 110")
        app.widget.set_rows(list(range(90, 130)))
        assert app.widget.cursor_id == 110
        assert grid(app.widget)[line] == ">    110 csv      note 110"
        app.widget.set_rows([110])
        assert grid(app.widget)[1] == ">    110 csv      note 110"


async def test_new_rows_at_the_top_are_brought_into_sight_when_the_cursor_stays_there() -> None:
    async with staged(listed(), (30, 6)) as (app, _):
        app.widget.set_rows(list(range(100, 130)))
        app.widget.set_rows(list(range(97, 130)))
        assert (app.widget.above, app.widget.cursor_id) == (3, 100)
        app.widget.show_first()
        assert app.widget.shown_ids[0] == 97
        assert (app.widget.above, app.widget.cursor_id) == (0, 100)
        app.widget.set_rows(list(range(90, 130)))
        app.widget.show_first()
        assert app.widget.above == 7


def test_a_line_has_as_few_pieces_as_its_looks_allow() -> None:
    pieces = [
        ("", "bad"),
        ("a", "run"),
        (" ", ""),
        ("b", "run"),
        ("c", ""),
        (" ", "review"),
        (" ", ""),
        ("d", ""),
    ]
    assert joined(pieces) == [("a b", "run"), ("c", ""), (" ", "review"), (" d", "")]


@fault("TF166")
async def test_when_the_item_goes_the_cursor_takes_the_one_in_its_place() -> None:
    async with staged(listed()) as (app, pilot):
        app.widget.set_rows([1, 2, 3])
        await pilot.press("j")
        app.widget.set_rows([1, 3])
        assert app.widget.cursor_id == 3
        app.widget.set_rows([])
        await pilot.press("j", "k", "G", "space", "v", "a", "enter", "pagedown")
        assert app.widget.cursor_id is None
        assert grid(app.widget)[1] == " nothing here"
        app.widget.set_rows([7])
        assert app.widget.cursor_id == 7


async def test_one_changed_row_draws_one_line() -> None:
    rows = Rows()
    async with staged(listed(rows), (40, 20)) as (app, pilot):
        app.widget.set_rows(range(1, 1001))
        await pilot.pause()
        rows.asked.clear()
        rows.notes[5] = "changed"
        app.widget.update_row(5)
        app.widget.update_row(500)
        await pilot.pause()
        assert rows.asked == [5]
        assert grid(app.widget)[5].endswith("changed")
        await pilot.press("j", "k")
        assert rows.asked == [5]


async def test_rows_that_are_not_there_yet_are_asked_for_once() -> None:
    known: dict[Any, Any] = {}
    async with staged(VirtualList(COLUMNS, known.get), (30, 4)) as (app, pilot):
        app.widget.set_rows(range(1, 100))
        await until(pilot, lambda: bool(app.of(VirtualList.Wanted)))
        assert grid(app.widget)[1].split() == [">", "..."]
        assert [message.ids for message in app.of(VirtualList.Wanted)] == [(1, 2, 3)]
        known[2] = {"id": ("2", ""), "note": ("here", "")}
        app.widget.update_row(2)
        assert grid(app.widget)[2].split() == ["2", "here"]


async def test_whatever_is_done_the_cursor_is_on_a_row_in_sight() -> None:
    choice = random.Random(3)
    async with staged(listed(), (30, 8)) as (app, _):
        widget = app.widget

        def change() -> None:
            first = choice.randrange(1000)
            widget.set_rows(sorted(choice.sample(range(first, first + 200), choice.randrange(1, 60))))

        acts = [widget.action_up, widget.action_down, widget.action_page_up, widget.action_page_down, change]
        acts += [widget.action_top, widget.action_bottom, widget.show_first, widget.action_mark]
        change()
        for _ in range(500):
            before = widget.cursor_id
            act = choice.choice(acts)
            act()
            assert widget.ids[widget.position - 1] == widget.cursor_id
            assert widget.cursor_id in widget.shown_ids
            assert len(widget.shown_ids) == min(len(widget.ids), 7)
            if act is change and before in widget.ids:
                assert widget.cursor_id == before
            marks = [line for line in grid(widget) if line.startswith((">", "*"))]
            assert any(str(widget.cursor_id) in line for line in marks)


async def test_marks_are_of_items_and_survive_a_filter() -> None:
    async with staged(listed()) as (app, pilot):
        app.widget.set_rows([1, 2, 3, 4, 5])
        await pilot.press("space", "space")
        assert app.widget.marked == {1, 2}
        assert [line[:1] for line in grid(app.widget)[1:6]] == ["*", "*", ">", " ", " "]
        app.widget.set_rows([2, 3])
        assert app.widget.marked == {1, 2}
        await pilot.press("a")
        assert app.widget.marked == {1, 2, 3}
        await pilot.press("a")
        assert app.widget.marked == {1}
        app.widget.clear_marks()
        assert app.widget.marked == set()
        await until(pilot, lambda: len(app.of(VirtualList.Marked)) == 5)


async def test_a_range_is_marked_from_one_press_to_the_next() -> None:
    async with staged(listed()) as (app, pilot):
        app.widget.set_rows(range(1, 10))
        await pilot.press("j", "v", "j", "j", "v")
        assert app.widget.marked == {2, 3, 4}


async def test_a_cell_that_is_cut_by_the_edge_says_so() -> None:
    async with staged(listed(), (11, 4)) as (app, pilot):
        app.widget.set_rows([1])
        assert whole_grid(app.widget)[:2] == ["      ID T»", ">      1 c»"]
        await resize(app, pilot, (12, 4))
        assert whole_grid(app.widget)[:2] == ["      ID TY»", ">      1 csv"]


async def test_columns_that_do_not_fit_are_scrolled_to() -> None:
    async with staged(listed(), (16, 4)) as (app, pilot):
        app.widget.set_rows([1])
        assert grid(app.widget)[0] == "      ID TYPE"
        await pilot.press("L", "L", "L")
        assert "NOTE" in grid(app.widget)[0]
        assert grid(app.widget)[1].startswith(">")
        await pilot.press("H", "H", "H")
        assert grid(app.widget)[0] == "      ID TYPE"


@fault("TF167")
async def test_any_size_is_drawn_and_the_cursor_stays_in_sight() -> None:
    async with staged(listed()) as (app, pilot):
        app.widget.set_rows(range(1, 200))
        app.widget.move_to(150)
        for size in ((20, 5), (1, 1), (200, 50), (3, 2), (80, 24)):
            await resize(app, pilot, size)
            assert all(len(line) == size[0] for line in whole_grid(app.widget))
            assert any(line.startswith(">") for line in grid(app.widget))
        assert any(line.startswith(">    150 csv") for line in grid(app.widget))


async def test_a_click_moves_and_a_second_one_opens() -> None:
    async with staged(listed()) as (app, pilot):
        app.widget.set_rows(range(1, 20))
        await pilot.click(offset=(5, 3))
        assert app.widget.cursor_id == 3
        await pilot.click(offset=(5, 3), times=2)
        assert [message.id for message in app.of(VirtualList.Selected)] == [3]
        await pilot.click(offset=(5, 0))
        assert app.widget.cursor_id == 3


@fault("TF152", "TF153", "TF157", "TF162")
@pytest.mark.parametrize("ascii", [False, True])
async def test_hostile_texts_are_shown_harmless_and_in_their_columns(ascii: bool) -> None:
    def row(id: Any) -> dict[str, tuple[str, str]]:
        return {"id": (HOSTILE[id], "bad"), "type": (HOSTILE[id], ""), "note": (HOSTILE[id], HOSTILE[id])}

    hostile = VirtualList([Column("id", HOSTILE[15], 9), *COLUMNS[1:]], row, empty=HOSTILE[0])
    async with staged(hostile, (60, len(HOSTILE) + 2), ascii=ascii) as (app, pilot):
        assert not UNWANTED.search("".join(grid(app.widget)))
        app.widget.set_rows(range(len(HOSTILE)))
        await pilot.press("j", "a", "G")
        lines = [app.widget.render_line(y) for y in range(app.widget.size.height)]
        assert not UNWANTED.search("".join(line.text for line in lines))
        assert {line.cell_length for line in lines} == {60}
        assert any("[/x] [b" in line.text for line in lines)


async def test_a_list_that_comes_into_sight_again_as_it_was_asks_for_no_row_anew() -> None:
    rows = Rows()
    async with staged(listed(rows), (40, 8)) as (app, pilot):
        app.widget.set_rows(range(1, 100))
        await until(pilot, lambda: set(rows.asked) == set(range(1, 8)))
        rows.asked.clear()
        for is_shown in (False, True):
            app.widget.display = is_shown
            await pilot.pause()
        await pilot.pause()
        assert rows.asked == []


async def test_wide_characters_keep_the_columns_straight() -> None:
    def row(id: Any) -> dict[str, tuple[str, str]]:
        return {"id": (str(id), ""), "type": ("视频下载任务", ""), "note": ("处理完成", "")}

    async with staged(listed(row), (34, 3)) as (app, _):
        app.widget.set_rows([1])
        assert grid(app.widget)[1] == ">      1 视频下 » 处理完成"
        assert app.widget.render_line(1).cell_length == 34


async def test_a_list_that_is_gone_keeps_nothing_that_was_drawn() -> None:
    async with staged(listed()) as (app, pilot):
        app.widget.set_rows(range(1, 100))
        await until(pilot, lambda: len(app.widget._strips) == 7)
        await app.widget.remove()
        assert len(app.widget._strips) == 0


def test_flexible_columns_share_what_is_left() -> None:
    columns = [Column("a", "A", 4), Column("b", "B", 2, flex=True), Column("c", "C", 2, flex=True)]
    assert widths(columns, 20) == (4, 7, 6)
    assert widths(columns, 5) == (4, 2, 2)


def test_an_id_is_found_wherever_it_went() -> None:
    assert find(range(1_000_000), 999_999, 3) == 999_999
    assert find([5, 6, 7], 7, 0) == 2
    assert find([5, 6, 7], 8, 1) is None
