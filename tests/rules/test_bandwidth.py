"""A limit of bandwidth holds over any time, whoever shares it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules.bandwidth import BURST_S, Bucket, format_rate, parse_rate, take


@given(
    st.sampled_from([2048.0, 1e6]),
    st.lists(st.tuples(st.integers(0, 65536), st.floats(0, 3, allow_nan=False)), min_size=1, max_size=60),
)
def test_who_waits_as_told_never_receives_more_than_the_rate_allows(
    rate: float, pieces: list[tuple[int, float]]
) -> None:
    now, total, largest = 100.0, 0, 0
    bucket = Bucket(rate, now)
    for count, pause in pieces:
        wait = bucket.take(count, now)
        total, largest = total + count, max(largest, count)
        assert total <= rate * (now - 100.0) + rate * BURST_S + largest + 1e-3
        now += wait + pause


@given(st.lists(st.integers(1, 65536), min_size=5, max_size=40))
def test_who_never_pauses_gets_the_whole_rate(pieces: list[int]) -> None:
    now, total = 0.0, 0
    bucket = Bucket(10_000.0, now)
    for count in pieces:
        now += bucket.take(count, now)
        total += count
    assert total >= 10_000.0 * now - 1e-3


def test_of_two_limits_the_stricter_one_wins() -> None:
    slow, fast = Bucket(1000.0, 0.0), Bucket(100_000.0, 0.0)
    assert take([fast, slow], 2250, 0.0) == pytest.approx(2.0)
    assert take([], 10**9, 0.0) == 0.0


def test_a_clock_that_stands_or_steps_back_gives_nothing_away() -> None:
    bucket = Bucket(1000.0, 10.0)
    assert bucket.take(1250, 10.0) == pytest.approx(1.0)
    assert bucket.take(0, 5.0) == pytest.approx(1.0)
    assert bucket.take(0, 10.5) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("text", "rate"), [("2MB/s", 2e6), ("500 kB/s", 5e5), ("1.5MiB/s", 1572864.0), ("4096B/s", 4096.0)]
)
def test_a_rate_is_written_with_its_unit(text: str, rate: float) -> None:
    assert parse_rate(text) == rate
    assert parse_rate(format_rate(rate)) == pytest.approx(rate, rel=1e-4)


@pytest.mark.parametrize("text", ["2", "2MB", "MB/s", "-2MB/s", "2Mb/s", "10B/s", "0MB/s", "1e9MB/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bandwidth"):
        parse_rate(text)
