"""How worker processes come into the world: by exec, in a session of their own, with their mark from the first moment on.

Those that an engine will need are started before it has loaded its own code: they load theirs meanwhile, and wait to be told
whose they are. Light, since it is loaded before the engine is. Must not touch the database.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from .. import cores
from ..config import Config
from ..edge import adoption, trees
from ..edge.locks import is_held
from ..edge.paths import database_hash
from . import announce, foundlings, groups
from .summons import WAIT, open_output

PROGRAM = (sys.executable, "-m", "taskdeck.engine.run.worker")


class Waiting(NamedTuple):
    """A process that is to be the worker of this incarnation."""

    incarnation: str
    process: subprocess.Popen[bytes]


class Ahead:
    """Workers that wait to be told: as many as will be missing beside those that live.

    One core is left to the engine, which everything waits for: those for whom there is none begin once it is loaded.
    """

    def __init__(self, config: Config, cores: int | None = None) -> None:
        self._config = config
        self._waiting: list[Waiting] = []
        self._missing = 0
        self._beside = max(1, (cores or len(os.sched_getaffinity(0))) - 1)

    def begin(self) -> None:
        """Start the first, unless somebody else works on the database; the engine will refuse then."""
        with suppress(OSError):  # whoever needs them hears then why they can't be started
            if not is_held(self._config.db):
                self._missing = self._config.engine.workers - _living(self._config.db)
                self._start(self._beside)

    def go_on(self) -> None:
        """The engine is loaded: start the others."""
        with suppress(OSError):
            self._start(self._missing)

    def _start(self, most: int) -> None:
        for _ in range(min(most, self._missing)):
            incarnation = os.urandom(8).hex()
            process = _start(self._config, incarnation, [*PROGRAM, WAIT], subprocess.PIPE)
            self._missing -= 1
            self._waiting.append(Waiting(incarnation, process))

    def take(self) -> Waiting | None:
        """One that still waits; None where there is none."""
        while self._waiting:
            one = self._waiting.pop(0)
            if one.process.poll() is None:
                return one
        return None

    def end(self) -> None:
        """Send those away that are not needed."""
        while (one := self.take()) is not None:
            assert one.process.stdin is not None
            one.process.kill()
            one.process.stdin.close()
            one.process.wait()


def give_birth(
    config: Config, socket: Path, incarnation: str, journal: Path, waiting: subprocess.Popen[bytes] | None
) -> subprocess.Popen[bytes]:
    """A worker: the `waiting` process of this incarnation, or a new one. What it prints goes beside its journal.

    It gets a group of its own (cgroup) where one can be made, and enters that as the first thing it does.
    """
    group = groups.make(journal) if config.engine.cgroups == "auto" else None
    arguments = ["--socket", str(socket), "--incarnation", incarnation, "--logs", str(config.log_directory)]
    arguments += ["--journal", str(journal), "--handlers-root", str(config.handlers_root)]
    arguments += ["--group", str(group.path)] if group else []
    for handler in config.taskdeck.handlers:
        arguments += ["--handler", handler]
    if waiting is not None and _tell(waiting, arguments):
        return waiting
    with open_output(journal) as output:
        return _start(config, incarnation, [*PROGRAM, *arguments], subprocess.DEVNULL, output)


def _tell(waiting: subprocess.Popen[bytes], arguments: list[str]) -> bool:
    assert waiting.stdin is not None
    try:
        with waiting.stdin as pipe:
            pipe.write(msgspec.json.encode(arguments) + b"\n")
    except OSError:  # it has ended, and who is started anew says why
        waiting.kill()
        waiting.wait()
        return False
    return True


def _start(
    config: Config,
    incarnation: str,
    command: list[str],
    stdin: int,
    output: IO[bytes] | int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    of_the_engine = (announce.VARIABLE, foundlings.VARIABLE)
    environment = {key: value for key, value in os.environ.items() if key not in of_the_engine}
    environment[trees.VARIABLE] = trees.worker_mark(config.db, incarnation)
    environment |= cores.handed_on()
    return adoption.start(
        lambda: subprocess.Popen(
            command, stdin=stdin, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    )


def _living(database: Path) -> int:
    """How many workers may live that an earlier engine left: so many marks are carried by somebody."""
    return sum(":worker-" in mark for mark in trees.marks(f"{database_hash(database)}:"))
