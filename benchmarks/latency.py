"""From the moment a task is due to its first line, at fifty tasks a second: due at a time, and submitted to run at once."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from time import time

from taskdeck.engine.commands import call
from taskdeck.engine.rules.timing import utc_text

from . import peers
from .frame import Bar, Benchmark, Figures, figure
from .home import Home, home, p, until, wait

GAP = 0.02
LEAD = 3.0


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    count = int(500 * options.scale)

    def celery(folder: Path) -> Figures:
        found = peers.ask(options, "celery", "latency", 1, folder)["submit"]
        return {"submitted_p50_ms": found["p50"], "submitted_p99_ms": found["p99"]}

    return Benchmark(
        f"{count} tasks, one each {GAP * 1000:.0f} ms; milliseconds to the first line of the handler",
        {"taskdeck": lambda folder: measure(folder, count), "celery": celery},
        (
            Bar("due → started, p50", figure("taskdeck.due_p50_ms"), "ms", most=3),
            Bar("due → started, p99", figure("taskdeck.due_p99_ms"), "ms", most=10),
            Bar(
                "submitted → started, p99, against celery",
                lambda each: each["taskdeck.submitted_p99_ms"] / each["celery.submitted_p99_ms"],
                most=1,
            ),
        ),
    )


def measure(folder: Path, count: int) -> Figures:
    """Both ways with one engine."""
    with home(folder) as made:
        made.add(1, "tick")
        made.start()
        made.until_ready()
        until(lambda: lines(made), "the first task")
        first = time() + LEAD
        due = {number: first + number * GAP for number in range(1, count + 1)}
        call(made.config, "submit", "cli:bench", specs=[spec(number, at) for number, at in due.items()])
        waited = late(made, due)
        sent: dict[int, float] = {}
        for number in range(count + 1, 2 * count + 1):
            sent[number] = time()
            call(made.config, "submit", "cli:bench", specs=[spec(number)])
            wait(max(0.0, sent[number] + GAP - time()))
        asked = late(made, sent)
        return {
            "due_p50_ms": p(waited, 0.5),
            "due_p99_ms": p(waited, 0.99),
            "submitted_p50_ms": p(asked, 0.5),
            "submitted_p99_ms": p(asked, 0.99),
        }


def spec(number: int, at: float | None = None) -> dict[str, object]:
    """One task, due at a time or at once."""
    found: dict[str, object] = {"type": "tick", "payload": str(number)}
    return found if at is None else {**found, "not_before": utc_text(datetime.fromtimestamp(at, UTC))}


def lines(made: Home) -> dict[int, float]:
    """When each has begun."""
    rows = (line.split() for line in made.ledger.read_text().splitlines())
    return {int(row[0]): float(row[1]) for row in rows if len(row) == 2}


def late(made: Home, due: dict[int, float]) -> list[float]:
    """Milliseconds from each due time to the task's first line."""
    until(lambda: due.keys() <= lines(made).keys(), "all tasks", every=0.2)
    began = lines(made)
    return [(began[number] - at) * 1000 for number, at in due.items()]
