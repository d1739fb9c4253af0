"""Does the engine work with the configuration that this command line reads? What is told where that explains something."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from .commandline import CommandLine


def description(line: CommandLine) -> dict[str, Any]:
    """What the engine says of itself; nothing where none answers."""
    from taskdeck.engine import commands

    return commands.describe(line.config, line.actor)[0]


def asked_once(line: CommandLine) -> Callable[[], dict[str, Any]]:
    """For a view: what the engine says of itself; it is asked when that is needed first."""
    return functools.cache(lambda: description(line))


def other_settings(line: CommandLine, told: dict[str, Any] | None = None) -> str:
    """Both configurations, where they differ; else nothing. `told` is what the engine said, if it was asked already."""
    told = description(line) if told is None else told
    if not told.get("config"):
        return ""
    theirs, ours = told["config"]["file"], line.config.file
    if os.path.realpath(theirs or "") == os.path.realpath(ours or ""):
        return ""
    return f"the engine works with {_named(theirs)}, this command with {_named(ours)}"


def _named(file: object) -> str:
    return str(file) if file else "no configuration file"


def unread(line: CommandLine) -> str:
    """A `config.toml` that lies here and is not read, since it lacks the table that makes it ours; else nothing."""
    from taskdeck.engine.config import passed_over

    file = passed_over(line.paths.get("--config"))
    if file is None:
        return ""
    return f"{file} is not read: it has no [taskdeck] table (add one, or name it: --config {file.name})"
