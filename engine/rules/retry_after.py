"""How long a server asks us to wait: the Retry-After header of RFC 9110, read strictly and bounded."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from .patterns import pattern

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES = (  # the three forms that RFC 9110 wants read
    pattern(rf"{_DAY}, (?P<day>\d\d) {_MONTH} (?P<year>\d{{4}}) {_CLOCK} GMT", re.ASCII),
    pattern(rf"{_DAY}[a-z]{{3,6}}, (?P<day>\d\d)-{_MONTH}-(?P<year>\d\d) {_CLOCK} GMT", re.ASCII),
    pattern(rf"{_DAY} {_MONTH} (?P<day>[ \d]\d) {_CLOCK} (?P<year>\d{{4}})", re.ASCII),
)


def retry_after(header: str | None, now: datetime | None, max_delay: float) -> float | None:
    """Seconds to wait, at most `max_delay`; None where the header is absent, unreadable, zero or past: the usual backoff.

    Without `now` only a number of seconds can be read.
    """
    text = (header or "").strip(" \t")[:100]
    if re.fullmatch(r"[0-9]+", text):
        seconds = float(text)
    elif now is not None and (moment := _date(text, now)):
        seconds = (moment - now).total_seconds()
    else:
        return None
    return min(seconds, max_delay) if seconds > 0 else None


def _date(text: str, now: datetime) -> datetime | None:
    found = next((match for form in _DATES if (match := form.fullmatch(text))), None)
    if not found:
        return None
    year = int(found["year"])
    if year < 100:  # "more than 50 years in the future" means the past century (RFC 9110, 5.6.7)
        year += now.year // 100 * 100
        year -= 100 if year > now.year + 50 else 0
    month, second = _MONTHS.index(found["month"]) + 1, min(int(found["second"]), 59)
    try:
        return datetime(
            year, month, int(found["day"]), int(found["hour"]), int(found["minute"]), second, tzinfo=UTC
        )
    except ValueError:
        return None
