"""`run`: the engine with no screen. Loads little: where there is no terminal this process becomes the supervisor."""

from __future__ import annotations

from typing import Annotated

import typer

from taskdeck.engine.errors import UsageError

from .. import adding, running
from ..commandline import CommandLine


def run(
    ctx: typer.Context,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing runs, waits or retries.")
    ] = False,
    max_wait: Annotated[
        str | None,
        typer.Option("--max-wait", metavar="DURATION", help="With --until-idle: wait at most so long."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE.jsonl", help="Add these tasks first, as `add -f` does."),
    ] = None,
) -> int:
    """Run the engine: exit 0 all well, 1 something failed, 6 only reviews are left, 4 another engine works here.

    With -f FILE its tasks are added first; those with a key that is known are not added again.
    """
    line: CommandLine = ctx.obj
    seconds = None
    if max_wait is not None:
        from ..moments import duration

        seconds = duration(max_wait, "--max-wait")
    if seconds is not None and not until_idle:
        raise UsageError("--max-wait bounds --until-idle and needs it", remedy="add --until-idle")
    if file is not None:
        adding.add_file(line, file, wait=False)
    return running.run(line, until_idle=until_idle, max_wait=seconds)
