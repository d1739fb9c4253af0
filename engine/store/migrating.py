"""How a schema becomes the newest one. Loads peewee and its runner, which takes 50 ms."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from peewee import DatabaseError
from playhouse.migrations import Runner

from ..errors import StoreError
from .adopting import adopt
from .transaction import SCHEMA_VERSION

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(connection: sqlite3.Connection) -> None:
    """All migrations that are missing, in one transaction: a crash leaves the old schema or the new one, nothing between.

    Raises `sqlite3.DatabaseError`.
    """
    database = adopt(connection)
    connection.execute("PRAGMA foreign_keys = 0")  # a table that is built anew is missing for a moment
    try:
        with database.atomic("IMMEDIATE"):
            Runner(database, str(MIGRATIONS)).up()
            broken = connection.execute("PRAGMA foreign_key_check").fetchmany(3)
            if broken:
                raise StoreError(
                    "the migration would leave broken references", str(broken), "nothing was changed"
                )
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except DatabaseError as error:  # nobody else need know that peewee has errors of its own
        raise sqlite3.DatabaseError(str(error.args[-1])) from error
    finally:
        connection.execute("PRAGMA foreign_keys = 1")
