"""What the three clocks tell together: a step of the wall clock, a host that slept. Pure; all in seconds."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

TOLD = 2.0
"""A step or sleep of less than this many seconds is not worth a word: NTP slews, ticks are late."""


class Reading(Struct, frozen=True):
    """The clocks at one moment."""

    utc: datetime
    monotonic: float
    boot: float


def stepped(before: Reading, after: Reading) -> float:
    """By how much the wall clock was set meanwhile, beyond the time that passed; negative = back. 0 for less than `TOLD`."""
    return _told((after.utc - before.utc).total_seconds() - (after.boot - before.boot))


def slept(before: Reading, after: Reading) -> float:
    """How long the host was suspended meanwhile: the boot clock counts that, the monotonic one doesn't."""
    return max(0.0, _told((after.boot - before.boot) - (after.monotonic - before.monotonic)))


def _told(seconds: float) -> float:
    return seconds if abs(seconds) >= TOLD else 0.0
