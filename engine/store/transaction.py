"""One write transaction: units of work in savepoints, and the events that go with their changes.

Transactions begin IMMEDIATE. A failing unit takes its rows and its events with it and leaves the others alone. Free of
peewee until a unit asks for it, since `taskdeck add` must feel instant.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..clock import Clock
from ..crash import crash_at
from ..errors import NotPermitted, StorageTrouble, StoreError, Unavailable, kept_from
from ..rules.timing import add_seconds, seconds_between, utc_text
from .events import AlikeEvents, Event, PendingEvent, append, payload_text

if TYPE_CHECKING:
    from peewee import SqliteDatabase

SCHEMA_VERSION = 13
"""Number of the newest migration; kept in `PRAGMA user_version`."""

ENGINE = "engine"
"""The actor of what the engine does by itself."""

WRITER_PRAGMAS = (
    ("journal_mode", "wal"),
    ("synchronous", "full"),
    ("foreign_keys", 1),
    ("busy_timeout", 10_000),
    ("wal_autocheckpoint", 0),
    ("journal_size_limit", 16_777_216),
    ("temp_store", "memory"),
    ("cache_size", -16_384),
)
"""On every connection that writes."""

T = TypeVar("T")


class Redacts(Protocol):
    """What the store needs of `rules.redaction.Redactor`."""

    def text(self, text: str) -> str: ...

    def value(self, value: Any) -> Any: ...

    def find(self, value: Any) -> Sequence[Any]: ...

    def learn(self, secret: str) -> None: ...


def marks(count: int) -> str:
    """So many question marks for `IN (…)`; of none, `IN ()` holds for no row and `NOT IN ()` for each."""
    return ", ".join("?" * count)


def refuse_what_is_read_only(path: Path) -> None:
    """Raise `StorageTrouble`, or `NotPermitted` for another user's, where the database or a part of it can't be written.

    Asked before it is opened: SQLite would make its log beside a read-only database as read-only as that, and the log would
    stay so, unnamed in every later error.
    """
    for part in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        # Asked twice: the log may just have come, of somebody who opens the database.
        if os.access(part, os.W_OK) or not part.exists() or os.access(part, os.W_OK):
            continue
        if part.stat().st_uid != os.geteuid():
            raise NotPermitted(f"{part} can't be written", "it is another user's", "ask as its owner")
        raise StorageTrouble(f"{part} can't be written", "it is read-only", "make it writable")


def refuse_what_is_no_database(path: Path) -> None:
    """Raise `StoreError` for something that can't be a database: looked at before anything is made beside it."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise kept_from(error, f"{path} can't be used", "name another with --db") from None
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(
            f"{path} can't be used as a database", "it is no regular file", "name another with --db"
        )
    # A restore that was interrupted may have left the old file a second name; it ends with a file of one.
    if found.st_nlink > 1 and not os.path.exists(f"{path}.restoring"):
        raise StoreError(
            f"{path} can't be used as a database",
            f"the file has {found.st_nlink} names (hard links): under each an engine could work on it, unseen by the others",
            f"remove the others; find them with: find DIRECTORY -xdev -samefile {path}",
        )
    with open(path, "rb") as file:
        head = file.read(16)
    if head and head != b"SQLite format 3\0":
        raise StoreError(
            f"{path} can't be opened as a taskdeck database", "it is no SQLite file", "check the path"
        )


def _was_left_open(path: Path) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def connect_current(path: Path) -> sqlite3.Connection | None:
    """A plain connection to a database of just this schema, closed in order; None for any other: `open_for_writing` then."""
    if not path.exists() or os.path.exists(f"{path}.restoring") or _was_left_open(path):
        return None
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for name, value in WRITER_PRAGMAS:
            connection.execute(f"PRAGMA {name} = {value}")
        if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
            return connection
    except sqlite3.Error:
        pass  # whoever opens it thoroughly says what is wrong with it
    connection.close()
    return None


class Transaction:
    """One write transaction in progress: the connection, the time, and the events that go with the changes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        clock: Clock,
        boot_id: str,
        redactor: Redacts,
        database: SqliteDatabase | None = None,
    ) -> None:
        self.connection = connection
        self._database = database
        self.boot_id = boot_id
        self.redactor = redactor
        self._clock = clock
        self._events: list[Event | AlikeEvents] = []
        self.now = ""
        self.boot = 0.0

    @property
    def db(self) -> SqliteDatabase:
        """The connection as peewee knows it, for `query.execute(tx.db)`. Loaded when first used: it costs 50 ms."""
        if self._database is None:
            from .database import adopt

            self._database = adopt(self.connection)
        return self._database

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
            crash_at("before_commit")
            self.connection.execute("COMMIT")
            crash_at("after_commit")
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

    def use(self, connection: sqlite3.Connection) -> None:
        """Go on over another connection to the same database, between two transactions."""
        self.connection = connection

    def event(
        self,
        event_type: str,
        *,
        actor: str,
        task_id: int | None = None,
        worker_id: int | None = None,
        resource_id: str | None = None,
        route_id: str | None = None,
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
                task_id,
                resource_id,
                route_id,
                worker_id,
                event_type,
                level,
                reason,
                actor,
                message,
                text,
                self.now,
            )
        )

    def add(self, events: Iterable[Event | AlikeEvents]) -> None:
        """Add events in which no outside text is, as `event` adds one."""
        self._events.extend(events)

    def utc_at(self, boot: float) -> str:
        """When a moment of the boot clock is (UTC text)."""
        return add_seconds(self.now, boot - self.boot)

    def boot_at(self, utc: str) -> float:
        """The moment of this boot's clock at which a UTC time comes; now for one that has passed."""
        return self.boot + max(0.0, seconds_between(self.now, utc))

    def next_fences(self, count: int) -> range:
        """Draw `count` fences from the one sequence of the database; they only grow."""
        row = self.connection.execute(
            "UPDATE sequence SET value = value + ? WHERE name = 'fence' RETURNING value", (count,)
        ).fetchone()
        return range(row[0] - count + 1, row[0] + 1)

    def next_fences_of(self, ids: Sequence[int]) -> int:
        """Draw a fence for each of these tasks. Returns by how much it is ahead of the task's id.

        Those of the ids between are left out: so one statement finds each row's fence without being told.
        """
        lowest = min(ids)
        return self.next_fences(max(ids) - lowest + 1)[0] - lowest

    def rows(self, sql: str, *args: Any, **named: Any) -> list[dict[str, Any]]:
        """All rows of a constant query as dicts; its parameters by place or by name."""
        cursor = self.connection.execute(sql, named or args)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def row(self, sql: str, *args: Any) -> dict[str, Any] | None:
        """The first row of a constant query as a dict, or None."""
        rows = self.rows(sql, *args)
        return rows[0] if rows else None
