"""`stop` and `restart`: the end of an engine, and another one of newer code in its place."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from taskdeck.engine.errors import UsageError

from .. import output, stopped
from ..commandline import CommandLine
from . import act


def stop(
    ctx: typer.Context,
    words: act.Targets = None,
    everything: Annotated[
        bool, typer.Option("--all", help="End all that runs and hold everything; the engine stays.")
    ] = False,
    yes: act.Yes = False,
    now: Annotated[
        bool, typer.Option("--now", help="The engine: don't wait for checkpoints, end what runs at once.")
    ] = False,
) -> int:
    """Drain and end the engine; with a target: end attempts politely, their tasks stay paused with their checkpoints."""
    line: CommandLine = ctx.obj
    if words or everything:
        if now:
            raise UsageError(
                "--now is for the engine as a whole", remedy="to end tasks at once: taskdeck kill"
            )
        return act.stop(ctx, words or (), everything, yes)
    from taskdeck.engine import commands

    output.acting(as_json=line.json)
    _tell_stopped(line, commands.stop(line.config, line.actor, now=now))
    return 0


def restart(ctx: typer.Context) -> int:
    """Let an engine of the code that is on the disk now take over: what runs goes on, and nothing is charged.

    The new code and the configuration are loaded first; where that fails nothing has changed.
    """
    from taskdeck.engine import commands

    line: CommandLine = ctx.obj
    output.acting(as_json=line.json)
    done = commands.restart(line.config, line.actor)
    old, new = done["old"], done["new"]
    if line.json:
        known = ("id", "pid", "code_version", "supervisor_pid")
        output.json_line({name: {key: done[name][key] for key in known} for name in ("old", "new")})
        return 0
    versions = (
        f", {old['code_version']} → {new['code_version']}"
        if old["code_version"] != new["code_version"]
        else ""
    )
    output.line(
        f"engine {new['id']} (pid {new['pid']}) works in place of engine {old['id']} (pid {old['pid']}){versions}"
    )
    if old["running"]:
        output.note(f"{old['running']} {'attempt' if old['running'] == 1 else 'attempts'} went on meanwhile")
    return 0


def _tell_stopped(line: CommandLine, done: dict[str, Any]) -> None:
    told = stopped.story(done)
    behind: dict[str, list[Any]] = {key: pids for key, pids in done["outlived"].items() if pids}
    if line.json:
        output.json_line({"stopped": bool(done["engine"] or done["supervisors"]), "message": told, **behind})
    else:
        output.line(told)
        if any(key in behind for key, _ in stopped.BEHIND):
            output.note("what they did is kept, and written by the next engine (taskdeck run)")
    if left := stopped.withstood(done):
        output.note(left)
