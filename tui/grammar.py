"""The words of the command line as typer knows them: the list of verbs, each loaded when it is called, and the help.

Owns parsing and its mistakes. What a verb does stands in `verbs/`; exit codes and messages are the business of `cli`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from taskdeck.engine.errors import TaskdeckError, UsageError

from . import output
from .commandline import SWITCHES, VALUES, CommandLine, nearest

VERBS = {
    "run": "run:run",
    "stop": "run:stop",
    "status": "status:status",
    "add": "add:add",
    "list": "look:list_tasks",
    "show": "look:show",
    "why": "why:why",
    "log": "log:log",
    "wait": "wait:wait",
    "pause": "act:pause",
    "resume": "act:resume",
    "cancel": "act:cancel",
    "retry": "act:retry",
    "discard": "act:discard",
    "resource": "resource:resource",
    "route": "route:route",
    "worker": "worker:workers",
    "events": "events:events",
    "audit": "events:audit",
    "config": "settings:config",
    "op": "op:op",
    "demo": "demo:demo",
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
def _alone(
    ctx: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version.")
) -> Any:
    if version:
        from taskdeck.engine import __version__

        output.line(f"taskdeck {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        from .verbs.status import alone

        return alone(ctx)
    return None


def invoke(line: CommandLine) -> int:
    """Parse the words, run the verb, return its exit code. Raises what the verb raises, and `UsageError`."""
    # Not `app()`: it would take broken pipes, interrupts and errors into its own hands.
    try:
        with get_command(app).make_context("taskdeck", line.words, obj=line) as ctx:
            code = ctx.command.invoke(ctx)
    except typer.Exit as ending:
        code = ending.exit_code
    except typer.Abort:
        raise UsageError("nothing was done", "the question was not answered with yes") from None
    except typer.TyperException as error:
        raise _usage(error) from None
    return code if isinstance(code, int) else 0


def _usage(error: typer.TyperException) -> TaskdeckError:
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx else "taskdeck"
    name = getattr(error, "option_name", None)
    what = error.format_message().rstrip(".")
    if name and ctx and type(error).__name__ == "NoSuchOption":
        known = [option for parameter in ctx.command.params for option in parameter.opts]
        what = f"there is no option {name}{nearest(name, [*known, *SWITCHES, *VALUES])}"
    return UsageError(what, remedy=f"see: {path} --help")
