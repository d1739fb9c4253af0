"""`config`: what is set, where it came from, and whether it is right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from taskdeck.engine.config import read_secrets
from taskdeck.engine.errors import Refused

from .. import output
from ..commandline import CommandLine

config = typer.Typer(
    add_completion=False,
    help="Look at the settings and check them.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@config.callback()
def _config() -> None:
    pass


@config.command()
def check(ctx: typer.Context) -> int:
    """Check the settings: every mistake with file, line, key and remedy; exit 78. Secrets that can't be read are told."""
    line: CommandLine = ctx.obj
    found = line.config
    warnings = [str(problem) for problem in read_secrets(found)[1]]
    if line.json:
        output.json_line({"ok": True, "file": str(found.file) if found.file else None, "warnings": warnings})
    else:
        for warning in warnings:
            output.note(warning)
        output.line(
            f"{found.file} is right" if found.file else "there is no configuration file; the defaults hold"
        )
    return 0


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


@config.command()
def path(ctx: typer.Context) -> int:
    """Print the configuration file in use, or where `config init` would make one."""
    line: CommandLine = ctx.obj
    found = line.config.file
    shown = found or usual_place()
    if line.json:
        output.json_line({"path": str(shown), "exists": found is not None})
    else:
        output.line(str(shown))
    return 0


@config.command()
def init(ctx: typer.Context) -> int:
    """Make a commented configuration file with the defaults; an existing one is never overwritten."""
    line: CommandLine = ctx.obj
    target = line.paths.get("--config") or usual_place()
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
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(home, "taskdeck", "config.toml")


def example() -> str:
    """The defaults as a configuration in which every line is commented out."""
    from taskdeck.engine.config import Config

    lines = ["# Settings of taskdeck. Uncomment what shall differ; see: taskdeck config show --origin", ""]
    table = ""
    for key, value, _ in Config().origins():
        here, _, name = key.rpartition(".")
        if here != table:
            lines += [*([""] if table else []), f"[{here}]"]
            table = here
        lines.append(f"# {name} = {output.json_text(_plain(value)) if value is not None else '…'}")
    return "\n".join(lines) + "\n"
