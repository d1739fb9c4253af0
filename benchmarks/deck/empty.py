"""An empty Textual app, the measure of how fast this machine is at this moment: python -m benchmarks.deck.empty"""

from __future__ import annotations

import sys
from statistics import median

from textual.app import App, ComposeResult
from textual.widgets import Static

from .terminal import Terminal

FIRST_PAINT = 0.232
"""What it took where the budgets were set (seconds)."""


def first_paint() -> float:
    """From its start to its word on the screen (seconds)."""
    terminal = Terminal([sys.executable, "-m", "benchmarks.deck.empty"])
    try:
        return terminal.until("painted") - terminal.began
    finally:
        terminal.close()


def pace(starts: int = 3) -> float:
    """How many times slower than there it is here and now, 1 at least."""
    return max(1.0, median(first_paint() for _ in range(starts)) / FIRST_PAINT)


class Empty(App[None]):
    """Says one word."""

    ENABLE_COMMAND_PALETTE = False

    def compose(self) -> ComposeResult:
        yield Static("painted", markup=False)


if __name__ == "__main__":
    Empty().run()
