"""Names derived from the database's path, and directories and files that are their owner's alone.

Owns no file: it computes names and makes or checks directories. Must not read what is inside.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from ..errors import NotPermitted
from ..rules.cleaning import clean

NOTICE_LIMIT = 500
"""Most characters of a supervisor's notice."""


def database_hash(db_path: str | os.PathLike[str], digits: int = 8) -> str:
    """The first hex digits of the sha256 of the database's real path: one name, however it is reached."""
    return hashlib.sha256(os.fsencode(os.path.realpath(db_path))).hexdigest()[:digits]


def gave_up_file(db_path: Path) -> Path:
    """Where a supervisor says that it could not keep the engine of this database alive."""
    return Path(f"{db_path}.gave-up")


def read_gave_up(db_path: Path) -> str:
    """What the last supervisor said when it gave up, until an engine has put it on record; "" for nothing."""
    try:
        with open(gave_up_file(db_path), encoding="utf-8", errors="replace") as file:
            return clean(file.read(NOTICE_LIMIT).strip(), keep="")
    except OSError:
        return ""


def told_path(path: Path) -> str:
    """A path as messages and the record can hold it: a byte of a name that is not UTF-8 is written `\\xe9`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def make_private_directory(directory: Path) -> None:
    """Create the directory (0700) and its parents where they are missing; an existing one keeps its mode."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def open_private(path: str, flags: int) -> int:
    """An `opener` of `open`: a file that is made by it is its owner's alone (0600)."""
    return os.open(path, flags, 0o600)


def check_private_directory(directory: Path) -> None:
    """Refuse a directory that another user owns or may enter (`NotPermitted`); a link is not a directory."""
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode):
        why = "it is not a directory"
    elif found.st_uid != os.getuid():
        why = f"it belongs to user {found.st_uid}"
    elif found.st_mode & 0o077:
        why = f"others may enter it (mode {stat.S_IMODE(found.st_mode):04o})"
    else:
        return
    raise NotPermitted(f"{directory} can't be used", why, f"remove it, or chmod 700 it as user {os.getuid()}")
