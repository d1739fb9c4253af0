"""What is said of resources and routes in the same words by the verbs and in the deck. Pure.

Both draw with it, so that it loads nothing of the command line.
"""

from __future__ import annotations

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
