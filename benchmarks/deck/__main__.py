"""Measure the deck in a real terminal, against its budgets.

    .venv/bin/python -m benchmarks.deck [--keys N] [--only deck|widgets] [--json FILE]

Ends with 1 where a limit is exceeded. The limits of times grow with what an empty Textual app takes at the moment, so that a
slow or busy machine fails nothing; bytes, memory and shares of a core are held as they are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from . import empty, of_deck, of_widgets
from .figures import scaled, tell

PARTS = {"deck": of_deck.measure, "widgets": of_widgets.measure}


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.deck", description="The deck against its budgets.")
    parser.add_argument("--keys", type=int, default=60, help="presses for each latency")
    parser.add_argument("--only", choices=sorted(PARTS), action="append", help="one part")
    parser.add_argument("--json", type=Path, help="where the figures go as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures, before = [], empty.pace()
        for part in options.only or PARTS:
            figures += PARTS[part](Path(folder), options.keys)
    pace = (before + empty.pace()) / 2
    return 0 if tell(scaled(figures, pace), pace, options.json) else 1


if __name__ == "__main__":
    sys.exit(main())
