"""An engine with nothing to do: 100,000 tasks wait for a far day, 20 routes are up; and the heartbeats of 500 workers."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.settings import EngineSettings
from taskdeck.engine.run.beats import Beats
from taskdeck.engine.run.messages import Beat
from taskdeck.engine.store.writer import Writer
from tests.scratch import Scratch

from . import stock
from .frame import Bar, Benchmark, Figures, figure
from .home import cpu, home, wait, wakeups

SECONDS = 20.0
SETTLED = 10.0
"""Seconds after a start in which what comes once in a life (`run.later`) is over."""
ROUTES = 20
WORKERS, EVERY, BEATING = 500, 30.0, 10.0
"""So many workers, a beat of each every so many seconds, for so long."""


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    count = int(100_000 * options.scale)
    return Benchmark(
        f"{count:,} waiting tasks and {ROUTES} routes, {SECONDS:.0f} s",
        {"taskdeck": lambda folder: measure(folder, count), "heartbeats": heartbeats},
        (
            Bar("engine, workers and supervisor", figure("taskdeck.cpu_percent"), "% of a core", most=1),
            Bar("the loop of the engine wakes", figure("taskdeck.engine_wakes"), "a second", most=4),
            Bar("a worker wakes", figure("taskdeck.worker_wakes"), "a second", most=4),
            Bar(f"commits for {WORKERS} workers' beats", figure("heartbeats.commits"), "a second", most=1),
        ),
        rounds=2,
    )


def measure(folder: Path, count: int) -> Figures:
    """What it uses while nothing changes."""
    routes = "".join(f'\n[[routes]]\nid = "r-{number}"\nurl = "direct://"\n' for number in range(ROUTES))
    with home(folder, routes) as made:
        stock.waiting(made, count, due=False)
        made.start()
        made.until_ready()
        wait(SETTLED)
        assert made.engine is not None
        engine, worker = made.engine_pid, made.workers()[0]
        pids = [made.engine.pid, engine, *made.workers()]
        used, before = cpu(*pids), {engine: wakeups(engine), worker: wakeups(worker)}
        wait(SECONDS)
        return {
            "cpu_percent": (cpu(*pids) - used) / SECONDS * 100,
            # All its timers are its loop's; the other threads wake each other when a timer has rung.
            "engine_wakes": (wakeups(engine)[engine] - before[engine][engine]) / SECONDS,
            "engine_all_threads": (sum(wakeups(engine).values()) - sum(before[engine].values())) / SECONDS,
            "worker_wakes": (sum(wakeups(worker).values()) - sum(before[worker].values())) / SECONDS,
        }


def heartbeats(folder: Path) -> Figures:
    """Beats of 500 workers, each every thirty seconds, as they would come in ten seconds; how often that is written."""
    return asyncio.run(beating(folder))


async def beating(folder: Path) -> Figures:
    """In this process: the engine's own writer and its batching of beats, on a real database."""
    scratch, clock = Scratch(folder), SystemClock()
    workers = [scratch.worker(f"w{number}", 1000 + number) for number in range(WORKERS)]
    writer = Writer(
        scratch.database, scratch.path, clock=clock, boot_id="this-boot", redactor=Redactor((), ())
    )
    writer.start()
    beats = Beats(writer, clock, EngineSettings())
    for number in range(int(BEATING * WORKERS / EVERY)):
        await beats.heard(workers[number % WORKERS], Beat([], 0.0, 0))
        await asyncio.sleep(EVERY / WORKERS)
    commits = writer.commits
    await beats.stop()
    await writer.close()
    return {"commits": (commits - 1) / BEATING}  # the first is the beginning of the first second
