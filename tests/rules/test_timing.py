"""Stored times have one form and real-time arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules.timing import (
    EARLIEST,
    LATEST,
    LONGEST,
    add_seconds,
    format_duration,
    parse_duration,
    parse_utc,
    seconds_between,
    utc_text,
)
from tests.faults import fault

NEW_YORK = ZoneInfo("America/New_York")


@fault("TF093")
def test_equal_instants_have_equal_texts_and_a_naive_time_is_refused():
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    kolkata = instant.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert utc_text(kolkata) == utc_text(instant) == "2026-01-01T00:00:00.000000Z"
    with pytest.raises(ValueError, match="without a zone"):
        utc_text(datetime(2026, 1, 1))


@fault("TF096")
def test_a_day_is_24_hours_across_a_change_of_the_clocks():
    taken = utc_text(datetime(2026, 3, 7, 12, 0, tzinfo=NEW_YORK))
    assert seconds_between(taken, add_seconds(taken, 24 * 3600)) == 86400
    assert add_seconds(taken, 24 * 3600) == "2026-03-08T17:00:00.000000Z"
    assert add_seconds(taken, 24 * 3600) == utc_text(datetime(2026, 3, 8, 13, 0, tzinfo=NEW_YORK))


@fault("TF096")
def test_the_repeated_hour_keeps_its_second_pass():
    second = datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK, fold=1)
    assert add_seconds(utc_text(second), 1) == "2026-11-01T06:30:01.000000Z"


@given(st.datetimes(timezones=st.timezones()), st.datetimes(timezones=st.timezones()))
def test_texts_sort_as_their_instants_and_read_back(a: datetime, b: datetime):
    assert len(utc_text(a)) == len(LATEST)
    if EARLIEST < utc_text(a) < LATEST and EARLIEST < utc_text(b) < LATEST:
        assert parse_utc(utc_text(a)) == a.astimezone(UTC)
        assert (utc_text(a) < utc_text(b)) == (a.astimezone(UTC) < b.astimezone(UTC))


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01 00:00:00.000000Z",
        "2026-01-01T00:00:00.000000+00:00",
        "2026-01-01T00:00:00.000000",
        "2026-13-01T00:00:00.000000Z",
        "２026-01-01T00:00:00.000000Z",
        "2026-01-01T00:00:00.000000Z\n",
        "",
    ],
)
def test_only_the_stored_form_is_read(text: str):
    with pytest.raises(ValueError, match=r"stored time|month must be"):
        parse_utc(text)


@pytest.mark.parametrize("seconds", [1e12, 1e300, float("inf")])
def test_a_time_past_the_last_year_is_held_there(seconds: float):
    now = "2026-11-29T17:12:40.123456Z"
    assert add_seconds(now, seconds) == LATEST
    assert add_seconds(now, -seconds) == EARLIEST


def test_nan_seconds_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        add_seconds(LATEST, float("nan"))


def test_an_edge_time_of_another_zone_is_held_inside_the_years():
    assert utc_text(datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))) == LATEST
    assert utc_text(datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))) == EARLIEST


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30s", 30),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("30", 30),
        (30, 30),
        (0.5, 0.5),
        ("0", 0),
        ("2d", 172800),
        ("1w", 604800),
        ("1m0.5s", 60.5),
        (" 5m ", 300),
    ],
)
def test_durations_are_read(value: str | int, seconds: float):
    assert parse_duration(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "abc",
        "5 minutes",
        "30m1h",
        "1h1h",
        "-5s",
        "1e3",
        "٣s",
        "inf",
        "nan",
        "5M",
        "99999999999w",
        -1,
        float("nan"),
        float("inf"),
        True,
        None,
        10**400,
    ],
)
def test_what_is_no_duration_is_refused(value: object):
    with pytest.raises(ValueError, match="a duration is"):
        parse_duration(value)  # type: ignore[arg-type]


@given(st.floats(min_value=0, max_value=LONGEST - 1))
def test_a_formatted_duration_reads_back(seconds: float):
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (5400, "1h30m"),
        (60.5, "1m0.5s"),
        (90061, "1d1h1m1s"),
        (-5, "-5s"),
        (0.0015, "1.5ms"),
    ],
)
def test_durations_are_shown_short(seconds: float, text: str):
    assert format_duration(seconds) == text
