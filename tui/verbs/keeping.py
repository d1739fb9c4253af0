"""`backup`, `restore` and `prune`: copies of the database, and what goes from it into archives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from taskdeck.engine import views
from taskdeck.engine.errors import UsageError

from .. import format as look
from .. import output
from ..commandline import CommandLine
from ..moments import duration

Target = Annotated[
    str | None,  # a Path would forget the slash at its end
    typer.Argument(
        metavar="[PATH]",
        help="A new file NAME.db, or a folder (made if missing); default: that of the configuration.",
    ),
]
Keep = Annotated[
    int | None,
    typer.Option(
        "--keep", min=1, metavar="N", help="Keep the newest N backups in that folder, remove older ones."
    ),
]


def backup(ctx: typer.Context, path: Target = None, keep: Keep = None) -> int:
    """Write a copy of the database and look at it: structure, references, audit, counts. Works while an engine runs.

    Attempts' logs, the configuration and archives are files of their own: copy them too.
    """
    line: CommandLine = ctx.obj
    from taskdeck.engine import commands

    output.acting(as_json=line.json)
    made = commands.back_up(line.config, line.actor, path, keep)
    if line.json:
        output.json_line(made)
    else:
        output.line(made["path"])
        output.note(
            f"{views.size_text(made['bytes'])}, {look.counted(made['tasks'], 'task')},"
            f" {look.counted(made['events'], 'event')}: checked and whole"
        )
        for old in made["removed"]:
            output.note(f"removed {old}")
    if made["noted"]:
        output.note(f"the backup is good, but it could not be put on record: {made['noted']}")
    return 0


def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    rerun: Annotated[
        bool,
        typer.Option("--rerun", help="What may have been done after the backup runs again without asking."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check it and say what would happen.")] = False,
) -> int:
    """Put a backup in the place of the database, while no engine works on it; the replaced one is kept beside it.

    An older copy does not know what was done after it: such tasks need a review, unless --rerun is given.
    """
    line: CommandLine = ctx.obj
    from taskdeck.engine import commands

    if not dry_run:
        output.acting(as_json=line.json)
    done = commands.restore(line.config, line.actor, file, rerun=rerun, dry_run=dry_run)
    if line.json:
        output.json_line({**done, "dry_run": dry_run})
    else:
        for text in _story(done, line, rerun=rerun, dry_run=dry_run):
            output.line(text)
    return 0


def _story(done: dict[str, Any], line: CommandLine, *, rerun: bool, dry_run: bool) -> list[str]:
    would = "would take" if dry_run else "took"
    told = [f"{done['path']} {would} the place of {line.config.db}"]
    if done["kept"]:
        told.append(f"the replaced database {'would be' if dry_run else 'is'} kept: {done['kept']}")
    if not done["known"]:
        told.append("what was done after the backup is not known: the replaced database can't tell")
    elif done["events_after"]:
        after = f"{look.counted(done['events_after'], 'event')} and {look.counted(done['tasks_after'], 'new task')}"
        told.append(f"not in the backup, since they came after it: {after}")
    if done["interrupted"]:
        told.append(f"{look.counted(done['interrupted'], 'task')} ran when it was made")
    if rerun:
        told.append("--rerun: what was done after the backup may be done again")
    elif done["to_review"]:
        shown = " ".join(f"#{each}" for each in done["to_review"][:10])
        more = f" and {len(done['to_review']) - 10} more" if len(done["to_review"]) > 10 else ""
        told.append(f"may have been done after it, so that a person must look: {shown}{more}")
        told.append("look: taskdeck list reason:restored   run again: taskdeck retry reason:restored")
    told.append(f"{look.counted(done['left'], 'task')} will go on when an engine starts: taskdeck run")
    return told


Age = Annotated[
    str | None, typer.Option(metavar="AGE", help="Instead of the configured age; 90d, or 0 for never.")
]


def prune(
    ctx: typer.Context,
    tasks: Age = None,
    events: Age = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and leave it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
) -> int:
    """Archive tasks that ended long ago, and old events, into compressed files; the database forgets them.

    Never: tasks that are not ended, that others refer to, or with operations in doubt, and their events.
    """
    line: CommandLine = ctx.obj
    ages = {"tasks": _age(tasks, "--tasks"), "events": _age(events, "--events")}
    if not yes or dry_run:
        with views.open_view(line.config) as view:
            outlook = view.retention_outlook(**ages)
        if dry_run and line.json:
            output.json_line(outlook)
        elif dry_run or (outlook["tasks"] or outlook["events"]):
            for text in _outlook(outlook):
                output.line(text)
        if dry_run:
            return 0
        _ask(outlook)
    from taskdeck.engine import commands

    output.acting(as_json=line.json)
    done = commands.prune(line.config, line.actor, ages["tasks"], ages["events"])
    if line.json:
        output.json_line(done)
    else:
        output.line(_archived(done, str(line.config.archive_directory)))
    return 0


def _age(text: str | None, option: str) -> float | None:
    return 0.0 if text == "0" else duration(text, option)


def _ask(outlook: dict[str, Any]) -> None:
    if not outlook["tasks"] and not outlook["events"]:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        what = f"{look.counted(outlook['tasks'], 'task')} and {look.counted(outlook['events'], 'event')}"
        why = "this asks first, and there is no terminal to ask on"
        raise UsageError(f"prune would archive {what}", why, "look with --dry-run, then add --yes")
    if not typer.confirm("archive them?", err=True):
        raise typer.Abort


def _outlook(found: dict[str, Any]) -> list[str]:
    states = ", ".join(f"{count} {state}" for state, count in found["by_state"].items())
    told = [
        f"tasks   {found['tasks']}"
        + (f" ({states}), the oldest ended {_day(found['oldest_task'])}" if states else "")
    ]
    since = f", the oldest of {_day(found['oldest_event'])}" if found["events"] else ""
    told.append(f"events  {found['events']}{since}; those of tasks that stay remain in the table as well")
    told.append(
        f"about {views.size_text(found['bytes'])} go from the database into archives in {found['directory']}"
    )
    return told


def _day(at: str | None) -> str:
    return (at or "")[:10]


def _archived(done: dict[str, Any], folder: str) -> str:
    if not done["files"]:
        return "nothing is old enough to go"
    what = f"{look.counted(done['tasks'], 'task')} and {look.counted(done['events'], 'event')}"
    return f"archived {what} in {look.counted(len(done['files']), 'file')}: {folder}"
