"""How fast a full queue drains: no-op tasks from PENDING to recorded SUCCESS, as a ratio to raw SQLite in the same run.

    .venv/bin/python -m benchmarks.drain [--n 50000] [--rounds 3] [--json FILE]

Everything is real: the installed `taskdeck`, `synchronous=FULL`, two workers, attempt rows, fences, the hash-chained audit.
Each no-op appends sixteen bytes to a file, so that starts are counted by something the engine can't write. The replay check
reads the database afterwards. Submitting (`add -f`) is timed as well, as a whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from tests import replay

from . import raw

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
CONFIG = '[taskdeck]\nhandlers = ["tasks.py"]\n\n[engine]\nworkers = 2\n'


def drain(folder: Path, count: int) -> dict[str, float]:
    """Add `count` tasks, drain them, check everything. Returns tasks a second of both."""
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
    return {"submit": count / adding, "drain": count / running}


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.drain", description="Drain a queue of no-ops.")
    parser.add_argument("--n", type=int, default=50_000, help="tasks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where the figures go as JSON")
    options = parser.parse_args()
    rounds: list[dict[str, float]] = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            limits = raw.rates(folder, options.n)
            found = drain(folder, options.n)
        rounds.append(
            {
                "raw_life": limits["life"],
                "raw_submit": limits["submit"],
                **found,
                "drain_ratio": found["drain"] / limits["life"],
                "submit_ratio": found["submit"] / limits["submit"],
            }
        )
        print("  ".join(f"{key} {value:,.2f}" for key, value in rounds[-1].items()), flush=True)
    middle = {key: median(each[key] for each in rounds) for key in rounds[0]}
    print(f"median of {options.rounds}: " + "  ".join(f"{key} {value:,.2f}" for key, value in middle.items()))
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    if options.json:
        options.json.write_text(json.dumps({"median": middle, "rounds": rounds}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
