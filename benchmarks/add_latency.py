"""How fast is `add`: as a whole process against a bare Python, and from its commit to the start of the task.

    .venv/bin/python -m benchmarks.add_latency [ROUNDS]

Prints medians. The goals: a whole `add` takes at most 2.5 times a bare `python -c "import asyncio, sqlite3"`,
with and without an engine, and a running engine starts the task within 100 ms.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from tests.journeys.decks import JOBS, Deck


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = perf_counter()
    work()
    return perf_counter() - began


def moment(text: str) -> float:
    """Seconds of a UTC text."""
    return datetime.fromisoformat(text).timestamp()


def tell(what: str, values: list[float]) -> float:
    """Print median and 90th percentile in milliseconds; returns the median."""
    print(f"{what:<52} {median(values) * 1000:7.1f} ms   p90 {quantiles(values, n=10)[-1] * 1000:7.1f} ms")
    return median(values)


def measure(deck: Deck, rounds: int) -> None:
    """Alternate the three, so that a busy moment of the machine hits all of them."""
    bare = [sys.executable, "-c", "import asyncio, sqlite3"]
    figures: dict[str, list[float]] = {"bare": [], "alone": [], "engine": []}
    payload = json.dumps({"file": str(deck.home / "notes")})
    deck.add("--", "true")
    for _ in range(rounds):
        figures["bare"].append(seconds(lambda: subprocess.run(bare, check=True)))
        figures["alone"].append(seconds(lambda: deck.add("--", "true")))
    deck.start()
    deck.until_ready()
    deck.ok("wait", f"1-{rounds + 1}")
    for _ in range(rounds):
        figures["bare"].append(seconds(lambda: subprocess.run(bare, check=True)))
        figures["engine"].append(seconds(lambda: deck.add("--", "true")))
        deck.add("note", payload)
    deck.ok("wait", f"{rounds + 2}-{3 * rounds + 1}")
    base = tell("bare python -c 'import asyncio, sqlite3'", figures["bare"])
    for name, what in (("alone", "add -- true, no engine"), ("engine", "add -- true, engine running")):
        times = tell(what, figures[name]) / base
        print(f"{'':<52} {times:7.2f} times the bare one")
    for type_name in ("shell", "note"):
        rows = deck.rows(
            "SELECT created_at, attempt.dispatched_at, attempt.started_at FROM task JOIN attempt ON task_id = task.id"
            " WHERE type = ? AND task.id > ?",
            type_name,
            rounds + 1,
        )
        tell(
            f"{type_name}: from created to dispatched",
            [moment(r["dispatched_at"]) - moment(r["created_at"]) for r in rows],
        )
        tell(
            f"{type_name}: from created to its start recorded",
            [moment(r["started_at"]) - moment(r["created_at"]) for r in rows],
        )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{platform.platform()}, Python {platform.python_version()}, {rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        deck = Deck(Path(folder), JOBS)
        try:
            measure(deck, rounds)
            deck.stop()
        finally:
            deck.clean_up()


if __name__ == "__main__":
    main()
