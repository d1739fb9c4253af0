"""The file of a database as the kernel knows it, so that nobody goes on writing where no name leads any more.

SQLite keeps its descriptors: after `rm` or `mv` it would commit happily into a file that is lost at its close. Asked before
each commit (two `stat`, some microseconds).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from enum import StrEnum
from pathlib import Path

from .durable import published


class Standing(StrEnum):
    """Where the name of a database leads."""

    HERE = "here"
    GONE = "gone"
    REPLACED = "replaced"
    """Another file has its name."""
    RESCUED = "rescued"
    """The copy that was made of it has its name."""
    NO_LOG = "no_log"
    """It is here, but its write-ahead log was removed."""


Mark = tuple[int, int]


class DatabaseFile:
    """The file that an open connection writes. Make it right after opening."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._own = file_mark(path)
        self._wal_path = path.with_name(f"{path.name}-wal")
        self._wal = file_mark(self._wal_path)
        self.rescue: Path | None = None
        """The copy that was made of it when it was gone."""
        self._rescue: Mark | None = None

    def standing(self) -> Standing:
        """Where the name leads now. The log is known from its first look on, since it is made by the first write."""
        found = file_mark(self.path)
        if found != self._own:
            if found is None:
                return Standing.GONE
            return Standing.RESCUED if found == self._rescue else Standing.REPLACED
        wal = file_mark(self._wal_path)
        if wal != self._wal and self._wal is not None:
            return Standing.NO_LOG
        self._wal = wal
        return Standing.HERE

    def wal_size(self) -> int:
        """Bytes of the write-ahead log."""
        try:
            return os.stat(self._wal_path).st_size
        except OSError:
            return 0

    def save_copy(self, connection: sqlite3.Connection) -> Path:
        """Copy all that was ever committed from the file that has lost its name, once, beside where it stood.

        Raises `OSError` or `sqlite3.Error` where there is no room; then it may be called again.
        """
        if self.rescue is not None and self._rescue == file_mark(self.rescue):
            return self.rescue
        target, number = self.path.with_name(f"{self.path.name}.rescued"), 1
        while target.exists():
            number += 1
            target = self.path.with_name(f"{self.path.name}.rescued-{number}")
        with published(target) as part, closing(sqlite3.connect(part)) as copy:
            connection.backup(copy)
        self.rescue, self._rescue = target, file_mark(target)
        return target


def file_mark(path: Path) -> Mark | None:
    """What names the file itself, whatever its name: device and inode; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
