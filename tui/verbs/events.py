"""`events` and `audit`: the stream of what happened, and whether it still stands as it was written."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from taskdeck.engine import views

from .. import format as look
from .. import output
from ..commandline import CommandLine
from .look import NEWEST, Limit, note_older

LEVELS = {"warning": "33", "error": "31"}

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILTER]...",
        help='type:TASK_STATE level:error task:42 actor:x resource:x route:x newer:1h "text"',
    ),
]
OfTask = Annotated[str | None, typer.Option("--task", metavar="IDS", help="Only events of these tasks.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events until interrupted.")]


def events(
    ctx: typer.Context,
    filters: Words = None,
    task: OfTask = None,
    limit: Limit = None,
    follow: Follow = False,
) -> int:
    """Show what happened, oldest first."""
    line: CommandLine = ctx.obj
    wanted = views.parse_events(filters or [])
    if task is not None:
        wanted = msgspec.structs.replace(wanted, tasks=wanted.tasks + tuple(views.ids(task)))
    teller = Teller(line)
    with views.open_view(line.config) as view:
        found = view.events(wanted, limit=NEWEST + 1 if limit is None else limit)
        is_cut = limit is None and len(found) > NEWEST
        found = found[1:] if is_cut else found
        teller.tell(found)
        if is_cut and not follow:
            note_older("events")
        _tell_of_archives(view, wanted, line)
        after = found[-1].event_id if found else 0
        while follow:
            output.flush()
            view.wait_for_change(1)
            output.check_reader()
            found = view.events(wanted, after=after, limit=0)
            teller.tell(found)
            after = found[-1].event_id if found else after
    return 0


def _tell_of_archives(view: views.View, wanted: views.EventFilter, line: CommandLine) -> None:
    """Where a task's older events are, if they are not in the table any more."""
    last = view.archived_events() if wanted.tasks else 0
    if not last:
        return
    first, _ = wanted.tasks[0]
    output.flush()
    if gone := view.archived_task(first):
        output.note(f"#{first} was archived on {gone['created_at'][:10]}: {gone['path']}")
    files = line.config.archive_directory / f"{line.config.db.stem}-events-*"
    output.note(f"events up to {last} went into archives: zgrep '\"task_id\":{first},' {files}")


class Teller:
    """Prints events, a line each. On a terminal the day stands where it changes and checkpoints in a row are one line."""

    def __init__(self, line: CommandLine) -> None:
        self._json = line.json
        self._day = ""

    def tell(self, found: list[views.EventView]) -> None:
        """Print these, which come after those before."""
        if self._json:
            for event in found:
                output.json_line(event)
        elif output.on_terminal():
            for run in _runs(found):
                self._begin(_day(run[0]))
                output.line(_human(f"{_local(run[0]):%H:%M:%S}", run))
        else:
            for event in found:
                output.line(_human(look.local(event.created_at), [event]))

    def _begin(self, day: str) -> None:
        if day != self._day:
            self._day = day
            output.line(f"-- {day}")


def _local(event: views.EventView) -> datetime:
    return look.here(views.parse_utc(event.created_at))


def _day(event: views.EventView) -> str:
    moment = _local(event)
    return f"{moment:%Y-%m-%d} ({look.zone(moment)})"


def _runs(found: list[views.EventView]) -> list[list[views.EventView]]:
    """The events; those checkpoints of one task that follow on each other on one day are together."""
    runs: list[list[views.EventView]] = []
    for event in found:
        last = runs[-1][-1] if runs else None
        if last and _is_checkpoint(event) and _is_checkpoint(last) and _belongs(event) == _belongs(last):
            runs[-1].append(event)
        else:
            runs.append([event])
    return runs


def _belongs(event: views.EventView) -> tuple[int | None, str]:
    return event.task_id, _day(event)


def _is_checkpoint(event: views.EventView) -> bool:
    return event.event_type == "CHECKPOINT_SAVED"


def _human(time: str, run: list[views.EventView]) -> str:
    """`12:00:01 #4 RUNNING -> SUCCESS done …`: when, whose, the story, and at the end who."""
    event = run[-1]
    parts = [time]
    parts += [f"#{event.task_id}"] if event.task_id else []
    parts += [_story(run), look.tidy(event.message)]
    parts += [f"worker {event.worker_id}"] if event.worker_id and "worker" not in event.message else []
    parts += (
        [f"by {look.tidy(event.actor)}"] if event.actor not in ("engine", f"worker:{event.worker_id}") else []
    )
    text = look.tidy(" ".join(part for part in parts if part))
    room = output.width()
    text = look.cut(text, room) if room else text
    return look.paint(text, LEVELS.get(event.level, "")) if output.coloured() else text


def _story(run: list[views.EventView]) -> str:
    event, payload = run[-1], run[-1].payload
    if event.event_type == "TASK_STATE" and payload:
        return f"{payload.get('from')} -> {payload.get('to')} {event.reason or ''}"
    if _is_checkpoint(event) and payload:
        if len(run) > 1:
            return f"CHECKPOINT_SAVED {len(run)} checkpoints, last {payload.get('seq')}"
        return f"CHECKPOINT_SAVED {payload.get('seq')}"
    return f"{event.event_type} {event.reason or ''}"


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
def verify(
    ctx: typer.Context,
    archives: Annotated[
        bool,
        typer.Option("--archives/--no-archives", help="Walk through the archives too, or the table alone."),
    ] = True,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Where the archives are now.")
    ] = None,
) -> int:
    """Walk the whole audit; exit 1 and name the first event that was changed, removed, inserted or swapped."""
    line: CommandLine = ctx.obj
    with views.open_view(line.config) as view:
        report = view.verify_audit(archives=archives, folder=folder)
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
        where = (
            f", up to {report.archived_to} of them in {report.archives} archives" if report.archives else ""
        )
        unseen = report.archived_to and not report.archives
        alone = f"; those up to {report.archived_to} were not looked at (--no-archives)" if unseen else ""
        output.line(f"the audit is whole: {report.events} events{where}{alone}")
    else:
        output.line(f"the audit is broken at event {report.event_id}: {report.problem}")
    output.line(back)
