"""A small disk of its own for the database and its logs, which can be filled; where the platform allows none, a folder.

Linux: a tmpfs, which takes the right to mount. Must not know of the engine.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

SIZE = 192 * 1024 * 1024
"""Bytes. A run of three minutes writes a fraction of it."""
BALLAST = "ballast"


class Disk:
    """The folder `path`, on a disk of its own where that is possible (`small`); `why_not` says why it isn't."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(mode=0o700)
        self.why_not = _mount(path)

    @property
    def small(self) -> bool:
        """Can it be filled?"""
        return not self.why_not

    def fill(self) -> None:
        """Leave no byte free."""
        fd = os.open(self.path / BALLAST, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            for block in (1 << 20, 4096):
                while _grows(fd, block):
                    pass
        finally:
            os.close(fd)

    def clear(self) -> None:
        """Make room again."""
        (self.path / BALLAST).unlink(missing_ok=True)

    def give_up(self, to: Path) -> None:
        """Keep what is on it in the folder `to`, and give it back; without a disk of its own the folder is renamed."""
        self.clear()
        if not self.small:
            self.path.rename(to)
            return
        shutil.copytree(self.path, to)
        self.drop()

    def drop(self) -> None:
        """Give it back with all that is on it."""
        if self.small:
            _call(
                "umount2", str(self.path).encode(), 2
            )  # MNT_DETACH: whoever still has a file open keeps that
            self.why_not = "it was given back"
            self.path.rmdir()


def _grows(fd: int, by: int) -> bool:
    try:
        os.posix_fallocate(fd, os.fstat(fd).st_size, by)
    except OSError:
        return False
    return True


def _mount(path: Path) -> str:
    """Mount a tmpfs; returns why that could not be, or nothing."""
    options = f"size={SIZE},mode=700".encode()
    return _call("mount", b"tmpfs", str(path).encode(), b"tmpfs", 0, options)


def _call(name: str, *arguments: bytes | int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        done = getattr(libc, name)(*arguments)
    except AttributeError:
        return f"there is no {name} here"
    return "" if done == 0 else os.strerror(ctypes.get_errno())
