"""Files of the kernel (/proc, cgroup), read with each start and end of a command: in a third of what `open` takes."""

from __future__ import annotations

import os

_PIECE = 64 * 1024


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
