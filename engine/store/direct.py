"""One transaction without an engine: for a command that holds the database lock for a moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..clock import Clock
from ..rules.timing import utc_text
from .diagnosis import passing_as_trouble
from .new_database import is_new, new_database
from .transaction import Redacts, Transaction, connect_current

if TYPE_CHECKING:
    from peewee import SqliteDatabase

T = TypeVar("T")


def write_once(path: Path, clock: Clock, redactor: Redacts, unit: Callable[..., T], *args: Any) -> T:
    """Open the database (creating or migrating it), run `unit(transaction, *args)`, commit, close.

    The caller holds the database lock. What the unit raises is raised, and nothing is changed then.
    """

    def write(connection: sqlite3.Connection, database: SqliteDatabase | None = None) -> T:
        # No lease is taken here, so the boot id is not needed: it is read by engines only.
        tx = Transaction(connection, clock, "", redactor, database)
        tx.begin()
        try:
            result = tx.unit(unit, *args)
        except BaseException:
            tx.roll_back()
            raise
        tx.commit()
        return result

    trouble = passing_as_trouble(f"{path} can't be written now")
    if is_new(path):
        with trouble, new_database(path) as connection:
            return write(connection)
    connection = connect_current(path)
    database = None
    if connection is None:
        from .database import open_for_writing

        database = open_for_writing(path, utc_text(clock.utc()))
        connection = database.connection()
    try:
        with trouble:
            return write(connection, database)
    finally:
        connection.close()
