"""The database file: how it is created, migrated and opened for writing. Only the holder of the database lock may do so."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from peewee import DatabaseError, SqliteDatabase

from ..errors import StorageTrouble, StoreError
from .backup import check, copy, newer
from .diagnosis import diagnosis, is_passing, refusal
from .durable import published
from .leftover_log import refuse_foreign_log
from .new_database import make_schema, remove_unfinished
from .replacing import finish
from .transaction import SCHEMA_VERSION, WRITER_PRAGMAS

MIGRATIONS = Path(__file__).parent / "migrations"


def open_for_writing(path: Path, now: str, *, keep_old: bool = True) -> SqliteDatabase:
    """Open (and create or migrate) the database at `path`. The caller holds the database lock; `now` names a backup.

    A restore that was interrupted is carried through first. `keep_old`: before a migration, the old schema is backed up.

    Raises `SchemaMismatch` for a database of a newer taskdeck, `StoreError` for one that can't be read.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        finish(path)
        if not path.exists():
            remove_unfinished(path)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StorageTrouble(
            f"{path} can't be made", error.strerror or str(error), "make room, or name another with --db"
        ) from error
    refuse_foreign_log(path)
    # Not "thread safe": peewee would quietly open a second connection in the writer's thread.
    database = SqliteDatabase(
        str(path),
        pragmas=WRITER_PRAGMAS,
        lock_type="IMMEDIATE",
        thread_safe=False,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        database.connect()
        _bring_up_to_date(database, path, now, keep_old)
    except (sqlite3.DatabaseError, DatabaseError) as error:
        database.close()
        if is_passing(error):
            raise refusal(diagnosis(error), f"{path} can't be opened now") from error
        raise StoreError(
            f"{path} can't be opened as a taskdeck database",
            str(error),
            "check the path, or restore a backup",
        ) from error
    return database


def _bring_up_to_date(database: SqliteDatabase, path: Path, now: str, keep_old: bool) -> None:
    version = database.connection().execute("PRAGMA user_version").fetchone()[0]
    if version == SCHEMA_VERSION:
        return
    if version > SCHEMA_VERSION:
        raise newer(path, database.connection())
    tables = (
        database.connection().execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
    )
    if tables and version == 0:
        raise StoreError(
            f"{path} is a SQLite database, but not of taskdeck", remedy="name another file with --db"
        )
    if not tables:
        make_schema(database.connection())
        return
    if keep_old:
        _back_up(database, path, version, now)
    _migrate(database)


def _back_up(database: SqliteDatabase, path: Path, version: int, now: str) -> None:
    """A checked copy of the old schema, in `backups` beside the database."""
    target = path.parent / "backups" / f"{path.stem}-schema{version}-{now.replace(':', '')}.db"
    try:
        with published(target, replace=True) as part:
            check(part, copy(database.connection(), part))
    except OSError as error:
        what = f"{path} must be migrated to schema {SCHEMA_VERSION}, and its backup can't be written"
        raise StoreError(what, error.strerror or str(error), f"make room in {target.parent}") from error


def _migrate(database: SqliteDatabase) -> None:
    """All migrations that are missing, in one transaction: a crash leaves the old schema or the new one, nothing between."""
    from playhouse.migrations import Runner  # costs 30 ms, needed once in the life of a schema

    database.execute_sql("PRAGMA foreign_keys = 0")  # a table that is built anew is missing for a moment
    try:
        with database.atomic("IMMEDIATE"):
            Runner(database, str(MIGRATIONS)).up()
            broken = database.execute_sql("PRAGMA foreign_key_check").fetchmany(3)
            if broken:
                raise StoreError(
                    "the migration would leave broken references", str(broken), "nothing was changed"
                )
            database.execute_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
    finally:
        database.execute_sql("PRAGMA foreign_keys = 1")


def schema_text() -> str:
    """What `schema.sql` must hold: a new database as all migrations make it."""
    with SqliteDatabase(":memory:", thread_safe=False) as database:
        _migrate(database)
        connection = database.connection()
        made = connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name <> 'sqlite_sequence' ORDER BY rowid"
        )
        names = connection.execute("SELECT name FROM schema_migration ORDER BY id").fetchall()
        rows = [line for line in connection.iterdump() if line.startswith(_FIRST_ROWS)]
        applied = [_APPLIED.format(name) for (name,) in names]
        return "\n".join([*(f"{sql};" for (sql,) in made), *rows, *applied, ""])


_FIRST_ROWS = tuple(f'INSERT INTO "{table}" ' for table in ("sequence", "event_head"))
_APPLIED = (
    "INSERT INTO schema_migration(name, applied)"
    " VALUES ('{}', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));"
)


class _Adopted(SqliteDatabase):
    """peewee over a connection that somebody else opened and closes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._adopted = connection
        super().__init__(":memory:", thread_safe=False)

    def _connect(self) -> sqlite3.Connection:
        return self._adopted


def adopt(connection: sqlite3.Connection) -> SqliteDatabase:
    """The given connection as a peewee database."""
    return _Adopted(connection)
