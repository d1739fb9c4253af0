"""When routes are probed, which stages run, and when a broken probe target freezes a group's verdicts.

Source: the probe schedule and the group freeze of the routes. Pure; times are seconds of the boot clock. What a
probe's result means is decided in `route_cooldown`.
"""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct, structs

from .resource_states import BUSY, COOLDOWN, DISABLED, FAULT
from .route_cooldown import Standing, Uniform
from .route_errors import EXIT, PROBE, ErrorType
from .route_health import RouteHealth, Sample
from .route_settings import FreezeSettings, RouteSettings


def first_probe_at(route_id: str, started_at: float, interval_s: float) -> float:
    """The first probe after a start: `started_at` plus an offset of its own, so that 500 routes spread over an interval."""
    digest = blake2b(route_id.encode(), digest_size=8).digest()
    return started_at + int.from_bytes(digest, "big") / 2**64 * interval_s


def next_probe_at(
    standing: Standing,
    health: RouteHealth,
    first_at: float,
    settings: RouteSettings,
    uniform: Uniform,
    capacity: int = 1,
) -> float | None:
    """When it is probed next; None while it is not: DISABLED, or busy with its only slot.

    Any newer result, a task's as well, moves it: a success by the interval ± jitter, a failure by the fast one.
    """
    if standing.state is DISABLED or (standing.state in BUSY and capacity == 1):
        return None
    if standing.state is FAULT:
        since = health.faulted_at if health.faulted_at is not None else first_at
        return since + settings.cooldown.fault_recheck_s
    if standing.state is COOLDOWN:
        return _half_open_at(standing, health, settings)
    if health.last_at is None:
        return first_at
    if health.last_error is not None:
        return health.last_at + settings.fast_interval_s
    return health.last_at + settings.interval_s * uniform(1 - settings.jitter, 1 + settings.jitter)


def _half_open_at(standing: Standing, health: RouteHealth, settings: RouteSettings) -> float:
    """At the end of the cooldown; again soon where a probe after that end decided nothing."""
    if health.last_at is not None and health.last_at >= standing.cooldown_until:
        return health.last_at + settings.fast_interval_s
    return standing.cooldown_until


def must_verify(health: RouteHealth, now: float, settings: RouteSettings) -> bool:
    """Whether stages 1 and 2 must pass before this route's lease is handed out."""
    return health.last_ok_at is None or now - health.last_ok_at > settings.verify_on_lease_s


def after_start(health: RouteHealth, now: float, settings: RouteSettings) -> RouteHealth:
    """The health that an engine starts with: a result that is too old proves nothing, so it is verified before use."""
    stale = health.last_at is None or now - health.last_at > settings.stale_s
    return structs.replace(health, last_ok_at=None) if stale else health


def needs_exit_stage(
    standing: Standing, checks: int, exit_seen_at: float | None, now: float, settings: RouteSettings
) -> bool:
    """Whether stage 3 runs too: every `full_check_every`-th check, out of COOLDOWN or FAULT, or when last seen long ago.

    `checks` = those since the last full one. After an import or an edit `exit_seen_at` is None.
    """
    if standing.state in (COOLDOWN, FAULT) or exit_seen_at is None:
        return True
    return now - exit_seen_at > settings.full_check_s or checks + 1 >= settings.full_check_every


def concurrency(routes: int, mean_check_s: float, settings: RouteSettings) -> int:
    """Probes at once that get a pool of this size done within its interval, with some to spare, within their bounds."""
    most = max(settings.concurrency_max, settings.concurrency)
    wanted = routes * mean_check_s / settings.interval_s * settings.concurrency_spare
    return int(min(max(wanted, settings.concurrency), most))


class ProbeClaim(Struct, frozen=True):
    """Who probes a route now: a token, until when it counts, and the revision of the route's declaration."""

    token: str
    until: float
    config_rev: int


def may_probe(claim: ProbeClaim | None, now: float) -> bool:
    """One probe at a time; one that died is taken over when its claim has run out."""
    return claim is None or now >= claim.until


def result_counts(claim: ProbeClaim | None, token: str, config_rev: int) -> bool:
    """Whether a result is that of the claim: another token or an older declaration is dropped."""
    return claim is not None and claim.token == token and claim.config_rev == config_rev


class Control(Struct, frozen=True):
    """What the control probes found; None = not made (direct access forbidden, no second URL).

    `direct`: the probe URL without the group's routes; `second`: another probe URL; `anchors`: plain TCP.
    """

    direct: bool | None = None
    second: bool | None = None
    anchors: bool | None = None


_FROM_HERE = frozenset({ErrorType.TCP_TIMEOUT, ErrorType.TCP_UNREACHABLE, ErrorType.DNS_PROXY})
"""Failures of stage 1 that all routes have at once where this host's own network is down."""


def is_doubtful(cycle: list[Sample], settings: FreezeSettings, broken: ErrorType | None = None) -> bool:
    """Whether so many routes fail in a way that `broken` explains (None: either) that it must be controlled first."""
    failed = sum(1 for sample in cycle if is_suspicious(sample, broken))
    return len(cycle) >= settings.least and failed * 100 >= settings.percent * len(cycle)


def is_suspicious(sample: Sample, broken: ErrorType | None = None) -> bool:
    """Whether something else than the route may have failed: the target (past the proxy), or this host's network."""
    error = sample.error
    if error is None or error.neutral:
        return False
    past_the_proxy = sample.stages >= 1 and bool({PROBE, EXIT} & set(error.stages))
    return past_the_proxy or (error in _FROM_HERE and broken is not ErrorType.PROBE_TARGET_DOWN)


def verdict_of(control: Control) -> ErrorType | None:
    """What is broken instead of the routes: PROBE_TARGET_DOWN, LOCAL_NET_DOWN, or None where the control passes."""
    if control.direct or (control.direct is None and control.second is not False):
        return None
    if control.anchors is False and not control.second:
        return ErrorType.LOCAL_NET_DOWN
    return ErrorType.PROBE_TARGET_DOWN


def accepted(
    cycle: list[Sample], control: Control, settings: FreezeSettings
) -> tuple[list[Sample], ErrorType | None]:
    """The samples of a cycle that count, and the one alert: a doubtful cycle whose control fails too counts for nothing."""
    broken = verdict_of(control)
    return ([], broken) if broken and is_doubtful(cycle, settings, broken) else (cycle, None)
