"""The start journal of a worker: which attempts it really began.

After a kill the engine reads it to tell an attempt that may have had an effect from one that was only dispatched. Written
without fsync, since it must survive the process and not the power. Holds fences only, never a payload.
"""

from __future__ import annotations

import os
from pathlib import Path

from .. import Delay

NO_ROOM = 10.0
"""Seconds after which an attempt whose start could not be noted is tried again."""


class StartJournal:
    """Append-only file, one fence a line; one per incarnation of a worker."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)

    def start(self, fence: int) -> None:
        """Note that this attempt is about to be entered; returns when the kernel has it.

        Raises `Delay` where it can't be noted (a full disk): it then must not be entered, which is not the task's fault.
        """
        line = b"%d\n" % fence
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise Delay(f"its start can't be noted: {error.strerror}", seconds=NO_ROOM) from error
        if written < len(line):  # a torn line would swallow the next
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise Delay("its start can't be noted: no space left", seconds=NO_ROOM)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def read(path: str | os.PathLike[str]) -> set[int]:
    """The fences that were begun; empty where there is no journal. A torn last line doesn't count.

    Raises `ValueError` where it holds anything else (nobody knows what it said), `OSError` where it can't be read.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except FileNotFoundError:
        return set()
    if not all(line.isdigit() for line in lines if line):
        raise ValueError(f"{path} is damaged")
    return {int(line) for line in lines[:-1] if line}
