"""Times as people write them, local unless they say otherwise, as UTC text; never a guess."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from taskdeck.engine import views
from taskdeck.engine.errors import UsageError

FORMS = "write 17:00, '2026-12-24 17:00' (local time) or 2026-12-24T16:00:00Z"


def after(text: str) -> str:
    """UTC text of now plus a duration such as `5m`. Raises `UsageError`."""
    try:
        return views.utc_text(views.now() + timedelta(seconds=views.parse_duration(text)))
    except ValueError as error:
        raise UsageError(f"--in {text} can't be read", str(error), "write --in 30s, 5m or 1h30m") from None


def duration(text: str | None, option: str) -> float | None:
    """The seconds that an option names, or None. Raises `UsageError`."""
    if text is None:
        return None
    try:
        return views.parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option} {text} can't be read", str(error)) from None


def at_time(text: str, now: datetime | None = None) -> str:
    """UTC text of a clock time (the next such), a local date and time, or a time with its offset. Raises `UsageError`."""
    now = now or views.now()
    try:
        moment = _read(text.strip(), now)
    except (ValueError, OverflowError):  # no such form, or an hour that UTC has no year for
        raise UsageError(f"--at {text} can't be read", remedy=_meant(text)) from None
    if moment < now:
        raise UsageError(f"--at {text} is in the past", remedy="leave it out to run now")
    return views.utc_text(moment)


def _meant(text: str) -> str:
    """What may have been meant by a text that names no time: a length of time is what `--in` takes."""
    length = text.strip().removeprefix("+").strip()
    try:
        views.parse_duration(length)
    except ValueError:
        return FORMS
    if not length[-1].isalpha():
        return FORMS  # a bare number may as well be an hour
    return f"for a time from now write --in {length}; else {FORMS}"


def _read(text: str, now: datetime) -> datetime:
    if "-" not in text and "+" not in text:
        return _next_clock(time.fromisoformat(text), now, text)
    if len(text) < 12:
        raise ValueError("a date alone names no time")
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else _local(found, text)


def _next_clock(clock: time, now: datetime, text: str) -> datetime:
    if clock.tzinfo or ":" not in text:
        raise ValueError("a clock time with a zone but no date")
    today = now.astimezone().date()
    moment = _local(datetime.combine(today, clock), text)
    return moment if moment > now else _local(datetime.combine(today + timedelta(days=1), clock), text)


def _local(naive: datetime, text: str) -> datetime:
    """The instant of a local time; one that the clocks skip is refused, of one that comes twice the first is meant."""
    moment = naive.astimezone()
    if datetime.fromtimestamp(moment.timestamp()) != naive:
        raise UsageError(f"--at {text} does not exist here", "the clocks skip it", "name another time")
    return moment
