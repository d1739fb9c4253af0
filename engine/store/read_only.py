"""Opening a database to look at it: what is opened changes nothing and creates no file.

Where no writer has the database open it is read as an unchanging file; its stamp tells whether that still holds.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from ..errors import NotFound, NotPermitted, SchemaMismatch, StoreError, kept_from
from .backup import newer
from .diagnosis import diagnosis, is_passing, refusal
from .transaction import SCHEMA_VERSION

PRAGMAS = ("query_only = 1", "busy_timeout = 10000", "cache_size = -8192")

Stamp = tuple[int, int, int]


def open_read_only(path: Path) -> tuple[sqlite3.Connection, Stamp | None]:
    """Open `path`; the stamp is given where it is read as an unchanging file (no writer has it open).

    Raises `NotFound`, `NotPermitted`, `SchemaMismatch` or `StoreError`.
    """
    try:
        found = stamp(path)
    except FileNotFoundError:
        raise NotFound(
            f"there is no database at {path}", remedy="`taskdeck add -- COMMAND` makes one"
        ) from None
    except OSError as error:
        raise kept_from(error, f"{path} can't be read", "ask as its owner, or name another") from error
    if not path.is_file():  # a pipe without a writer would be waited for without end
        raise StoreError(f"{path} is no database", "it is no regular file", "name another file with --db")
    mode = "mode=ro" if found is None else "mode=ro&immutable=1"
    connection = None
    try:
        # One thread uses it at a time, but not always the same.
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?{mode}",
            uri=True,
            isolation_level=None,
            cached_statements=256,
            check_same_thread=False,
        )
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        _check_schema(connection, path)
    except (StoreError, sqlite3.Error) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, StoreError):
            raise
        raise unreadable(path, error) from error
    return connection, found


def stamp(path: Path) -> Stamp | None:
    """What identifies the file's content while no write-ahead log lies beside it, or an empty one; None where one does."""
    found = os.stat(path)
    if _holds_something(f"{path}-wal") or os.path.exists(f"{path}-journal"):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def unreadable(path: Path, error: Exception) -> StoreError | NotPermitted:
    """What to say of an error of SQLite."""
    if not os.access(path, os.R_OK):
        return NotPermitted(f"{path} can't be read", "no permission", "ask as its owner")
    if is_passing(error):
        return refusal(diagnosis(error), f"{path} can't be read now")
    return StoreError(
        f"{path} can't be read as a taskdeck database", str(error), "check the path, or restore a backup"
    )


def _holds_something(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        raise StoreError(f"{path} is not a database of taskdeck", remedy="name another file with --db")
    if version > SCHEMA_VERSION:
        raise newer(path, connection)
    if version < SCHEMA_VERSION:
        raise SchemaMismatch(
            f"{path} has schema {version}, this taskdeck reads schema {SCHEMA_VERSION}",
            "it was written by an older taskdeck",
            "start the engine once: `taskdeck run` migrates it",
        )
