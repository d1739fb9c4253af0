"""How fast a full queue drains: no-op tasks from PENDING to recorded SUCCESS, as a ratio to raw SQLite in the same run.

    .venv/bin/python -m benchmarks drain [--rounds N] [--scale 0.1] [--json FILE]

Everything is real: the installed `taskdeck`, `synchronous=FULL`, two workers, attempt rows, fences, the hash-chained audit.
Each no-op appends sixteen bytes to a file, so that starts are counted by something the engine can't write. The replay check
reads the database afterwards. Submitting (`add -f`) is timed as well, as a whole process.
"""

from __future__ import annotations

import argparse
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from time import perf_counter

from tests import replay

from . import raw
from .frame import Bar, Benchmark, ratio

ROOT = Path(__file__).parents[1]
TASKDECK = ROOT / ".venv" / "bin" / "taskdeck"

HANDLERS = """\
import os
from taskdeck.engine import task

ledger = os.open(os.environ["DRAIN_LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@task("noop")
async def noop(ctx, number: int) -> None:
    os.write(ledger, b"%08d%07d\\n" % (number, os.getpid()))
"""
CONFIG = '[taskdeck]\nhandlers = ["tasks.py"]\n\n[engine]\nworkers = 2\nslots = 512\nmax_running = 1024\n'
"""What is claimed and not yet ended at a time (`max_running`) is the most that one commit can share."""


def drain(folder: Path, count: int) -> dict[str, float]:
    """Add `count` tasks, drain them, check everything. Returns tasks a second of each."""
    ledger, database, tasks = folder / "ledger", folder / "taskdeck.db", folder / "tasks.jsonl"
    (folder / "tasks.py").write_text(HANDLERS)
    (folder / "config.toml").write_text(CONFIG)
    tasks.write_text("".join(f'{{"type":"noop","payload":{number}}}\n' for number in range(count)))
    environment = {**os.environ, "DRAIN_LEDGER": str(ledger), "TASKDECK_DB": str(database)}

    def taskdeck(*words: str) -> tuple[float, str]:
        began = perf_counter()
        done = subprocess.run(
            [TASKDECK, "--config", folder / "config.toml", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"taskdeck {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return perf_counter() - began, done.stdout

    adding, _ = taskdeck("add", "-f", str(tasks))
    running, _ = taskdeck("run", "--until-idle")
    lines = ledger.read_bytes().splitlines()
    if sorted(int(line[:8]) for line in lines) != list(range(count)):
        sys.exit(f"{len(lines)} tasks ran, and not each of {count} once")
    if problems := replay.check(database):
        sys.exit("\n".join(problems[:10]))
    _, told = taskdeck("events", "--json", "type:ENGINE_STARTED")
    if not re.search(r"synchronous\W+2\b", told):
        sys.exit("the engine did not write with synchronous = FULL")
    return {"submit": count / adding, "whole": count / running, "drain": measured(database, count)}


def measured(database: Path, count: int) -> float:
    """Tasks a second from the first dispatch to the last recorded end: start and end of the engine left out."""
    with closing(sqlite3.connect(database)) as connection:
        sql = "SELECT min(julianday(dispatched_at)), max(julianday(ended_at)) FROM attempt"
        first, last = connection.execute(sql).fetchone()
    return count / ((last - first) * 86400)


def benchmark(options: argparse.Namespace) -> Benchmark:
    """What is measured."""
    count = int(50_000 * options.scale)
    return Benchmark(
        f"{count:,} queued no-ops, from the start of `run` to the last recorded SUCCESS, in tasks a second",
        {"raw": lambda folder: raw.rates(folder, count), "taskdeck": lambda folder: drain(folder, count)},
        (Bar("drain, of raw SQLite", ratio("taskdeck.drain", "raw.life"), least=0.5),),
    )
