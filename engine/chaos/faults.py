"""Which faults happen when: drawn from the seed before anything is begun, so that a run can be had again. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

GAP = (0.6, 1.8)
"""Seconds between the beginnings of two faults, at least and at most."""
FIRST = 1.0
"""Seconds of peace at first."""


@dataclass(frozen=True)
class Kind:
    """One way of breaking things. `lasts`: seconds, at least and at most; None = a blow, over at once."""

    name: str
    lasts: tuple[float, float] | None = None
    often: int = 1
    """How many times as often as the rarest kind."""


KINDS = (
    Kind("kill worker", often=4),
    Kind("kill command", often=3),
    Kind("kill engine", often=2),
    Kind("kill supervisor"),
    Kind("kill everything"),
    Kind("stop worker", (0.5, 2.5), often=2),
    Kind("stop worker past its lease", (7.0, 9.0)),
    Kind("stop command", (0.5, 3.0)),
    Kind("stop engine", (0.5, 4.0), often=2),
    Kind("stop supervisor", (0.5, 3.0)),
    Kind("start a second engine"),
    Kind("step clock", often=2),
    Kind("cut network", (0.5, 3.0)),
    Kind("silence network", (0.5, 3.0)),
    Kind("drop proxy", (1.0, 5.0), often=2),
    Kind("fill disk", (0.5, 2.5)),
    Kind("keep files from growing", (0.5, 2.5)),
)
"""Everything that can happen."""


@dataclass(frozen=True)
class Fault:
    """One fault. `at`: seconds after the beginning; `lasts`: seconds, 0 = a blow; `pick` says who of several it hits."""

    at: float
    kind: str
    lasts: float
    pick: float

    def of(self, candidates: Sequence[T]) -> T | None:
        """Who it hits; None where nobody is there."""
        return candidates[int(self.pick * len(candidates))] if candidates else None


def draw(seed: int, seconds: float) -> list[Fault]:
    """All faults of a run that lasts so long. Each kind comes before the first comes again as often as it may."""
    rng = random.Random(f"chaos {seed}")
    kinds = _without_end(rng)
    faults: list[Fault] = []
    at = FIRST
    while at < seconds:
        kind = next(kinds)
        lasts = round(rng.uniform(*kind.lasts), 3) if kind.lasts else 0.0
        faults.append(Fault(round(at, 3), kind.name, lasts, rng.random()))
        at += rng.uniform(*GAP)
    return faults


def _without_end(rng: random.Random) -> Iterator[Kind]:
    """One of each kind in any order, then all as often as they are meant to be, over and over."""
    pack = list(KINDS)
    while True:
        rng.shuffle(pack)
        yield from pack
        pack = [kind for kind in KINDS for _ in range(kind.often)]
