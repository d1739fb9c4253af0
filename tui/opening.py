"""`taskdeck` alone on a terminal: the deck. Loads neither the verbs nor a screen; what it starts does.

Owns where a screen can be drawn, and the command of the process that draws it.
"""

from __future__ import annotations

import os
import sys

from . import output
from .commandline import CommandLine


def can_draw() -> bool:
    """Can a screen be drawn: a terminal on both sides, and not a dumb one?"""
    return output.on_terminal(sys.stdin) and output.on_terminal() and os.environ.get("TERM") != "dumb"


def open_deck(line: CommandLine) -> int:
    """Open the deck; returns its exit code, 0 as soon as it is left."""
    from taskdeck.engine.main import show

    config = line.config
    command = [sys.executable, "-m", "taskdeck.tui.deck", "--db", str(config.db), f"--places={line.places}"]
    if config.file is not None:
        command += ["--config", str(config.file)]
    output.flush()
    return show(config, command)
