"""Everything that breaks taskdeck on purpose, at the size of a night; about an hour and a half.

    .venv/bin/python -m benchmarks.nightly [--seed N] [--minutes M]

Crash points in one process (all) and with real processes (all), people and crashes in any order (fifty times as deep as in
the tests), `demo --chaos` with three seeds, and a long `chaos`. A line at the end of each; exit 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from datetime import date

TASKDECK = (sys.executable, "-c", "from taskdeck.tui.cli import script; script()")
DEEP = ("-m", "pytest", "-q", "--timeout", "7200", "tests/crashing/test_machine.py")


def main() -> int:
    """One after the other, whatever comes of each."""
    parser = argparse.ArgumentParser(prog="benchmarks.nightly")
    parser.add_argument("--seed", type=int, default=date.today().toordinal(), help="default: today's")
    parser.add_argument("--minutes", type=float, default=30.0, help="of chaos")
    options = parser.parse_args()
    steps = {
        "crash points, one process": [sys.executable, "-m", "tests.crashing"],
        "crash points, real processes": [sys.executable, "-m", "benchmarks.crash_points"],
        "people, time and crashes": [sys.executable, *DEEP],
    }
    for seed in range(options.seed, options.seed + 3):
        steps[f"demo, seed {seed}"] = [*TASKDECK, "demo", "--headless", "--chaos", "--seed", str(seed)]
    chaos = ["chaos", "--minutes", f"{options.minutes:g}", "--seed", str(options.seed)]
    steps[f"chaos, seed {options.seed}"] = [*TASKDECK, *chaos]
    ends = {name: _run(command) for name, command in steps.items()}
    for name, (code, seconds) in ends.items():
        print(f"{'✗' if code else '✓'} {name}: exit {code}, {seconds:.0f} s")
    return 1 if any(code for code, _ in ends.values()) else 0


def _run(command: list[str]) -> tuple[int, float]:
    began = time.monotonic()
    code = subprocess.run(command, env={**os.environ, "TASKDECK_TEST_DEPTH": "50"}, check=False).returncode
    return code, time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
