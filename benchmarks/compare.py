"""The same no-ops by other queues: raw SQLite, taskdeck and each peer that is installed, drained in the same rounds.

Those count that are durable as taskdeck is; what a peer does that never waits for the disk is shown, and no rival.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from . import drain, peers, raw
from .frame import Bar, Benchmark, Figures, ratio

PEERS = {
    "huey": "huey_sqlite",
    "huey_redis": "huey_redis",
    "taskiq": "taskiq",
    "dramatiq": "dramatiq",
    "saq": "saq",
    "tinyjobs": "tinyjobs",
    "celery": "celery",
    "procrastinate": "procrastinate",
    "dbos": "dbos_sqlite",
}
"""Who they are, and the names of their adapters."""


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    count, few = int(50_000 * options.scale), int(5_000 * options.scale)

    def peer(adapter: str, folder: Path) -> Figures:
        durable, other = peers.ask_all(options, adapter, "drain", few, folder)
        return {"drain": durable["rate"]} | ({"drain_not_durable": other["rate"]} if other else {})

    return Benchmark(
        f"no-ops from queued to recorded success, two workers each: {count:,} by taskdeck, {few:,} by the others",
        {
            "raw": lambda folder: raw.rates(folder, count),
            "taskdeck": lambda folder: {"drain": drain.drain(folder, count)["drain"]},
            **{name: partial(peer, adapter) for name, adapter in PEERS.items()},
        },
        (
            Bar("of raw SQLite", ratio("taskdeck.drain", "raw.life"), least=0.5),
            Bar("against the fastest other", against_the_best, least=5),
        ),
    )


def against_the_best(figures: Mapping[str, float]) -> float:
    """Divided by the fastest peer of the round."""
    others = [figures[name] for each in PEERS if (name := f"{each}.drain") in figures]
    if not others:
        raise KeyError("no peer")
    return figures["taskdeck.drain"] / max(others)
