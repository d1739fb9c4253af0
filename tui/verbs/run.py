"""`run` and `stop`: the engine with no screen, and its end."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from taskdeck.engine import views
from taskdeck.engine.errors import NoEngine, Unavailable, UsageError

from .. import adding, output
from ..commandline import CommandLine
from ..moments import duration
from . import act

SIGNALS = 128
"""An exit code above it is a signal's number more."""
SLACK = 15.0
"""Seconds beyond the stop's own grace within which the engine must be gone."""


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
    seconds = duration(max_wait, "--max-wait")
    if seconds is not None and not until_idle:
        raise UsageError("--max-wait bounds --until-idle and needs it", remedy="add --until-idle")
    if file is not None:
        adding.add_file(line, file, wait=False)
    from taskdeck.engine.main import run as run_engine

    code = run_engine(line.config, until_idle=until_idle, max_wait=seconds)
    _tell_the_end(line, code)  # only a terminal comes here; without one this process became the supervisor
    return code


def _tell_the_end(line: CommandLine, code: int) -> None:
    """What became of a run that was killed, and where to look at what it did."""
    if code - SIGNALS in list(signal.Signals):
        name = signal.Signals(code - SIGNALS).name
        if views.holder(line.config).running:
            output.note(
                f"the supervisor was killed ({name}); the engine works on without one: taskdeck status"
            )
        else:
            output.note(
                f"the run was killed ({name}); nothing is lost, go on with: taskdeck run{line.places}"
            )
    output.note(f"look: taskdeck list{line.places}")


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
    if not views.holder(line.config).running or not _asked(line, now):
        _end_outlived(line, now)
        return 0
    seconds = line.config.engine.stop_grace + SLACK
    if not views.wait_until_gone(line.config, seconds):
        raise Unavailable(
            "the engine is still there",
            f"it was asked to stop {views.format_duration(seconds)} ago",
            "taskdeck stop --now, or see: taskdeck status",
        )
    _say(line, "stopped", stopped=True)
    return 0


def _asked(line: CommandLine, now: bool) -> bool:
    from taskdeck.engine import commands

    try:
        commands.call(line.config, "stop", line.actor, now=now)
    except NoEngine:  # it ended between the look and the call
        return False
    return True


def _end_outlived(line: CommandLine, now: bool) -> None:
    """Without an engine there may still be workers that outlived one."""
    from taskdeck.engine import commands

    pids = commands.end_outlived(line.config, now=now)
    if not pids:
        _say(line, "was not running", stopped=False)
    elif line.json:
        told = "the engine was not running; workers that outlived it were ended"
        output.json_line({"stopped": False, "message": told, "workers": pids})
    else:
        output.line(
            f"the engine was not running; what outlived it was ended: pid {', '.join(map(str, pids))}"
        )
        output.note("what they did is kept, and written by the next engine (taskdeck run)")


def _say(line: CommandLine, what: str, *, stopped: bool) -> None:
    if line.json:
        output.json_line({"stopped": stopped, "message": f"the engine {what}"})
    else:
        output.line(f"the engine {what}")
