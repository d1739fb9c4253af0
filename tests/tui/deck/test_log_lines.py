"""Lines of a log: their numbers, their levels, and how bytes become lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.tui.deck.widgets.log_lines import LONGEST, LineFeed, Narrowed, Ring, level_of


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("2026-11-30 12:00:00 ERROR no", 3),
        ("E: [error] no", 3),
        ('{"level": "warning", "msg": "x"}', 2),
        ("level=debug x", 0),
        ("WARN x", 2),
        ("error: no such file", 3),
        ("ValueError: no", 3),
        ("aiohttp.client_exceptions.ClientError: no", 3),
        ("Traceback (most recent call last):", 3),
        ("no errors were found", 1),
        ("TERRORS", 1),
        ("", 1),
    ],
)
def test_a_line_has_the_level_of_its_word(line: str, level: int) -> None:
    assert level_of(line) == level


def test_an_indented_line_has_the_level_of_the_one_before() -> None:
    assert level_of('  File "x.py", line 1', before=3) == 3
    assert level_of("done", before=3) == 1


def test_numbers_stay_when_lines_are_trimmed_and_prepended() -> None:
    ring = Ring([str(n) for n in range(250)], most=100)
    assert (ring.first, ring.end, ring.line(150)) == (150, 250, "150")
    ring.append(str(n) for n in range(250, 300))
    assert (ring.first, ring.end, ring.line(299)) == (200, 300, "299")
    ring.prepend(["198", "199"])
    assert (ring.first, ring.line(198), ring.line(200)) == (198, "198", "200")


def test_a_narrowed_log_lets_go_of_what_was_trimmed() -> None:
    ring = Ring(["ERROR", "x"] * 50, most=100)
    narrowed = Narrowed(ring, 3)
    ring.append(["ERROR"] * 60)
    narrowed.update()
    assert list(narrowed.numbers) == [n for n in range(60, 160) if ring.line(n) == "ERROR"]


@given(st.binary(max_size=200), st.integers(1, 20))
def test_lines_do_not_depend_on_how_the_bytes_came(data: bytes, size: int) -> None:
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert list(LineFeed().all(chunks)) == list(LineFeed().all([data] if data else []))


def test_a_progress_bar_is_its_last_state_and_bad_bytes_are_shown() -> None:
    assert LineFeed().feed(b"10%\r50%\r100%\ncaf\xe9\r\n") == ["100%", "caf�"]


def test_a_line_without_an_end_is_held_in_bounds() -> None:
    feed = LineFeed()
    lines = [line for _ in range(50) for line in feed.feed(b"x" * 10_000)]
    assert sum(map(len, lines)) + len("".join(feed.rest())) == 500_000
    assert max(map(len, lines)) <= LONGEST + 10_000
