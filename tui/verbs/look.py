"""`list` and `show`: tasks as they stand."""

from __future__ import annotations

from typing import Annotated

import typer

from taskdeck.engine import views

from .. import format as look
from .. import output
from ..commandline import CommandLine
from ..other_settings import asked_once
from . import targets, task_page

Filters = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILTER]...", help='state:failed type:x tag:x key:x older:2h newer:10m "text"'),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", "-n", min=0, metavar="N", help="The newest N, 100 by default; 0 = all."),
]
NEWEST = 100
"""What is shown where nobody says how many. That there are more is told then: who counts the lines must not be misled."""
Target = Annotated[list[str], typer.Argument(metavar="ID", help="42, #42 or key:NAME")]
PAGE = 500


def list_tasks(ctx: typer.Context, filters: Filters = None, limit: Limit = None) -> int:
    """List the newest tasks that match."""
    line: CommandLine = ctx.obj
    wanted = views.parse_arguments(filters or [])
    targets.hint_at_states(filters or [])
    with views.open_view(line.config, told=asked_once(line) if line.json else dict) as view:
        most = NEWEST if limit is None else limit
        if line.json:
            last = _json_lines(view, wanted, most)
        else:
            found = view.tasks(wanted, most)
            _human_list(found)
            last = found[-1].id if len(found) == most else 0
        if limit is None and last and view.tasks(wanted, 1, before=last):
            note_older("tasks")
    return 0


def note_older(what: str) -> None:
    """Say that there are older ones than those that were shown since nobody said how many."""
    output.flush()
    output.note(f"these are the newest {NEWEST} {what}, and there are older ones (all of them: --limit 0)")


def _json_lines(view: views.View, wanted: views.Filter, limit: int) -> int:
    """Returns the id at which the limit has ended them, 0 = it has not."""
    before, left = None, limit
    while True:
        size = min(PAGE, left) if limit else PAGE
        page = view.tasks(wanted, size, before=before, whole=True)
        for task in page:
            output.json_line(task)
        left -= len(page)
        if len(page) < size:
            return 0
        before = page[-1].id
        if limit and left <= 0:
            return before


def _human_list(tasks: list[views.TaskView]) -> None:
    if not tasks:
        output.note("no task matches")
        return
    now = views.now()
    headers = ("ID", "STATE", "TYPE", "TRY", f"TIME ({look.zone(now)})", "WHAT")
    rows = [
        (
            f"#{task.id}",
            task_page.STRANDED if task_page.is_stranded(task) else look.state(task.state),
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
    if any(map(task_page.is_stranded, tasks)):
        output.flush()
        output.note("no engine runs, so what ran stands still until one does (taskdeck run)")


def _moment(task: views.TaskView) -> str:
    """When it runs next, for what waits; when this attempt began, for what runs; else when it last changed."""
    if task.attempt_started_at:
        return task.attempt_started_at
    return task.next_run_at if task.state in ("PENDING", "RETRYING") else task.updated_at


def _what(task: views.TaskView) -> str:
    parts = [look.tidy(task.summary)]
    if task.key:
        parts.append(f"[{look.tidy(task.key)}]")
    if task.progress:
        parts.append(task_page.progress(task.progress))
    if found := task_page.standing_error(task):
        parts.append(f"- {found}")
    return " ".join(part for part in parts if part)


def show(ctx: typer.Context, target: Target) -> int:
    """Show one task with everything about it: payload, checkpoint, result and attempts."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config, told=asked_once(line)) as view:
        task = view.task(targets.one(view, target))
    if line.json:
        output.json_line(task)
        return 0
    for text in task_page.page(task):
        output.line(text)
    return 0
