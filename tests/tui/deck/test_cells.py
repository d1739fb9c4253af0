"""Foreign text as cells: harmless, one line, and of the width it is given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from taskdeck.tui.deck.widgets.cells import LONGEST, chopped, fit, shown, wrapped
from tests.faults import fault
from tests.tui.deck.hostile import HOSTILE, UNWANTED


@fault("TF157")
@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hostile_is_shown(text: str) -> None:
    assert not UNWANTED.search(shown(text))
    shown(text).encode()


@given(st.text(st.characters(), max_size=60))
def test_whatever_the_text_a_cell_is_harmless_and_as_wide_as_its_column(text: str) -> None:
    drawn = shown(text)
    assert not UNWANTED.search(drawn)
    for width in (0, 1, 2, 7, 80):
        assert cell_len(fit(drawn, width)) == width
        assert cell_len(fit(drawn, width, "right", ascii=True)) == width


@given(st.text(st.characters(), max_size=60), st.integers(2, 30))
def test_a_chopped_text_loses_nothing_and_no_piece_is_too_wide(text: str, width: int) -> None:
    drawn = shown(text)
    pieces = chopped(drawn, width)
    assert "".join(pieces) == drawn
    assert all(cell_len(piece) <= width for piece in pieces)


@fault("TF162")
def test_ten_thousand_marks_on_one_letter_become_one() -> None:
    assert shown("b" + "\u0301" * 10_000) == "b\u0301"
    assert shown("q" + "\u0323\u0301\u0301") == "q\u0323"


def test_what_terminals_measure_differently_is_taken_apart() -> None:
    assert shown("👩‍👧 👍🏽 ❤️ 🇯🇵") == "👩👧 👍 ❤ JP"


def test_newlines_and_tabs_are_shown_on_the_same_line() -> None:
    assert shown("a\n\tb") == "a⏎    b"
    assert shown("a\nb", ascii=True) == "a\\nb"


@given(st.text(st.characters(), max_size=90), st.integers(4, 30), st.integers(1, 4))
def test_a_wrapped_text_takes_a_few_lines_that_fit(text: str, width: int, most: int) -> None:
    lines = wrapped(shown(text), width, most)
    assert 1 <= len(lines) <= most
    assert all(cell_len(line) <= width for line in lines)


def test_a_text_is_wrapped_at_blanks_and_one_without_room_says_that_there_is_more() -> None:
    assert wrapped("nothing was done; see: taskdeck why 4", 18, 4) == [
        "nothing was done;",
        "see: taskdeck why",
        "4",
    ]
    assert wrapped("a long word abcdefghijkl", 8, 2) == ["a long", "word ..."]
    assert wrapped("", 8, 2) == [""]


def test_no_more_than_a_thousand_characters_are_drawn() -> None:
    assert len(shown("字" * 10_000)) == LONGEST


def test_a_cut_is_marked_and_a_wide_character_is_never_halved() -> None:
    assert fit("abcdef", 4) == "abc»"
    assert fit("abcdef", 4, ascii=True) == "abc>"
    assert fit("字字字", 4) == "字 »"
    assert fit("字", 5, "right") == "   字"
