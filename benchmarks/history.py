"""Does taskdeck slow down as its database grows? The same drain and start-up with nothing, and with a million ended tasks."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from . import stock
from .frame import Bar, Benchmark, Figures, ratio
from .home import Home, home, until


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    past, count = int(1_000_000 * options.scale), int(20_000 * options.scale)
    place = TemporaryDirectory(
        prefix="taskdeck-bench-history-"
    )  # kept over the rounds: it takes a minute to make
    made: list[Home] = []

    def grown(_: Path) -> Figures:
        if not made:
            made.append(Home(Path(place.name)))
            stock.finished(made[0], past)
            os.sync()  # else the kernel writes all of it out while tasks drain
        return measure(made[0], count) | {"database_MB": made[0].db.stat().st_size / 1e6}

    def empty(folder: Path) -> Figures:
        with home(folder) as fresh:
            return measure(fresh, count)

    return Benchmark(
        f"{count:,} no-ops after {past:,} ended tasks with their attempts and events, and after none",
        {"empty": empty, "grown": grown},
        (
            Bar("drain, of the empty one", ratio("grown.drain", "empty.drain"), least=0.9),
            Bar("start-up, the empty one's", ratio("empty.start_s", "grown.start_s"), least=0.9),
        ),
    )


def measure(made: Home, count: int) -> Figures:
    """Seconds from `run` to the first task; tasks a second from there to the last recorded end."""
    before = made.ran()
    made.add(count)
    began = made.start()
    try:
        until(lambda: made.ran() > before, "the first task", every=0.002)
        first = perf_counter()
        until(lambda: made.ran() - before >= count, "the last task", every=0.02)
        until(
            lambda: not made.rows("SELECT 1 FROM attempt WHERE ended_at IS NULL LIMIT 1"), "its recorded end"
        )
        return {"start_s": first - began, "drain": count / (perf_counter() - first)}
    finally:
        made.stop()
