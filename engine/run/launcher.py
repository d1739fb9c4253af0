"""The launcher: the foreground process of a terminal. It starts the supervisor in a session of its own and waits for it.

The engine below has no controlling terminal, so that nothing the terminal does (hang-up, Ctrl+Z, a resize) reaches it:
Ctrl+C and SIGTERM are passed on as a polite stop, a hang-up or kill of the launcher ends the launcher alone. The launcher
of a screen is in `foreground`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

SUPERVISOR = ("-m", "taskdeck.engine.run.supervisor", "--notice")
"""What follows the interpreter in a supervisor's command line; then comes the notice, which names its database."""


def supervised(engine_command: list[str], notice: Path) -> list[str]:
    """The command line of a supervisor over `engine_command`; that it gave up it writes to `notice`."""
    return [sys.executable, *SUPERVISOR, str(notice), "--", *engine_command]


def replace_by_supervisor(engine_command: list[str], notice: Path) -> None:
    """No terminal, no launcher: this process itself becomes the supervisor (a service manager keeps its pid)."""
    from .supervisor import start_ahead

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    command = supervised(engine_command, notice)
    engine = start_ahead(engine_command)
    try:
        os.execv(command[0], command)
    except OSError:
        engine.kill()  # nobody would look after it
        raise


def launch(engine_command: list[str], notice: Path) -> int:
    """Run the engine behind a terminal; returns its exit code, or 128 + SIGHUP when the terminal went away."""
    passed_on = (signal.SIGINT, signal.SIGTERM)
    child = subprocess.Popen(supervised(engine_command, notice), start_new_session=True)

    def pass_on(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    def hang_up(number: int, frame: object) -> None:
        os._exit(128 + signal.SIGHUP)

    for number in passed_on:
        signal.signal(number, pass_on)
    signal.signal(signal.SIGHUP, hang_up)
    code = child.wait()
    return 128 - code if code < 0 else code
