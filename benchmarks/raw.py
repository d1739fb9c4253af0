"""What SQLite allows: one task's life written straight to a database, in batches, with nothing around it.

The statements that any such engine needs for a no-op task: a row and its event; a claim with a lease and its two events; the
end, the release and their event. FULL synchronous, write-ahead log, the standard library's driver. The yardstick of the
others, measured in the same run.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from time import perf_counter, time

BATCH = 100
SLOTS = 1024
PAYLOAD = json.dumps({"url": "http://127.0.0.1/", "n": 1, "note": "x" * 60})

SCHEMA = """
CREATE TABLE task(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, payload TEXT NOT NULL, state TEXT NOT NULL,
  priority INTEGER NOT NULL, due REAL NOT NULL, key TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 0, worker TEXT,
  fence INTEGER NOT NULL DEFAULT 0, lease_until REAL, started REAL, finished REAL, result TEXT);
CREATE INDEX task_ready ON task(priority, due, id) WHERE state = 'PENDING';
CREATE INDEX task_running ON task(lease_until) WHERE state = 'RUNNING';
CREATE UNIQUE INDEX task_key ON task(key) WHERE state IN ('PENDING', 'RUNNING');
CREATE TABLE slot(id INTEGER PRIMARY KEY, state TEXT NOT NULL, holder INTEGER, fence INTEGER NOT NULL DEFAULT 0, until REAL);
CREATE TABLE event(id INTEGER PRIMARY KEY, at REAL NOT NULL, task INTEGER NOT NULL, kind TEXT NOT NULL, old TEXT, new TEXT,
  reason TEXT, data TEXT);
CREATE INDEX event_task ON event(task);
"""
INSERT = "INSERT INTO task(kind, payload, state, priority, due, key) VALUES (?, ?, 'PENDING', 100, ?, ?)"
CLAIM = (
    "UPDATE task SET state = 'RUNNING', worker = ?, fence = fence + 1, attempt = attempt + 1, started = ?, lease_until = ?"
    " WHERE id IN (SELECT id FROM task WHERE state = 'PENDING' AND due <= ? ORDER BY priority, due, id LIMIT ?)"
    " RETURNING id, fence"
)
FINISH = (
    "UPDATE task SET state = 'SUCCESS', finished = ?, result = ?, lease_until = NULL"
    " WHERE id = ? AND fence = ? AND state = 'RUNNING'"
)
TAKE = "UPDATE slot SET state = 'LEASED', holder = ?, fence = fence + 1, until = ? WHERE id = ? AND state = 'AVAILABLE'"
FREE = "UPDATE slot SET state = 'AVAILABLE', holder = NULL, until = NULL WHERE id = ? AND holder = ?"
EVENT = "INSERT INTO event(at, task, kind, old, new, reason, data) VALUES (?, ?, ?, ?, ?, ?, ?)"


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -65536"):
        connection.execute(f"PRAGMA {pragma}")
    connection.executescript(SCHEMA)
    connection.executemany(
        "INSERT INTO slot(id, state) VALUES (?, 'AVAILABLE')", [(n,) for n in range(SLOTS)]
    )
    return connection


def submit(connection: sqlite3.Connection, first: int, count: int) -> None:
    """Insert tasks with their events, one transaction."""
    now = time()
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, [("noop", PAYLOAD, now, f"k{n}") for n in range(first, first + count)])
    events = [(now, n + 1, "task", None, "PENDING", "submitted", None) for n in range(first, first + count)]
    connection.executemany(EVENT, events)
    connection.execute("COMMIT")


def run(connection: sqlite3.Connection) -> int:
    """Claim a batch in one transaction and finish it in another. Returns how many there were."""
    now = time()
    connection.execute("BEGIN IMMEDIATE")
    taken = connection.execute(CLAIM, ("w", now, now + 30, now, BATCH)).fetchall()
    connection.executemany(TAKE, [(task, now + 30, task % SLOTS) for task, _ in taken])
    claims = [(now, task, "task", "PENDING", "RUNNING", "claimed", None) for task, _ in taken]
    leases = [(now, task, "lease", "AVAILABLE", "LEASED", "take", None) for task, _ in taken]
    connection.executemany(EVENT, claims + leases)
    connection.execute("COMMIT")
    now = time()
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(FINISH, [(now, "{}", task, fence) for task, fence in taken])
    connection.executemany(FREE, [(task % SLOTS, task) for task, _ in taken])
    ends = [(now, task, "task", "RUNNING", "SUCCESS", "done", None) for task, _ in taken]
    connection.executemany(EVENT, ends)
    connection.execute("COMMIT")
    return len(taken)


def rates(folder: Path, count: int) -> dict[str, float]:
    """Tasks a second of raw SQLite: `life` (all of it) and `submit` (the rows and events of new tasks alone)."""
    path = folder / "raw.db"
    connection = _opened(path)
    began = perf_counter()
    for first in range(0, count, BATCH):
        submit(connection, first, BATCH)
    submitted = perf_counter()
    done = 0
    while done < count:
        done += run(connection)
    ended = perf_counter()
    connection.close()
    for left in folder.glob("raw.db*"):
        left.unlink()
    return {"submit": count / (submitted - began), "life": count / (ended - began)}
