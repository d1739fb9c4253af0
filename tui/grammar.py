"""The words of the command line as typer knows them: the list of verbs, each loaded when it is called, and the help.

Owns parsing and its mistakes. What a verb does stands in `verbs/`; exit codes and messages are the business of `cli`.
"""

from __future__ import annotations

import re
from functools import cache
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
    "stop": "stop:stop",
    "restart": "stop:restart",
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
    "kill": "act:kill",
    "retry": "act:retry",
    "discard": "act:discard",
    "resource": "resource:resource",
    "route": "route:route",
    "worker": "worker:workers",
    "events": "events:events",
    "audit": "events:audit",
    "prune": "keeping:prune",
    "backup": "keeping:backup",
    "restore": "keeping:restore",
    "config": "settings:config",
    "op": "op:op",
    "operation": "operation:operation",
    "probe-server": "probe_server:probe_server",
    "demo": "demo:demo",
    "chaos": "chaos:chaos",
}
"""Each verb with the module and the function (or group of functions) behind it, in the order of the help."""

ABOUT = """Usage: taskdeck (opens the deck), or: taskdeck VERB ...   taskdeck VERB --help

  add             Add a command (add -- COMMAND), a task of a type, or a file
  run, stop       Run the engine; drain and end it (stop ID: that task alone)
  status, restart Who runs, what waits, what to do next; let new code take over
  list            The newest tasks: list state:failed type:fetch older:2h
  show, why       All about one task; why it does not run now, and what to do
  log             The output of an attempt, also while it runs
  events, wait    What happened, -f goes on; wait until tasks have ended
  pause, resume   Hold tasks, type:NAME, pool:NAME or --all; let them go on
  cancel, kill    End tasks, or take them out of the queue; kill without grace
  retry, discard  Run ended tasks again; give up those that need a review
  resource, route Look at them; take them out and back, kick; import lists
  worker          The processes that run attempts
  audit, prune    Is the record as it was written? Archive what is old
  backup, restore Copy the database, checked, at full work; put a copy back
  config          Look at the settings, check them, make a first file
  op, operation   An effect at most once, from a script; what is in doubt
  probe-server    Answers checks of routes, on a host of your own
  demo, chaos     All of it at work in a small world; the same, broken

Everywhere: --db PATH, --config PATH, --json, --debug; taskdeck --version"""
"""The whole help: one sentence a verb, on one screen of 24 lines."""

OTHER_WORDS = {
    **dict.fromkeys(("tail", "logs", "output"), "log --follow ID"),
    **dict.fromkeys(("abort", "rm", "delete", "remove"), "cancel ID"),
    **dict.fromkeys(("ls", "queue", "tasks", "jobs"), "list"),
    **dict.fromkeys(("ps", "top"), "list state:running"),
    **dict.fromkeys(("start", "serve", "engine", "daemon"), "run"),
    **dict.fromkeys(("submit", "enqueue", "exec", "push"), "add -- COMMAND"),
    **dict.fromkeys(("rerun", "again"), "retry ID"),
    **dict.fromkeys(("upgrade", "reload"), "restart"),
    **dict.fromkeys(("continue", "unpause", "release"), "resume ID"),
    **dict.fromkeys(("info", "describe", "get"), "show ID"),
    **dict.fromkeys(("quit", "exit", "shutdown", "drain"), "stop"),
    **dict.fromkeys(("workers",), "worker list"),
    **dict.fromkeys(("resources",), "resource list"),
    **dict.fromkeys(("routes", "proxies"), "route list"),
    **dict.fromkeys(("watch", "follow", "history"), "events --follow"),
    **dict.fromkeys(("archive", "clean", "cleanup", "gc", "purge", "vacuum"), "prune"),
    **dict.fromkeys(("dump", "save", "snapshot", "copy"), "backup"),
    **dict.fromkeys(("hold", "freeze"), "pause --all"),
    **dict.fromkeys(("version",), "--version"),
    **dict.fromkeys(("settings",), "config show"),
    **dict.fromkeys(("explain",), "why ID"),
}
"""Verbs of other programs, and what they are called here."""
COMMAND_REMEDY = "a command stands behind `--`: taskdeck add [OPTIONS] -- COMMAND"
EVERYWHERE = "Everywhere: --json --db PATH --config PATH --debug"
SETTINGS = {"help_option_names": ["-h", "--help"]}


class Verbs(TyperGroup):
    """The verbs, each loaded when it is called."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(ABOUT + "\n")

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _parser(cmd_name) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            raise UsageError(f"there is no verb `{args[0]}`{_meant(args[0])}", remedy="see: taskdeck --help")
        return super().resolve_command(ctx, args)


@cache
def _parser(verb: str) -> Any:
    module, _, name = VERBS[verb].partition(":")
    found = getattr(import_module(f".verbs.{module}", __package__), name)
    if isinstance(found, typer.Typer):
        return get_command(found)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(verb, context_settings=SETTINGS, epilog=EVERYWHERE)(found)
    return get_command(app)


def _meant(word: str) -> str:
    other = OTHER_WORDS.get(word.lower())
    return f"; did you mean `taskdeck {other}`?" if other else nearest(word, VERBS)


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    context_settings=SETTINGS,
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
    words = [*line.words[1:], "--help"] if line.words[:1] == ["help"] else line.words
    # Not `app()`: it would take broken pipes, interrupts and errors into its own hands.
    try:
        with get_command(app).make_context("taskdeck", words, obj=line) as ctx:
            code = ctx.command.invoke(ctx)
    except typer.Exit as ending:
        code = ending.exit_code
    except typer.Abort:
        raise UsageError("nothing was done", "the question was not answered with yes") from None
    except typer.TyperException as error:
        if type(error).__name__ != "NoArgsIsHelpError" or line.json:
            raise _usage(error) from None
        output.hint(error.format_message())
        code = UsageError.exit_code
    return code if isinstance(code, int) else 0


def _plain(what: str, error: typer.TyperException) -> str:
    """The parser names the types of its own; a person wants to know which numbers are taken."""
    told = re.fullmatch(r"(.*) is not a valid (float|int|integer)(?: range)?", what, re.DOTALL)
    if not told:
        return what
    kind = getattr(getattr(error, "param", None), "type", None)
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    bounds = [f"from {low:g}"] if low is not None else []
    bounds += [f"to {high:g}"] if high is not None else []
    number = "a number" if told[2] == "float" else "a whole number"
    return f"{told[1]} is not {' '.join([number, *bounds])}"


def _usage(error: typer.TyperException) -> TaskdeckError:
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx else "taskdeck"
    name = getattr(error, "option_name", None)
    what, remedy = _plain(error.format_message().rstrip("."), error), f"see: {path} --help"
    if type(error).__name__ == "NoArgsIsHelpError":
        what = f"{path} needs a verb"
    if name and ctx and type(error).__name__ == "NoSuchOption":
        known = [option for parameter in ctx.command.params for option in parameter.opts]
        meant = "; did you mean `--version`?" if name in ("-v", "-V") else ""
        what = f"there is no option {name}{meant or nearest(name, [*known, *SWITCHES, *VALUES])}"
    if path == "taskdeck add" and "extra argument" in what:
        what, remedy = "a type and its JSON are all that `add` takes", COMMAND_REMEDY
    return UsageError(what, remedy=remedy)
