"""The loop that deck and engine share while a queue drains at full speed: how late it is, and how long a key takes."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from statistics import quantiles
from time import perf_counter

from taskdeck.engine.config import Config, load
from taskdeck.engine.run import foreground
from taskdeck.tui.deck.__main__ import together

from . import stock
from .deck.terminal import Terminal
from .frame import Bar, Benchmark, Figures, figure
from .home import Home, until, wait

KEYS = 60
TICK = 0.01
STARTUP = 300
"""Ticks that are left out: three seconds, in which both load what they need."""


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    count = int(300_000 * options.scale)
    return Benchmark(
        f"a queue of {count:,} no-ops drains under an open deck; milliseconds",
        {"taskdeck": lambda folder: measure(folder, count), "nothing": lambda _: asyncio.run(alone())},
        (
            Bar("the loop is late, p99", figure("taskdeck.late_p99_ms"), "ms", most=60),
            Bar("key → paint, p95", figure("taskdeck.key_p95_ms"), "ms", most=120),
        ),
    )


def measure(folder: Path, count: int) -> Figures:
    """The deck with its engine on a terminal of its own."""
    made, report = Home(folder), folder / "late.json"
    stock.waiting(made, count)
    command = [sys.executable, "-m", "benchmarks.loop", str(report), str(made.file)]
    terminal = Terminal(command, {**made.env, "PYTHONPATH": os.getcwd()})
    try:
        terminal.until("Overview")
        until(lambda: made.ran() > 2000, "full speed")
        terminal.press("2")
        terminal.until("STATE")
        wait(1.0)
        ran, began = made.ran(), perf_counter()
        times = keys(terminal)
        rate = (made.ran() - ran) / (perf_counter() - began)
        if made.ran() >= count:
            raise RuntimeError("the queue was drained too early: raise --scale")
        os.kill(made.engine_pid, signal.SIGTERM)
        until(report.exists, "its report")
    finally:
        terminal.close()
    late = json.loads(report.read_text())
    return {
        "drain": rate,
        "late_p50_ms": quantiles(late, n=2)[0] * 1000,
        "late_p99_ms": quantiles(late, n=100)[-1] * 1000,
        "late_max_ms": max(late) * 1000,
        "key_p50_ms": quantiles(times, n=2)[0] * 1000,
        "key_p95_ms": quantiles(times, n=20)[-1] * 1000,
    }


def keys(terminal: Terminal) -> list[float]:
    """From each press of `j` to the first paint after it that shows the cursor's new place (` 7 of 300,000`)."""
    found: list[float] = []
    for number in range(2, KEYS + 2):
        at = terminal.press("j")
        found.append(terminal.until(rf" {number} of ", at) - at)
        wait(0.05 + 0.013 * (number % 7))
    return found


async def watch(late: list[float]) -> None:
    """Note how late each tick of the loop is (seconds)."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + TICK
        await asyncio.sleep(TICK)
        late.append(max(loop.time() - due, 0.0))


async def alone() -> Figures:
    """A loop of this process with nothing else in it: how late the machine itself makes it."""
    late: list[float] = []
    watching = asyncio.create_task(watch(late))
    await asyncio.sleep(5)
    watching.cancel()
    return {"late_p99_ms": quantiles(late, n=100)[-1] * 1000}


async def watched(config: Config, late: list[float]) -> int:
    """Deck and engine in one loop, as `taskdeck` has them."""
    watching = asyncio.create_task(watch(late))
    try:
        return await together(config, "", "")
    finally:
        watching.cancel()


def main() -> int:
    """`REPORT CONFIG`: the launcher that holds the terminal, and with `--deck` the process that is measured."""
    if sys.argv[3:] != ["--deck"]:
        return foreground.launch([sys.executable, "-m", "benchmarks.loop", *sys.argv[1:], "--deck"])
    late: list[float] = []
    config = load(path=Path(sys.argv[2]))
    try:
        return asyncio.run(watched(config, late))
    finally:
        Path(sys.argv[1]).write_text(json.dumps(late[STARTUP:]))


if __name__ == "__main__":
    sys.exit(main())
