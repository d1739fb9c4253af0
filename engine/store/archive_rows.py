"""What the database remembers of its archives and of the tasks in them. Free of peewee: the quick verbs pass here."""

from __future__ import annotations

import sqlite3
from typing import Any

from ..rules.retention import ArchiveRow, row_of


def last_archive(connection: sqlite3.Connection) -> ArchiveRow | None:
    """The archive of the newest archived events."""
    found = all_archives(connection, "kind = 'events' ORDER BY last DESC LIMIT 1")
    return found[0] if found else None


def all_archives(
    connection: sqlite3.Connection, which: str = "1 ORDER BY kind, first, id"
) -> list[ArchiveRow]:
    """The archives on record."""
    cursor = connection.execute(f"SELECT * FROM archive WHERE {which}")
    names = [each[0] for each in cursor.description]
    return [row_of(dict(zip(names, row, strict=True))) for row in cursor]


def where_is(connection: sqlite3.Connection, task_id: int) -> dict[str, Any] | None:
    """What is remembered of an archived task: type, state, file, and when it was archived."""
    cursor = connection.execute(
        "SELECT a.type, a.state, archive.file, archive.created_at FROM archived_task a"
        " JOIN archive ON archive.id = a.archive_id WHERE a.task_id = ?",
        (task_id,),
    )
    names = [each[0] for each in cursor.description]
    row = cursor.fetchone()
    return dict(zip(names, row, strict=True)) if row else None
