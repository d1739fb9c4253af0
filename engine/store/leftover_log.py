"""A write-ahead log that lies beside a database nobody has open: left by a crash, or another database's, put there by hand.

SQLite would take over either without a question, and a stranger's pages destroy the database. So both are looked at together
first, with nothing written; what does not fit is named and left as it is.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from ..errors import StoreError

WHOLE_UP_TO = 256 * 1024 * 1024
"""A database of up to so many bytes is checked as a whole (under a second); of a larger one only the ends of the audit."""


def refuse_foreign_log(path: Path) -> None:
    """Raise `StoreError` where the log beside the database at `path` can't be its own."""
    log = Path(f"{path}-wal")
    try:
        if not log.stat().st_size or not path.stat().st_size:
            return
    except FileNotFoundError:
        return
    fault = _damage(path, TOGETHER) or _other_story(path)
    if not fault:
        return
    if damage := _damage(path, ALONE):
        raise StoreError(
            f"{path} is damaged", f"{damage}; with {log.name}: {fault}", "restore a backup; keep both files"
        )
    raise StoreError(
        f"{log} does not belong to {path}",
        f"with it {fault}, and without it the database is sound",
        f"copy both files, then move the log away: mv {log} {log}.foreign",
    )


TOGETHER, ALONE = "mode=ro", "mode=ro&immutable=1"
"""Ways to look: with the log, and as if there were none."""


def _damage(path: Path, way: str) -> str:
    """What is broken in what this way shows; empty where nothing is."""
    try:
        with _look(path, way) as connection:
            if path.stat().st_size <= WHOLE_UP_TO:
                (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                if found != "ok":
                    return f"it is malformed: {found}".replace("\n", "; ")
            head = _head(connection)
            last = connection.execute(
                "SELECT event_id, hash FROM event_log ORDER BY event_id DESC LIMIT 1"
            ).fetchone()
            if head and last != head:
                return f"the audit ends with event {last[0] if last else 0} and should with {head[0]}"
    except sqlite3.DatabaseError as error:
        return "" if "no such table" in str(error) else f"it is malformed: {error}"
    return ""


def _other_story(path: Path) -> str:
    """A log only adds: what the database holds without it must stand in the audit with it, word for word."""
    try:
        with _look(path, ALONE) as connection:
            head = _head(connection)
    except sqlite3.DatabaseError:
        return ""  # a crash in the middle of taking the log over: without it the file need not be sound
    if head is None:
        return ""
    with _look(path, TOGETHER) as connection:
        (first,) = connection.execute("SELECT min(event_id) FROM event_log").fetchone()
        found = connection.execute("SELECT hash FROM event_log WHERE event_id = ?", head[:1]).fetchone()
    if first is None or (found is None and head[0] >= first) or (found is not None and found[0] != head[1]):
        return f"event {head[0]} is another one"
    return ""


def _head(connection: sqlite3.Connection) -> tuple[int, str] | None:
    found = connection.execute("SELECT event_id, hash FROM event_head").fetchone()
    return found if found and found[0] else None


@contextmanager
def _look(path: Path, way: str) -> Iterator[sqlite3.Connection]:
    uri = f"file:{quote(os.fspath(path.absolute()))}?{way}"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        connection.execute("PRAGMA query_only = 1")
        yield connection
