"""Figures as cells of text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from taskdeck.tui.deck.widgets.charts import bar, sparkline
from tests.faults import fault

VALUES = st.lists(st.none() | st.floats(0, 1e12), max_size=200)


@given(VALUES, st.integers(0, 40), st.booleans())
def test_a_sparkline_is_as_wide_as_it_is_told(values: list[float | None], width: int, ascii: bool) -> None:
    line = sparkline(values, width, ascii=ascii)
    assert cell_len(line) == width
    assert line.isascii() or not ascii


@given(st.lists(st.floats(0.1, 1e9), min_size=1, max_size=200), st.integers(1, 40))
def test_the_newest_value_and_the_highest_show(values: list[float], width: int) -> None:
    line = sparkline(values, width, ascii=True)
    assert line[-1] != " "
    assert "#" in line


def test_a_line_rises_and_falls() -> None:
    assert sparkline([0, 1, 2, 3, 4, 4, 0, 0], 4) == "⢀⣴⣿ "
    assert sparkline([0, 1, 2, 3, 4, 5], 6, ascii=True) == " .:-=#"
    assert sparkline([1, 5], 4, ascii=True) == "  .#"


def test_most_keeps_the_scale() -> None:
    assert sparkline([1], 1, most=100, ascii=True) == "."
    assert sparkline([100], 1, most=100, ascii=True) == "#"


@fault("TF276")
@pytest.mark.parametrize("values", [[], [0], [None], [0, None, 0]])
def test_nothing_is_blank(values: list[float | None]) -> None:
    assert sparkline(values, 3) == "   "
    assert sparkline(values, 3, ascii=True) == "   "


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (None, "    "),
        (0, "...."),
        (0.01, "#..."),
        (0.5, "##.."),
        (0.99, "###."),
        (1, "####"),
        (7, "####"),
        (-1, "...."),
    ],
)
def test_a_bar_is_empty_at_nothing_and_full_at_all(share: float | None, shown: str) -> None:
    assert bar(share, 4) == shown
