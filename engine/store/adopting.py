"""A plain connection as peewee knows it, for whoever writes or migrates by models."""

from __future__ import annotations

import sqlite3

from peewee import SqliteDatabase


class _Adopted(SqliteDatabase):
    """peewee over a connection that somebody else opened and closes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._adopted = connection
        super().__init__(
            ":memory:", thread_safe=False, lock_type="IMMEDIATE"
        )  # else it would open one for each thread

    def _connect(self) -> sqlite3.Connection:
        return self._adopted


def adopt(connection: sqlite3.Connection) -> SqliteDatabase:
    """The given connection as a peewee database."""
    return _Adopted(connection)
