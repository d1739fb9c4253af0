"""What is said of resources and routes in the same words by the verbs and in the deck. Pure.

Both draw with it, so that it loads nothing of the command line.
"""

from __future__ import annotations

from datetime import datetime

from taskdeck.engine import views

from . import format as look

_SOFT = "or by another where it can't be had"


def labels(found: dict[str, str]) -> str:
    """Labels in a line."""
    return ", ".join(f"{look.tidy(name)}={look.tidy(value)}" for name, value in found.items())


def then(found: views.ResourceView | views.SlotView) -> str:
    """What becomes of it when its attempt ends, `disabled` or another state; "" where it goes on."""
    return (found.pending or ("disabled" if found.drain else "")).lower()


def uses(found: views.ResourceView) -> str:
    """`12`, or `12 of 100`."""
    return f"{found.uses} of {found.max_uses}" if found.max_uses else str(found.uses)


def unready(found: views.ResourceView, now: datetime) -> str:
    """Why nobody gets it although it is free, as its check found; "" where that is not so."""
    if found.ready is None or found.state != "AVAILABLE":
        return ""
    if found.ready.state == "checking":
        lasts = found.ready.until is not None and views.parse_utc(found.ready.until) > now
        return "is being checked" if lasts else ""
    return f"not ready: {look.tidy(found.ready.detail)}" if found.ready.state == "not_ready" else ""


def readiness(found: views.ResourceView) -> str:
    """What its check found and when, in a sentence; "" where it has none."""
    ready = found.ready
    if ready is None:
        return ""
    if ready.state in ("unasked", "checking"):
        return "is being checked" if ready.state == "checking" else "asked before it is handed out"
    at = f"asked {look.local(ready.checked_at)}"
    if ready.state == "ready":
        return f"yes, {at}"
    why = look.tidy(ready.detail) or "its check failed"
    times = f", {ready.failures} times in a row" if ready.failures > 1 else ""
    return f"no: {why} ({at}{times}; again {look.local(ready.until)})"


def leaves(found: views.RouteView) -> str:
    """The address and region by which it leaves, and whose word the region is; "" before that is known."""
    if not found.exit_ip:
        return ""
    source = f" (by {look.tidy(found.region_source)})" if found.region and found.region_source else ""
    return f"{look.tidy(found.exit_ip)} {look.tidy(found.region or 'in an unknown region')}{source}"


def proved(found: views.RouteView) -> str:
    """Whether its last passed check proved that no proxy answered in the judge's place; "" before the first."""
    if found.verified is None:
        return ""
    return "verified" if found.verified else "unverified: a proxy could have answered itself"


def checks(found: views.RouteView) -> str:
    """What its checks have cost so far."""
    return f"{views.size_text(found.probe_bytes)} so far" if found.probe_bytes else ""


def bound(found: views.ResourceView) -> str:
    """Which route goes with it, and whether it must."""
    if not found.route:
        return ""
    return f"{found.route} ({_SOFT if found.route_soft else 'and by no other'})"


def score(found: views.RouteView) -> str:
    """The score with one decimal; `?` without any result."""
    return "?" if found.score is None else f"{found.score:.1f}"


def fails(found: views.RouteView) -> str:
    """`2+1t`: failures in a row and recent timeouts; "" where there are none."""
    if not found.consecutive_failures and not found.recent_timeouts:
        return ""
    return f"{found.consecutive_failures}" + (f"+{found.recent_timeouts}t" if found.recent_timeouts else "")


def error(found: views.RouteView) -> str:
    """What failed last, with its detail."""
    if not found.last_error:
        return ""
    detail = look.tidy(found.last_error_detail or "")
    return f"{found.last_error}: {detail}" if detail else found.last_error


def expected(found: views.RouteView) -> str:
    """By which address and regions it should leave."""
    return ", ".join([*([found.expected_ip] if found.expected_ip else []), *found.expected_regions])


def leases(found: views.RouteView) -> list[views.SlotView]:
    """Its slots that are held, where they were read with it."""
    slots = found.slots if isinstance(found.slots, list) else []
    return [each for each in slots if each.task is not None]
