"""`pause`, `resume`, `cancel`, `retry` and `discard`: what a person may do to tasks, and to the queue as a whole."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from taskdeck.engine import views
from taskdeck.engine.errors import NotFound, UsageError

from .. import format as look
from .. import output
from ..commandline import CommandLine
from . import targets

Words = Annotated[list[str] | None, typer.Argument(metavar="[ID|FILTER]...", help=targets.EXAMPLES)]
All = Annotated[bool, typer.Option("--all", help="All tasks that this can be done to; asks first.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
Queue = Annotated[
    bool, typer.Option("--queue", help="The whole queue: nothing more is started, or it goes on.")
]
OfType = Annotated[str | None, typer.Option("--type", metavar="NAME", help="All starts of one type.")]

FITTING = {
    "pause": ("PENDING", "RETRYING", "RUNNING"),
    "resume": ("PAUSED",),
    "cancel": ("PENDING", "RUNNING", "PAUSED", "RETRYING", "LOST", "NEEDS_REVIEW"),
    "retry": ("FAILED", "DEAD", "NEEDS_REVIEW", "RETRYING"),
    "discard": ("NEEDS_REVIEW",),
}
"""The states that `--all`, or a filter that names none, means."""


def pause(
    ctx: typer.Context,
    words: Words = None,
    everything: All = False,
    yes: Yes = False,
    queue: Queue = False,
    type_: OfType = None,
) -> int:
    """Pause tasks, or hold the queue (--queue) or a type (--type NAME)."""
    if queue or type_:
        return _hold(ctx.obj, "hold", words, queue, type_)
    return _act(ctx.obj, "pause", words, everything, yes)


def resume(
    ctx: typer.Context,
    words: Words = None,
    everything: All = False,
    yes: Yes = False,
    queue: Queue = False,
    type_: OfType = None,
) -> int:
    """Let paused tasks, the queue (--queue) or a type (--type NAME) go on."""
    if queue or type_:
        return _hold(ctx.obj, "release", words, queue, type_)
    return _act(ctx.obj, "resume", words, everything, yes)


def cancel(ctx: typer.Context, words: Words = None, everything: All = False, yes: Yes = False) -> int:
    """Cancel tasks: waiting ones at once, running ones are asked to stop and ended after a grace."""
    return _act(ctx.obj, "cancel", words, everything, yes)


def retry(
    ctx: typer.Context,
    words: Words = None,
    everything: All = False,
    yes: Yes = False,
    again: Annotated[bool, typer.Option("--again", help="Of a task that succeeded, make a new one.")] = False,
) -> int:
    """Run failed, dead, cancelled or reviewed tasks again."""
    return _act(ctx.obj, "retry", words, everything, yes, **({"again": True} if again else {}))


def discard(ctx: typer.Context, words: Words = None, everything: All = False, yes: Yes = False) -> int:
    """Give up tasks that need a review: they are dead."""
    return _act(ctx.obj, "discard", words, everything, yes)


def _act(
    line: CommandLine, verb: str, words: Sequence[str] | None, everything: bool, yes: bool, **more: Any
) -> int:
    if everything and words:
        raise UsageError(
            "--all and a choice of tasks exclude each other", remedy=f"see: taskdeck {verb} --help"
        )
    found = _chosen(line, verb, words or (), everything)
    if everything and not yes:
        _ask(verb, len(found))
    from taskdeck.engine import commands

    results = commands.call(line.config, verb, line.actor, ids=found, **more)
    return _report(line, verb, results)


def _chosen(line: CommandLine, verb: str, words: Sequence[str], everything: bool) -> list[int]:
    with views.open_view(line.config) as view:
        if not everything:
            return targets.many(view, words, states=FITTING[verb])
        found = view.task_ids(views.Filter(states=FITTING[verb]))
    if not found:
        raise NotFound(f"there is no task to {verb}", remedy="see: taskdeck list")
    return found


def _ask(verb: str, count: int) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(f"{verb} --all asks first, and there is no terminal to ask on", remedy="add --yes")
    tasks = "1 task" if count == 1 else f"{count} tasks"
    if not typer.confirm(f"{verb} {tasks}?", err=True):
        raise typer.Abort


def _report(line: CommandLine, verb: str, results: Sequence[dict[str, Any]]) -> int:
    """One line an id; the exit code is 0, or that of the first that was refused."""
    code = 0
    for each in results:
        if line.json:
            output.json_line(each)
        elif each["ok"]:
            output.line(f"#{each['id']} {look.state(each['state'])}" + _remark(each))
        if not each["ok"]:
            error = output.refused_object(each)
            code = code or error.exit_code
            if not line.json:
                output.flush()
                output.complain(error, as_json=False)
    return code


def _remark(result: dict[str, Any]) -> str:
    text = look.tidy(result.get("message") or "")
    return f": {text}" if text and text != result["state"].lower() else ""


def _hold(line: CommandLine, verb: str, words: Sequence[str] | None, queue: bool, type_: str | None) -> int:
    if words or (queue and type_):
        raise UsageError(
            "name tasks, --queue or --type NAME, one of them", remedy="see: taskdeck pause --help"
        )
    scope = "queue" if queue else f"type:{type_}"
    from taskdeck.engine import commands

    value = commands.call(line.config, verb, line.actor, scope=scope)
    if line.json:
        output.json_line(value if isinstance(value, dict) else {"scope": scope, "held": verb == "hold"})
    else:
        what = "the queue" if queue else f"type {type_}"
        output.line(f"{what} is held: nothing more is started" if verb == "hold" else f"{what} goes on")
    return 0
