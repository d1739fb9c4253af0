"""Events as they are told: the telling words first, and what repeats itself once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from taskdeck.engine import views

from .. import format as look
from .states import Glyphs
from .widgets.virtual_list import Cell, Column

Cells = dict[str, Cell]
NARROW, WIDE = 70, 110
"""Widths from which lists show more."""
LEVELS = {"debug": (" ", "dim"), "info": (" ", ""), "warning": ("!", "warn"), "error": ("✗", "bad")}


class EventRow(NamedTuple):
    """An event, and how many like it followed at once; `last` is the newest of them."""

    event: views.EventView
    last: views.EventView
    times: int = 1


def folded(events: Iterable[views.EventView], before: Sequence[EventRow] = ()) -> list[EventRow]:
    """`before` and these events behind it, those that tell the same of the same thing together."""
    rows = list(before)
    for event in events:
        if rows and _alike(rows[-1].last, event):
            rows[-1] = rows[-1]._replace(last=event, times=rows[-1].times + 1)
        else:
            rows.append(EventRow(event, event))
    return rows


def _alike(one: views.EventView, other: views.EventView) -> bool:
    if _told(one) != _told(other):
        return False
    return one.event_type == "CHECKPOINT_SAVED" or _turn(one) == _turn(other)


def _told(event: views.EventView) -> tuple[Any, ...]:
    about = (event.task_id, event.resource_id, event.route_id, event.worker_id)
    return (*about, event.event_type, event.level, event.reason, event.message)


def _turn(event: views.EventView) -> tuple[Any, Any]:
    payload = event.payload
    return payload.get("from"), payload.get("to")


def event_columns(width: int) -> list[Column]:
    """When, about what, and the story."""
    head = [Column("at", "AT", 8), Column("glyph", "", 1)]
    if width < NARROW:
        return [*head, Column("about", "ABOUT", 8), Column("story", "EVENT", 20, flex=True)]
    tail = [Column("by", "BY", 12)] if width >= WIDE else []
    return [*head, Column("about", "ABOUT", 13), Column("story", "EVENT", 30, flex=True), *tail]


def event_cells(row: EventRow, now: datetime, glyphs: Glyphs) -> Cells:
    """Events of one kind in a line."""
    event = row.last
    sign, shape = LEVELS.get(event.level, (" ", ""))
    moment = look.here(views.parse_utc(event.created_at))
    thing = event.resource_id or event.route_id
    about = thing or (f"#{event.task_id}" if event.task_id else "")
    same_day = moment.date() == look.here(now).date()
    times = f" (×{row.times})" if row.times > 1 else ""
    return {
        "at": (f"{moment:%H:%M:%S}" if same_day else f"{moment:%d %H:%M}", "dim"),
        "glyph": (glyphs.plain(sign), shape),
        "about": (about or (f"worker {event.worker_id}" if event.worker_id else ""), "strong"),
        "story": (story(event, glyphs) + glyphs.plain(times), shape),
        "by": (event.actor, "dim"),
    }


def story(event: views.EventView, glyphs: Glyphs) -> str:
    """What happened, the telling words first."""
    payload = event.payload
    if event.event_type.endswith("_STATE") and "to" in payload:
        first = _change(event.event_type, str(payload.get("from")), str(payload["to"]), glyphs)
    elif event.event_type == "CHECKPOINT_SAVED" and payload:
        first = f"checkpoint {payload.get('seq')}"
    else:
        first = event.event_type.lower().replace("_", " ")
    reason = (event.reason or "").replace("_", " ")
    said = [part for part in (reason, event.message) if part and part.lower() not in first]
    for_task = f"#{event.task_id}" if event.task_id and (event.resource_id or event.route_id) else ""
    return " ".join([first, *dict.fromkeys(said), for_task]).rstrip()


def _change(kind: str, before: str, after: str, glyphs: Glyphs) -> str:
    """`WAIT › ▸ RUN`; what stays as it is, and what begins, is only named."""
    of = glyphs.task if kind == "TASK_STATE" else glyphs.slot
    glyph, word, _ = of(after)
    if before in (after, "None"):
        return f"{glyph} {word}"
    return f"{of(before)[1]} {glyphs.plain('›')} {glyph} {word}"
