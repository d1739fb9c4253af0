"""What stands in the columns of resources and routes. Pure: read models in, cells out.

Owns which columns there are at which width. Texts are handed on as they came: the widget that draws them makes them harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from taskdeck.engine import views

from .. import format as look
from .. import stock_words
from .states import Glyphs
from .stories import NARROW, WIDE, Cells
from .tables import Plan, since, until
from .widgets.charts import bar, sparkline
from .widgets.virtual_list import Column

ROOMY = 80
"""Width from which resources show everything."""
BROAD = 90
"""Width from which routes show where they leave."""
SCORE_BAR = 5
SPARK = 6
"""Cells of a line of latencies: two results in each."""
HELD = ("LEASED", "RUNNING")
USABLE = ("AVAILABLE", *HELD)


# ---- resources ---------------------------------------------------------------------------------------------------------


def resource_columns(width: int) -> list[Column]:
    """For a pane of 40 columns and for a whole screen."""
    head = [Column("glyph", "", 1), Column("id", "ID", 11), Column("state", "STATE", 6)]
    if width < ROOMY:
        return [*head, Column("now", "NOW", 8, flex=True)]
    tail = [Column("uses", "USES", 5, "right"), Column("fence", "FENCE", 6, "right")]
    more = [Column("now", "NOW", 16, flex=True)]
    if width >= WIDE:
        tail += [Column("lease", "LEASE", 6, "right")]
        more += [Column("error", "LAST ERROR", 12, flex=True)]
    return [*head, Column("pool", "POOL", 10), *tail, *more]


def resource_cells(found: views.ResourceView, now: datetime, glyphs: Glyphs) -> Cells:
    """A resource, or one slot of it, in a line."""
    glyph, word, shape = glyphs.slot(found.state)
    return {
        "glyph": (glyph, shape),
        "id": (found.id, ""),
        "state": (word, shape),
        "pool": (found.pool, ""),
        "uses": (str(found.uses), ""),
        "fence": (str(found.fence or "-"), "dim"),
        "lease": (left(found.lease_until, now) if found.task else "-", "dim"),
        "now": (resource_now(found, now), "warn" if stock_words.unready(found, now) else ""),
        "error": (found.last_error or "", "bad" if found.state == "FAULT" else "dim"),
    }


def resource_now(found: views.ResourceView, now: datetime) -> str:
    """Who holds it for how long, or how long it rests; what becomes of it then."""
    parts = [f"#{found.task} for {since(found.held_since, now)}"] if found.task else []
    if found.cooldown_until:
        parts.append(f"{until(found.cooldown_until, now)} {found.cooldown_reason or ''}".strip())
    if found.owner and not found.task:
        parts.append(f"taken from {attempt_of(found.owner)}")
    if found.state == "FAULT" and not parts:
        parts.append(found.last_error or "")
    if then := stock_words.then(found):
        parts.append(f"then {then}")
    if not parts and (unready := stock_words.unready(found, now)):
        parts.append(unready)
    return ", ".join(parts)


def attempt_of(owner: str) -> str:
    """The task of a lease's owner: `task:42/1` is of `#42`."""
    return f"#{owner.removeprefix('task:').partition('/')[0]}"


def ahead(moment: str | None, now: datetime) -> str:
    """`in 1m20s`, or `due`, as what was never set is as well."""
    return until(moment, now) or "due"


def left(moment: str | None, now: datetime) -> str:
    """How long until then; `over` behind it."""
    seconds = (views.parse_utc(moment) - now).total_seconds() if moment else 0.0
    return look.span(seconds) if seconds > 0 else "over"


# ---- routes ------------------------------------------------------------------------------------------------------------


def short_route_columns(width: int) -> list[Column]:
    """For a pane among others."""
    head = [Column("glyph", "", 1), Column("id", "ID", 12), Column("state", "STATE", 6)]
    scores = [Column("score", "SCORE", 5, "right")]
    if width < NARROW:
        return [*head, *scores, Column("short", "NOW", 6, flex=True)]
    tail = [Column("ms", "LATENCY", 8, "right"), Column("stages", "CHECK", 5), Column("exit", "EXIT", 15)]
    return [*head, *scores, *tail, Column("now", "NOW", 12, flex=True)]


def route_columns(width: int) -> list[Column]:
    """For a screen of 60, 80, 93 and 120 columns."""
    head = [Column("glyph", "", 1), Column("id", "ID", 17), Column("state", "STATE", 6)]
    if width < NARROW:
        return [*head, Column("score", "SCORE", 5, "right"), Column("short", "NOW", 6, flex=True)]
    head += [Column("score", "SCORE", 5, "right"), Column("bar", "", SCORE_BAR)]
    head += [Column("ms", "LATENCY", 7, "right"), Column("spark", "", SPARK), Column("stages", "CHECK", 5)]
    if width >= WIDE:
        head += [Column("fails", "FAILS", 5), Column("group", "GROUP", 8)]
    if width >= BROAD:
        head += [Column("exit", "EXIT", 18)]
    return [*head, Column("now", "NOW", 12, flex=True)]


def route_cells(
    found: views.RouteView, now: datetime, glyphs: Glyphs, latencies: Sequence[float | None] = ()
) -> Cells:
    """A route in a line; `latencies` are its last results, the newest last."""
    glyph, word, shape = glyphs.slot(found.state)
    value = stock_words.score(found) + ("*" if found.degraded else "")
    health = score_look(found.score)
    told = _route_now(found, now)
    return {
        "glyph": (glyph, shape),
        "id": (found.id, ""),
        "state": (word, shape),
        "score": (value, health),
        "bar": (score_bar(found.score, SCORE_BAR), health),
        "ms": (look.milliseconds(found.latency_ms) or "-", ""),
        "spark": (sparkline(latencies, SPARK, ascii=glyphs.ascii_only), "dim"),
        "stages": (_stages(found, glyphs), "bad" if found.last_error else ""),
        "fails": (stock_words.fails(found) or "-", "warn" if found.consecutive_failures else "dim"),
        "group": (found.group, ""),
        "exit": (leaves_by(found), "bad" if is_elsewhere(found) else ""),
        "short": (told or look.milliseconds(found.latency_ms), "dim"),
        "now": (told, ""),
    }


def score_bar(value: float | None, width: int) -> str:
    """`####.`; blank without any result."""
    return bar(None if value is None else value / 100, width)


def score_look(value: float | None) -> str:
    """Green, yellow from where a route is chosen less, red below what ejects it."""
    if value is None:
        return "dim"
    return "good" if value >= 70 else "warn" if value >= 40 else "bad"


def is_elsewhere(found: views.RouteView) -> bool:
    """Does it leave in another region than was expected?"""
    return bool(found.region and found.expected_regions and found.region not in found.expected_regions)


def leaves_by(found: views.RouteView) -> str:
    """`203.0.113.7 DE`; `FR not DE 203.0.113.7` where another region was expected."""
    if is_elsewhere(found):
        return f"{found.region} not {'/'.join(found.expected_regions)} {found.exit_ip or ''}".rstrip()
    return " ".join(text for text in (found.exit_ip, found.region) if text) or "-"


def _stages(found: views.RouteView, glyphs: Glyphs) -> str:
    """`✓✓✗`: reached, probed, left by the right exit."""
    return "".join(stage_marks(found, glyphs)) if found.last_check_at else "-"


def stage_marks(found: views.RouteView, glyphs: Glyphs) -> list[str]:
    """A mark for each stage of the last check: passed, failed, or `-` where it was not run."""
    yes, no = ("y", "x") if glyphs.ascii_only else ("✓", "✗")
    marks: list[str] = []
    for ms in (found.stages.tcp, found.stages.probe, found.stages.exit):
        failed = ms is None and bool(found.last_error) and "-" not in marks and no not in marks
        marks.append(yes if ms is not None else no if failed else "-")
    return marks


def _route_now(found: views.RouteView, now: datetime) -> str:
    """Who holds it for how long; until when it rests and why; else when it is checked next."""
    parts = []
    if found.tasks:
        more = f" +{len(found.tasks) - 2}" if len(found.tasks) > 2 else ""
        parts.append(
            f"{' '.join(f'#{task}' for task in found.tasks[:2])}{more} for {since(found.held_since, now)}"
        )
    if found.cooldown_until:
        rests = until(found.cooldown_until, now)
        parts.append("check due" if rests == "due" else rests)
    if trouble := found.last_error or found.cooldown_reason:
        parts.append(trouble)
    if not parts and found.next_check_at and found.state != "DISABLED":
        parts.append(f"check {until(found.next_check_at, now)}")
    return ", ".join(parts)


def in_use(found: Sequence[views.ResourceView]) -> str:
    """`3 of 10 in use`."""
    return f"{sum(each.state in HELD for each in found)} of {len(found)} in use"


def usable(found: Sequence[views.RouteView]) -> str:
    """`8 of 10 usable`."""
    return f"{sum(each.state in USABLE for each in found)} of {len(found)} usable"


def best_first(found: Sequence[views.RouteView]) -> list[views.RouteView]:
    """Routes by their score; those without one are last."""
    return sorted(found, key=lambda each: (each.score is None, -(each.score or 0.0)))


_URGENT = ("FAULT", "COOLDOWN", "RUNNING", "LEASED", "AVAILABLE", "DISABLED")
"""States in the order in which they want to be looked at."""


def _place(state: str) -> int:
    return _URGENT.index(state) if state in _URGENT else len(_URGENT)


SORTS: dict[str, Callable[[Any], Any]] = {
    "id": lambda each: each.id,
    "state": lambda each: (_place(each.state), each.id),
    "pool": lambda each: (each.pool, each.id),
    "uses": lambda each: -each.uses,
    "now": lambda each: (
        each.cooldown_until is None,
        each.cooldown_until or "",
        each.held_since or "~",
        each.id,
    ),
    "score": lambda each: (each.score is None, -(each.score or 0.0)),
    "ms": lambda each: (each.latency_ms is None, each.latency_ms or 0.0),
    "fails": lambda each: (-each.consecutive_failures, -each.recent_timeouts),
    "group": lambda each: (each.group, each.id),
    "exit": lambda each: (not each.region, each.region or "", each.exit_ip or ""),
}
"""Columns that a list can be sorted by, what matters first."""


def ordered(found: Sequence[Any], column: str, *, turned: bool) -> list[Any]:
    """Sorted by a column; without one as they came."""
    key = SORTS.get(column)
    items = list(found) if key is None else sorted(found, key=key)
    return items[::-1] if turned else items


def marked(columns: Sequence[Column], column: str, *, turned: bool) -> list[Column]:
    """The columns, and at the title of the one that they are sorted by the way."""
    sign = "^" if turned else "v"
    return [
        replace(each, title=f"{each.title[: each.width - 1]}{sign}") if each.key == column else each
        for each in columns
    ]


def next_column(columns: Sequence[Column], column: str, step: int) -> str:
    """The one beside it that can be sorted by; beyond either end none, which is the order as it comes."""
    keys = ["", *(each.key for each in columns if each.key in SORTS)]
    place = keys.index(column) if column in keys else 0
    return keys[(place + step) % len(keys)]


RESOURCES = Plan(
    "resource", lambda each: each.id, resource_columns, resource_cells, "none; [[resources]] declares some"
)
_NONE = "none; [[routes]] declares some"
ROUTES = Plan("route", lambda each: each.id, route_columns, route_cells, f"{_NONE}, i imports a list")
SHORT_ROUTES = Plan("route", lambda each: each.id, short_route_columns, route_cells, _NONE)
