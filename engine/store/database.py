"""The database file: how it is created, migrated and opened for writing. Only the holder of the database lock may do so."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from ..errors import StorageTrouble, StoreError
from .backup import check, copy, newer
from .diagnosis import diagnosis, is_passing, refusal
from .durable import published
from .leftover_log import refuse_foreign_log
from .replacing import finish
from .transaction import SCHEMA_VERSION, connect, prepare


class OpenDatabase:
    """A database that its lock's holder has open: one connection that writes. Free of peewee, which only migrations need."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def connect(self) -> None:
        """Open it, for the first time or anew after `close`. Raises `sqlite3.DatabaseError`."""
        self._connection = connect(self._path)
        prepare(self._connection)

    def connection(self) -> sqlite3.Connection:
        """The connection, which is open."""
        assert self._connection is not None
        return self._connection

    def close(self) -> None:
        """Close it; where it is closed already, nothing happens."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def open_for_writing(path: Path, now: str, *, keep_old: bool = True) -> OpenDatabase:
    """Open (and create or migrate) the database at `path`. The caller holds the database lock; `now` names a backup.

    A restore that was interrupted is carried through first. `keep_old`: before a migration, the old schema is backed up.

    Raises `SchemaMismatch` for a database of a newer taskdeck, `StoreError` for one that can't be read.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        finish(path)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StorageTrouble(
            f"{path} can't be made", error.strerror or str(error), "make room, or name another with --db"
        ) from error
    refuse_foreign_log(path)
    database = OpenDatabase(path)
    try:
        database.connect()
        _bring_up_to_date(database.connection(), path, now, keep_old)
    except sqlite3.DatabaseError as error:
        database.close()
        if is_passing(error):
            raise refusal(diagnosis(error), f"{path} can't be opened now") from error
        raise StoreError(
            f"{path} can't be opened as a taskdeck database",
            str(error),
            "check the path, or restore a backup",
        ) from error
    return database


def _bring_up_to_date(connection: sqlite3.Connection, path: Path, now: str, keep_old: bool) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == SCHEMA_VERSION:
        return
    if version > SCHEMA_VERSION:
        raise newer(path, connection)
    tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
    if tables and version == 0:
        raise StoreError(
            f"{path} is a SQLite database, but not of taskdeck", remedy="name another file with --db"
        )
    if tables and keep_old:
        _back_up(connection, path, version, now)
    from .migrating import migrate  # and with it peewee: needed once in the life of a schema

    migrate(connection)


def _back_up(connection: sqlite3.Connection, path: Path, version: int, now: str) -> None:
    """A checked copy of the old schema, in `backups` beside the database."""
    target = path.parent / "backups" / f"{path.stem}-schema{version}-{now.replace(':', '')}.db"
    try:
        with published(target, replace=True) as part:
            check(part, copy(connection, part))
    except OSError as error:
        what = f"{path} must be migrated to schema {SCHEMA_VERSION}, and its backup can't be written"
        raise StoreError(what, error.strerror or str(error), f"make room in {target.parent}") from error
