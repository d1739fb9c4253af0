"""`list`, `show` and `why`: tasks as they stand."""

from __future__ import annotations

from typing import Annotated

import typer

from taskdeck.engine import views

from .. import format as look
from .. import output
from ..commandline import CommandLine
from . import targets

Filters = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILTER]...", help='state:failed type:x tag:x key:x older:2h newer:10m "text"'),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="At most so many, the newest; 0 = all.")]
Target = Annotated[list[str], typer.Argument(metavar="ID", help="42, #42 or key:NAME")]
PAGE = 500


def list_tasks(ctx: typer.Context, filters: Filters = None, limit: Limit = 100) -> int:
    """List the newest tasks that match."""
    line: CommandLine = ctx.obj
    wanted = views.parse_arguments(filters or [])
    targets.hint_at_states(filters or [])
    with views.open_view(line.config) as view:
        if line.json:
            _json_lines(view, wanted, limit)
        else:
            _human_list(view.tasks(wanted, limit))
    return 0


def _json_lines(view: views.View, wanted: views.Filter, limit: int) -> None:
    before, left = None, limit
    while True:
        size = min(PAGE, left) if limit else PAGE
        page = view.tasks(wanted, size, before=before, whole=True)
        for task in page:
            output.json_line(task)
        left -= len(page)
        if len(page) < size or (limit and left <= 0):
            return
        before = page[-1].id


def _human_list(tasks: list[views.TaskView]) -> None:
    if not tasks:
        output.note("no task matches")
        return
    now = views.now()
    headers = ("ID", "STATE", "TYPE", "TRY", f"TIME ({look.zone(now)})", "WHAT")
    rows = [
        (
            f"#{task.id}",
            look.state(task.state),
            look.tidy(task.type),
            str(task.attempt),
            look.local(_moment(task), now=now),
            _what(task),
        )
        for task in tasks
    ]
    paints = {look.state(name): code for name, code in look.COLOURS.items()} if output.coloured() else {}
    for text in look.table(headers, rows, width=output.width(), paints=paints):
        output.line(text)


def _moment(task: views.TaskView) -> str:
    """When it runs next, for what waits; else when it last changed."""
    return task.next_run_at if task.state in ("PENDING", "RETRYING") else task.updated_at


def _what(task: views.TaskView) -> str:
    parts = [look.tidy(task.summary)]
    if task.key:
        parts.append(f"[{look.tidy(task.key)}]")
    if task.progress:
        parts.append(progress(task.progress))
    if task.error and task.state != "SUCCESS":
        parts.append(f"- {error(task.error)}")
    return " ".join(part for part in parts if part)


def progress(found: views.Progress) -> str:
    """Progress as `5/10 note`."""
    numbers = "/".join(f"{n:g}" for n in (found.done, found.total) if n is not None)
    return f"{numbers} {look.tidy(found.note or '')}".strip()


def error(found: object) -> str:
    """A stored error in a line."""
    if isinstance(found, dict):
        return look.tidy(str(found.get("message") or found.get("kind") or found))
    return look.tidy(str(found))


def show(ctx: typer.Context, target: Target) -> int:
    """Show one task with everything about it: payload, checkpoint, result and attempts."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config) as view:
        task = view.task(targets.one(view, target))
    if line.json:
        output.json_line(task)
        return 0
    for text in [*_human_task(task), *_human_attempts(task)]:
        output.line(text)
    return 0


def _human_task(task: views.TaskView) -> list[str]:
    attempts = "1 attempt" if task.attempt == 1 else f"{task.attempt} attempts"
    tries = f"{attempts}, {task.retry_count} of {task.max_retry} retries"
    return look.fields(
        [
            ("task", f"#{task.id} {look.tidy(task.type)}"),
            ("state", f"{look.state(task.state, colour=output.coloured())} ({task.reason})"),
            ("what", look.tidy(task.summary)),
            ("waits", "; ".join(look.tidy(reason) for reason in task.waits)),
            ("wanted", task.wanted or ""),
            ("progress", progress(task.progress) if task.progress else ""),
            ("error", error(task.error) if task.error else ""),
            ("needs", _needs(task)),
            ("holds", _holds(task)),
            ("tries", tries + (f", {task.losses} lost" if task.losses else "")),
            ("priority", str(task.priority)),
            ("key", look.tidy(task.key or "")),
            ("tags", ", ".join(look.tidy(tag) for tag in task.tags)),
            ("timeout", views.format_duration(task.timeout) if task.timeout else ""),
            ("on lost", task.on_lost or ""),
            ("parent", f"#{task.parent}" if task.parent else ""),
            ("scheduled", look.local(task.scheduled_at)),
            ("next run", look.local(task.next_run_at) if task.state in ("PENDING", "RETRYING") else ""),
            ("created", look.local(task.created_at)),
            ("started", look.local(task.started_at)),
            ("finished", look.local(task.finished_at)),
            ("payload", _value(task.payload)),
            ("checkpoint", _value(task.checkpoint)),
            ("result", _value(task.result)),
        ]
    )


def _needs(task: views.TaskView) -> str:
    route = f"route {task.wants_route}" if task.wants_route else ""
    if route and task.allow_direct:
        route += " (or none)"
    return ", ".join([*task.needs, *([route] if route else [])])


def _holds(task: views.TaskView | views.AttemptView) -> str:
    return ", ".join([*task.resources, *([f"route {task.route}"] if task.route else [])])


def _human_attempts(task: views.TaskView) -> list[str]:
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
            _took(each),
            each.outcome or "runs",
            "" if each.exit_code is None else str(each.exit_code),
            *([_holds(each)] if holds else []),
            error(each.error) if each.error else "",
        )
        for each in task.attempts
    ]
    lines = ["", *look.table(headers, rows, width=output.width())]
    tail = task.attempts[-1].tail
    if tail:
        lines += ["", "last output:", *(f"  {look.tidy(text)}" for text in tail.splitlines())]
    return lines


def _took(attempt: views.AttemptView) -> str:
    if not attempt.started_at:
        return ""
    end = attempt.ended_at or views.utc_text(views.now())
    return look.span(views.seconds_between(attempt.started_at, end))


def _value(value: object) -> str:
    return "" if value is None else look.tidy(output.json_text(value))


def why(ctx: typer.Context, target: Target) -> int:
    """Say why a task does not run now, and what to do about it."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config) as view:
        task, reasons = view.why(targets.one(view, target))
    if line.json:
        output.json_line({"id": task.id, "state": task.state, "reason": task.reason, "waits": reasons})
        return 0
    output.line(f"#{task.id} is {look.state(task.state)} ({task.reason})")
    for text in reasons or _story(task):
        output.line(f"  {_local_times(look.tidy(text))}")
    return 0


def _story(task: views.TaskView) -> list[str]:
    if task.state == "RUNNING":
        return [
            f"it runs: attempt {task.attempt} on worker {task.worker} since {look.local(task.updated_at)}"
        ]
    lines = [f"it ended {look.local(task.finished_at)}"]
    if task.error and task.state != "SUCCESS":
        lines.append(error(task.error))
    again = "retry --again" if task.state == "SUCCESS" else "retry"
    return [*lines, f"to run it again: taskdeck {again} {task.id}"]


def _local_times(text: str) -> str:
    """Stored times inside a sentence as local ones."""
    import re

    return re.sub(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6}Z", lambda found: look.local(found[0]), text)
