"""How fast bytes may come: a bucket of tokens, filled at a steady rate. Pure; `now` is any clock that never steps."""

from __future__ import annotations

from collections.abc import Iterable

from .patterns import pattern

_RATE = pattern(r"(?P<number>\d{1,12}(?:\.\d{1,6})?) ?(?P<unit>[kMG]i?B|B)/s")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "kiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
LEAST = 1024.0
"""Bytes a second; below that a connection stands still rather than being slow."""
BURST_S = 0.25
"""Seconds' worth of bytes that may come at once after a pause."""


def parse_rate(text: str) -> float:
    """Bytes a second of `2MB/s`, `500 kB/s`, `1.5MiB/s`. Raises `ValueError` that says what is expected."""
    found = _RATE.fullmatch(text.strip())
    if not found:
        raise ValueError('a bandwidth is written like "2MB/s" (B, kB, MB, GB, kiB, MiB, GiB)')
    rate = float(found["number"]) * _UNITS[found["unit"]]
    if rate < LEAST:
        raise ValueError(f"a bandwidth is at least {LEAST:g} B/s")
    return rate


def format_rate(rate: float) -> str:
    """As a person writes it: `2MB/s`."""
    for unit in ("GB", "MB", "kB"):
        if rate >= _UNITS[unit]:
            return f"{rate / _UNITS[unit]:g}{unit}/s"
    return f"{rate:g}B/s"


class Bucket:
    """A limit of `rate` bytes a second. What has come is counted at once; whoever took too much waits before taking more.

    So the mean over any time `t` is at most `rate + (burst + one piece) / t`, whoever shares the bucket.
    """

    def __init__(self, rate: float, now: float, burst: float | None = None) -> None:
        self.rate = rate
        self._burst = rate * BURST_S if burst is None else burst
        self._tokens = self._burst
        self._at = now

    def take(self, count: int, now: float) -> float:
        """Count bytes that have come; returns the seconds to wait before more may come."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self.rate) - count
        self._at = max(self._at, now)
        return max(0.0, -self._tokens / self.rate)


def take(buckets: Iterable[Bucket], count: int, now: float) -> float:
    """Count bytes in all of these; the stricter one wins."""
    return max((bucket.take(count, now) for bucket in buckets), default=0.0)
