"""The start journal of a worker: which attempts it really began.

After a kill the engine reads it to tell an attempt that may have had an effect from one that was only dispatched. Written
without fsync, since it must survive the process and not the power. Holds fences only, never a payload.
"""

from __future__ import annotations

import os
from pathlib import Path


class StartJournal:
    """Append-only file, one fence a line; one per incarnation of a worker."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)

    def start(self, fence: int) -> None:
        """Note that this attempt is about to be entered; returns when the kernel has it."""
        os.write(self._fd, b"%d\n" % fence)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def read(path: str | os.PathLike[str]) -> set[int]:
    """The fences that were begun; empty where there is no journal. A torn last line doesn't count."""
    try:
        whole_lines, _, _ = Path(path).read_bytes().rpartition(b"\n")
    except FileNotFoundError:
        return set()
    return {int(line) for line in whole_lines.split(b"\n") if line.isdigit()}
