"""What a loss costs a task, and what becomes of one that has nothing but its row: pure, for one at a time and for many.

Source: domain "Leases, workers, recovery" and docs/decisions/0002-losses-and-progress.md.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

TOTAL_FACTOR = 10
"""All losses of a task together may be this many times `max_losses`, so that progress alone can't make an endless loop."""


class Loss(NamedTuple):
    """How a worker went, which is the same for all that it held.

    `charged`: the tasks count it. `suspected`: it died by itself, so that one of them may have killed it; `shared`: so may
    several, and then it counts among all their losses only. `doubt`: why nobody knows how those that had begun ended.
    """

    charged: bool = True
    suspected: bool = False
    shared: bool = False
    doubt: str = ""

    @property
    def counted(self) -> int:
        """What it adds to the losses since the last progress."""
        return int(self.charged and not self.shared)

    @property
    def total(self) -> int:
        """What it adds to all losses of a task."""
        return int(self.charged)


class Held(NamedTuple):
    """What a lost attempt's task is like, as far as that decides. `begun`: its handler may have been entered.

    `bare`: it is RUNNING and has nothing beside its row: no wish or request, no ending to roll back to, no lease, open
    operation, checkpoint or leftover process. `losses` and `losses_total` are those before this one.
    """

    begun: bool
    bare: bool
    losses: int
    losses_total: int
    on_lost: str


class Way(Enum):
    """What becomes of a lost attempt's task."""

    ALONE = "it has more than its row: all of that is looked at, task by task"
    NEVER_BEGUN = "it waits again, free of charge"
    TAKEN_OVER = "it is LOST and waits again"
    REVIEW = "a person decides"


def way_of(held: Held, loss: Loss, max_losses: int) -> Way:
    """Which way a lost attempt's task goes."""
    if not held.bare:
        return Way.ALONE
    if not held.begun:
        return Way.NEVER_BEGUN
    losses, total = held.losses + loss.counted, held.losses_total + loss.total
    return Way.REVIEW if loss.doubt or why_review(losses, total, held.on_lost, max_losses) else Way.TAKEN_OVER


def why_review(losses: int, losses_total: int, on_lost: str, max_losses: int) -> str:
    """Why a task with so many losses (this one included) goes to a person; "" where it may be taken over."""
    if losses >= max_losses or losses_total >= max_losses * TOTAL_FACTOR:
        return f"its worker was lost {losses_total} times"
    if on_lost == "review":
        return "its worker was lost and it must not run twice unasked"
    return ""
