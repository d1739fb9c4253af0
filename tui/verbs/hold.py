"""`pause`, `stop` and `resume` of a type, a pool or everything: standing holds, which also hold back what is added later."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from taskdeck.engine import views
from taskdeck.engine.errors import UsageError

from .. import format as look
from .. import holding, output
from ..commandline import CommandLine

MOST_SHOWN = 5


def scopes(words: Sequence[str], everything: bool) -> list[str] | None:
    """The scopes that are meant; None where the words choose single tasks. Raises `UsageError` for both at once."""
    if everything and words:
        raise UsageError("--all and a choice exclude each other", remedy="leave one of them out")
    return [views.EVERYTHING] if everything else views.hold_scopes(words)


def hold(line: CommandLine, named: Sequence[str], running: str, *, yes: bool = True) -> int:
    """Hold each scope back; `running` is what is asked of what runs in it: pause, stop, or nothing."""
    from taskdeck.engine import commands

    known = _look(line, named)
    if running == "stop" and not yes:
        _ask(known)
    output.acting(as_json=line.json)
    for scope in named:
        value = commands.call(line.config, "hold", line.actor, scope=scope, running=running)
        if line.json:
            output.json_line(value)
            continue
        already = "" if value["changed"] else " already"
        more = "nothing more of it is started" + _asked(value["tasks"], running)
        output.line(look.tidy(f"{views.hold_named(scope)} is held{already}: {more}"))
    return 0


def release(line: CommandLine, named: Sequence[str]) -> int:
    """Let each scope go on, with the tasks that its hold had paused."""
    from taskdeck.engine import commands

    output.acting(as_json=line.json)
    for scope in named:
        value = commands.call(line.config, "release", line.actor, scope=scope)
        if line.json:
            output.json_line(value)
            continue
        name = look.tidy(views.hold_named(scope))
        output.line(
            f"{name} {'goes on' if value['changed'] else 'is not held'}{_asked(value['tasks'], 'go on')}"
        )
        if not value["changed"]:
            _say_what_is_paused(line, scope)
    return 0


def _asked(task_ids: Sequence[int], what: str) -> str:
    if not task_ids:
        return ""
    named = ", ".join(f"#{each}" for each in task_ids[:MOST_SHOWN])
    more = f" and {len(task_ids) - MOST_SHOWN} more" if len(task_ids) > MOST_SHOWN else ""
    return f"; asked to {what}: {named}{more}"


def _say_what_is_paused(line: CommandLine, scope: str) -> None:
    """Tasks that were paused one by one stay so: a hold's end is not theirs."""
    with views.open_view(line.config) as view:
        paused = view.task_ids(holding.members(scope, states=("PAUSED",)))
    if paused:
        words = "state:paused" if scope == views.EVERYTHING else f"state:paused {scope}"
        some = "1 task was" if len(paused) == 1 else f"{len(paused)} tasks were"
        output.note(f"{some} paused by themselves; let them go on: taskdeck resume {words}")


def _look(line: CommandLine, named: Sequence[str]) -> list[int]:
    """The running tasks in these scopes. A name that nothing is known of may be a slip: it is said."""
    running: dict[int, None] = {}
    with views.open_view(line.config) as view:
        for scope in named:
            running |= dict.fromkeys(view.task_ids(holding.members(scope, states=("RUNNING",))))
        for told in holding.unknown(view, named):
            output.note(told)
    return list(running)


def _ask(running: Sequence[int]) -> None:
    """The end of an attempt loses what it did since its last checkpoint: that is asked about."""
    if not running:
        return
    what = f"stop ends {len(running)} running attempt{'s' if len(running) > 1 else ''}"
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(what, "this asks first, and there is no terminal to ask on", "add --yes")
    if not typer.confirm(f"{what}; go on?", err=True):
        raise typer.Abort
