"""After kill -9 of everything: when the first task runs again, and how long it takes to settle all that was lost."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter

from . import stock
from .frame import Bar, Benchmark, Figures, figure
from .home import home, until

RUNNING = 512
GONE = "SELECT 1 FROM worker WHERE incarnation = 'gone' AND ended_at IS NULL"
CONFIG = f"slots = {RUNNING // 2}\nmax_running = {2 * RUNNING}\n"


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    queued, lost = int(10_000 * options.scale), int(100_000 * options.scale)
    return Benchmark(
        f"killed with {queued:,} queued and {RUNNING} running; {lost:,} rows RUNNING whose worker is gone",
        {
            "killed": lambda folder: killed(folder, queued),
            "lost": lambda folder: settled(folder, lost),
            "empty": lambda folder: settled(folder, 1),
        },
        (
            Bar("first task after the restart", figure("killed.first_s"), "s", most=0.5),
            Bar(f"{lost:,} lost ones settled", figure("lost.settled_s"), "s", most=3),
        ),
    )


def killed(folder: Path, queued: int) -> Figures:
    """Kill at full house, start again, look at the ledger."""
    with home(folder, CONFIG) as made:
        held = folder / "held.jsonl"
        held.write_text((json.dumps({"type": "hold", "on_lost": "rerun", "priority": 1}) + "\n") * RUNNING)
        made.taskdeck("add", "-f", held)
        stock.waiting(made, queued)  # behind those that hold all slots
        made.start()
        until(lambda: made.count("RUNNING") == RUNNING, f"{RUNNING} running")
        until(
            lambda: not made.rows("SELECT 1 FROM attempt WHERE started_at IS NULL LIMIT 1"),
            "all of them begun",
        )
        made.kill()
        ran = made.ran()
        began = made.start()
        until(lambda: made.ran() > ran, "the first task", every=0.001)
        first = perf_counter() - began
        until(lambda: made.ran() - ran >= queued + RUNNING, "all of them", every=0.02)
        return {"first_s": first, "all_s": perf_counter() - began}


def settled(folder: Path, lost: int) -> Figures:
    """Rows as a killed engine leaves them; settled once the worker that is gone is closed, with the last of them."""
    with home(folder) as made:
        stock.running(made, lost)
        began = made.start()
        until(
            lambda: not made.rows(GONE),
            "the end of the worker, which comes with the last of them",
            every=0.02,
        )
        return {"settled_s": perf_counter() - began}
