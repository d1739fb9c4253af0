"""Times as text and durations as seconds: one width, one zone, no wall-clock arithmetic.

Owns the text form of every stored time (UTC, `2026-11-29T17:12:40.123456Z`, compared as text) and the reading
of durations. Never asks what time it is: `now` comes from the caller.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from .patterns import pattern

LATEST = "9999-12-31T23:59:59.999999Z"
EARLIEST = "0001-01-01T00:00:00.000000Z"
LONGEST = 10 * 365 * 86400.0
"""No duration may be longer: ten years, in seconds."""

_UTC_TEXT = pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)"
_DURATION = pattern(r"\s*".join(rf"(?:{_NUMBER}{unit})?" for unit in _UNITS), re.ASCII)
_SECONDS = pattern(_NUMBER, re.ASCII)


def utc_text(moment: datetime) -> str:
    """The stored form of an aware `moment`; a naive one, of no certain instant, raises ValueError."""
    if moment.tzinfo is UTC:
        return moment.isoformat(timespec="microseconds")[: -len("+00:00")] + "Z"
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError(f"a time without a zone can't be stored: {moment.isoformat()}")
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        return LATEST if moment.year > 5000 else EARLIEST
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_utc(text: str) -> datetime:
    """The instant of a stored text; any other form (offset, space, no fraction) raises ValueError."""
    if not _UTC_TEXT.fullmatch(text):
        raise ValueError(
            f"not a stored time (expected {EARLIEST[:4]}…Z of {len(EARLIEST)} characters): {text[:40]!r}"
        )
    return datetime.fromisoformat(text)


def add_seconds(text: str, seconds: float) -> str:
    """`text` moved by real seconds, held inside the years 1 to 9999."""
    if math.isnan(seconds):
        raise ValueError("NaN is no number of seconds")
    moment = parse_utc(text)
    try:
        return utc_text(moment + timedelta(seconds=seconds))
    except OverflowError:
        return LATEST if seconds > 0 else EARLIEST


def seconds_between(earlier: str, later: str) -> float:
    """Real seconds from one stored text to the other; negative where `later` is the earlier one."""
    return (parse_utc(later) - parse_utc(earlier)).total_seconds()


def parse_duration(value: str | float) -> float:
    """Seconds of `"1h30m"`, `"250ms"`, `"30"` or a number of seconds.

    ValueError for anything else, and for what is negative or over ten years.
    """
    seconds = _text_seconds(value) if isinstance(value, str) else _number_seconds(value)
    if seconds > LONGEST:
        raise ValueError("a duration is at most ten years")
    return seconds


def _number_seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError('a duration is a text such as "1h30m" or a number of seconds')
    if not 0 <= value < math.inf:
        raise ValueError("a duration is a finite number of seconds, not negative")
    return float(min(value, LONGEST * 2))


def _text_seconds(text: str) -> float:
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    found = _DURATION.fullmatch(text)
    if not text or not found:
        raise ValueError(
            'a duration is written as "30s", "1h30m" or "250ms" (units w d h m s ms, largest first)'
        )
    parts = zip(found.groups(), _UNITS.values(), strict=True)
    return math.fsum(float(number) * unit for number, unit in parts if number)


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads back, to the microsecond: `1h30m`, `250ms`, `0s`."""
    if not math.isfinite(seconds):
        raise ValueError("only a finite duration has a text")
    sign = "-" if seconds < 0 else ""
    whole, micros = divmod(round(abs(seconds) * 1_000_000), 1_000_000)
    if not whole and micros:
        return f"{sign}{_decimal(micros, 3)}ms"
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    text = "".join(f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if n)
    if rest or micros:
        text += f"{_decimal(rest * 1_000_000 + micros, 6)}s"
    return sign + (text or "0s")


def _decimal(units: int, places: int) -> str:
    """`units` of 10^-places as a decimal number without trailing zeros."""
    whole, part = divmod(units, 10**places)
    return f"{whole}.{part:0{places}d}".rstrip("0") if part else str(whole)
