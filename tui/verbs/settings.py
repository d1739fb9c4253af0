"""`config`: what is set, where it came from, and whether it is right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from taskdeck.engine.config import Config, base_folder, meant_for_nobody, read_secrets
from taskdeck.engine.errors import ConfigError, Refused, Unavailable

from .. import output
from ..commandline import CommandLine
from ..other_settings import unread

config = typer.Typer(
    add_completion=False,
    help="Look at the settings and check them.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


BUILT_IN = ("shell", "http")
"""Types without a handler of the user's."""

NO_TASK = '{source}: it loads and declares no task (write @task("NAME") above each handler)'
"""Of a file of handlers that is right, and of no use."""


@config.callback()
def _config() -> None:
    pass


@config.command(short_help="Check the settings and load the handlers; mistakes: exit 78.")
def check(ctx: typer.Context) -> int:
    """Check the settings and load the handlers: every mistake with its place and remedy; exit 78.

    Secrets that can't be read are told. A running engine has the handlers that it started with.
    """
    line: CommandLine = ctx.obj
    found = line.config
    types, problems, barren = _handlers(found)
    warnings = [str(problem) for problem in read_secrets(found)[1]]
    warnings += [
        str(problem) for problem in meant_for_nobody(found, None if problems else {*types, *BUILT_IN})
    ]
    warnings += [NO_TASK.format(source=each) for each in barren]
    if line.json:
        file = str(found.file) if found.file else None
        output.json_line(
            {"ok": not problems, "file": file, "types": types, "problems": problems, "warnings": warnings}
        )
    else:
        _tell_check(line, types, problems, warnings)
    return ConfigError.exit_code if problems else 0


def _handlers(found: Config) -> tuple[list[str], list[str], list[str]]:
    """The types that load, what is wrong, and what declares no task; nothing is started where no handler is named."""
    if not found.taskdeck.handlers and not set(found.types) - set(BUILT_IN):
        return [], [], []
    from taskdeck.engine import commands

    try:
        types, problems, barren = commands.survey_handlers(found)
    except Unavailable as error:
        return [], [str(error)], []
    return sorted(types), problems, barren


def _tell_check(line: CommandLine, types: list[str], problems: list[str], warnings: list[str]) -> None:
    file = line.config.file
    for each in [*warnings, *problems]:
        output.note(each)
    if problems:
        return
    output.line(f"{file} is right" if file else "there is no configuration file; the defaults hold")
    if named := ", ".join(name for name in types if name not in BUILT_IN):
        output.line(f"types: {named}")
    tell_passed_over(line)


def tell_passed_over(line: CommandLine) -> None:
    """A file that somebody may take for the one in use."""
    if text := unread(line):
        output.flush()
        output.note(text)


@config.command()
def show(
    ctx: typer.Context,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value came from.")] = False,
) -> int:
    """Show every effective setting."""
    line: CommandLine = ctx.obj
    for key, value, source in line.config.origins():
        if line.json:
            output.json_line({"key": key, "value": _plain(value), "origin": source})
        else:
            text = f"{key} = {output.harmless(output.json_text(_plain(value)))}"
            output.line(f"{text}  # {output.harmless(source)}" if origin else text)
    return 0


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else value


@config.command(short_help="Print the configuration file in use, or where one would be.")
def path(ctx: typer.Context) -> int:
    """Print the configuration file in use, or where `config init` would make one."""
    line: CommandLine = ctx.obj
    found = line.config.file
    shown = found or usual_place()
    if line.json:
        output.json_line({"path": str(shown), "exists": found is not None})
    else:
        output.line(str(shown))
        tell_passed_over(line)
    return 0


@config.command(short_help="Make a first file with all defaults; overwrites nothing.")
def init(ctx: typer.Context) -> int:
    """Make a commented configuration file with the defaults; an existing one is never overwritten."""
    line: CommandLine = ctx.obj
    target = line.paths.get("--config") or usual_place()
    output.acting(as_json=line.json)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refused(
            f"{target} exists already", "it is not overwritten", "edit it, or remove it first"
        ) from None
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(example())
    if line.json:
        output.json_line({"path": str(target)})
    else:
        output.line(str(target))
    return 0


def usual_place() -> Path:
    """`$XDG_CONFIG_HOME/taskdeck/config.toml`."""
    home = base_folder(os.environ, "XDG_CONFIG_HOME", ".config")
    return Path(home, "taskdeck", "config.toml")


def example() -> str:
    """The defaults as a configuration in which every line is commented out."""
    lines = ["# Settings of taskdeck. Uncomment what shall differ; see: taskdeck config show --origin", ""]
    table = ""
    for key, value, _ in Config().origins():
        here, _, name = key.rpartition(".")
        if here != table:
            lines += [*([""] if table else []), f"[{here}]"]
            table = here
        lines.append(f"# {name} = {output.json_text(_plain(value)) if value is not None else '…'}")
    return "\n".join(lines) + "\n"
