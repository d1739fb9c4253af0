"""Descriptor 3, on which every command finds its line protocol: a POSIX shell can name 0 to 9 only.

A worker keeps the number free from its very start and lends it to one spawn at a time. Where something else has it, a
descriptor is handed on under the number that it has. Loop thread only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

CHANNEL = 3

_placeholder: int | None = None
"""What stands at `CHANNEL` while nobody borrows it; None = the number was not free."""


def keep_free() -> None:
    """Take the number, so that nothing else gets it. Call before the process opens anything."""
    global _placeholder  # noqa: PLW0603 - the numbers belong to the process, there is only one of each
    first = os.open(os.devnull, os.O_RDWR)
    if first == CHANNEL:
        _placeholder = os.dup(first)
    else:
        os.close(first)


def is_free() -> bool:
    """Does what is `lent` get the number `CHANNEL`? Else it keeps its own."""
    return _placeholder is not None


@contextmanager
def lent(fd: int) -> Iterator[None]:
    """A process spawned meanwhile may inherit `fd` as `CHANNEL`, or under its own number where that is not free."""
    if _placeholder is None:
        yield
        return
    os.dup2(fd, CHANNEL, inheritable=False)
    try:
        yield
    finally:
        os.dup2(_placeholder, CHANNEL, inheritable=False)
