"""Files of the kernel (/proc, cgroup), read with each start and end of a command: in a third of what `open` takes."""

from __future__ import annotations

import os

_PIECE = 64 * 1024


class Kept:
    """One that is read again and again: it stays open."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._opened_by = 0
        """The process for which the number means this file: one that was forked may have closed it, and opened another."""

    def __del__(self) -> None:
        if self._opened_by == os.getpid():
            os.close(self._fd)

    def read(self) -> bytes:
        """All that it holds now. Raises `OSError`, as `read`. One thread at a time."""
        if self._opened_by != os.getpid():
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self._opened_by = os.getpid()
        found = b""
        while piece := os.pread(self._fd, _PIECE, len(found)):
            found += piece
        return found


def read(path: str) -> bytes:
    """All that it holds now. Raises `OSError`: mostly, that who it speaks of has ended."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = b""
        while piece := os.read(fd, _PIECE):
            found += piece
        return found
    finally:
        os.close(fd)
