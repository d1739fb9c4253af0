"""`./dev crashpoints`: the whole of it, or every N-th point."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from pathlib import Path

from tests.crashing.day import live_through
from tests.crashing.killing import hands_full, killed_at, later, points, problems_after, scratch
from tests.crashing.life import Life

FEWEST_DEATHS = 50
"""So often recovery dies in a whole run, or there were too few points at which it could."""


def main(arguments: list[str] | None = None) -> int:
    """Print how many points there are, and each at which something was wrong afterwards. Exit 1 where there is one."""
    parser = argparse.ArgumentParser(prog="./dev crashpoints")
    parser.add_argument("--every", type=int, default=1, help="only every N-th point")
    parser.add_argument("--first", type=int, default=1, help="from this point on")
    parser.add_argument("--recoveries", type=int, help="how often recovery itself is killed at most")
    options = parser.parse_args(arguments)
    with scratch() as folder:
        passed = points(folder())
        print(
            f"{len(passed)} fault points: {', '.join(f'{n} {name}' for name, n in Counter(passed).most_common())}"
        )
        chosen = range(options.first, len(passed) + 1, options.every)
        wrong = [number for number in chosen if not _survives(number, passed[number - 1], folder())]
        print(f"killed at {len(chosen)} of them, wrong after {len(wrong)}")
        deaths, found = _die_while_recovering(folder(), options.recoveries)
        print(
            f"killed {deaths} times while recovering, each time one point later: {found or 'nothing is wrong'}"
        )
    return 1 if wrong or found else 0


def _survives(number: int, name: str, folder: Path) -> bool:
    assert killed_at(number, folder, lambda: live_through(Life(folder).begin()))
    found = problems_after(folder)
    shutil.rmtree(folder)
    for problem in found:
        print(f"point {number} ({name}): {problem}")
    return not found


def _die_while_recovering(folder: Path, most: int | None) -> tuple[int, list[str]]:
    """A life dies with its hands full; then each recovery dies one point later than the one before, until one lives."""
    hands_full(folder)
    deaths = 0
    while deaths != most and killed_at(deaths + 1, folder, lambda: later(folder).begin()):
        deaths += 1
    found = problems_after(folder, lives=2)
    if most is None and deaths < FEWEST_DEATHS:
        found.append(f"recovery is to be killed {FEWEST_DEATHS} times at least: let more workers be lost")
    return deaths, found


if __name__ == "__main__":
    sys.exit(main())
