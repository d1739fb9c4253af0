"""Copies of the database: SQLite's online backup in one snapshot, and the look at whether a copy is whole.

Free of peewee and of the models, since a copy may be of an older schema. Names no file, and decides not how many are kept.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ..errors import SchemaMismatch, StoreError
from ..rules.chain import START, Break, Head, Row, first_break
from . import events
from .transaction import SCHEMA_VERSION

WINDOW = 5000
"""Audit rows read at once."""
PAGES = 8192
"""Pages copied between two looks at whether the process shall end: 32 MB."""

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"


class Contents(NamedTuple):
    """What a database holds: by this a copy is compared with what was copied."""

    schema: int
    head: Head
    rows: dict[str, int]
    """Rows by table."""


def contents(connection: sqlite3.Connection) -> Contents:
    """Schema, head of the audit and rows of every table. Raises `sqlite3.Error` for what is no database of taskdeck."""
    names = [row[0] for row in connection.execute(_TABLES)]
    rows = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}
    head = connection.execute("SELECT event_id, count, hash FROM event_head").fetchone()
    return Contents(schema_of(connection), Head(*head) if head else START, rows)


def schema_of(connection: sqlite3.Connection) -> int:
    """The number of the newest migration that this database has seen; 0 for another program's."""
    return connection.execute("PRAGMA user_version").fetchone()[0]


def copy(source: sqlite3.Connection, target: Path) -> Contents:
    """Copy the database behind `source` (not in a transaction) into the file `target`, which others must not look at yet.

    One snapshot, however much is written meanwhile; writers are not held up. The copy is one file that needs no other.
    """
    source.execute("BEGIN")
    try:
        found = contents(source)
        with closing(sqlite3.connect(target, isolation_level=None)) as made:
            source.backup(made, pages=PAGES)
            made.execute("PRAGMA journal_mode = DELETE")
    finally:
        source.execute("ROLLBACK")
    return found


def check(path: Path, expected: Contents | None = None) -> Contents:
    """Open a copy and look at all of it: structure, references, audit, and that it holds what it should.

    Changes nothing. Raises `StoreError` that says what is wrong.
    """
    try:
        with closing(open_copy(path)) as connection:
            problems = connection.execute("PRAGMA integrity_check(3)").fetchall()
            if problems != [("ok",)]:
                raise _damaged(path, "; ".join(row[0] for row in problems))
            if broken := connection.execute("PRAGMA foreign_key_check").fetchmany(3):
                raise _damaged(path, f"rows refer to what is not there: {broken}")
            found = contents(connection)
            if broken := broken_at(connection):
                raise _damaged(path, f"its audit is broken at event {broken.event_id}: {broken.problem}")
    except sqlite3.DatabaseError as error:
        raise _damaged(path, str(error)) from error
    if expected is not None and found != expected:
        raise _damaged(path, "it does not hold what the database held")
    return found


def open_copy(path: Path) -> sqlite3.Connection:
    """A connection to a file that nobody writes: nothing beside it is read or made. Raises `StoreError`, `SchemaMismatch`."""
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1", uri=True, isolation_level=None
    )
    try:
        schema = schema_of(connection)
        if schema == 0:
            raise StoreError(f"{path} is no database of taskdeck", remedy="name another file")
        if schema > SCHEMA_VERSION:
            raise newer(path, connection)
    except StoreError:
        connection.close()
        raise
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(
            f"{path} can't be read as a taskdeck database", str(error), "name another file"
        ) from None
    return connection


def newer(path: Path, connection: sqlite3.Connection) -> SchemaMismatch:
    """The refusal of a database of a newer taskdeck; names both versions as far as they can be told."""
    try:
        row = connection.execute("SELECT code_version FROM engine ORDER BY id DESC LIMIT 1").fetchone()
    except sqlite3.Error:  # a schema that we know nothing of
        row = None
    theirs = (
        f"taskdeck {row[0]}, schema {schema_of(connection)}" if row else f"schema {schema_of(connection)}"
    )
    return SchemaMismatch(
        f"{path} was written by a newer taskdeck ({theirs}); this one is {_ours()}schema {SCHEMA_VERSION}",
        remedy="upgrade this taskdeck, or name another database with --db",
    )


def _ours() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{version('taskdeck')}, "
    except PackageNotFoundError:  # run from its sources
        return ""


def broken_at(connection: sqlite3.Connection) -> Break | None:
    """Where the audit in the table is broken."""
    return first_break(_chain(connection), contents(connection).head)


def _chain(connection: sqlite3.Connection) -> Iterator[Row]:
    after = events.BEFORE_ALL
    while rows := events.window(connection, after, events.LAST_OF_ALL, WINDOW):
        yield from rows
        after = rows[-1][0]


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(f"{path} is damaged", why, "use another copy")
