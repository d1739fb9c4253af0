"""What an engine holds in memory: with a million tasks in its queue, and while it has worked off as many."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import stock
from .frame import Bar, Benchmark, Figures, figure
from .home import home, resident, until


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    count = int(1_000_000 * options.scale)
    return Benchmark(
        f"{count:,} waiting tasks, all of them executed; MB of the engine",
        {"taskdeck": lambda folder: measure(folder, count)},
        (
            Bar("engine, the queue full", figure("taskdeck.full_MB"), "MB", most=80),
            Bar("engine at most", figure("taskdeck.peak_MB"), "MB", most=80),
            Bar("growth from a tenth to the end", figure("taskdeck.growth_MB"), "MB", most=5),
        ),
        rounds=1,
    )


def measure(folder: Path, count: int) -> Figures:
    """Looked at all along the way."""
    with home(folder) as made:
        stock.waiting(made, count)
        made.start()
        until(lambda: made.ran() > 100, "the first hundred")
        engine = made.engine_pid
        seen = [(made.ran(), resident(engine))]

        def look() -> bool:
            seen.append((made.ran(), resident(engine)))
            return seen[-1][0] >= count

        until(look, "the last task", every=0.5, patience=7200)
        workers = [resident(pid) for pid in made.workers()]
    early = next(size for ran, size in seen if ran >= count / 10)
    return {
        "full_MB": seen[0][1],
        "early_MB": early,
        "end_MB": seen[-1][1],
        "peak_MB": max(size for _, size in seen),
        "growth_MB": seen[-1][1] - early,
        "worker_MB": max(workers, default=0.0),
    }
