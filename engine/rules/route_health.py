"""How well a route works: its samples, its score and what the score is made of.

Source: the score and the schedule of the routes. Pure: samples go in, a new health comes out. What a bad score leads
to is decided in `route_cooldown`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct, structs

from .route_errors import ErrorType
from .route_settings import ScoreSettings

_MOST_TIMEOUTS = 100  # far past a score of 0: a storm of them fills no memory


class Sample(Struct, frozen=True):
    """One result, of a probe or of a task. `at` in seconds of the boot clock; `error` None = passed.

    `latency_ms` is the time to the response headers on a new connection, all handshakes included; None where it was
    not measured or can't be trusted (the loop lagged). `stages` that passed; `retry_after` in seconds, if asked for.
    """

    at: float
    error: ErrorType | None = None
    latency_ms: float | None = None
    stages: int = 3
    of_probe: bool = True
    retry_after: float | None = None


class RouteHealth(Struct, frozen=True):
    """All that is remembered of a route's samples and ejections. Times in seconds of the boot clock.

    `latencies` are the last successful ones (ms), `timeouts` the times of those in the window. `samples` counts what
    the score is made of. `in_service_since`: since when it is out of cooldown; `recovered_at`: its last recovery.
    `faulted_at` is set while it is in FAULT or probed out of it. An edited or newly enabled route starts with a new one.
    """

    latencies: tuple[float, ...] = ()
    consecutive_successes: int = 0
    consecutive_failures: int = 0
    timeouts: tuple[float, ...] = ()
    samples: int = 0
    last_at: float | None = None
    last_ok_at: float | None = None
    last_error: ErrorType | None = None
    degraded: bool = False
    below: int = 0
    passes: int = 0
    cooldown_level: int = 0
    in_service_since: float | None = None
    recovered_at: float | None = None
    faulted_at: float | None = None
    failed_rechecks: int = 0

    @property
    def latency_ms(self) -> float | None:
        """The median of the kept successes; None while nothing succeeded."""
        if not self.latencies:
            return None
        # Not `statistics`: it loads fractions and decimals, 8 ms at every start of anything.
        ordered, middle = sorted(self.latencies), len(self.latencies) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class Score(NamedTuple):
    """The parts of a score, each as it is taken off `base`. `raw` is compared, `value` (0..100) is shown and ranked."""

    base: float
    latency: float
    failures: float
    timeouts: float

    @property
    def raw(self) -> float:
        return self.base - self.latency - self.failures - self.timeouts

    @property
    def value(self) -> float:
        return min(max(self.raw, 0.0), 100.0)

    @property
    def shown(self) -> float:
        """One decimal, rounded down, so that 39.95 never looks like the 40 it is below."""
        return math.floor(self.value * 10 + 1e-9) / 10


def score(health: RouteHealth, now: float, settings: ScoreSettings) -> Score | None:
    """The score at `now`; None without any sample. Without a success the latency takes nothing off."""
    if not health.samples:
        return None
    return Score(
        settings.base,
        (health.latency_ms or 0.0) / settings.latency_div,
        settings.failure_weight * health.consecutive_failures,
        settings.timeout_weight * len(_recent(health.timeouts, now, settings)),
    )


def latency_of(sample: Sample) -> float | None:
    """The sample's latency where it is one: a zero, negative, infinite or NaN report is none."""
    ms = sample.latency_ms
    return ms if sample.error is None and ms is not None and 0 < ms < math.inf else None


def observe(health: RouteHealth, sample: Sample, settings: ScoreSettings) -> RouteHealth:
    """The health after one more sample. A neutral one changes nothing, a misplaced exit not the score."""
    error = sample.error
    if error is None:
        return _succeeded(health, sample, settings)
    if error.neutral:
        return health
    latest = _later(health.last_at, sample.at)
    seen = structs.replace(health, last_at=latest, last_error=error, consecutive_successes=0)
    return seen if error.misplaced else _failed(seen, sample.at, latest, error, settings)


def _succeeded(health: RouteHealth, sample: Sample, settings: ScoreSettings) -> RouteHealth:
    latency = latency_of(sample)
    kept = health.latencies if latency is None else (*health.latencies, latency)
    latest = _later(health.last_at, sample.at)
    return structs.replace(
        health,
        latencies=kept[-settings.latency_samples :],
        consecutive_successes=health.consecutive_successes + 1,
        consecutive_failures=0,
        timeouts=_recent(health.timeouts, latest, settings),
        samples=health.samples + 1,
        last_at=latest,
        last_ok_at=_later(health.last_ok_at, sample.at),
        last_error=None,
    )


def _failed(
    health: RouteHealth, at: float, latest: float, error: ErrorType, settings: ScoreSettings
) -> RouteHealth:
    timeouts = (*health.timeouts, at)[-_MOST_TIMEOUTS:] if error.timeout else health.timeouts
    return structs.replace(
        health,
        consecutive_failures=health.consecutive_failures + 1,
        timeouts=_recent(timeouts, latest, settings),
        samples=health.samples + 1,
    )


def _recent(timeouts: tuple[float, ...], now: float, settings: ScoreSettings) -> tuple[float, ...]:
    return tuple(at for at in timeouts if now - settings.timeout_window_s < at <= now)


def _later(known: float | None, at: float) -> float:
    return at if known is None else max(known, at)
