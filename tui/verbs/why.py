"""`why`: why a task does not run now, or how it ended, and what to do about it."""

from __future__ import annotations

import typer

from taskdeck.engine import views

from .. import format as look
from .. import output
from ..commandline import CommandLine
from ..other_settings import asked_once, other_settings
from . import targets, task_page
from .look import Target

WITHOUT_ENGINE = (
    "no engine works now: its worker goes on and keeps its checkpoints, which are shown once an engine has written them"
    " down; what it asks an engine for waits (start one: taskdeck run)"
)
"""Of a task whose worker outlived its engine."""


def why(ctx: typer.Context, target: Target) -> int:
    """Say why a task does not run now, and what to do about it."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config, told=asked_once(line)) as view:
        task, reasons = view.why(targets.one(view, target))
    if line.json:
        output.json_line({"id": task.id, "state": task.state, "reason": task.reason, "waits": reasons})
        return 0
    state = task_page.STRANDED if task_page.is_stranded(task) else look.state(task.state)
    output.line(f"#{task.id}: {state} ({task.reason})")
    for text in [
        *_before(task),
        *(map(look.tidy, reasons) if reasons else _story(line, task)),
        *_elsewhere(line, reasons),
    ]:
        for part in look.wrap(f"  {task_page.local_times(text)}", output.width()):
            output.line(part)
    return 0


def _before(task: views.TaskView) -> list[str]:
    """What went wrong so far, of a task that may still succeed."""
    if task.state not in ("RETRYING", "NEEDS_REVIEW", "PENDING") or not task.error:
        return []
    tries = task_page.tries(task)
    return [f"last error: {task_page.error(task.error)}{f' ({tries})' if tries else ''}"]


def _story(line: CommandLine, task: views.TaskView) -> list[str]:
    if task.state == "RUNNING":
        runs = f"it runs: attempt {task.attempt} on worker {task.worker} since {look.local(task.attempt_started_at)}"
        return [runs] if views.holder(line.config).running else [runs, WITHOUT_ENGINE]
    lines = [f"it ended {look.local(task.finished_at)}"]
    if task.error and task.state != "SUCCESS":
        lines.append(task_page.error(task.error))
    again = "retry --again" if task.state == "SUCCESS" else "retry"
    return [*lines, f"to run it again: taskdeck {again} {task.id}"]


def _elsewhere(line: CommandLine, reasons: list[str]) -> list[str]:
    """A missing handler may be one of another configuration."""
    if not any("no worker has a handler" in reason for reason in reasons):
        return []
    return [text] if (text := other_settings(line)) else []
