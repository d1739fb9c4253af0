"""Figures against their limits, as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median, quantiles


@dataclass(frozen=True)
class Figure:
    """One thing that was measured; `limit` None is for the record only."""

    what: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def ratio(self) -> float | None:
        """How much of its limit it takes."""
        return self.value / self.limit if self.limit else None

    @property
    def is_kept(self) -> bool:
        """Is it within its limit?"""
        return self.ratio is None or self.ratio <= 1

    def line(self) -> str:
        """As a row of the table."""
        limit = "" if self.limit is None else f"{self.limit:10,.1f} {self.unit:<6}"
        ratio = "" if self.ratio is None else f"{self.ratio:6.2f}" + ("" if self.is_kept else "  EXCEEDED")
        return f"{self.what:<58} {self.value:10,.1f} {self.unit:<6} {limit:<17} {ratio}".rstrip()


def p95(values: list[float]) -> float:
    """The 95th percentile."""
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


def spread(what: str, seconds: list[float], limit: float) -> list[Figure]:
    """Median and 95th percentile in milliseconds; the limit is for the latter."""
    return [
        Figure(f"{what}, median", median(seconds) * 1000, "ms"),
        Figure(f"{what}, p95", p95(seconds) * 1000, "ms", limit),
    ]


def scaled(figures: list[Figure], pace: float) -> list[Figure]:
    """The same with the limits of times as they are on a machine that is `pace` times slower."""
    return [
        replace(figure, limit=figure.limit * pace) if figure.limit and figure.unit == "ms" else figure
        for figure in figures
    ]


def tell(figures: list[Figure], pace: float, path: Path | None) -> bool:
    """Print the table, write the JSON; returns whether every limit is kept."""
    print(
        f"Limits in ms are {pace:.2f} times the budgets: by so much an empty Textual app takes longer to paint here and now."
    )
    print(f"{'':<58} {'measured':>17} {'limit':>17} {'ratio':>7}")
    for figure in figures:
        print(figure.line())
    if path:
        about = {
            "platform": platform.platform(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
        }
        rows = [asdict(figure) | {"ratio": figure.ratio, "kept": figure.is_kept} for figure in figures]
        path.write_text(json.dumps({"on": about | {"pace": pace}, "figures": rows}, indent=1) + "\n")
    return all(figure.is_kept for figure in figures)
