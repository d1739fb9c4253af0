"""`backup` and `restore`: a copy of the database that is whole, made at any time, and put in its place again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from taskdeck.engine import views

from .. import output
from ..commandline import CommandLine

Target = Annotated[
    Path | None,
    typer.Argument(
        metavar="[PATH]", help="A new file, or a folder; default: the folder of the configuration."
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

    made = commands.back_up(line.config, line.actor, path, keep)
    if line.json:
        output.json_line(made)
    else:
        output.line(made["path"])
        output.note(
            f"{views.size_text(made['bytes'])}, {_counted(made['tasks'], 'task')},"
            f" {_counted(made['events'], 'event')}: checked and whole"
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
        after = f"{_counted(done['events_after'], 'event')} and {_counted(done['tasks_after'], 'new task')}"
        told.append(f"not in the backup, since they came after it: {after}")
    if done["interrupted"]:
        told.append(f"{_counted(done['interrupted'], 'task')} ran when it was made")
    if rerun:
        told.append("--rerun: what was done after the backup may be done again")
    elif done["to_review"]:
        shown = " ".join(f"#{each}" for each in done["to_review"][:10])
        more = f" and {len(done['to_review']) - 10} more" if len(done["to_review"]) > 10 else ""
        told.append(f"may have been done after it, so that a person must look: {shown}{more}")
        told.append("look: taskdeck list reason:restored   run again: taskdeck retry reason:restored")
    told.append(f"{_counted(done['left'], 'task')} will go on when an engine starts: taskdeck run")
    return told


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
