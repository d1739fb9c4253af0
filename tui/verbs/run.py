"""`run` and `stop`: the engine with no screen, and its end."""

from __future__ import annotations

import signal
from typing import Annotated, Any

import typer

from taskdeck.engine import views
from taskdeck.engine.errors import UsageError

from .. import adding, output
from ..commandline import CommandLine
from ..moments import duration
from . import act

SIGNALS = 128
"""An exit code above it is a signal's number more."""


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
    from taskdeck.engine import commands

    _tell_stopped(line, commands.stop(line.config, line.actor, now=now))
    return 0


def restart(ctx: typer.Context) -> int:
    """Let an engine of the code that is on the disk now take over: what runs goes on, and nothing is charged.

    The new code and the configuration are loaded first; where that fails nothing has changed.
    """
    from taskdeck.engine import commands

    line: CommandLine = ctx.obj
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
    """What was ended: an engine, a supervisor that was about to start one, what outlived one; and what withstood."""
    stopped = bool(done["engine"] or done["supervisors"])
    if done["engine"]:
        what = "the engine stopped"
    elif done["supervisors"]:
        what = f"the engine had died; its supervisor was ended before it started another: {_pids(done['supervisors'])}"
    else:
        what = "the engine was not running"
    behind: dict[str, list[Any]] = {key: pids for key, pids in done["outlived"].items() if pids}
    ended = [
        f"{story}: {_pids(behind[key])}"
        for key, story in (
            ("workers", "what outlived it was ended"),
            ("processes", "what dead workers had left running was ended"),
        )
        if key in behind
    ]
    if line.json:
        output.json_line({"stopped": stopped, "message": "; ".join([what, *ended]), **behind})
    else:
        output.line("; ".join([what, *ended]))
        if ended:
            output.note("what they did is kept, and written by the next engine (taskdeck run)")
    if left := behind.get("left"):
        output.note(f"still there, could not be ended: {', '.join(left)}")


def _pids(pids: list[int]) -> str:
    return f"pid {', '.join(map(str, pids))}"
