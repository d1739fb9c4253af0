"""What a task's page says, section by section, as lines that fit a width. Pure: read models in, texts out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from taskdeck.engine import views

from .. import format as look
from ..verbs import task_page, task_records
from . import tables
from .reads import Detail
from .states import Glyphs
from .stories import story

SECTIONS = ("Summary", "Attempts", "Checkpoint", "Payload", "Events")


def section(name: str, found: Detail, glyphs: Glyphs, width: int) -> list[str]:
    """The lines of one section."""
    lines = _SECTIONS[name](found, glyphs, max(width, 20))
    return lines or [f"no {name.lower()} yet"]


def heading(found: Detail, glyphs: Glyphs) -> tuple[str, str, str]:
    """`#42 fetch`, `▸ RUN  62%  attempt 1/5`, and the look of the state."""
    task = found.task
    glyph, word, shape = glyphs.task(task.state)
    if task_page.is_stranded(task):
        glyph, word, shape = "?", "GONE", "lost"
    done = tables.percent(task.progress)
    parts = [f"{glyph} {word}", *([f"{done:.0f}%"] if done is not None else [])]
    parts.append(f"attempt {task_page.attempt(task)}")
    return f"#{task.id} {look.tidy(task.type)}", "  ".join(parts), shape


def _summary(found: Detail, glyphs: Glyphs, width: int) -> list[str]:
    task = found.task
    why = [task_page.local_times(look.tidy(each)) for each in found.why]
    return look.fields(
        [
            ("state", f"{task.state.lower().replace('_', ' ')} ({task.reason.replace('_', ' ')})"),
            ("why", "\n".join(why)),
            ("wanted", task.wanted or ""),
            ("rollback", _rollback(task)),
            ("what", _what(task)),
            ("progress", _progress(task)),
            (task_page.error_name(task), look.block(task_page.error(task.error)) if task.error else ""),
            ("LEFT", "\n".join(map(task_page.left, task.left or ()))),
            ("needs", ", ".join([*task.needs, *([f"route {task.wants_route}"] if task.wants_route else [])])),
            ("holds", ", ".join([*task.resources, *([f"route {task.route}"] if task.route else [])])),
            ("tries", _tries(task)),
            ("priority", str(task.priority)),
            ("key", look.tidy(task.key or "")),
            ("tags", ", ".join(map(look.tidy, task.tags))),
            ("timeout", views.format_duration(task.timeout) if task.timeout else ""),
            ("bandwidth", views.format_rate(task.bandwidth) if task.bandwidth else ""),
            ("next run", look.local(task.next_run_at) if task.state in ("PENDING", "RETRYING") else ""),
            ("created", look.local(task.created_at)),
            ("started", look.local(task.started_at)),
            ("finished", look.local(task.finished_at)),
            ("checkpoint", _last_checkpoint(found)),
            ("result", look.tidy(_json(task.result)) if task.result is not None else ""),
        ],
        width=width,
    )


def _what(task: views.TaskView) -> str:
    if isinstance(task.payload, dict) and isinstance(argv := task.payload.get("argv"), list):
        return look.tidy(shlex.join(map(str, argv)))
    return look.tidy(task.summary)


def _progress(task: views.TaskView) -> str:
    if task.progress is None:
        return ""
    done = tables.percent(task.progress)
    return (
        f"{tables.bar(done).strip()}  {task_page.progress(task.progress)}"
        if done is not None
        else (task_page.progress(task.progress))
    )


def _tries(task: views.TaskView) -> str:
    lost = f", {task.losses} lost" if task.losses else ""
    return f"attempt {task.attempt}, {task.retry_count} of {task.max_retry} retries{lost}"


def _last_checkpoint(found: Detail) -> str:
    if not found.checkpoints:
        return ""
    last = found.checkpoints[0]
    return f"{last['seq']} at {look.local(last['created_at'])}"


def _rollback(task: views.TaskView) -> str:
    """`3 of 4 steps done, then cancelled`, while it is rolled back or could not be."""
    steps = task.rollback if isinstance(task.rollback, list) else []
    if not task.ending:
        return ""
    done = sum(each.state != "REGISTERED" and not each.error for each in steps)
    return f"{done} of {len(steps)} steps done, then {task.ending.lower()}"


def _attempts(found: Detail, glyphs: Glyphs, width: int) -> list[str]:
    attempts = found.task.attempts if isinstance(found.task.attempts, list) else []
    lines: list[str] = []
    for each in reversed(attempts):
        state = each.outcome or ("gone" if task_page.is_stranded(found.task) else "runs")
        code = "" if each.exit_code is None else f", exit {each.exit_code}"
        begun = look.local(each.started_at or each.dispatched_at)
        lines.append(
            f"attempt {each.attempt}: {state}{code}, {task_page.took(each) or '-'}, from {begun}, worker {each.worker}"
        )
        held = ", ".join([*each.resources, *([f"route {each.route}"] if each.route else [])])
        more = [
            f"resumed from checkpoint {each.resumed_from}" if each.resumed_from else "",
            f"held {held}" if held else "",
            task_page.error(each.error) if each.error else "",
        ]
        lines += [part for text in more if text for part in look.wrap(f"  {look.tidy(text)}", width)]
        if each.tail and each is attempts[-1]:
            lines += [f"  {glyphs.plain('›')} {text}" for text in look.block(each.tail).split("\n")[-8:]]
    return lines


def _checkpoint(found: Detail, glyphs: Glyphs, width: int) -> list[str]:
    lines: list[str] = []
    for each in found.checkpoints:
        lines.append(f"checkpoint {each['seq']}, {look.local(each['created_at'])}, {each['stage'] or '-'}")
        lines += [f"  {text}" for text in look.block(_json(each["data"], indent=2)).split("\n")]
    for each in found.operations:
        since = look.local(each["doubt_at"] or each["ended_at"] or each["begun_at"])
        state = each["state"].lower().replace("_", " ")
        lines.append(f"operation {look.tidy(str(each['operation_key']))}: {state} since {since}")
    for step in found.task.rollback if isinstance(found.task.rollback, list) else ():
        lines.append(
            f"undo {step.number} {look.tidy(step.name)}: {task_records.step_state(found.task, step)}"
        )
    return [part for text in lines for part in look.wrap(text, width)]


def _payload(found: Detail, glyphs: Glyphs, width: int) -> list[str]:
    if found.task.payload in (None, {}):
        return []
    return [
        part
        for text in look.block(_json(found.task.payload, indent=2)).split("\n")
        for part in look.wrap(text, width)
    ]


def _events(found: Detail, glyphs: Glyphs, width: int) -> list[str]:
    lines = []
    for event in reversed(found.events):
        moment = look.here(views.parse_utc(event.created_at))
        lines.append(look.cut(f"{moment:%H:%M:%S} {look.tidy(story(event, glyphs))}", width))
    return lines


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


_SECTIONS: Mapping[str, Any] = {
    "Summary": _summary,
    "Attempts": _attempts,
    "Checkpoint": _checkpoint,
    "Payload": _payload,
    "Events": _events,
}
