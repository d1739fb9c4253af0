"""`operation list|done|redo`: what a task did at most once, and a person's word where it is in doubt.

Not to be taken for `op`, with which a running script itself begins and ends its operations.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import typer

from taskdeck.engine import views
from taskdeck.engine.errors import UsageError

from .. import format as look
from .. import output
from ..commandline import CommandLine
from . import targets, task_page, task_records

Task = Annotated[str, typer.Argument(metavar="ID", help="The task: 42, #42 or key:NAME")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The operation, as `list` shows it.")]
Scope = Annotated[
    str | None, typer.Option("--scope", help="Its scope, where two of them have operations of this key.")
]
Again = Annotated[bool, typer.Option("--retry", "-r", help="Then run the task again.")]

operation = typer.Typer(
    add_completion=False,
    help="Look at the operations of a task, and settle those in doubt.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@operation.callback()
def _operation() -> None:
    pass


@operation.command("list")
def list_operations(
    ctx: typer.Context,
    task: Annotated[str | None, typer.Argument(metavar="[ID]", help="The task: 42, #42 or key:NAME")] = None,
) -> int:
    """List the operations of a task: begun, done, not done or in doubt. Without an ID: all that are in doubt."""
    line: CommandLine = ctx.obj
    if task is None:
        return _list_doubts(line)
    with views.open_view(line.config) as view:
        found = view.task(targets.one(view, [task]))
    operations = found.operations if isinstance(found.operations, list) else []
    if line.json:
        for each in operations:
            output.json_line(each)
        return 0
    for text in task_records.operations(found)[1:]:
        output.line(text)
    for told in views.doubts(found):
        for part in look.wrap(task_page.local_times(look.tidy(told)), output.width()):
            output.line(part)
    if not operations:
        output.note(f"#{found.id} has begun no operation")
    return 0


def _list_doubts(line: CommandLine) -> int:
    with views.open_view(line.config) as view:
        found = view.in_doubt()
    if line.json:
        for task_id, each in found:
            output.json_line({"task": task_id, **msgspec.to_builtins(each)})
        return 0
    if not found:
        output.note("no operation is in doubt")
        return 0
    now = views.now()
    rows = [
        (f"#{task_id}", look.tidy(each.key), look.local(each.doubt_at or each.begun_at, now=now))
        for task_id, each in found
    ]
    headers = ("TASK", "OPERATION", f"IN DOUBT SINCE ({look.zone(now)})")
    for text in look.table(headers, rows, width=output.width()):
        output.line(text)
    output.flush()
    output.note(
        "find out what happened, then: taskdeck operation done ID KEY, or: taskdeck operation redo ID KEY"
    )
    return 0


@operation.command()
def done(
    ctx: typer.Context,
    task: Task,
    key: Key,
    result: Annotated[
        str | None, typer.Option("--result", metavar="JSON", help="What came of it; later attempts get it.")
    ] = None,
    scope: Scope = None,
    retry: Again = False,
) -> int:
    """Say that it happened: it is never done again."""
    if result is not None:
        try:
            json.loads(result)
        except ValueError as error:
            raise UsageError(
                "the result is no JSON", str(error), "quote a text: --result '\"text\"'"
            ) from None
    return _settle(ctx.obj, "operation_done", task, key, scope=scope, result=result, retry=retry)


@operation.command()
def redo(ctx: typer.Context, task: Task, key: Key, scope: Scope = None, retry: Again = False) -> int:
    """Say that it certainly did not happen: the next attempt does it."""
    return _settle(ctx.obj, "operation_redo", task, key, scope=scope, retry=retry)


def _settle(line: CommandLine, verb: str, task: str, key: str, **more: Any) -> int:
    with views.open_view(line.config) as view:
        task_id = targets.one(view, [task])
    from taskdeck.engine import commands

    output.acting(as_json=line.json)
    found = commands.call(line.config, verb, line.actor, task=task_id, key=key, **more)
    retried = found.get("retried")
    code = 0 if retried is None or retried["ok"] else output.refused_object(retried).exit_code
    if line.json:
        output.json_line(found)
        return code
    output.line(look.tidy(f"#{task_id} {found['message']}"))
    _tell_next(task_id, found, retried)
    return code


def _tell_next(task_id: int, found: dict[str, Any], retried: dict[str, Any] | None) -> None:
    if retried is not None and retried["ok"]:
        output.line(f"#{task_id} {look.state(retried['state'])}: {look.tidy(retried['message'])}")
    elif retried is not None:
        output.flush()
        output.complain(output.refused_object(retried), as_json=False)
    elif found["in_doubt"]:
        output.flush()
        output.note(f"still in doubt: {', '.join(found['in_doubt'])}")
    else:
        output.flush()
        output.note(f"nothing of #{task_id} is in doubt; run it again: taskdeck retry {task_id}")
