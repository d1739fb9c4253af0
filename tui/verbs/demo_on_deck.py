"""The demo on a terminal: it runs by itself, in a session of its own, while a deck looks at it; then its judgement is shown.

Closing the terminal ends the looking and nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from .. import output

LOOK = 0.05
"""Seconds between two looks at how far the demo is."""

HUNG_UP = 128 + signal.SIGHUP


class WatchedDemo:
    """One demo as a process without a terminal. What it says is kept until somebody asks."""

    def __init__(self, command: Sequence[str]) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        self._shown = 0
        environment = {**os.environ, "COLUMNS": str(output.width() or 80)}
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
            start_new_session=True,
        )

    def tell(self) -> None:
        """Show what it has said since the last time."""
        said = os.pread(self._said.fileno(), 2**20, self._shown)
        self._shown += len(said)
        for line in said.decode("utf-8", "replace").splitlines():
            output.line(line)
        output.flush()

    def until(self, *files: Path) -> bool:
        """Wait until these files are there; False where the demo ended before."""
        while not all(each.exists() for each in files):
            if not self._goes_on():
                return False
            self.tell()
        return True

    def take_signals(self) -> None:
        """From now on Ctrl+C, SIGTERM and a hang-up end the demo."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, frame: self._process.send_signal(number))

    def _goes_on(self) -> bool:
        """Wait a moment; False as soon as it has ended."""
        try:
            self._process.wait(LOOK)
        except subprocess.TimeoutExpired:
            return True
        return False

    def finish(self) -> int:
        """Show all it says until it ends. Returns its exit code."""
        if self._goes_on():
            output.line("the demo goes on; ctrl+c ends it")
        while self._goes_on():
            self.tell()
        self.tell()
        code = self._process.returncode
        return 128 - code if code < 0 else code


def watch(command: Sequence[str], database: Path, config: Path) -> int | None:
    """Run `command`, a demo on `database` with the configuration `config`, under a deck. None: the terminal went away."""
    demo = WatchedDemo(command)
    demo.take_signals()
    if demo.until(database, config):
        demo.tell()
        if _deck(database, config, demo.take_signals) == HUNG_UP:
            return None
    return demo.finish()


def _deck(database: Path, config: Path, before_return: Callable[[], None]) -> int:
    from taskdeck.engine.main import look_on

    screen = [sys.executable, "-m", "taskdeck.tui.deck", "--db", str(database), "--config", str(config)]
    return look_on(screen, before_return)
