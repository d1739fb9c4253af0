"""How one task looks: its fields, its attempts and the end of its output. Text only; nothing is read or written here."""

from __future__ import annotations

import json
import shlex

from taskdeck.engine import views

from .. import format as look
from .. import output
from . import task_records

STRANDED = "▸ stands still"
"""Instead of a running task's state, where no engine runs."""
NARROW = 12
"""Cells that the names of the fields take."""


def is_stranded(task: views.TaskView) -> bool:
    """Is it RUNNING by the database, though nobody runs it?"""
    return task.state == "RUNNING" and bool(task.waits)


def progress(found: views.Progress) -> str:
    """Progress as `5/10 note`."""
    numbers = "/".join(f"{n:g}" for n in (found.done, found.total) if n is not None)
    return f"{numbers} {look.tidy(found.note or '')}".strip()


def error(found: object) -> str:
    """A stored error in a line."""
    return look.tidy(_message(found))


def standing_error(task: views.TaskView) -> str:
    """What went wrong, in a line, where that still says how the task stands: what runs now has not failed, and what an
    earlier attempt of it met is told among its attempts.
    """
    return error(task.error) if task.error and task.state not in ("RUNNING", "SUCCESS") else ""


def error_name(task: views.TaskView) -> str:
    """What the stored error is called: that of a running task is an earlier attempt's."""
    return "last error" if task.state == "RUNNING" else "error"


def tries(task: views.TaskView) -> str:
    """`retry 1 of 5`, or nothing before the first."""
    return f"retry {task.retry_count} of {task.max_retry}" if task.retry_count else ""


def attempt(task: views.TaskView) -> str:
    """`4/5`: the attempts so far, and how many there will be at most if each that comes fails.

    Attempts that spent no retry, and those from before a person's retry, count on both sides.
    """
    left = max(task.max_retry - task.retry_count, 0)
    begins_another = task.state in ("PENDING", "RETRYING", "LOST") or (
        task.state == "PAUSED" and task.worker is None
    )
    return f"{task.attempt}/{max(task.attempt + begins_another + left, task.max_retry + 1)}"


def _message(found: object) -> str:
    if isinstance(found, dict):
        return str(found.get("message") or found.get("kind") or found)
    return str(found)


def page(task: views.TaskView) -> list[str]:
    """All lines of one task."""
    return [
        *_fields(task),
        *_attempts(task),
        *task_records.checkpoints(task),
        *task_records.operations(task),
        *task_records.rollback(task),
        *_last_output(task),
    ]


def _fields(task: views.TaskView) -> list[str]:
    return look.fields(
        [
            ("task", f"#{task.id} {look.tidy(task.type)}"),
            ("state", _state(task)),
            *_command(task),
            ("waits", "\n".join(local_times(look.tidy(reason)) for reason in task.waits)),
            ("wanted", task.wanted or ""),
            ("rollback", f"then {task.ending.lower()}" if task.ending else ""),
            ("progress", progress(task.progress) if task.progress else ""),
            (error_name(task), look.block(_message(task.error)) if task.error else ""),
            ("LEFT", "\n".join(map(left, task.left or ()))),
            ("needs", _needs(task)),
            ("holds", _holds(task)),
            ("tries", _tries(task)),
            ("priority", str(task.priority)),
            ("key", look.tidy(task.key or "")),
            ("tags", ", ".join(look.tidy(tag) for tag in task.tags)),
            ("timeout", views.format_duration(task.timeout) if task.timeout else ""),
            ("bandwidth", views.format_rate(task.bandwidth) if task.bandwidth else ""),
            ("on lost", task.on_lost or ""),
            ("parent", f"#{task.parent}" if task.parent else ""),
            ("scheduled", look.local(task.scheduled_at)),
            ("next run", look.local(task.next_run_at) if task.state in ("PENDING", "RETRYING") else ""),
            ("created", look.local(task.created_at)),
            ("started", look.local(task.started_at)),
            ("finished", look.local(task.finished_at)),
            ("payload", "" if task.type == "shell" else _value(task.payload)),
            ("checkpoint", _value(task.checkpoint)),
            ("result", _value(task.result)),
        ],
        width=output.width(),
    )


def left(found: views.LeftoverView) -> str:
    """A process that could not be ended, with what it is of."""
    whose = f"#{found.task}" if found.task else f"worker {found.worker}"
    since = look.local(found.found_at)
    return look.tidy(f"pid {found.pid} ({found.name}) of {whose} lives since {since}: it could not be ended")


def _state(task: views.TaskView) -> str:
    if is_stranded(task):
        return f"{STRANDED} ({task.reason}, but no engine runs)"
    return f"{look.state(task.state, colour=output.coloured())} ({task.reason})"


def _tries(task: views.TaskView) -> str:
    attempts = "1 attempt" if task.attempt == 1 else f"{task.attempt} attempts"
    lost = f", {task.losses} lost" if task.losses else ""
    return f"{attempts}, {task.retry_count} of {task.max_retry} retries{lost}"


def _command(task: views.TaskView) -> list[tuple[str, str]]:
    """A command as one would type it, with its directory and variables; of other types nothing (see their payload)."""
    payload = task.payload
    if task.type != "shell" or not isinstance(payload, dict) or not isinstance(payload.get("argv"), list):
        return []
    variables = payload.get("env") or {}
    return [
        ("command", look.tidy(shlex.join(map(str, payload["argv"])))),
        ("directory", look.tidy(str(payload.get("cwd") or ""))),
        ("variables", look.tidy(" ".join(f"{name}={value}" for name, value in dict(variables).items()))),
        ("pause", "at a checkpoint" if payload.get("pause") == "checkpoint" else ""),
    ]


def _needs(task: views.TaskView) -> str:
    route = f"route {task.wants_route}" if task.wants_route else ""
    if route and task.allow_direct:
        route += " (or none)"
    return ", ".join([*task.needs, *([route] if route else [])])


def _holds(task: views.TaskView | views.AttemptView) -> str:
    return ", ".join([*task.resources, *([f"route {task.route}"] if task.route else [])])


def _attempts(task: views.TaskView) -> list[str]:
    if not isinstance(task.attempts, list) or not task.attempts:
        return []
    now = views.now()
    holds = any(_holds(each) for each in task.attempts)
    headers = ("ATTEMPT", "WORKER", f"STARTED ({look.zone(now)})", "TOOK", "OUTCOME", "EXIT")
    headers = (*headers, *(["HELD"] if holds else []), "ERROR")
    rows = [
        (
            str(each.attempt),
            str(each.worker),
            look.local(each.started_at or each.dispatched_at, now=now),
            took(each),
            each.outcome or ("gone" if is_stranded(task) else "runs"),
            "" if each.exit_code is None else str(each.exit_code),
            *([_holds(each)] if holds else []),
            error(each.error) if each.error else "",
        )
        for each in task.attempts
    ]
    return ["", *look.table(headers, rows, width=output.width())]


def _last_output(task: views.TaskView) -> list[str]:
    tail = task.attempts[-1].tail if isinstance(task.attempts, list) and task.attempts else None
    if not tail:
        return []
    lines = look.block(tail).split("\n")
    return ["", "last output:", *(part for text in lines for part in look.wrap(f"  {text}", output.width()))]


def took(attempt: views.AttemptView) -> str:
    """From the attempt's start to its end, or how long it has run; empty where it was never started."""
    if not attempt.started_at:
        return ""
    if attempt.ended_at:
        return look.duration(views.seconds_between(attempt.started_at, attempt.ended_at))
    return look.span(views.seconds_between(attempt.started_at, views.utc_text(views.now())))


def _value(value: object) -> str:
    """JSON on one line where that fits the screen, else indented."""
    if value is None:
        return ""
    short = look.tidy(output.json_text(value))
    if look.cells(short) <= (output.width() or 200) - NARROW:
        return short
    return look.block(json.dumps(value, ensure_ascii=False, indent=2))


def local_times(text: str) -> str:
    """Stored times inside a sentence as local ones."""
    import re

    return re.sub(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6}Z", lambda found: look.local(found[0]), text)
