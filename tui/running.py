"""`taskdeck run` without the parser of all verbs, since every start passes here. Owns what is told at the end."""

from __future__ import annotations

import signal

from . import output
from .commandline import CommandLine

SIGNALS = 128
"""An exit code above it is a signal's number more."""


def run(line: CommandLine, *, until_idle: bool = False, max_wait: float | None = None) -> int:
    """Run the engine to its end; returns its exit code."""
    from taskdeck.engine.main import run as run_engine

    code = run_engine(line.config, until_idle=until_idle, max_wait=max_wait)
    _tell_the_end(line, code)  # only a terminal comes here; without one this process became the supervisor
    return code


def _tell_the_end(line: CommandLine, code: int) -> None:
    """What became of a run that was killed, and where to look at what it did."""
    from taskdeck.engine import views

    if code - SIGNALS in list(signal.Signals):
        name = signal.Signals(code - SIGNALS).name
        if views.holder(line.config).running:
            output.note(
                f"the supervisor was killed ({name}); the engine works on without one: taskdeck status"
            )
        else:
            output.note(
                f"the run was killed ({name}); nothing is lost, go on with: taskdeck run{line.places}"
            )
    output.note(f"look: taskdeck list{line.places}")
