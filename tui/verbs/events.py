"""`events` and `audit`: the stream of what happened, and whether it still stands as it was written."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from taskdeck.engine import views

from .. import format as look
from .. import output
from ..commandline import CommandLine

LEVELS = {"warning": "33", "error": "31"}

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILTER]...",
        help='type:TASK_STATE level:error task:42 actor:x resource:x route:x newer:1h "text"',
    ),
]
OfTask = Annotated[str | None, typer.Option("--task", help="Only events of these ids.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="At most so many, the newest; 0 = all.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events until interrupted.")]


def events(
    ctx: typer.Context, filters: Words = None, task: OfTask = None, limit: Limit = 100, follow: Follow = False
) -> int:
    """Show what happened, oldest first."""
    line: CommandLine = ctx.obj
    wanted = views.parse_events(filters or [])
    if task:
        wanted = msgspec.structs.replace(wanted, tasks=wanted.tasks + tuple(views.ids(task)))
    with views.open_view(line.config) as view:
        found = view.events(wanted, limit=limit)
        _print(found, line)
        after = found[-1].event_id if found else 0
        while follow:
            output.flush()
            view.wait_for_change(1)
            output.check_reader()
            found = view.events(wanted, after=after, limit=0)
            _print(found, line)
            after = found[-1].event_id if found else after
    return 0


def _print(found: list[views.EventView], line: CommandLine) -> None:
    for event in found:
        if line.json:
            output.json_line(event)
        else:
            output.line(_human(event))


def _human(event: views.EventView) -> str:
    parts = [look.local(event.created_at), f"{event.event_id:>6}", event.event_type]
    parts += [f"#{event.task_id}"] if event.task_id else []
    parts += [f"worker {event.worker_id}"] if event.worker_id else []
    parts += [look.tidy(event.resource_id)] if event.resource_id else []
    parts += [f"route {look.tidy(event.route_id)}"] if event.route_id else []
    parts += [_change(event), event.reason or "", look.tidy(event.message)]
    parts += [f"by {look.tidy(event.actor)}"] if event.actor != "engine" else []
    text = look.tidy("  ".join(part for part in parts if part))
    room = output.width()
    text = look.cut(text, room) if room else text
    return look.paint(text, LEVELS.get(event.level, "")) if output.coloured() else text


def _change(event: views.EventView) -> str:
    if event.event_type != "TASK_STATE" or not event.payload_json:
        return ""
    try:
        payload = msgspec.json.decode(event.payload_json, type=dict)
    except msgspec.DecodeError:
        return ""
    return f"{payload.get('from')} -> {payload.get('to')}"


audit = typer.Typer(
    add_completion=False,
    help="Check that the audit is as it was written.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@audit.callback()
def _audit() -> None:
    pass


@audit.command()
def verify(ctx: typer.Context) -> int:
    """Walk the whole audit; exit 1 and name the first event that was changed, removed, inserted or swapped."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config) as view:
        report = view.verify_audit()
    if line.json:
        output.json_line(report)
    else:
        _tell(report)
    return 0 if report.ok else 1


def _tell(report: views.AuditReport) -> None:
    if report.anchored_to is None:
        back = "no anchor outside the database yet: a chain rewritten as a whole would go unseen"
    else:
        back = f"tamper-evident back to the anchor of event {report.anchored_to}, {look.local(report.anchored_at)}"
    if report.ok:
        output.line(f"the audit is whole: {report.events} events")
    else:
        output.line(f"the audit is broken at event {report.event_id}: {report.problem}")
    output.line(back)
