"""Everything that is measured, by one command.

    .venv/bin/python -m benchmarks NAME… [--rounds N] [--json FILE]     the figures of docs/performance.md
    .venv/bin/python -m benchmarks NAME [OPTIONS OF ITS OWN]            what runs long or judges by itself

Ends with 1 where a bar is not met.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from importlib import import_module
from pathlib import Path

from . import frame

FIGURES = {
    "drain": "a full queue of no-ops, beside raw SQLite",
    "submit": "tasks into the queue: in bulk, and from 64 coroutines",
    "latency": "from due to started at light load",
    "commands": "/bin/true beside xargs, tsp and GNU parallel",
    "history": "drain and start-up with a million finished tasks",
    "recovery": "after kill -9: the first task, and 100,000 lost ones",
    "memory": "an engine with a million waiting tasks, over a million executed",
    "probing": "checks of routes at full speed, and the deck's loop meanwhile",
    "loop": "the deck's loop while its engine drains at full speed",
    "cli": "`add`, `list` and `show` as whole processes, also beside a busy engine",
    "idle": "an engine with nothing to do",
    "compare": "the same no-ops by other queues, where they are installed",
}
ALONE = {
    "add_latency": "one `add`, from its start to that of the task",
    "audit_verify": "a million events walked, and what was done to them named",
    "crash_points": "real processes killed at every fault point",
    "deck": "the deck against its budgets",
    "nightly": "everything that breaks taskdeck on purpose",
    "routes": "five hundred routes over three simulated days, beside the plain model of each",
    "soak": "a busy box for minutes",
}
"""With options of their own: `python -m benchmarks NAME --help`."""


def main() -> int:
    """Measure what is named."""
    for stale in [name for name in os.environ if name.startswith("TASKDECK_")]:
        del os.environ[stale]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process compiles all that it imports
    if sys.argv[1:2] and sys.argv[1] in ALONE:
        name = sys.argv.pop(1)
        runpy.run_module(f"{__package__}.{name}", run_name="__main__", alter_sys=True)
        return 0
    options = _parse()
    results = [
        frame.run(name, import_module(f".{name}", __package__).benchmark(options), options.rounds)
        for name in options.names
    ]
    print()
    for result in results:
        print(frame.told(result))
    if options.json:
        options.json.write_text(frame.as_json(results))
    return 0 if all(result.is_met for result in results) else 1


def _parse() -> argparse.Namespace:
    lines = [f"  {name:<14} {about}" for name, about in {**FIGURES, **ALONE}.items()]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure taskdeck.\n\n" + "\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", choices=list(FIGURES), metavar="NAME")
    parser.add_argument("--rounds", type=int, help="default: each one's own")
    parser.add_argument("--json", type=Path, help="where the figures go as JSON")
    parser.add_argument("--scale", type=float, default=1.0, help="the sizes of what is measured, e.g. 0.1")
    parser.add_argument(
        "--peers",
        type=Path,
        default=os.environ.get("BENCH_PEERS"),
        help="folder of the harness and adapters of other queues (or $BENCH_PEERS)",
    )
    parser.add_argument(
        "--peer-python",
        type=Path,
        default=os.environ.get("BENCH_PEER_PYTHON"),
        help="a Python that has them installed (or $BENCH_PEER_PYTHON)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
