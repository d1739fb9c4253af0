"""How often Python looks for cycles in a process that makes and drops objects by the thousand with each commit."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 20_000
"""Objects (lists, dicts, tasks …) between two looks at the youngest: a few MiB. With the usual 700 a worker spent a fifth of
its time on looking, and found nothing, since what attempts make has no cycles."""


def begin_collecting() -> None:
    """All code is loaded, with collecting switched off: that stays, and is never looked at again; the rest is from now on."""
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
    gc.enable()


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected in the block: for what makes objects by the ten thousand that all stay, and have no cycles."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
