"""The state machine of resources and routes: the only table of which change is legal, for which event.

Source of every row: the transition table of the resources and routes. Pure data and one question; what an event leads
to is decided in `resources`, who writes the change is `store`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ..errors import IllegalTransition


class ResourceState(StrEnum):
    """Spelled as in the database."""

    AVAILABLE = "AVAILABLE"
    LEASED = "LEASED"
    RUNNING = "RUNNING"
    COOLDOWN = "COOLDOWN"
    FAULT = "FAULT"
    DISABLED = "DISABLED"


class Kind(StrEnum):
    """A unit is used and rests; a route is measured as well, and returns only after a passed probe."""

    UNIT = "unit"
    ROUTE = "route"


class CooldownReason(StrEnum):
    """Why it rests. It decides what ends the rest."""

    USE = "USE"
    HEALTH = "HEALTH"
    SLOW = "SLOW"
    BLOCKED = "BLOCKED"
    REGION = "REGION"
    EXPIRED = "EXPIRED"
    MANUAL = "MANUAL"
    PROBE = "PROBE"


class ResourceEvent(StrEnum):
    """What happened. The `user_` ones are a person's acts."""

    CLAIMED = "claimed"
    STARTED = "started"
    RELEASED = "released"
    RECLAIMED = "reclaimed"  # its holder is proven dead
    EXPIRED = "expired"  # its lease has run out, its holder may still live
    EJECTED = "ejected"
    FATAL_ERROR = "fatal_error"
    RESTED = "rested"
    PROBE_PASSED = "probe_passed"
    PROBE_FAILED = "probe_failed"
    RECHECK_DUE = "recheck_due"
    RECHECK_PASSED = "recheck_passed"
    RECHECK_FAILED = "recheck_failed"
    RECHECKS_EXHAUSTED = "rechecks_exhausted"
    EDITED = "edited"
    USER_KICK = "user_kick"
    USER_REST = "user_rest"
    USER_RESET = "user_reset"
    USER_DISABLE = "user_disable"
    USER_ENABLE = "user_enable"


AVAILABLE, LEASED, RUNNING = ResourceState.AVAILABLE, ResourceState.LEASED, ResourceState.RUNNING
COOLDOWN, FAULT, DISABLED = ResourceState.COOLDOWN, ResourceState.FAULT, ResourceState.DISABLED

BUSY = frozenset({LEASED, RUNNING})
"""States with a live lease: nothing but its end, a kick or its expiry takes it away."""

_R = CooldownReason
RESTING = frozenset({_R.USE, _R.EXPIRED, _R.MANUAL})
"""Reasons that time alone ends; the others need a passed probe as well, so only routes have them."""
EJECTING = frozenset({_R.HEALTH, _R.SLOW, _R.BLOCKED, _R.REGION})
"""Reasons of an ejection: the route itself is in doubt."""


def _events(text: str) -> frozenset[ResourceEvent]:
    return frozenset(map(ResourceEvent, text.split()))


_END = _events("released reclaimed")
_LOSS = _events("expired user_kick")

TRANSITIONS: Mapping[ResourceState, Mapping[ResourceState, frozenset[ResourceEvent]]] = {
    AVAILABLE: {
        LEASED: _events("claimed"),
        COOLDOWN: _events("ejected fatal_error user_rest"),
        FAULT: _events("fatal_error"),
        DISABLED: _events("user_disable"),
    },
    LEASED: {
        RUNNING: _events("started"),
        AVAILABLE: _END,
        COOLDOWN: _END | _LOSS,
        FAULT: _END | _LOSS,
        DISABLED: _END | _LOSS,
    },
    RUNNING: {
        AVAILABLE: _END,
        COOLDOWN: _END | _LOSS,
        FAULT: _END | _LOSS,
        DISABLED: _END | _LOSS,
    },
    COOLDOWN: {
        AVAILABLE: _events("rested probe_passed user_reset"),
        COOLDOWN: _events("probe_failed ejected fatal_error edited user_reset"),
        FAULT: _events("fatal_error recheck_failed"),
        DISABLED: _events("user_disable"),
    },
    FAULT: {
        AVAILABLE: _events("recheck_due recheck_passed edited user_reset"),
        COOLDOWN: _events("recheck_due edited user_reset"),
        DISABLED: _events("rechecks_exhausted user_disable"),
    },
    DISABLED: {
        AVAILABLE: _events("user_enable"),
        COOLDOWN: _events("user_enable"),
    },
}

_E = ResourceEvent
REASONS: Mapping[ResourceEvent, frozenset[CooldownReason]] = {
    _E.RELEASED: EJECTING | {_R.USE},
    _E.RECLAIMED: EJECTING | {_R.USE},
    _E.EXPIRED: EJECTING | {_R.EXPIRED},
    _E.USER_KICK: EJECTING | {_R.EXPIRED},
    _E.EJECTED: EJECTING,
    _E.FATAL_ERROR: frozenset({_R.HEALTH, _R.REGION}),
    _E.PROBE_FAILED: frozenset({_R.HEALTH, _R.SLOW, _R.REGION}),
    _E.RECHECK_DUE: frozenset({_R.PROBE}),
    _E.EDITED: frozenset({_R.PROBE}),
    _E.USER_RESET: frozenset({_R.PROBE}),
    _E.USER_REST: frozenset({_R.MANUAL}),
    _E.USER_ENABLE: RESTING | {_R.PROBE},
}
"""The reasons that an event may give to a cooldown."""

_ROUTES_ONLY = _events("ejected probe_passed probe_failed recheck_failed")
_ROUTES_RETURN = _events("released reclaimed rested probe_passed")


def check(
    resource_id: str,
    state: ResourceState,
    to: ResourceState,
    event: ResourceEvent,
    kind: Kind = Kind.UNIT,
    reason: CooldownReason | None = None,
    actor: str = "engine",
) -> None:
    """Raise `IllegalTransition` unless the table has this row for this kind, with this cooldown reason and actor.

    `reason` is given exactly where `to` is COOLDOWN. `actor` is `engine` or `<channel>:<name>`, e.g. `cli:ann`.
    """
    why = _fault(state, to, event, kind, reason)
    if not why and event.startswith("user_") and actor == "engine":
        why = f"{event} is a person's act, the engine may not do it by itself"
    if why:
        shown = f"{event}, {reason}" if reason else event
        raise IllegalTransition(
            f"{kind} {resource_id} is {state} and can't become {to} ({shown})",
            why,
            f"see: taskdeck {'route' if kind is Kind.ROUTE else 'resource'} show {resource_id}",
        )


def _fault(
    state: ResourceState, to: ResourceState, event: ResourceEvent, kind: Kind, reason: CooldownReason | None
) -> str:
    if event not in TRANSITIONS[state].get(to, ()):
        return f"from {state} it may become: {', '.join(sorted(TRANSITIONS[state]))}"
    if kind is Kind.UNIT and event in _ROUTES_ONLY:
        return f"{event} is for routes"
    if kind is Kind.ROUTE and to is AVAILABLE and event not in _ROUTES_RETURN:
        return "a route must pass a probe first"
    if to is COOLDOWN:
        return _reason_fault(event, kind, reason)
    return f"only a cooldown has a reason, not {to}" if reason else ""


def _reason_fault(event: ResourceEvent, kind: Kind, reason: CooldownReason | None) -> str:
    if reason is None:
        return "a cooldown needs its reason"
    if reason not in REASONS[event]:
        return f"{event} gives no cooldown of {reason}"
    if kind is Kind.UNIT and reason not in RESTING:
        return f"a cooldown of {reason} ends with a probe, and only routes have probes"
    return ""
