"""`taskdeck add`, `list` and `show` as whole processes, against a bare Python: alone, and beside an engine at full work.

Wall time is what a person waits for; the time of processors says the same where others use the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from . import stock
from .frame import Bar, Benchmark, Figures, ratio
from .home import TASKDECK, Home, home, until

BARE = [sys.executable, "-c", "import asyncio, sqlite3"]
VERBS = {
    "add": ("add", "--in", "10d", "--", "true"),
    "list": ("list",),
    "show": ("show", "1"),
    "status": ("status",),
}
TURNS = 9


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    queued = int(200_000 * options.scale)
    return Benchmark(
        f"{TURNS} of each in turn; milliseconds, and those of processors",
        {"alone": alone, "busy": lambda folder: busy(folder, queued)},
        [
            Bar(f"{verb}, {when}, of a bare Python", ratio(f"{when}.{verb}_ms", f"{when}.bare_ms"), most=2.5)
            for when in ("alone", "busy")
            for verb in ("add", "list")
        ],
    )


def alone(folder: Path) -> Figures:
    """No engine runs."""
    with home(folder) as made:
        made.add(1000)
        return turns(made)


def busy(folder: Path, queued: int) -> Figures:
    """The engine drains a long queue."""
    with home(folder) as made:
        stock.waiting(made, queued)
        made.start()
        made.until_ready()
        until(lambda: made.ran() > 1000, "full speed")
        found = turns(made)
        if made.ran() >= queued:
            raise RuntimeError("the queue was drained too early: raise --scale")
        return found


def turns(made: Home) -> Figures:
    """Each in turn."""
    base = [str(TASKDECK), "--config", str(made.file)]
    commands = {"bare": BARE, **{verb: [*base, *words] for verb, words in VERBS.items()}}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(TURNS):
        for name, command in commands.items():
            found[name].append(timed(command, made.env))
    return {
        f"{name}{suffix}": median(pair[place] for pair in pairs) * 1000
        for name, pairs in found.items()
        for place, suffix in enumerate(("_ms", "_cpu_ms"))
    }


def timed(command: Sequence[str], env: dict[str, str]) -> tuple[float, float]:
    """Wall time and processor time of a process (seconds). Raises where it fails."""
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    began = perf_counter()
    pid = os.posix_spawn(command[0], list(command), env, file_actions=nowhere)
    _, status, used = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return perf_counter() - began, used.ru_utime + used.ru_stime
