"""A database that is not there yet: it is made beside its place with what is written into it first, and put there as a whole.

So nobody meets half of it, and what is written first goes to the disk once, without a log. Free of peewee and of the
migrations, whose outcome stands in `schema.sql`: `taskdeck add` must feel instant.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ..errors import StorageTrouble
from .durable import PART, published
from .transaction import SCHEMA_VERSION

SCHEMA = Path(__file__).with_name("schema.sql")
"""What all migrations make of an empty database; a test holds it equal to that (`./dev schema` writes it anew)."""

_PRAGMAS = (
    ("journal_mode", "memory"),  # a failing unit is rolled back by it; what is half written is thrown away
    ("synchronous", "off"),  # the whole file is forced to disk before it is put in its place
    ("foreign_keys", 1),
    ("temp_store", "memory"),
    ("cache_size", -16_384),
)
_NEIGHBOURS = ("", "-wal", "-shm", "-journal", ".restoring")


def is_new(path: Path) -> bool:
    """Is there no trace of a database at `path`?"""
    return not any(os.path.lexists(f"{path}{suffix}") for suffix in _NEIGHBOURS)


def make_schema(connection: sqlite3.Connection) -> None:
    """Give an empty database the present schema, in one transaction."""
    connection.executescript(
        f"BEGIN IMMEDIATE;\n{SCHEMA.read_text('utf-8')}PRAGMA user_version = {SCHEMA_VERSION};\nCOMMIT;"
    )


@contextmanager
def new_database(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a new database that is there, durably, with all that the block has committed, once it has ended well.

    The caller holds the database lock, and has seen that there is nothing (`is_new`). On any error nothing is there. Raises
    `StorageTrouble` where it can't be put there.
    """
    try:
        remove_unfinished(path)
        with published(path) as part, closing(sqlite3.connect(part, isolation_level=None)) as connection:
            for name, value in _PRAGMAS:
                connection.execute(f"PRAGMA {name} = {value}")
            make_schema(connection)
            yield connection
            connection.execute("PRAGMA journal_mode = wal")
    except OSError as error:
        raise StorageTrouble(
            f"{path} can't be made", error.strerror or str(error), "make room, or name another with --db"
        ) from error


def remove_unfinished(path: Path) -> None:
    """What a process left behind that was killed while it made this database.

    The caller holds its lock, so nobody makes it now; what may be of another one, with a longer name, stays.
    """
    mine = re.compile(rf"\.{re.escape(path.name)}\.\d+{re.escape(PART)}(-\w+)?")
    with suppress(OSError):
        for left in [each for each in path.parent.iterdir() if mine.fullmatch(each.name)]:
            with suppress(OSError):
                left.unlink()
