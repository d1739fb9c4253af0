"""What the virtual list and the virtual log cost by themselves, with a million rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from time import perf_counter

from .figures import Figure, spread
from .terminal import Terminal, wait

MILLION = 1_000_000


@contextmanager
def stage(folder: Path, changes: int = 0, lines: int = 0, *options: str) -> Iterator[tuple[Terminal, Path]]:
    """The stage in a terminal, painted; and where its report will be."""
    report = folder / f"late-{changes}-{lines}.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks.deck.stage",
        str(MILLION),
        str(changes),
        str(lines),
        str(report),
    ]
    terminal = Terminal([*command, *options])
    try:
        terminal.until("0000007")
        yield terminal, report
    finally:
        terminal.close()


def measure(folder: Path, keys: int) -> list[Figure]:
    """All figures of the widgets."""
    found: list[Figure] = []
    with stage(folder) as (terminal, _):
        found += _alone(terminal, keys)
    with stage(folder, 20, 0, "--each") as (terminal, _):
        found += _one_row(terminal)
    for changes, lines, limit, late in ((200, 200, 80, (30, 120)), (1_000, 2_000, 120, (60, 150))):
        with stage(folder, changes, lines) as (terminal, report):
            found += _loaded(terminal, report, keys, f"{changes:,} changes + {lines:,} lines/s", limit, late)
    return found


def _alone(terminal: Terminal, keys: int) -> list[Figure]:
    terminal.quiet()
    found = [
        Figure(
            "first paint of the widgets, warm", (terminal.until("0000007") - terminal.began) * 1000, "ms", 800
        )
    ]
    for what, key, pattern, limit in (
        ("open a list of 1,000,000 rows and go to its end", "oG", ">.{0,8}1000000", 150),
        ("go to its beginning", "g", ">.{0,8}0000001", 100),
        ("another 500,000 ids of it", "r", ">.{0,8}0000002", 300),
    ):
        at = terminal.press(key)
        found.append(Figure(what, (terminal.until(pattern, at) - at) * 1000, "ms", limit))
        terminal.quiet()
    found += _page_down(terminal)
    found += spread("key to paint, idle", typed(terminal, keys, step=2), 60)
    found.append(Figure("memory with a million rows", terminal.resident(), "MB", 80))
    return found


def typed(terminal: Terminal, keys: int, step: int = 1) -> list[float]:
    """From each press of j to the row with the cursor (seconds), from the first row on."""
    at = terminal.press("g")
    wait(0.5)
    found: list[float] = []
    for row in range(1, keys + 1):
        at = terminal.press("j")
        found.append(terminal.until(f">.{{0,8}}{step * (row + 1):07}", at) - at)
        wait(0.05 + 0.013 * (row % 7))
    return found


def _page_down(terminal: Terminal) -> list[Figure]:
    times = 40
    terminal.quiet()
    began, cpu = perf_counter(), terminal.cpu()
    for _ in range(times):
        terminal.press("\x1b[6~")
        wait(0.08)
    terminal.quiet()
    return [
        Figure("a page down, CPU", (terminal.cpu() - cpu) / times * 1000, "CPU ms", 40),
        Figure("a page down, bytes", terminal.bytes_since(began) / times, "B", 20_000),
    ]


def _one_row(terminal: Terminal) -> list[Figure]:
    wait(1)
    began, cpu = perf_counter(), terminal.cpu()
    wait(8)
    seconds = perf_counter() - began
    return [
        Figure("one row changed, CPU", (terminal.cpu() - cpu) / seconds / 20 * 1000, "CPU ms", 5),
        Figure("one row changed, bytes", terminal.bytes_since(began) / seconds / 20, "B", 600),
    ]


def _loaded(
    terminal: Terminal, report: Path, keys: int, load: str, limit: float, late: tuple[float, float]
) -> list[Figure]:
    wait(1)
    began, cpu = perf_counter(), terminal.cpu()
    wait(5)
    seconds = perf_counter() - began
    busy, sent = (terminal.cpu() - cpu) / seconds, terminal.bytes_since(began) / seconds
    found = spread(f"key to paint, {load}", typed(terminal, keys), limit)
    terminal.leave("q")
    ticks = [value * 1000 for value in json.loads(report.read_text())[100:]]
    light = load.startswith("200 ")
    return [
        *found,
        Figure(f"loop late p99, {load}", quantiles(ticks, n=100)[-1], "ms", late[0]),
        Figure(f"loop late at most, {load}", max(ticks), "ms", late[1]),
        Figure(f"CPU, {load}", busy * 100, "%", 30 if light else None),
        Figure(f"sent, {load}", sent / 1000, "kB/s", 100 if light else None),
    ]
