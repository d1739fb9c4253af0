"""`backup`: a copy of the database that is whole, made at any time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
