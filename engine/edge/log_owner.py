"""Whose logs lie in a directory: one database's, since the logs of attempts are named by the numbers of its tasks alone."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..config import LOG_OWNER, owner_of
from ..errors import Refused
from .paths import make_private_directory


def claim(directory: Path, database: Path) -> None:
    """Make this directory the database's own. Raises `Refused` where it is that of another one that still exists.

    The caller holds the database's lock. A folder that can't be written is no reason to refuse: logs never hurt the work.
    """
    owner = owner_of(directory)
    if owner == database:
        return
    if owner is None:
        with suppress(OSError):
            make_private_directory(directory)
            write_whole(directory / LOG_OWNER, os.fsencode(os.path.relpath(database, directory)) + b"\n")
        owner = owner_of(directory) or database
    if owner != database:
        raise Refused(
            f"{directory} holds the logs of {owner}",
            "attempts of the same number would write into one file",
            "name another directory in [taskdeck] logs; where none is named, starting again takes one of its own",
        )


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file so that after any crash it holds all of `data`, or what stood there before."""
    new = path.with_name(f"{path.name}.new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(new, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
