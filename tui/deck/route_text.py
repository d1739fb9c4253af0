"""What a route's page says: the sum that makes its score, the stages of its last check, who holds it, what targets do to it,
and why it or others of its group are not chosen. Pure: models in, lines out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from taskdeck.engine import views

from .. import format as look
from .. import stock_words
from .states import Glyphs
from .stock_tables import ahead, is_elsewhere, left, score_bar, score_look, stage_marks
from .tables import since
from .widgets.charts import sparkline
from .widgets.text import Line

SHOWN = 15
"""Results, and rows of any table, that are listed."""
BAR = 20
SPARK = 15


def page(
    found: views.RouteView, why_not: Mapping[str, str], glyphs: Glyphs, width: int, now: datetime
) -> list[Line]:
    """All lines. `why_not`: why each route of its group can't be chosen now, empty for those that can."""
    glyph, word, shape = glyphs.slot(found.state)
    degraded = ", degraded: chosen last" if found.degraded else ""
    why = why_not.get(found.id, found.why_not if isinstance(found.why_not, str) else "")
    head: list[Line] = [
        (f"{glyph} {word}{degraded}   {look.tidy(found.url)}", shape),
    ]
    if found.score is not None:
        head.append((f"{stock_words.score(found):>5} {score_bar(found.score, BAR)}", score_look(found.score)))
    fields = look.fields(
        [
            ("score", glyphs.plain(look.breakdown(found.breakdown))),
            ("made of", _parts(found)),
            ("usable", f"no: {look.tidy(why)}" if why else "yes"),
            ("stages", _stages(found, glyphs)),
            ("latency", _latency(found, glyphs)),
            ("check", _check(found, now)),
            ("checks cost", stock_words.checks(found)),
            ("error", stock_words.error(found)),
            ("exit", _exit(found)),
            ("rests", _rest(found, now)),
            ("held by", _holders(found, now)),
            ("in use", f"{found.busy} of {found.capacity}" if found.capacity > 1 else ""),
            ("rest after", views.format_duration(found.min_reuse) if found.min_reuse else ""),
            ("uses", f"at most {found.max_uses}" if found.max_uses else ""),
            ("bandwidth", views.format_rate(found.bandwidth) if found.bandwidth else ""),
            ("labels", stock_words.labels(found.labels)),
            ("group", f"{found.group}: {_chosen(why_not)}" if why_not else found.group),
        ],
        width=width,
    )
    return [
        *head,
        *((line, _stands_out(line)) for line in fields),
        *_refused(found, why_not),
        *_targets(found, now),
        *_samples(found, now),
    ]


def _stands_out(line: str) -> str:
    """The look of a line that keeps the route from being used, or says that something is wrong."""
    if line.startswith("error"):
        return "bad"
    return "warn" if (line.startswith("usable") and " no: " in line) or "ELSEWHERE, " in line else ""


def _parts(found: views.RouteView) -> str:
    """What the sum is made of, in its order."""
    if found.breakdown is None:
        return ""
    parts = [
        f"{found.breakdown.base:.0f}",
        look.milliseconds(found.latency_ms) or "no latency yet",
        f"{found.consecutive_failures} failed in a row",
        f"{found.recent_timeouts} recent timeouts",
    ]
    return ", ".join(parts)


def _stages(found: views.RouteView, glyphs: Glyphs) -> str:
    stages = {
        "reached": found.stages.tcp,
        "probed": found.stages.probe,
        "left by its exit": found.stages.exit,
    }
    if not found.last_check_at:
        return "never checked"
    marks = stage_marks(found, glyphs)
    return ", ".join(
        f"{mark} {name} {look.milliseconds(ms)}".rstrip()
        for mark, (name, ms) in zip(marks, stages.items(), strict=True)
    )


def _latency(found: views.RouteView, glyphs: Glyphs) -> str:
    """The median, the last results as a line (what failed leaves a gap), their range, how many failed."""
    samples = found.samples if isinstance(found.samples, list) else []
    if not samples:
        return look.milliseconds(found.latency_ms)
    times = [None if each.error_type else each.ms for each in reversed(samples)]
    known = [each for each in times if each is not None]
    failed = sum(each.error_type is not None for each in samples)
    line = sparkline(times, SPARK, ascii=glyphs.ascii_only).strip()
    span = f"{min(known):.0f} to {max(known):.0f} ms" if known else "no time yet"
    parts = [look.milliseconds(found.latency_ms), line, f"{span}, {failed} of {len(samples)} failed"]
    return "  ".join(part for part in parts if part)


def _check(found: views.RouteView, now: datetime) -> str:
    if not (found.last_check_at or found.next_check_at):
        return ""
    last = f"{since(found.last_check_at, now)} ago" if found.last_check_at else "never yet"
    return f"{last}, next {ahead(found.next_check_at, now)}" if found.next_check_at else last


def _exit(found: views.RouteView) -> str:
    """Where it leaves, by whose word, and what was expected; a region that is another stands out."""
    parts = [stock_words.leaves(found)]
    if wanted := stock_words.expected(found):
        parts.append(f"{'ELSEWHERE, ' if is_elsewhere(found) else ''}expected {look.tidy(wanted)}")
    return ", ".join(filter(None, [*parts, stock_words.proved(found)]))


def _rest(found: views.RouteView, now: datetime) -> str:
    level = f"level {found.cooldown_level}" if found.cooldown_level else ""
    if not found.cooldown_until:
        return f"none; {level}" if level else ""
    end = ahead(found.cooldown_until, now)
    return f"{end} ({found.cooldown_reason})" + (f", {level}" if level else "")


def _holders(found: views.RouteView, now: datetime) -> str:
    """One line for each that holds a slot."""
    return "\n".join(
        f"#{each.task} for {since(each.held_since, now)}, lease {left(each.lease_until, now)}, fence {each.fence}"
        + (f", then {then}" if (then := stock_words.then(each)) else "")
        for each in stock_words.leases(found)
    )


def _chosen(why_not: Mapping[str, str]) -> str:
    return f"{sum(not why for why in why_not.values())} of {len(why_not)} can be chosen"


def _refused(found: views.RouteView, why_not: Mapping[str, str]) -> list[Line]:
    """Why the others of its group are not chosen, in the words of the choice."""
    rows = [(name, look.tidy(why)) for name, why in why_not.items() if why and name != found.id]
    return _table(("NOT CHOSEN", "WHY"), rows)


def _targets(found: views.RouteView, now: datetime) -> list[Line]:
    targets = found.targets if isinstance(found.targets, list) else []
    rows = [
        (
            look.tidy(each.target),
            str(each.ok),
            str(each.fail),
            str(each.blocked),
            ahead(each.blocked_until, now) if each.blocked_until else "",
        )
        for each in targets
    ]
    return _table(("TARGET", "OK", "FAIL", "BLOCKED", "TRIED AGAIN"), rows)


def _samples(found: views.RouteView, now: datetime) -> list[Line]:
    samples = found.samples if isinstance(found.samples, list) else []
    rows = [
        (
            look.local(each.at, now=now),
            look.tidy(each.source),
            "passed" if each.error_type is None else look.tidy(each.error_type),
            look.milliseconds(each.ms),
            look.tidy(each.target or ""),
        )
        for each in samples
    ]
    return _table(("AT", "BY", "RESULT", "TOOK", "TARGET"), rows)


def _table(headers: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[Line]:
    """A table under a blank line; nothing without rows, and of many the first and how many more."""
    if not rows:
        return []
    title, *lines = look.table(headers, rows[:SHOWN])
    more: list[Line] = [(f"and {len(rows) - SHOWN} more", "dim")] if len(rows) > SHOWN else []
    return [("", ""), (title, "title"), *((line, "") for line in lines), *more]
