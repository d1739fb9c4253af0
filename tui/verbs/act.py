"""`pause`, `resume`, `stop`, `cancel`, `kill`, `retry` and `discard`: what a person may do to tasks (see docs/acts.md)."""

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
from . import hold, targets
from .task_page import STRANDED

Words = Annotated[list[str] | None, typer.Argument(metavar="[ID|FILTER]...", help=targets.EXAMPLES)]
All = Annotated[bool, typer.Option("--all", help="All tasks that this can be done to; asks first.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask (a filter and --all ask).")]
Targets = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID|FILTER|type:NAME|pool:NAME]...", help=targets.HOLD_EXAMPLES),
]
Whole = Annotated[bool, typer.Option("--all", help="Everything, also what is added later.")]

NoRollback = Annotated[
    bool, typer.Option("--no-rollback", help="Without its undo steps, also where some of them failed.")
]

MOST_SHOWN = 10

FITTING = {
    "pause": ("PENDING", "RETRYING", "RUNNING"),
    "resume": ("PAUSED",),
    "stop": ("RUNNING", "PAUSED", "PENDING", "RETRYING"),
    "kill": ("PENDING", "RUNNING", "PAUSED", "RETRYING", "LOST", "NEEDS_REVIEW"),
    "cancel": ("PENDING", "RUNNING", "PAUSED", "RETRYING", "LOST", "NEEDS_REVIEW"),
    "retry": ("FAILED", "DEAD", "NEEDS_REVIEW", "RETRYING"),
    "discard": ("NEEDS_REVIEW",),
}
"""The states that `--all`, or a filter that names none, means."""

CALLED = {"stop": "stop_tasks"}
"""Verbs that the engine knows by another name."""


def pause(
    ctx: typer.Context,
    words: Targets = None,
    everything: Whole = False,
    yes: Yes = False,
    let_run: Annotated[
        bool, typer.Option("--let-run", help="Of a type, a pool or --all: what runs goes on to its end.")
    ] = False,
) -> int:
    """Pause tasks where they stand; hold back a type, a pool or everything until it is resumed."""
    if named := hold.scopes(words or (), everything):
        return hold.hold(ctx.obj, named, "" if let_run else "pause")
    return _act(ctx.obj, "pause", words, False, yes)


def resume(ctx: typer.Context, words: Targets = None, everything: Whole = False, yes: Yes = False) -> int:
    """Let paused tasks go on; or a type, a pool or everything that is held back."""
    if named := hold.scopes(words or (), everything):
        return hold.release(ctx.obj, named)
    return _act(ctx.obj, "resume", words, False, yes)


def stop(ctx: typer.Context, words: Sequence[str], everything: bool, yes: bool) -> int:
    """End attempts politely and keep their tasks paused; of a type, a pool or everything: hold it back as well."""
    if named := hold.scopes(words, everything):
        return hold.hold(ctx.obj, named, "stop", yes=yes)
    return _act(ctx.obj, "stop", words, False, yes)


def cancel(
    ctx: typer.Context,
    words: Words = None,
    everything: All = False,
    yes: Yes = False,
    no_rollback: NoRollback = False,
) -> int:
    """Cancel tasks: waiting ones at once, running ones are asked to end and ended after a grace."""
    return _act(ctx.obj, "cancel", words, everything, yes, **_giving_up(no_rollback))


def kill(ctx: typer.Context, words: Words = None, everything: All = False, yes: Yes = False) -> int:
    """Cancel tasks without grace: all that runs of them is killed at once."""
    return _act(ctx.obj, "kill", words, everything, yes)


def retry(
    ctx: typer.Context,
    words: Words = None,
    everything: All = False,
    yes: Yes = False,
    again: Annotated[bool, typer.Option("--again", help="Of a task that succeeded, make a new one.")] = False,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="N|start", help="From checkpoint N (see show), or from the beginning."
        ),
    ] = None,
) -> int:
    """Run failed, dead, cancelled or reviewed tasks again."""
    more: dict[str, Any] = {"again": True} if again else {}
    if from_ is not None:
        more["from"] = _checkpoint(from_)
    return _act(ctx.obj, "retry", words, everything, yes, **more)


def _checkpoint(text: str) -> int | str:
    number = text.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < 19:
        return int(number)
    if text.lower() == "start":
        return "start"
    raise UsageError(
        f"--from {text!r} is no checkpoint",
        "write its number as `taskdeck show` tells it, or start",
        "taskdeck retry 42 --from 3",
    )


def discard(
    ctx: typer.Context,
    words: Words = None,
    everything: All = False,
    yes: Yes = False,
    no_rollback: NoRollback = False,
) -> int:
    """Give up tasks that need a review: they are dead."""
    return _act(ctx.obj, "discard", words, everything, yes, **_giving_up(no_rollback))


def _giving_up(no_rollback: bool) -> dict[str, Any]:
    return {"no_rollback": True} if no_rollback else {}


def _act(
    line: CommandLine, verb: str, words: Sequence[str] | None, everything: bool, yes: bool, **more: Any
) -> int:
    if everything and words:
        raise UsageError(
            "--all and a choice of tasks exclude each other", remedy=f"see: taskdeck {verb} --help"
        )
    found = _chosen(line, verb, words or (), everything, yes)
    from taskdeck.engine import commands

    output.acting(as_json=line.json)
    results = commands.call(line.config, CALLED.get(verb, verb), line.actor, ids=found, **more)
    alone = not line.json and not views.holder(line.config).running
    code = _report(line, results, alone=alone)
    if alone:
        _tell_without_engine(verb, results)
    return code


def _chosen(line: CommandLine, verb: str, words: Sequence[str], everything: bool, yes: bool) -> list[int]:
    """The ids that are meant. What was not named one by one is shown, and asked about."""
    with views.open_view(line.config) as view:
        if everything:
            found = view.task_ids(views.Filter(states=FITTING[verb]))
        else:
            found = targets.many(view, words, states=FITTING[verb])
        if not found:
            raise NotFound(f"there is no task to {verb}", remedy="see: taskdeck list")
        if not yes and (everything or _is_guess(words, len(found))):
            _ask(view, verb, found)
    return found


def _is_guess(words: Sequence[str], count: int) -> bool:
    """A filter may match more than was thought of: several tasks, or one that a text was found in."""
    if targets.are_named(words):
        return False
    return count > 1 or bool(views.parse_arguments(words).text)


def _ask(view: views.View, verb: str, found: Sequence[int]) -> None:
    tasks = "1 task" if len(found) == 1 else f"{len(found)} tasks"
    if sys.stdin is None or not sys.stdin.isatty():
        shown = ", ".join(f"#{task_id}" for task_id in found[:MOST_SHOWN]) + _more(found, " and {} more")
        raise UsageError(
            f"{verb} would change {tasks}",
            f"{shown}; this asks first, and there is no terminal to ask on",
            "name them by id, or add --yes",
        )
    for text in _shown(view, found):
        typer.echo(text, err=True)
    if not typer.confirm(f"{verb} {tasks}?", err=True):
        raise typer.Abort


def _shown(view: views.View, found: Sequence[int]) -> list[str]:
    first = view.tasks(views.Filter(ids=tuple((task_id, task_id) for task_id in found[:MOST_SHOWN])))
    rows = [
        (f"  #{task.id}", look.state(task.state), look.tidy(task.type), look.tidy(task.summary))
        for task in reversed(first)
    ]
    _, *lines = look.table(("", "", "", ""), rows, width=output.width())
    return [*lines, *([_more(found, "  … and {} more")] if len(found) > MOST_SHOWN else [])]


def _more(found: Sequence[int], words: str) -> str:
    return words.format(len(found) - MOST_SHOWN) if len(found) > MOST_SHOWN else ""


def _needs_an_engine(message: str) -> bool:
    return message.startswith(("asked to", "is killed")) or "rolled back first" in message


def _tell_without_engine(verb: str, results: Sequence[dict[str, Any]]) -> None:
    """What was asked of a task that nobody runs, or lets one start that nobody starts, needs an engine."""
    done = [each for each in results if each["ok"]]
    asked = any(_needs_an_engine(each.get("message") or "") for each in done)
    if not asked and not (done and verb in ("resume", "retry")):
        return
    output.flush()
    if asked:
        output.note("no engine runs: this takes effect when one starts (taskdeck run)")
    else:
        output.note("no engine runs: nothing starts until one does (taskdeck run)")


def _report(line: CommandLine, results: Sequence[dict[str, Any]], *, alone: bool) -> int:
    """One line an id; the exit code is 0, or that of the first that was refused. `alone`: no engine runs."""

    def told(each: dict[str, Any]) -> str:
        state = STRANDED if alone and each["state"] == "RUNNING" else look.state(each["state"])
        return f"#{each['id']} {state}{_remark(each)}"

    return output.results(results, as_json=line.json, told=told)


def _remark(result: dict[str, Any]) -> str:
    text = look.tidy(result.get("message") or "")
    return f": {text}" if text and text != result["state"].lower() else ""
