"""When a route is taken out, for how long it rests, and what brings it back.

Source: ejection, cooldown and recovery of the routes. Pure: chance is an argument. A live lease is never revoked for
health: the changes of a busy route are for its release (`Resource.pending`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct, structs

from .resource_states import (
    AVAILABLE,
    COOLDOWN,
    DISABLED,
    FAULT,
    RESTING,
    CooldownReason,
    ResourceEvent,
    ResourceState,
)
from .resources import Change
from .route_errors import ErrorType
from .route_health import RouteHealth, Sample, latency_of, observe, score
from .route_settings import CooldownSettings, RouteSettings

Uniform = Callable[[float, float], float]
"""`uniform(a, b)`: a random number between the two."""

E, R = ResourceEvent, CooldownReason


class Standing(Struct, frozen=True):
    """Where a route stands when a sample arrives; `cooldown_until` in seconds of the boot clock."""

    state: ResourceState = AVAILABLE
    reason: CooldownReason | None = None
    cooldown_until: float = 0.0
    pending: Change | None = None


class Group(Struct, frozen=True):
    """The route's group without the route itself being counted out: enabled routes, and those now ejected."""

    enabled: int = 1
    ejected: int = 0


class Judgement(Struct, frozen=True):
    """The new health, and the changes in their order; empty = it stays as it is.

    `alert` asks for a notification at once.
    """

    health: RouteHealth
    changes: tuple[Change, ...] = ()
    alert: bool = False


def judge(
    standing: Standing,
    health: RouteHealth,
    sample: Sample,
    group: Group,
    settings: RouteSettings,
    uniform: Uniform,
) -> Judgement:
    """What one sample changes: the health always, the state where it drops, fails for good or recovers.

    In FAULT, DISABLED and before a cooldown is over, results only count.
    """
    if sample.error is not None and sample.error.neutral:
        return Judgement(health)
    seen = observe(health, sample, settings.score)
    if standing.state in (FAULT, DISABLED):
        return Judgement(seen)
    if standing.state is COOLDOWN and standing.reason not in RESTING:
        due = sample.of_probe and sample.at >= standing.cooldown_until
        return _reprobed(health, seen, sample, settings, uniform) if due else Judgement(seen)
    if standing.pending is not None and standing.pending.to is FAULT:
        return Judgement(seen)
    return _in_service(standing, health, seen, sample, group, settings, uniform)


def recheck(standing: Standing, health: RouteHealth, now: float, settings: CooldownSettings) -> Change | None:
    """A route in FAULT whose re-check is due goes to COOLDOWN(PROBE), so that a probe may free it."""
    due = health.faulted_at is None or now >= health.faulted_at + settings.fault_recheck_s
    return Change(COOLDOWN, E.RECHECK_DUE, R.PROBE, now) if standing.state is FAULT and due else None


def unproven(standing: Standing, health: RouteHealth, now: float, settings: CooldownSettings) -> Judgement:
    """Without any judge a rest ends by itself: the route returns, its failures forgotten, and starts slowly."""
    back = Change(AVAILABLE, E.RESTED)
    if standing.state is FAULT and (change := recheck(standing, health, now, settings)):
        return Judgement(_recovered(health, now, health.latency_ms), (change, back))
    if standing.state is not COOLDOWN or standing.reason in RESTING or now < standing.cooldown_until:
        return Judgement(health)
    return Judgement(_recovered(health, now, health.latency_ms), (back,))


def eject(
    health: RouteHealth,
    at: float,
    reason: CooldownReason,
    settings: CooldownSettings,
    uniform: Uniform,
    *,
    event: ResourceEvent = E.EJECTED,
    retry_after: float | None = None,
) -> tuple[RouteHealth, Change]:
    """Out for `min(max_s, base_s * factor^level)` with jitter, and one level up; a Retry-After raises the wait.

    A first fatal error (`event` FATAL_ERROR) waits `base_s` only: it is either mended or confirmed soon.
    """
    level = level_at(health, at, settings)
    wait = cooldown_wait(0 if event is E.FATAL_ERROR else level, settings, uniform)
    if retry_after is not None and retry_after > 0:
        wait = max(wait, min(retry_after, settings.retry_after_max_s))
    out = structs.replace(
        health, cooldown_level=level + 1, in_service_since=None, recovered_at=None, below=0, passes=0
    )
    return structs.replace(out, degraded=False), Change(COOLDOWN, event, reason, at + wait)


def refused_by_many(
    standing: Standing, health: RouteHealth, at: float, settings: CooldownSettings, uniform: Uniform
) -> Judgement:
    """So many targets refuse it that it rests: COOLDOWN(BLOCKED). What is out already stays as it is."""
    if standing.pending is not None or standing.state in (COOLDOWN, FAULT, DISABLED):
        return Judgement(health)
    health, change = eject(health, at, R.BLOCKED, settings, uniform)
    return Judgement(health, (change,))


def level_at(health: RouteHealth, now: float, settings: CooldownSettings) -> int:
    """The cooldown level: one less for every `decay_s` in service without ejection."""
    if health.in_service_since is None or settings.decay_s <= 0:
        return health.cooldown_level
    calm = int(max(0.0, now - health.in_service_since) // settings.decay_s)
    return max(0, health.cooldown_level - calm)


def cooldown_wait(level: int, settings: CooldownSettings, uniform: Uniform) -> float:
    """Seconds of rest at this level, jitter included, never above `max_s`."""
    try:
        full = settings.base_s * math.pow(settings.factor, level)
    except OverflowError:
        full = math.inf
    return min(settings.max_s, full * uniform(1 - settings.jitter, 1 + settings.jitter))


def may_eject(group: Group, settings: CooldownSettings) -> bool:
    """Whether one more soft ejection leaves the group within its cap; hard ones do not ask."""
    return (group.ejected + 1) * 100 <= settings.max_ejected_percent * group.enabled


def _in_service(
    standing: Standing,
    before: RouteHealth,
    health: RouteHealth,
    sample: Sample,
    group: Group,
    settings: RouteSettings,
    uniform: Uniform,
) -> Judgement:
    error = sample.error
    if error is not None and error.fatal and before.last_error is error:
        return _to_fault(health, sample.at)
    if standing.pending is not None:
        return Judgement(health)  # it is out already, once its lease ends
    if error is not None and (error.fatal or error.misplaced):
        judgement = _out_at_once(health, sample, error, settings, uniform)
        return structs.replace(
            judgement, changes=tuple(_not_before(each, standing) for each in judgement.changes)
        )
    health = _weighed(health, health.last_at or sample.at, settings)
    if not health.below or health.below < settings.score.fall:
        return Judgement(health)
    if error is None and not may_eject(group, settings.cooldown):
        return Judgement(structs.replace(health, degraded=True))
    health, change = eject(
        health,
        sample.at,
        R.HEALTH if error else R.SLOW,
        settings.cooldown,
        uniform,
        retry_after=sample.retry_after,
    )
    return Judgement(health, (_not_before(change, standing),))


def _weighed(health: RouteHealth, now: float, settings: RouteSettings) -> RouteHealth:
    """How often in a row it was below `enter`; a degraded one is so until it is back above `leave`."""
    known = score(health, now, settings.score)
    raw = known.raw if known else settings.score.base
    if raw < settings.score.enter:
        return structs.replace(health, below=health.below + 1)
    return structs.replace(health, below=0, degraded=health.degraded and raw < settings.score.leave)


def _not_before(change: Change, standing: Standing) -> Change:
    """A rest after use that is still running is not cut short by an ejection."""
    if standing.state is not COOLDOWN or change.until is None:
        return change
    return structs.replace(change, until=max(change.until, standing.cooldown_until))


def _out_at_once(
    health: RouteHealth, sample: Sample, error: ErrorType, settings: RouteSettings, uniform: Uniform
) -> Judgement:
    """A first fatal error, or an exit in a wrong or unknown place: out, whatever the score and the cap say."""
    event = E.FATAL_ERROR if error.fatal else E.EJECTED
    health, change = eject(
        health,
        sample.at,
        R.REGION if error.misplaced else R.HEALTH,
        settings.cooldown,
        uniform,
        event=event,
        retry_after=sample.retry_after,
    )
    return Judgement(health, (change,))


def _to_fault(health: RouteHealth, at: float, event: ResourceEvent = E.FATAL_ERROR) -> Judgement:
    out = structs.replace(health, faulted_at=at, in_service_since=None, recovered_at=None, degraded=False)
    return Judgement(out, (Change(FAULT, event),), alert=True)


def _reprobed(
    before: RouteHealth, health: RouteHealth, sample: Sample, settings: RouteSettings, uniform: Uniform
) -> Judgement:
    """The half-open probe. A pass that is not complete or not measured proves nothing yet: it is probed again."""
    error = sample.error
    if error is not None:
        return _probe_failed(before, health, sample, error, settings, uniform)
    latency = latency_of(sample)
    if latency is None or sample.stages < 3:
        return Judgement(health)
    if settings.score.base - latency / settings.score.latency_div < settings.score.leave:
        health = structs.replace(health, faulted_at=None, failed_rechecks=0)
        return _longer(health, sample, R.SLOW, settings, uniform)
    if health.passes + 1 < settings.score.rise:
        return Judgement(structs.replace(health, passes=health.passes + 1))
    return Judgement(_recovered(health, sample.at, latency), (Change(AVAILABLE, E.PROBE_PASSED),))


def _recovered(health: RouteHealth, at: float, latency: float | None) -> RouteHealth:
    """Failures and timeouts are forgotten, the latency is this one sample; the cooldown level is remembered."""
    return RouteHealth(
        latencies=() if latency is None else (latency,),
        consecutive_successes=health.consecutive_successes,
        samples=health.samples,
        last_at=health.last_at,
        last_ok_at=health.last_ok_at,
        cooldown_level=health.cooldown_level,
        in_service_since=at,
        recovered_at=at,
    )


def _probe_failed(
    before: RouteHealth,
    health: RouteHealth,
    sample: Sample,
    error: ErrorType,
    settings: RouteSettings,
    uniform: Uniform,
) -> Judgement:
    if health.faulted_at is not None:
        return _recheck_failed(health, sample.at, settings.cooldown)
    if error.fatal and before.last_error is error:
        return _to_fault(health, sample.at)
    if error.fatal:
        return _out_at_once(health, sample, error, settings, uniform)
    return _longer(health, sample, R.REGION if error.misplaced else R.HEALTH, settings, uniform)


def _longer(
    health: RouteHealth, sample: Sample, reason: CooldownReason, settings: RouteSettings, uniform: Uniform
) -> Judgement:
    health, change = eject(
        health,
        sample.at,
        reason,
        settings.cooldown,
        uniform,
        event=E.PROBE_FAILED,
        retry_after=sample.retry_after,
    )
    return Judgement(health, (change,))


def _recheck_failed(health: RouteHealth, at: float, settings: CooldownSettings) -> Judgement:
    """Back to FAULT; after `fault_max` re-checks it is DISABLED, and a person is told."""
    failed = health.failed_rechecks + 1
    judgement = _to_fault(structs.replace(health, failed_rechecks=failed), at, E.RECHECK_FAILED)
    if failed < settings.fault_max:
        return structs.replace(judgement, alert=False)
    return structs.replace(judgement, changes=(*judgement.changes, Change(DISABLED, E.RECHECKS_EXHAUSTED)))
