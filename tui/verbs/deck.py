"""`taskdeck` alone: the deck, where there is a terminal to draw on; elsewhere what `status` says."""

from __future__ import annotations

import os
import sys

import typer

from .. import output
from ..commandline import CommandLine


def alone(ctx: typer.Context) -> int:
    """What `taskdeck` does without a verb."""
    line: CommandLine = ctx.obj
    if line.json or not can_draw():
        from .status import alone as status

        return status(ctx)
    return show(line)


def can_draw() -> bool:
    """Can a screen be drawn: a terminal on both sides, and not a dumb one?"""
    return output.on_terminal(sys.stdin) and output.on_terminal() and os.environ.get("TERM") != "dumb"


def show(line: CommandLine) -> int:
    """Open the deck; returns its exit code, 0 as soon as it is left."""
    from taskdeck.engine.main import show as show_deck

    config = line.config
    command = [sys.executable, "-m", "taskdeck.tui.deck", "--db", str(config.db), "--places", line.places]
    if config.file is not None:
        command += ["--config", str(config.file)]
    output.flush()
    return show_deck(config, command)
