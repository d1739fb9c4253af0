"""`op begin|done KEY`, `op rollback -- COMMAND`: what a running shell script does at most once, and what undoes it.

It speaks over the socket that the script was given.
The exit codes of `begin` make `taskdeck op begin KEY && EFFECT && taskdeck op done KEY` safe: the effect is only reached
where it certainly was not begun before.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Annotated, Any

import typer

from taskdeck.engine.errors import TaskdeckError, UsageError

from .. import output
from ..commandline import CommandLine

Key = Annotated[str, typer.Argument(metavar="KEY", help="The operation's name, the same at every try.")]

op = typer.Typer(
    add_completion=False,
    help="Do an effect at most once from a shell script that the engine runs.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


EXIT_CODES = {"new": 0, "done": 10, "doubt": 11}
"""By the operation's state; any other answer is a failure."""


@op.callback()
def _op() -> None:
    pass


@op.command(short_help="Record the intent: new (exit 0), done (10) or doubt (11).")
def begin(ctx: typer.Context, key: Key) -> int:
    """Record the intent. Prints `new` and exits 0: do it now; `done`, 10: skip it; `doubt`, 11: look whether it was done."""
    answer = _ask(ctx.obj, {"operation": key})
    state = str(answer.get("state", ""))
    if state not in EXIT_CODES:
        raise TaskdeckError("the engine's answer is not understood", state, "is it of another version?")
    _say(ctx.obj, answer, state)
    if state == "doubt":
        output.flush()
        output.note(
            f"{key} was begun by an earlier attempt that did not say how it went: look before it is done again"
        )
    return EXIT_CODES[state]


@op.command()
def done(
    ctx: typer.Context,
    key: Key,
    result: Annotated[str | None, typer.Argument(metavar="[JSON]", help="What came of it.")] = None,
) -> int:
    """Record that the effect was done."""
    message: dict[str, Any] = {"operation": key, "done": True}
    if result is not None:
        try:
            message["result"] = json.loads(result)
        except ValueError as error:
            raise UsageError("the result is no JSON", str(error)) from None
    answer = _ask(ctx.obj, message)
    _say(ctx.obj, answer, "done")
    return 0


@op.command(context_settings={"ignore_unknown_options": True})
def rollback(
    ctx: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What undoes the effect.")],
    undoes: Annotated[
        str,
        typer.Option("--undoes", metavar="KEY", help="The operation that has not happened any more then."),
    ] = "",
    repeatable: Annotated[
        bool, typer.Option("--repeatable", help="It may be run again after a crash in its middle.")
    ] = False,
) -> int:
    """Register a command that undoes what comes next; it runs where the task is cancelled or fails for good."""
    answer = _ask(
        ctx.obj, {"rollback": command, "repeatable": repeatable, **({"undoes": undoes} if undoes else {})}
    )
    _say(ctx.obj, answer, f"step {answer.get('rollback')}")
    return 0


def _say(line: CommandLine, answer: dict[str, Any], text: str) -> None:
    if line.json:
        output.json_line(answer)
    else:
        output.line(text)


def _ask(line: CommandLine, message: dict[str, Any]) -> dict[str, Any]:
    number = os.environ.get("TASKDECK_FD", "")
    if not number.isdecimal():
        raise UsageError(
            "this is not a command that the engine runs",
            "TASKDECK_FD is not set",
            "use it inside `taskdeck add -- SCRIPT`",
        )
    output.acting(as_json=line.json)
    try:
        # A copy, so that closing ours leaves the script's own descriptor open.
        with socket.socket(fileno=os.dup(int(number))) as link, link.makefile("rwb") as file:
            file.write(json.dumps(message).encode() + b"\n")
            file.flush()
            answer = json.loads(file.readline() or b"{}")
    except (OSError, ValueError) as error:
        raise TaskdeckError("the engine did not answer", str(error), "is TASKDECK_FD still open?") from None
    if not isinstance(answer, dict) or not answer or "error" in answer:
        raise TaskdeckError(
            "the operation was not recorded", str((answer or {}).get("error", "the line is closed"))
        )
    return answer
