"""What becomes of a resource or a route slot when its lease begins or ends, its rest is over, or a person intervenes.

Each function answers with a `Change` that the state table allows, or raises. Nothing is written here: the store
makes the change with one conditional UPDATE. Times are seconds of the boot clock.
"""

from __future__ import annotations

from msgspec import Struct

from ..errors import StaleLease
from .resource_states import (
    AVAILABLE,
    BUSY,
    COOLDOWN,
    DISABLED,
    FAULT,
    LEASED,
    RESTING,
    RUNNING,
    CooldownReason,
    Kind,
    ResourceEvent,
    ResourceState,
    check,
)

E, R = ResourceEvent, CooldownReason


class Change(Struct, frozen=True):
    """The next state, why, and, for a rest, its reason and end. `drain`: it becomes DISABLED when its lease ends.

    A DISABLED resource keeps the rest that it still owes, so that switching it off and on cuts none short.
    """

    to: ResourceState
    event: ResourceEvent
    reason: CooldownReason | None = None
    until: float | None = None
    drain: bool = False


class Resource(Struct, frozen=True):
    """What decides. `pending` is the ejection or fault of a busy one, remembered until its lease ends.

    `min_reuse` is the rest in seconds after each use. Without a lease `lease_until` means nothing.
    """

    id: str
    kind: Kind = Kind.UNIT
    state: ResourceState = AVAILABLE
    fence: int = 0
    lease_until: float = 0.0
    min_reuse: float = 0.0
    cooldown_until: float | None = None
    cooldown_reason: CooldownReason | None = None
    drain: bool = False
    pending: Change | None = None


def claim(resource: Resource) -> Change:
    """AVAILABLE to LEASED; whoever claims draws a new fence."""
    return _change(resource, LEASED, E.CLAIMED)


def start(resource: Resource, fence: int, now: float) -> Change:
    """LEASED to RUNNING, for the holder of a live lease only."""
    check_lease(resource, fence, now)
    return _change(resource, RUNNING, E.STARTED)


def lease_ended(lease_until: float, now: float) -> bool:
    """A lease has ended from its last instant on."""
    return now >= lease_until


def check_lease(resource: Resource, fence: int, now: float) -> None:
    """Raise `StaleLease` unless `fence` holds a live lease on it."""
    if resource.state in BUSY and fence == resource.fence and not lease_ended(resource.lease_until, now):
        return
    raise StaleLease(
        f"{resource.kind} {resource.id} is not held with fence {fence}",
        f"its lease has ended, or its fence is {resource.fence} by now",
    )


def renewed(resource: Resource, fence: int, now: float, ttl: float) -> float:
    """The new end of the lease; `StaleLease` for one that has ended."""
    check_lease(resource, fence, now)
    return max(resource.lease_until, now + ttl)


def release(resource: Resource, now: float, *, faulty: bool = False, dead: bool = False) -> Change:
    """The lease ends cleanly; `faulty`: the holder found the resource itself broken; `dead`: its holder is proven dead.

    In this order: drained → DISABLED; broken → FAULT; a remembered ejection → COOLDOWN with its reason; used and
    `min_reuse` → COOLDOWN(USE); else AVAILABLE. Of two rests the later end counts.
    """
    event = E.RECLAIMED if dead else E.RELEASED
    used = resource.state is RUNNING and resource.min_reuse > 0
    rest = (R.USE, now + resource.min_reuse) if used else (None, None)
    return _ended(resource, event, now, *rest, faulty=faulty)


def expire(resource: Resource, now: float, lock_delay: float, actor: str = "") -> Change:
    """The lease ran out, or `actor` kicks the holder: it may still be at work, so nobody gets it for `lock_delay` s.

    The caller raises the fence.
    """
    until = now + max(lock_delay, resource.min_reuse)
    return _ended(resource, E.USER_KICK if actor else E.EXPIRED, now, R.EXPIRED, until, actor=actor)


def _ended(
    resource: Resource,
    event: ResourceEvent,
    now: float,
    reason: CooldownReason | None,
    until: float | None,
    faulty: bool = False,
    actor: str = "",
) -> Change:
    pending = resource.pending
    if pending and pending.until is not None:
        reason, until = pending.reason, max(pending.until, until or now, now)
    broken = faulty or (pending is not None and pending.to is FAULT)
    if resource.drain:
        return _change(resource, DISABLED, event, *_owed(reason, until), actor=actor)
    if broken:
        return _change(resource, FAULT, event, actor=actor)
    if reason is None:
        return _change(resource, AVAILABLE, event)
    return _change(resource, COOLDOWN, event, reason, until, actor=actor)


def rested(resource: Resource, now: float) -> Change | None:
    """Its rest is over and time alone ends it: AVAILABLE. None for any other; exactly at its end it is over."""
    until = resource.cooldown_until
    if resource.state is not COOLDOWN or resource.cooldown_reason not in RESTING:
        return None
    return _change(resource, AVAILABLE, E.RESTED) if until is None or now >= until else None


def recheck(
    resource: Resource, faulted_at: float | None, faults: int, now: float, after: float, most: int
) -> Change | None:
    """What becomes of a unit in FAULT: `after` seconds later it is given out again, and its next use is the check.

    With more than `most` faults and no good use between them it is DISABLED. None while it waits, and for one that only a
    person may free (`faulted_at` None).
    """
    if resource.state is not FAULT or faulted_at is None:
        return None
    if faults > most:
        return _change(resource, DISABLED, E.RECHECKS_EXHAUSTED)
    return _change(resource, AVAILABLE, E.RECHECK_DUE) if now >= faulted_at + after else None


def rest(resource: Resource, until: float, actor: str) -> Change:
    """A person lets an AVAILABLE one rest until then."""
    return _change(resource, COOLDOWN, E.USER_REST, R.MANUAL, until, actor=actor)


def disable(resource: Resource, actor: str) -> Change:
    """An idle one at once; a busy one is drained: DISABLED when its lease ends."""
    if resource.state in BUSY:
        return Change(resource.state, E.USER_DISABLE, drain=True)
    resting = resource.state is COOLDOWN
    owed = _owed(resource.cooldown_reason if resting else None, resource.cooldown_until)
    return _change(resource, DISABLED, E.USER_DISABLE, *owed, actor=actor)


def enable(resource: Resource, now: float, actor: str) -> Change:
    """A route is probed first, a unit is AVAILABLE at once; either finishes a rest that it still owes.

    A busy one is drained no more.
    """
    if resource.state in BUSY and resource.drain:
        return Change(resource.state, E.USER_ENABLE)
    owed = resource.cooldown_until or now
    if resource.kind is Kind.ROUTE:
        return _change(resource, COOLDOWN, E.USER_ENABLE, R.PROBE, max(now, owed), actor=actor)
    if owed > now and resource.cooldown_reason in RESTING:
        return _change(resource, COOLDOWN, E.USER_ENABLE, resource.cooldown_reason, owed, actor=actor)
    return _change(resource, AVAILABLE, E.USER_ENABLE, actor=actor)


def reset(resource: Resource, now: float, actor: str) -> Change:
    """A person vouches for one in FAULT or COOLDOWN: a unit is AVAILABLE, a route is probed now."""
    if resource.kind is Kind.ROUTE:
        return _change(resource, COOLDOWN, E.USER_RESET, R.PROBE, now, actor=actor)
    return _change(resource, AVAILABLE, E.USER_RESET, actor=actor)


def edited(resource: Resource, now: float) -> Change | None:
    """Its declaration or password was changed: one that is out is tried now. None where nothing changes."""
    if resource.kind is Kind.ROUTE and resource.state in (COOLDOWN, FAULT):
        return _change(resource, COOLDOWN, E.EDITED, R.PROBE, now)
    return _change(resource, AVAILABLE, E.EDITED) if resource.state is FAULT else None


def _owed(reason: CooldownReason | None, until: float | None) -> tuple[CooldownReason | None, float | None]:
    """The rest that a DISABLED one takes along; what a probe would end is probed anyway when it is enabled."""
    return (reason, until) if reason in RESTING else (None, None)


def _change(
    resource: Resource,
    to: ResourceState,
    event: ResourceEvent,
    reason: CooldownReason | None = None,
    until: float | None = None,
    actor: str = "",
) -> Change:
    checked = reason if to is COOLDOWN else None
    check(resource.id, resource.state, to, event, resource.kind, checked, actor or "engine")
    return Change(to, event, reason, until)
