"""Tasks into the queue with their events and the audit's chain, `synchronous = FULL`: in bulk, and one by one from many."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from taskdeck.engine import Submitter
from taskdeck.engine.commands import call
from taskdeck.engine.config import Config, load

from . import peers, raw
from .frame import Bar, Benchmark, Figures, ratio
from .home import Home, home

CALLERS = 64
LATER = "2099-01-01T00:00:00.000000Z"


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    count = int(50_000 * options.scale)

    def huey(folder: Path) -> Figures:
        return {
            "one_by_one": peers.ask(options, "huey_sqlite", "enqueue", min(count, 2000), folder)["one_by_one"]
        }

    return Benchmark(
        f"{count:,} tasks in bulk, and one by one from {CALLERS} coroutines, in tasks a second",
        {
            "raw": lambda folder: {"submit": raw.rates(folder, count)["submit"]},
            "file": lambda folder: file(folder, count),
            "list": lambda folder: in_process(folder, "--list", count),
            "engine": lambda folder: through_engine(folder, count),
            "alone": lambda folder: in_process(folder, "--alone", count),
            "huey": huey,
        },
        (
            Bar("`add -f`, whole process, of raw", ratio("file.submit", "raw.submit"), least=0.5),
            Bar("call with a list, of raw", ratio("list.submit", "raw.submit"), least=0.5),
            Bar("64 coroutines against huey", ratio("engine.one_by_one", "huey.one_by_one"), least=10),
            Bar("the same without an engine", ratio("alone.one_by_one", "huey.one_by_one"), least=10),
        ),
    )


def file(folder: Path, count: int) -> Figures:
    """The command line with a file, no engine."""
    with home(folder) as made:
        return {"submit": count / made.add(count)}


def in_process(folder: Path, how: str, count: int) -> Figures:
    """A library call in a process that has loaded it already."""
    with home(folder) as made:
        made.add(1)
        return _timed(made, how, count)


def through_engine(folder: Path, count: int) -> Figures:
    """Calls from 64 coroutines of one process, each awaiting its own answer, to an engine that works."""
    with home(folder) as made:
        made.add(1)
        made.start()
        made.until_ready()
        return _timed(made, "--coroutines", count)


def _timed(made: Home, how: str, count: int) -> Figures:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.submit", how, str(made.file), str(count)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        env=made.env,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    return json.loads(done.stdout)


def main() -> None:
    """The process that is timed."""
    how, file_, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    config = load(path=file_, environ={})
    if how == "--list":
        specs = [{"type": "noop", "payload": str(number), "not_before": LATER} for number in range(count)]
        began = perf_counter()
        call(config, "submit", "cli:bench", specs=specs)
        print(json.dumps({"submit": count / (perf_counter() - began)}))
        return
    dated = {} if how == "--alone" else {"not_before": LATER}
    print(json.dumps({"one_by_one": count / asyncio.run(singly(config, count, **dated))}))


async def singly(config: Config, count: int, **fields: Any) -> float:
    """Submit each by itself, 64 at a time, each waiting for its own answer; seconds.

    `fields`: a date, where an engine would begin what has none.
    """

    async def caller(deck: Submitter, first: int) -> None:
        for number in range(first, count, CALLERS):
            await deck.submit("noop", number, **fields)

    async with Submitter(config, actor="api:bench") as deck:
        await deck.submit("noop", count, **fields)  # the other's database is open, too, when its time begins
        began = perf_counter()
        await asyncio.gather(*(caller(deck, first) for first in range(CALLERS)))
        return perf_counter() - began


if __name__ == "__main__":
    main()
