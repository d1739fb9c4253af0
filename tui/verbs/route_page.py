"""How routes look: the table of many, and the page of one with the sum that makes its score. Pure."""

from __future__ import annotations

from datetime import datetime

from taskdeck.engine import views

from .. import format as look
from .. import output, stock_words
from . import named

SAMPLES_SHOWN = 10


def table(found: list[views.RouteView]) -> list[str]:
    """A line for each route."""
    now = views.now()
    headers = ("ID", "GROUP", "STATE", "SCORE", "LATENCY", "FAILS", "EXIT", f"NOW ({look.zone(now)})")
    rows = [
        (
            each.id,
            each.group,
            look.state(each.state),
            stock_words.score(each) + ("*" if each.degraded else ""),
            look.milliseconds(each.latency_ms),
            stock_words.fails(each),
            " ".join(look.tidy(text) for text in (each.exit_ip, each.region) if text),
            _now(each, now),
        )
        for each in found
    ]
    lines = look.table(headers, rows, width=output.width(), paints=named.paints())
    degraded = any(each.degraded for each in found)
    return (
        [*lines, "* degraded: chosen last, kept since too many of its group are out"] if degraded else lines
    )


def _now(found: views.RouteView, now: datetime) -> str:
    """Who holds it, its last error, until when it rests."""
    shown = named.now_doing(
        tasks=found.tasks,
        since=found.held_since,
        reason=look.tidy(found.last_error or found.cooldown_reason or ""),
        until=found.cooldown_until,
        then="",
        now=now,
    )
    busy = [f"{found.busy}/{found.capacity}"] if found.capacity > 1 and found.busy else []
    error = [look.tidy(found.last_error)] if found.last_error and not found.cooldown_until else []
    return " ".join([*busy, *([shown] if shown else []), *error])


def page(found: views.RouteView) -> list[str]:
    """Everything about one route."""
    now = views.now()
    lines = look.fields(
        [
            ("route", found.id),
            ("url", look.tidy(found.url)),
            ("password", found.password or ""),
            ("group", found.group),
            ("state", _state(found)),
            ("usable", _usable(found)),
            ("score", look.breakdown(found.breakdown)),
            ("latency", look.milliseconds(found.latency_ms)),
            ("failures", f"{found.consecutive_failures} in a row, {found.recent_timeouts} recent timeouts"),
            ("last check", _last_check(found)),
            ("last error", stock_words.error(found)),
            ("last success", look.local(found.last_ok_at)),
            ("next check", look.local(found.next_check_at)),
            ("checks cost", stock_words.checks(found)),
            ("exit", _exit(found)),
            ("expected", stock_words.expected(found)),
            ("held by", _holders(found)),
            ("capacity", f"{found.busy} of {found.capacity} in use" if found.capacity > 1 else ""),
            ("rest after use", views.format_duration(found.min_reuse) if found.min_reuse else ""),
            ("bandwidth", views.format_rate(found.bandwidth) if found.bandwidth else ""),
            ("labels", stock_words.labels(found.labels)),
            ("removed", look.local(found.removed_at)),
        ]
    )
    return [*lines, *_slots(found, now), *_targets(found), *_samples(found, now)]


def _state(found: views.RouteView) -> str:
    text = look.state(found.state, colour=output.coloured())
    if found.cooldown_until:
        text += f" ({found.cooldown_reason}, until {look.local(found.cooldown_until)})"
    if found.cooldown_level:
        text += f", level {found.cooldown_level}"
    return text + (", degraded: chosen last" if found.degraded else "")


def _usable(found: views.RouteView) -> str:
    return f"no: {look.tidy(found.why_not)}" if isinstance(found.why_not, str) and found.why_not else "yes"


def _last_check(found: views.RouteView) -> str:
    if not found.last_check_at:
        return "never"
    stages = {"tcp": found.stages.tcp, "probe": found.stages.probe, "exit": found.stages.exit}
    shown = [f"{name} {look.milliseconds(ms)}" for name, ms in stages.items() if ms is not None]
    return f"{look.local(found.last_check_at)}: {', '.join(shown) or 'no stage passed'}"


def _exit(found: views.RouteView) -> str:
    seen = f"seen {look.local(found.exit_seen_at)}" if found.exit_ip and found.exit_seen_at else ""
    return ", ".join(filter(None, (stock_words.leaves(found), seen, stock_words.proved(found))))


def _holders(found: views.RouteView) -> str:
    """One line for each lease: whose, since when, under which fence."""
    return "\n".join(
        f"#{each.task} since {look.local(each.held_since)}, lease until {look.local(each.lease_until)}, fence {each.fence}"
        for each in stock_words.leases(found)
    )


def _slots(found: views.RouteView, now: datetime) -> list[str]:
    if not isinstance(found.slots, list) or found.capacity == 1:
        return []
    rows = [
        (str(each.slot), look.state(each.state), named.slot_now(each, now), str(each.uses))
        for each in found.slots
    ]
    return [
        "",
        *look.table(("SLOT", "STATE", "NOW", "USES"), rows, width=output.width(), paints=named.paints()),
    ]


def _targets(found: views.RouteView) -> list[str]:
    if not isinstance(found.targets, list) or not found.targets:
        return []
    rows = [
        (
            look.tidy(each.target),
            str(each.ok),
            str(each.fail),
            str(each.blocked),
            look.local(each.blocked_until),
        )
        for each in found.targets
    ]
    return ["", *look.table(("TARGET", "OK", "FAIL", "BLOCKED", "UNTIL"), rows, width=output.width())]


def _samples(found: views.RouteView, now: datetime) -> list[str]:
    if not isinstance(found.samples, list) or not found.samples:
        return []
    rows = [
        (
            look.local(each.at, now=now),
            each.source,
            "✓" if each.error_type is None else f"✗ {look.tidy(each.error_type)}",
            look.milliseconds(each.ms),
            look.tidy(each.target or ""),
        )
        for each in found.samples[:SAMPLES_SHOWN]
    ]
    return ["", *look.table(("AT", "BY", "RESULT", "TOOK", "TARGET"), rows, width=output.width())]
