"""How a benchmark is run: rounds in turn, medians, bars held against ratios of one round, a table and JSON.

Boxes differ by 2 from minute to minute: only what was measured side by side may be divided. So each round asks every
contestant once, beginning with another each time, a ratio is formed within its round, and the median of the rounds counts.
What the machine could do at that moment (`calibration`) is a row of its own.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

Figures = dict[str, float]
Contestant = Callable[[Path], Figures]
"""Measures once, in an empty folder of its own. Raises `Skipped` where it can't."""


class Skipped(Exception):
    """Not measured, and why: a program that is not installed."""


@dataclass(frozen=True)
class Bar:
    """A figure of one round with its limit. `of` sees the round's figures as `contestant.figure`."""

    what: str
    of: Callable[[Mapping[str, float]], float]
    unit: str = "times"
    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        """Within its limits?"""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    @property
    def limit(self) -> str:
        """The limits in words."""
        low = [] if self.least is None else [f"at least {self.least:g}"]
        return ", ".join(low if self.most is None else [*low, f"at most {self.most:g}"])


@dataclass
class Benchmark:
    """What is measured, and what of it must hold."""

    about: str
    contestants: Mapping[str, Contestant]
    bars: Iterable[Bar] = ()
    rounds: int = 3


@dataclass
class Result:
    """All rounds of one benchmark."""

    name: str
    about: str
    rounds: list[Figures] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    bars: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_met(self) -> bool:
        """Does every bar hold that could be measured?"""
        return all(bar["met"] is not False for bar in self.bars)

    def medians(self) -> Figures:
        """The median of each figure."""
        names = dict.fromkeys(name for each in self.rounds for name in each)
        return {name: median(each[name] for each in self.rounds if name in each) for name in names}


def ratio(above: str, below: str) -> Callable[[Mapping[str, float]], float]:
    """One figure divided by another of the same round."""
    return lambda figures: figures[above] / figures[below]


def figure(name: str) -> Callable[[Mapping[str, float]], float]:
    """The figure as it is."""
    return lambda figures: figures[name]


def run(name: str, benchmark: Benchmark, rounds: int | None = None) -> Result:
    """Measure, telling of each round as it ends."""
    result = Result(name, benchmark.about)
    contestants = list(benchmark.contestants.items())
    print(f"\n{name}: {benchmark.about}", flush=True)
    for number in range(rounds or benchmark.rounds):
        found = calibration()
        for who, measure in (
            contestants[number % len(contestants) :] + contestants[: number % len(contestants)]
        ):
            if who in result.skipped:
                continue
            with tempfile.TemporaryDirectory(prefix="taskdeck-bench-") as folder:
                try:
                    found |= {f"{who}.{what}": value for what, value in measure(Path(folder)).items()}
                except Skipped as reason:
                    result.skipped[who] = str(reason)
                    print(f"  {who} is left out: {reason}", flush=True)
        result.rounds.append(found)
        print(
            f"  round {number + 1}: " + "  ".join(f"{key} {number_text(found[key])}" for key in found),
            flush=True,
        )
    result.bars = [_held(bar, result.rounds) for bar in benchmark.bars]
    return result


def _held(bar: Bar, rounds: list[Figures]) -> dict[str, Any]:
    values: list[float] = []
    for each in rounds:
        try:
            values.append(bar.of(each))
        except KeyError:  # a contestant was left out
            continue
    middle = median(values) if values else None
    return {
        "what": bar.what,
        "limit": bar.limit,
        "unit": bar.unit,
        "value": middle,
        "rounds": values,
        "met": None if middle is None else bar.is_met(middle),
    }


def calibration() -> Figures:
    """What this machine does at this moment: loops of Python (million a second), a durable write (ms), load."""
    began = perf_counter()
    for _ in range(1_000_000):
        pass
    looped = perf_counter() - began
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/x.db")) as connection:
        connection.isolation_level = None
        connection.executescript("PRAGMA journal_mode = wal; PRAGMA synchronous = full; CREATE TABLE t(x)")
        commits = []
        for number in range(30):
            at = perf_counter()
            connection.execute("INSERT INTO t VALUES (?)", (number,))
            commits.append(perf_counter() - at)
    return {
        "machine.loop_M/s": 1 / looped,
        "machine.commit_ms": median(commits) * 1000,
        "machine.load": os.getloadavg()[0],
    }


def machine() -> dict[str, Any]:
    """Where this was measured."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.platform(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def told(result: Result) -> str:
    """The table."""
    lines = [f"{result.name}: medians of {len(result.rounds)} rounds"]
    for name, middle in result.medians().items():
        values = [each[name] for each in result.rounds if name in each]
        lines.append(
            f"  {name:<44} {number_text(middle):>12}   ({number_text(min(values))} to {number_text(max(values))})"
        )
    lines += [f"  {who:<44} {'left out':>12}   ({why})" for who, why in result.skipped.items()]
    for bar in result.bars:
        state = {None: "not measured", True: "met", False: "NOT MET"}[bar["met"]]
        value = "" if bar["value"] is None else f"{number_text(bar['value'])} {bar['unit']}"
        lines.append(f"  {'→ ' + bar['what']:<44} {value:>18}   {bar['limit']}: {state}")
    return "\n".join(lines)


def as_json(results: list[Result]) -> str:
    """All of it."""
    found = [
        {
            "name": each.name,
            "about": each.about,
            "median": each.medians(),
            "bars": each.bars,
            "skipped": each.skipped,
            "rounds": each.rounds,
        }
        for each in results
    ]
    return json.dumps({"on": machine(), "benchmarks": found}, indent=1) + "\n"


def number_text(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
