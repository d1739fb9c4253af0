"""What the whole deck costs on a database of 100,000 tasks, idle and while they change."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from taskdeck.engine.config import Config
from tests.journeys.decks import TASKDECK

from .database import Load, build, write_long_log
from .empty import FIRST_PAINT, first_paint
from .figures import Figure, spread
from .terminal import Terminal, wait

TASKS = 100_000
STARTS = 3


def measure(folder: Path, keys: int) -> list[Figure]:
    """All figures of the deck."""
    config = build(folder, TASKS)
    found = _first_paint(config, folder)
    with deck(config, folder) as (terminal, _):
        found += _idle(terminal, keys)
        found += _long_log(config, terminal)
    with deck(config, folder, watched=True) as (terminal, report):
        found += _loaded(config, terminal, report, keys)
    with deck(config, folder, watched=True) as (terminal, report):
        found += _log(config, terminal, report, keys)
    return [*found, *_million(folder), *_whole(config)]


@contextmanager
def deck(config: Config, folder: Path, *, watched: bool = False) -> Iterator[tuple[Terminal, Path]]:
    """The deck in a terminal, painted; and where its report will be."""
    report = folder / "late.json"
    command = [sys.executable, "-m", "benchmarks.deck.real", str(config.db)]
    terminal = Terminal([*command, str(report)] if watched else command)
    try:
        terminal.until("Overview")
        yield terminal, report
    finally:
        terminal.close()


def _first_paint(config: Config, folder: Path) -> list[Figure]:
    frames, painted, used, empty = [], [], [], []
    for _ in range(STARTS):
        empty.append(first_paint())
        with deck(config, folder) as (terminal, _report):
            frames.append(terminal.until("Overview") - terminal.began)
            painted.append(terminal.until("fetch_orders") - terminal.began)
            used.append(terminal.cpu())
    return [
        Figure("first frame, best of three starts", min(frames) * 1000, "ms"),
        Figure("first paint with its data, best of three starts", min(painted) * 1000, "ms", 800),
        Figure("first paint, median", median(painted) * 1000, "ms"),
        Figure(
            "first paint against that of an empty app", min(painted) / min(empty), "times", 0.8 / FIRST_PAINT
        ),
        Figure("CPU until then, median", median(used) * 1000, "CPU ms"),
    ]


def _idle(terminal: Terminal, keys: int) -> list[Figure]:
    opened = _open_tasks(terminal)
    found = [Figure("open the list of 100,000 tasks", opened * 1000, "ms", 150)]
    found += spread("key to paint in 100,000 tasks, idle", typed(terminal, keys), 60)
    at = terminal.press("G")
    found.append(
        Figure("go to the end of the list", (terminal.until(r">[^\r\n]{0,6}1 ", at) - at) * 1000, "ms", 100)
    )
    wait(2)
    began, cpu = perf_counter(), terminal.cpu()
    wait(5)
    seconds = perf_counter() - began
    return [
        *found,
        Figure("idle, CPU", (terminal.cpu() - cpu) / seconds * 100, "%", 1),
        Figure("idle, sent", terminal.bytes_since(began) / seconds / 1000, "kB/s", 0.2),
        Figure("memory", terminal.resident(), "MB", 80),
    ]


def _loaded(config: Config, terminal: Terminal, report: Path, keys: int) -> list[Figure]:
    """The list of tasks while the rows in sight change."""
    load = Load(config, 200, 200)
    try:
        _open_tasks(terminal)
        wait(1)
        began, cpu = perf_counter(), terminal.cpu()
        wait(5)
        seconds = perf_counter() - began
        busy, sent = (terminal.cpu() - cpu) / seconds, terminal.bytes_since(began) / seconds
        times = typed(terminal, keys)
    finally:
        load.close()
    what = "200 changes + 200 lines/s"
    return [
        *spread(f"key to paint in 100,000 tasks, {what}", times, 80),
        Figure(f"CPU, {what}", busy * 100, "%", 30),
        Figure(f"sent, {what}", sent / 1000, "kB/s", 100),
        *_late(terminal, report, what),
    ]


def _log(config: Config, terminal: Terminal, report: Path, keys: int) -> list[Figure]:
    """The log of the newest task while it grows."""
    load = Load(config, 200, 200)
    try:
        _open_tasks(terminal)
        at = terminal.press("l")
        opened = terminal.until(r"page=\d+ row=", at) - at
        wait(1)
        began, cpu = perf_counter(), terminal.cpu()
        wait(5)
        seconds = perf_counter() - began
        busy, sent = (terminal.cpu() - cpu) / seconds, terminal.bytes_since(began) / seconds
    finally:
        load.close()
    terminal.press("q")
    what = "a log of 200 lines/s"
    return [
        Figure("open a log at its end", opened * 1000, "ms", 150),
        Figure(f"CPU, {what}", busy * 100, "%", 30),
        Figure(f"sent, {what}", sent / 1000, "kB/s", 100),
        *_late(terminal, report, what),
    ]


def _long_log(config: Config, terminal: Terminal) -> list[Figure]:
    last = write_long_log(config, TASKS - 1)
    at = terminal.press("gj")
    terminal.until(f" 2 of {TASKS:,}", at)
    wait(1)
    at = terminal.press("l")
    return [
        Figure("open a log of 1 GB at its end", (terminal.until(last, at) - at) * 1000, "ms", 150),
        Figure("memory with it", terminal.resident(), "MB", 80),
    ]


def _late(terminal: Terminal, report: Path, what: str) -> list[Figure]:
    terminal.leave("q")
    ticks = [value * 1000 for value in json.loads(report.read_text())[150:]]
    return [
        Figure(f"loop late p99, {what}", quantiles(ticks, n=100)[-1], "ms", 30),
        Figure(f"loop late at most, {what}", max(ticks), "ms", 120),
    ]


def _whole(config: Config) -> list[Figure]:
    """`taskdeck` itself: launcher, supervisor, and the engine in the deck's loop."""
    base = [str(TASKDECK), "--db", str(config.db)]
    painted, empty = [], []
    for _ in range(STARTS):
        empty.append(first_paint())
        terminal = Terminal(base)
        try:
            painted.append(terminal.until("fetch_orders") - terminal.began)
        finally:
            subprocess.run([*base, "stop"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            terminal.close()
    what = "`taskdeck` with its engine: first paint"
    return [
        Figure(f"{what}, best of three", min(painted) * 1000, "ms", 800),
        Figure(f"{what} against an empty app's", min(painted) / min(empty), "times", 0.8 / FIRST_PAINT),
    ]


def _million(folder: Path) -> list[Figure]:
    """The list of ten times as many tasks as elsewhere: what is read of it stays the same."""
    (folder / "million").mkdir()
    config = build(folder / "million", 10 * TASKS)
    with deck(config, folder) as (terminal, _):
        terminal.until("fetch_orders")
        wait(2)
        before = terminal.resident()
        at = terminal.press("2")
        opened = terminal.until(f" 1 of {10 * TASKS:,}", at) - at
        wait(0.5)
        at = terminal.press("G")
        end = terminal.until(r">[^\r\n]{0,6}1 ", at) - at
        return [
            Figure("open the list of a million tasks", opened * 1000, "ms", 300),
            Figure("go to its end", end * 1000, "ms", 100),
            Figure("memory for it", max(terminal.resident() - before, 0), "MB", 10),
        ]


def _open_tasks(terminal: Terminal) -> float:
    terminal.until("fetch_orders")
    at = terminal.press("2")
    opened = terminal.until(f" 1 of {TASKS:,}", at) - at
    wait(0.5)
    return opened


def typed(terminal: Terminal, keys: int) -> list[float]:
    """From each press of j to the row with the cursor (seconds), from the newest task on."""
    found: list[float] = []
    for row in range(1, keys + 1):
        at = terminal.press("j")
        found.append(terminal.until(rf">[^\r\n]{{0,6}}{TASKS - row} ", at) - at)
        wait(0.05 + 0.013 * (row % 7))
    return found
