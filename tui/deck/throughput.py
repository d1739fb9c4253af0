"""How many tasks end, as the deck sees it: since it was opened, and without asking for more than it is told anyhow. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from .widgets.charts import sparkline

ENDED = ("SUCCESS", "FAILED", "DEAD", "CANCELLED")
STEP = 5
"""Seconds that one figure stands for."""
MINUTE = 60 // STEP
KEPT = 60
"""Figures: five minutes."""


class Throughput:
    """Ends of tasks over time; `tick` once a second with the counts as they are."""

    def __init__(self) -> None:
        self._steps: deque[int] = deque(maxlen=KEPT)
        self._before: int | None = None
        self._ticks = 0

    def tick(self, counts: Mapping[str, int]) -> None:
        """A second has passed."""
        ended = sum(counts.get(state, 0) for state in ENDED)
        if self._before is None:
            self._before = ended
        self._ticks += 1
        if self._ticks % STEP == 0:
            self._steps.append(max(ended - self._before, 0))  # a retry takes an ended one back
            self._before = ended

    def told(self, width: int, *, ascii: bool) -> str:
        """A line over the last minutes in `width` cells and how many ended in the last one; nothing where none did."""
        if not any(self._steps):
            return ""
        minute = sum(list(self._steps)[-MINUTE:])
        return f"{sparkline(self._steps, width, ascii=ascii)} {minute:,} ended/min"
