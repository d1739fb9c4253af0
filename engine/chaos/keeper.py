"""Keeps an engine running on the scratch database, as systemd would: a supervisor that has gone is started again.

Owns every supervisor that it started; ends them all.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..clock import Clock
from ..config import Config
from ..demo import stage
from ..edge import identity
from ..views import holder

PAUSE = 0.5
"""Seconds before the next try."""


class Keeper:
    """`program`: the words that start `taskdeck`."""

    def __init__(
        self,
        config: Config,
        program: Sequence[str],
        environment: Mapping[str, str],
        output: Path,
        clock: Clock,
    ) -> None:
        self._config = config
        self._command = [*program, "run", "--config", str(config.file)]
        self._environment = environment
        self._output = output
        self._clock = clock
        self._next_at = 0.0
        self._wanted = True
        self._begun: list[subprocess.Popen[bytes]] = []

    @property
    def supervisors(self) -> list[subprocess.Popen[bytes]]:
        """Those that live."""
        return [each for each in self._begun if each.poll() is None]

    @property
    def engine(self) -> int | None:
        """The pid of the engine that holds the database."""
        return holder(self._config).pid

    def tick(self) -> bool:
        """Start a supervisor where none is and no engine works without one. Returns whether it did."""
        if not self._wanted or self.supervisors or self._clock.monotonic() < self._next_at:
            return False
        if holder(self._config).running:
            return False  # the engine goes on without its supervisor
        self._next_at = self._clock.monotonic() + PAUSE
        self.start()
        return True

    def start(self) -> subprocess.Popen[bytes]:
        """Start one more, whoever is there."""
        with self._output.open("ab") as output:
            process = subprocess.Popen(
                self._command,
                env=dict(self._environment),
                cwd=self._output.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._begun.append(process)
        return process

    def end(self, patience: float) -> None:
        """No more: TERM to whoever supervises, and to an engine that nobody does; then KILL."""
        self._wanted = False
        engine = self.engine
        if not self.supervisors and engine is not None and (who := stage.strike(engine, 15)):
            identity.wait_gone([who], patience, self._clock)
        for process in self.supervisors:
            stage.end(process, patience)
        stage.end_engine(self._config, *(process.pid for process in self._begun))

    def kill(self) -> None:
        """At once, without a word."""
        for process in self.supervisors:
            process.kill()
            process.wait()
