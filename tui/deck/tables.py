"""What stands in the columns of the deck's lists: of tasks, resources, routes and events. Pure: read models in, cells out.

Owns which columns there are at which width, and how a value is shortened to fit one. Texts are handed on as they came: the
widget that draws them makes them harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from taskdeck.engine import views

from .. import format as look
from ..verbs import task_page
from .reads import Recovered
from .states import Glyphs
from .stories import NARROW, WIDE, Cells, event_cells, event_columns
from .widgets.virtual_list import Column

BAR = 8
"""Cells of a progress bar."""


TIME = 9
"""Cells of the column that tells for how long, in how long, or how long ago."""
SHORT_TIME = 8
"""The same on a narrow screen."""


class Plan(NamedTuple):
    """A kind of list: what names an item, its columns at a width, and its cells at a moment."""

    kind: str
    name: Callable[[Any], Any]
    columns: Callable[[int], Sequence[Column]]
    cells: Callable[[Any, datetime, Glyphs], Cells]
    empty: str


# ---- tasks -------------------------------------------------------------------------------------------------------------


def task_columns(width: int) -> list[Column]:
    """For 60, 80, 93 and 160 columns."""
    head = [Column("glyph", "", 1), Column("id", "ID", 7), Column("state", "STATE", 5)]
    when = Column("when", "WHEN", TIME, "right")
    if width < NARROW:
        short = Column("short when", "WHEN", SHORT_TIME, "right")
        return [*head, Column("what", "WHAT", 8, flex=True), short]
    if width < 90:
        tail = [Column("percent", "PROG", 4, "right"), Column("try", "TRY", 4), Column("held", "HOLDS", 10)]
        return [*head, Column("type", "TYPE", 16), *tail, when, Column("note", "NOTE", 14, flex=True)]
    tail = [Column("bar", "PROG", 5 + BAR), Column("try", "TRY", 4), Column("held", "RES", 10)]
    tail += [Column("route", "ROUTE", 10)] if width >= WIDE else []
    return [
        *head,
        Column("type", "TYPE", 18 if width >= WIDE else 16),
        *tail,
        when,
        Column("note", "NOTE", 14, flex=True),
    ]


def short_task_columns(width: int) -> list[Column]:
    """For a pane among others."""
    head = [Column("glyph", "", 1), Column("id", "ID", 6), Column("state", "STATE", 5)]
    if width < NARROW:
        return [*head, Column("what", "WHAT", 8, flex=True)]
    tail = [Column("percent", "PROG", 4, "right"), Column("when", "WHEN", TIME, "right")]
    return [*head, Column("type", "TYPE", 16), *tail, Column("note", "NOTE", 14, flex=True)]


def task_cells(task: views.TaskView, now: datetime, glyphs: Glyphs) -> Cells:
    """A task in a line."""
    glyph, word, shape = glyphs.task(task.state)
    if task_page.is_stranded(task):
        glyph, word, shape = ("?", "GONE", "lost")
    if task.wanted:
        word = {"pause": "PAUS…", "cancel": "STOP…", "resume": "GO…"}.get(task.wanted, word)
    done = percent(task.progress)
    held = ", ".join(task.resources)
    return {
        "glyph": (glyph, shape),
        "id": (str(task.id), ""),
        "state": (glyphs.plain(word), shape),
        "type": (task.type, ""),
        "what": (_what_and_note(task), ""),
        "percent": ("-" if done is None else f"{done:.0f}%", ""),
        "bar": (bar(done), ""),
        "try": (task_page.attempt(task), ""),
        "held": (held or task.route or "-", "" if held or task.route else "dim"),
        "route": (task.route or "-", "" if task.route else "dim"),
        "when": (_when(task, now, TIME), ""),
        "short when": (_when(task, now, SHORT_TIME), ""),
        "note": (note(task), "bad" if task.state in ("FAILED", "DEAD") else "dim"),
    }


def percent(progress: views.Progress | None) -> float | None:
    """How far, 0 to 100, where that can be said."""
    if progress is None or progress.done is None or not progress.total:
        return None
    return min(max(100 * progress.done / progress.total, 0), 100)


def bar(done: float | None) -> str:
    """` 62% #####...`."""
    if done is None:
        return "   -"
    full = round(done * BAR / 100)
    return f"{done:3.0f}% {'#' * full}{'.' * (BAR - full)}"


SAID_ELSEWHERE = ("is due at", "retries at", "no engine runs")
"""Reasons that the header or the column WHEN tell already."""


def note(task: views.TaskView) -> str:
    """What is most worth knowing: why it waits, how far it is, what went wrong, else what it does."""
    if task.state == "RUNNING" and task.progress:
        return task_page.progress(task.progress) or task.summary
    if task.state not in ("PAUSED", "NEEDS_REVIEW"):
        for each in task.waits:
            if not each.startswith(SAID_ELSEWHERE):
                return task_page.local_times(each)
    if found := task_page.standing_error(task):
        return found
    if task.state in ("PAUSED", "NEEDS_REVIEW"):
        return task.reason.replace("_", " ")
    return task.summary if task.type == "shell" or not task.key else task.key


def what(task: views.TaskView) -> str:
    """What it is: of a command the command, else the type."""
    return task.summary if task.type == "shell" else task.type


def _what_and_note(task: views.TaskView) -> str:
    """Both in one text, for a narrow screen: the command says more of which task it is than its type `shell`."""
    said = note(task)
    return what(task) if said == what(task) else f"{what(task)}  {said}"


def _when(task: views.TaskView, now: datetime, room: int) -> str:
    """`for 4m16s` it has run, `in 4m13s` it starts, `2h ago` it ended or was last changed.

    Never the bare time, which could be read as any of them: what has no room for two units has one.
    """
    if task_page.is_stranded(task):
        return "-"
    if task.state == "RUNNING":
        return _within(room, "for", since(task.attempt_started_at, now))
    if task.state in ("PENDING", "RETRYING"):
        return _within(room, *until(task.next_run_at, now).split())
    if task.state == "PAUSED":
        return "paused"
    return f"{age(task.finished_at or task.updated_at, now)} ago"


def _within(room: int, *words: str) -> str:
    """The words, in one unit of time where two have no room."""
    text = " ".join(words)
    return text if len(text) <= room else _in_one_unit(text)


def _in_one_unit(text: str) -> str:
    return re.sub(r"(\d+[a-z])\w*", r"\1", text)


def until(moment: str | None, now: datetime) -> str:
    """`in 48s`, `in 2h17m`, or `due`."""
    if not moment:
        return ""
    seconds = (views.parse_utc(moment) - now).total_seconds()
    return f"in {look.span(seconds + 0.999)}" if seconds > 0 else "due"


def age(moment: str | None, now: datetime) -> str:
    """How long ago, in one unit: `5s`, `11m`, `3h`, `2d`."""
    return _in_one_unit(since(moment, now))


def since(moment: str | None, now: datetime) -> str:
    """For how long already, in one or two units."""
    return look.span((now - views.parse_utc(moment)).total_seconds()) if moment else ""


# ---- what a start decided --------------------------------------------------------------------------------------------


def recovered_columns(width: int) -> list[Column]:
    """The task, and what became of it."""
    return [Column("id", "ID", 7), Column("story", "DECIDED", 20, flex=True)]


def recovered_cells(found: Recovered, now: datetime, glyphs: Glyphs) -> Cells:
    """What a start decided about a task, in a line."""
    for_a_person = "doubt" in found.story or "review" in found.story
    return {"id": (f"#{found.task}", "strong"), "story": (found.story, "warn" if for_a_person else "")}


TASKS = Plan(
    "task", lambda task: task.id, task_columns, task_cells, "no task; add one: taskdeck add -- COMMAND"
)
QUEUE = Plan("task", lambda task: task.id, short_task_columns, task_cells, "nothing runs and nothing waits")
EVENTS = Plan("event", lambda row: row.event.event_id, event_columns, event_cells, "nothing has happened yet")
RECOVERED = Plan("task", lambda each: each.task, recovered_columns, recovered_cells, "nothing")
