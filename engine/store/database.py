"""The database file: how it is opened, migrated and written.

One connection writes, in `BEGIN IMMEDIATE` transactions; a `Transaction` runs units of work, each in its own savepoint, so
that a failing unit takes its rows and its events with it and leaves the others alone. Only the holder of the database lock
may call `open_for_writing`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from peewee import DatabaseError, SqliteDatabase

from ..clock import Clock
from ..errors import SchemaMismatch, StoreError, Unavailable
from ..rules.timing import utc_text
from .events import PendingEvent, append, payload_text

SCHEMA_VERSION = 1
"""Number of the newest migration; kept in `PRAGMA user_version`."""

MIGRATIONS = Path(__file__).parent / "migrations"

WRITER_PRAGMAS = (
    ("journal_mode", "wal"),
    ("synchronous", "full"),
    ("foreign_keys", 1),
    ("busy_timeout", 10_000),
    ("wal_autocheckpoint", 0),
    ("temp_store", "memory"),
    ("cache_size", -16_384),
)

T = TypeVar("T")


class Redacts(Protocol):
    """What the store needs of `rules.redaction.Redactor`."""

    def text(self, text: str) -> str: ...

    def value(self, value: Any) -> Any: ...


def open_for_writing(path: Path, now: str) -> SqliteDatabase:
    """Open (and create or migrate) the database at `path`. The caller holds the database lock; `now` names a backup.

    Raises `SchemaMismatch` for a database of a newer taskdeck, `StoreError` for one that can't be read.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
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
        _bring_up_to_date(database, path, now)
    except (sqlite3.DatabaseError, DatabaseError) as error:
        database.close()
        raise StoreError(
            f"{path} can't be opened as a taskdeck database",
            str(error),
            "check the path, or restore a backup",
        ) from error
    return database


def _bring_up_to_date(database: SqliteDatabase, path: Path, now: str) -> None:
    version = database.connection().execute("PRAGMA user_version").fetchone()[0]
    if version == SCHEMA_VERSION:
        return
    if version > SCHEMA_VERSION:
        raise SchemaMismatch(
            f"{path} was written by a newer taskdeck (schema {version}, this one knows {SCHEMA_VERSION})",
            remedy="upgrade this taskdeck",
        )
    tables = (
        database.connection().execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
    )
    if tables and version == 0:
        raise StoreError(
            f"{path} is a SQLite database, but not of taskdeck", remedy="name another file with --db"
        )
    if tables:
        _back_up(database, path, version, now)
    _migrate(database)


def _back_up(database: SqliteDatabase, path: Path, version: int, now: str) -> None:
    folder = path.parent / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{path.stem}-schema{version}-{now.replace(':', '')}.db"
    with sqlite3.connect(target) as copy:
        database.connection().backup(copy)
    copy.close()


def _migrate(database: SqliteDatabase) -> None:
    from playhouse.migrations import Runner  # costs 30 ms, needed once in the life of a schema

    Runner(database, str(MIGRATIONS)).up()
    broken = database.connection().execute("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise StoreError(
            "the migration left broken references", str(broken[:3]), "restore the backup beside the database"
        )
    database.execute_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")


class Transaction:
    """One write transaction in progress: the connection, the time, and the events that go with the changes."""

    def __init__(self, database: SqliteDatabase, clock: Clock, boot_id: str, redactor: Redacts) -> None:
        self.db = database
        self.connection: sqlite3.Connection = database.connection()
        self.boot_id = boot_id
        self.redactor = redactor
        self._clock = clock
        self._events: list[PendingEvent] = []
        self.now = ""
        self.boot = 0.0

    def begin(self) -> None:
        """Take the write lock. Raises `Unavailable` when the database can't be written now."""
        self._events.clear()
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise Unavailable("the database can't be written now", str(error), "try again") from error
        self.now = utc_text(self._clock.utc())
        self.boot = self._clock.boot()

    def unit(self, work: Callable[..., T], *args: Any) -> T:
        """Run `work(self, *args)` in a savepoint: all of it, with its events, or nothing of it."""
        mark = len(self._events)
        self.connection.execute("SAVEPOINT unit")
        try:
            result = work(self, *args)
        except BaseException:
            del self._events[mark:]
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK TO unit")
                self.connection.execute("RELEASE unit")
            raise
        self.connection.execute("RELEASE unit")
        return result

    def commit(self) -> None:
        """Write the collected events and commit; on any error roll all of it back and raise."""
        try:
            if self._events:
                append(self.connection, self._events)
            self.connection.execute("COMMIT")
        except BaseException:
            self.roll_back()
            raise
        finally:
            self._events.clear()

    def roll_back(self) -> None:
        """Forget everything since `begin`."""
        self._events.clear()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def event(
        self,
        event_type: str,
        *,
        actor: str,
        task_id: int | None = None,
        worker_id: int | None = None,
        level: str = "info",
        reason: str | None = None,
        message: str = "",
        payload: Mapping[str, Any] | None = None,
        ours: bool = False,
    ) -> None:
        """Add one event. Everything is redacted, except where `ours` says that no outside text is in it."""
        if not ours:
            message = self.redactor.text(message)
            payload = self.redactor.value(payload) if payload else None
        text = payload_text(payload)
        self._events.append(
            PendingEvent(
                task_id, None, None, worker_id, event_type, level, reason, actor, message, text, self.now
            )
        )

    def next_fences(self, count: int) -> range:
        """Draw `count` fences from the one sequence of the database; they only grow."""
        row = self.connection.execute(
            "UPDATE sequence SET value = value + ? WHERE name = 'fence' RETURNING value", (count,)
        ).fetchone()
        return range(row[0] - count + 1, row[0] + 1)

    def rows(self, sql: str, *args: Any) -> list[dict[str, Any]]:
        """All rows of a constant query as dicts."""
        cursor = self.connection.execute(sql, args)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def row(self, sql: str, *args: Any) -> dict[str, Any] | None:
        """The first row of a constant query as a dict, or None."""
        rows = self.rows(sql, *args)
        return rows[0] if rows else None
