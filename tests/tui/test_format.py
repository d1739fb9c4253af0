from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.views import TaskState
from taskdeck.tui import format as look
from tests.faults import fault

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)


def test_every_state_has_a_glyph_of_one_cell_and_a_word() -> None:
    for state in TaskState:
        glyph, _, word = look.state(state).partition(" ")
        assert look.cells(glyph) == 1
        assert word.replace(" ", "_").upper() == state


def test_wide_characters_count_two_cells_and_combining_ones_none() -> None:
    assert look.cells("任务") == 4
    assert look.cells("e\u0301") == 1
    assert look.cells("plain") == 5


@given(TEXT, st.integers(0, 30))
def test_a_cut_text_never_takes_more_than_its_room(text: str, room: int) -> None:
    assert look.cells(look.cut(text, room)) <= room
    assert look.cut(text, 1000) == text


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=5), st.integers(12, 80))
def test_a_table_fits_the_screen_by_cells(rows: list[tuple[str, str, str]], width: int) -> None:
    for line in look.table(("A", "B", "C"), rows, width=width):
        assert look.cells(line) <= width


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=200), st.integers(10, 80))
def test_a_wrapped_text_fits_and_loses_nothing(text: str, room: int) -> None:
    lines = look.wrap(text, room)
    assert all(look.cells(line) <= room for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_text_is_wrapped_at_spaces_below_its_own_indentation() -> None:
    assert look.wrap("  File one two three", 14) == ["  File one two", "    three"]
    assert look.wrap("  File one two three", 0) == ["  File one two three"]
    assert look.fields([("a", "one two"), ("long", "x\n  y")], width=10) == [
        "a     one two",
        "long  x",
        "        y",
    ]


def test_columns_stand_below_each_other_in_cells() -> None:
    lines = look.table(("NAME", "N"), [("任务", "1"), ("ab", "2")])
    assert lines == ["NAME  N", "任务  1", "ab    2"]


def test_the_widest_column_gives_way_first() -> None:
    lines = look.table(("ID", "WHAT"), [("#1", "x" * 100)], width=20)
    assert lines[1] == "#1  " + "x" * 15 + look.CUT


def test_a_colour_is_put_around_a_cell_after_measuring() -> None:
    lines = look.table(("S", "N"), [("bad", "1")], paints={"bad": "31"})
    assert lines[1] == "\x1b[31mbad\x1b[0m  1"


@fault("TF159")
@pytest.mark.parametrize(
    "hostile", ["\x1b[2Jx", "\x1b]52;c;AAAA\x07x", "a\x9bHx", "x\u202ey", "x\r\ny", "\x00x"]
)
def test_text_of_a_task_is_one_harmless_line(hostile: str) -> None:
    assert look.tidy(hostile).isprintable()


def test_times_are_shown_in_the_local_zone_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        now = datetime(2026, 11, 29, 20, 0, tzinfo=UTC)
        assert look.local("2026-11-29T17:12:40.123456Z") == "2026-11-29 18:12:40 CET"
        assert look.local("2026-11-29T17:12:40.123456Z", now=now) == "18:12:40"
        assert look.local("2026-11-28T17:12:40.123456Z", now=now) == "11-28 18:12"
        assert look.local("2025-11-28T17:12:40.123456Z", now=now) == "2025-11-28"
        assert look.local(None) == ""
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "UTC+99", "UTC-24", "Nowhere/Bogus"])
def test_a_time_that_the_local_zone_can_not_tell_is_told_in_utc(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        now = datetime(2026, 11, 29, 20, 0, tzinfo=UTC)
        assert look.local("9999-12-31T23:59:59.999999Z", now=now) == "9999-12-31"
        assert look.local("9999-12-31T23:59:59.999999Z").startswith("9999-12-31 23:59:59 ")
        assert look.local("2026-11-29T17:12:40.123456Z")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (5.9, "5s"), (200, "3m20s"), (7500, "2h05m"), (273600, "3d4h")]
)
def test_spans_are_short(seconds: float, text: str) -> None:
    assert look.span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-0.1, "0.0s"), (1.97, "2.0s"), (9.94, "9.9s"), (9.96, "10s"), (59.6, "1m00s"), (3599.7, "1h00m")],
)
def test_what_something_took_is_rounded_and_not_cut(seconds: float, text: str) -> None:
    assert look.duration(seconds) == text
