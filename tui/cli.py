"""The console script: finds the verb, loads only its module, and turns every ending into an exit code and one message.

Owns the list of verbs and what happens to errors. What a verb does stands in `verbs/`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from taskdeck.engine.errors import TaskdeckError, UsageError

from . import output
from .commandline import SWITCHES, VALUES, CommandLine

INTERRUPTED = 130
BROKEN_PIPE = 141

VERBS = {
    "run": "run:run",
    "stop": "run:stop",
    "status": "status:status",
    "add": "add:add",
    "list": "look:list_tasks",
    "show": "look:show",
    "why": "look:why",
    "log": "log:log",
    "wait": "wait:wait",
    "pause": "act:pause",
    "resume": "act:resume",
    "cancel": "act:cancel",
    "retry": "act:retry",
    "discard": "act:discard",
    "worker": "worker:workers",
    "events": "events:events",
    "audit": "events:audit",
    "config": "settings:config",
    "op": "op:op",
}
"""Each verb with the module and the function (or group of functions) behind it, in the order of the help."""

ABOUT = """Durable tasks for unattended work: add them, let the engine run them, look at what happened.

Everywhere: --db PATH (or TASKDECK_DB) names the database, --config PATH the configuration, --json prints stable JSON,
--debug shows tracebacks.
"""
EVERYWHERE = "Everywhere: --json --db PATH --config PATH --debug"
SETTINGS = {"help_option_names": ["-h", "--help"]}


class Verbs(TyperGroup):
    """The verbs, each loaded when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name].partition(":")
        found = getattr(import_module(f".verbs.{module}", __package__), name)
        if isinstance(found, typer.Typer):
            return get_command(found)
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.command(cmd_name, context_settings=SETTINGS, epilog=EVERYWHERE)(found)
        return get_command(app)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            raise UsageError(
                f"there is no verb `{args[0]}`{nearest(args[0], VERBS)}", remedy="see: taskdeck --help"
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    context_settings=SETTINGS,
    help=ABOUT,
)


@app.callback()
def _alone(ctx: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version.")) -> Any:
    if version:
        from taskdeck.engine import __version__

        output.line(f"taskdeck {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        from .verbs.status import alone

        return alone(ctx)
    return None


def nearest(word: str, known: Sequence[str] | dict[str, str]) -> str:
    """`; did you mean X?` where a known word is near, else nothing."""
    import difflib  # only needed for mistakes

    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean `{close[0]}`?" if close else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (the console script exits with it)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    output.prepare()
    with _unbroken_pipes() as ending:
        ending.code = _run(arguments)
    return ending.code


class _Ending:
    code = 0


@contextlib.contextmanager
def _unbroken_pipes() -> Any:
    """A reader that went away (`| head -1`) ends us quietly with 141; nothing is left to fail at exit."""
    ending = _Ending()
    try:
        yield ending
        output.flush()
    except BrokenPipeError:
        ending.code = BROKEN_PIPE
        _silence()
    except OSError as error:
        _silence()
        output.note(f"the output can't be written: {error.strerror}")
        ending.code = ending.code or 1


def _silence() -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str]) -> int:
    wants_json, wants_debug = "--json" in arguments, "--debug" in arguments
    try:
        line = CommandLine(arguments)
        wants_json, wants_debug = line.json, line.debug
        return _invoke(line)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        if wants_debug:
            import traceback

            traceback.print_exc()
        found = _as_ours(error)
        output.flush()
        output.complain(found, as_json=wants_json)
        return found.exit_code


def _invoke(line: CommandLine) -> int:
    # Not `app()`: it would take broken pipes, interrupts and errors into its own hands.
    try:
        with get_command(app).make_context("taskdeck", line.words, obj=line) as ctx:
            code = ctx.command.invoke(ctx)
    except typer.Exit as ending:
        code = ending.exit_code
    return code if isinstance(code, int) else 0


def _as_ours(error: Exception) -> TaskdeckError:
    """Any exception as one message: ours as it is, the parser's as usage, others as a failure with advice."""
    if isinstance(error, TaskdeckError):
        return error
    if isinstance(error, typer.Abort):
        return UsageError("nothing was done", "the question was not answered with yes")
    if isinstance(error, typer.TyperException):
        return _usage(error)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return TaskdeckError("this should not have happened", what, "run it again with --debug and report it")


def _usage(error: typer.TyperException) -> UsageError:
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx else "taskdeck"
    name = getattr(error, "option_name", None)
    what = error.format_message().rstrip(".")
    if name and ctx and type(error).__name__ == "NoSuchOption":
        known = [option for parameter in ctx.command.params for option in parameter.opts] + [*SWITCHES, *VALUES]
        what = f"there is no option {name}{nearest(name, known)}"
    return UsageError(what, remedy=f"see: {path} --help")
