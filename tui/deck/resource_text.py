"""What a resource's page says: who holds each of its slots since when, what it rests for, what it is bound to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from taskdeck.engine import views

from .. import format as look
from .. import stock_words
from .states import Glyphs
from .stock_tables import ahead, attempt_of, left
from .tables import since
from .widgets.charts import bar
from .widgets.text import Line

BAR = 20


def page(slots: Sequence[views.ResourceView], glyphs: Glyphs, width: int, now: datetime) -> list[Line]:
    """All lines of one resource, a part for each of its slots."""
    first = slots[0]
    lines: list[Line] = []
    for each in slots:
        glyph, word, shape = glyphs.slot(each.state)
        lines += [(f"{glyph} {word}   {each.id}", shape)] if len(slots) > 1 else [(f"{glyph} {word}", shape)]
        lines += [(line, "") for line in look.fields(_slot(each, now), width=width)]
        lines.append(("", ""))
    shared = [
        ("pool", first.pool),
        ("kind", first.kind if first.kind != "unit" else ""),
        ("capacity", str(first.capacity)),
        ("rest after", views.format_duration(first.min_reuse) if first.min_reuse else "none"),
        ("kept for", views.format_duration(first.max_age) if first.max_age else ""),
        ("ready", stock_words.readiness(first)),
        ("goes out by", stock_words.bound(first)),
        ("labels", stock_words.labels(first.labels)),
        ("removed", look.local(first.removed_at)),
    ]
    return [*lines, *((line, "") for line in look.fields(shared, width=width))]


def _slot(found: views.ResourceView, now: datetime) -> list[tuple[str, str]]:
    return [
        ("held by", _holder(found, now)),
        ("lease", f"{left(found.lease_until, now)} left, fence {found.fence}" if found.task else ""),
        ("rests", _rest(found, now)),
        ("then", stock_words.then(found)),
        (
            "uses",
            f"{stock_words.uses(found)}, the last {since(found.last_used_at, now)} ago"
            if found.last_used_at
            else "none",
        ),
        ("fence", str(found.fence) if found.fence and not found.task else ""),
        ("last error", look.tidy(found.last_error or "")),
    ]


def _holder(found: views.ResourceView, now: datetime) -> str:
    if found.task:
        return f"#{found.task} for {since(found.held_since, now)}"
    return f"nobody; it was taken from {attempt_of(found.owner)}" if found.owner else "nobody"


def _rest(found: views.ResourceView, now: datetime) -> str:
    """How much of its rest is left, as a bar where its length is known."""
    if not found.cooldown_until:
        return ""
    after = f" ({found.cooldown_reason})" if found.cooldown_reason else ""
    told = f"{ahead(found.cooldown_until, now)}{after}"
    if found.cooldown_reason != "USE" or not found.min_reuse:
        return told
    seconds = (views.parse_utc(found.cooldown_until) - now).total_seconds()
    return f"{bar(1 - seconds / found.min_reuse, BAR)}  {told}"
