"""A database with as many tasks as are asked for, and a writer that changes the newest of them."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from taskdeck.engine.config import Config, load
from taskdeck.engine.rules.declarations import ResourceDeclaration
from tests.scratch import Scratch

RUNNING = 12
WAITING = 4_500
BATCH = 0.05
DONE = "'2026-11-29T12:00:00.000000Z'"


def build(folder: Path, tasks: int) -> Config:
    """`tasks` tasks: the newest run, some thousands wait, the others have ended well."""
    scratch = Scratch(folder)
    try:
        scratch.declare(*(ResourceDeclaration(f"acct-{n:02}", "accounts") for n in range(40)))
        scratch.add("fetch_orders")
        with closing(sqlite3.connect(scratch.path)) as connection:
            _multiply(connection, tasks - RUNNING)
        for _ in range(RUNNING):
            scratch.running(type_name="fetch_orders")
        with closing(sqlite3.connect(scratch.path)) as connection:
            connection.execute("UPDATE attempt SET log_path = 'of-' || task_id || '.log'")
            connection.commit()
        return load(db=scratch.path, environ={}, cwd=folder)
    finally:
        scratch.close()


def _multiply(connection: sqlite3.Connection, count: int) -> None:
    names = [row[1] for row in connection.execute("PRAGMA table_info(task)")]
    kept = [name for name in names if name not in ("id", "state", "reason", "finished_at", "idempotency_key")]
    connection.execute(
        f"WITH RECURSIVE n(i) AS (VALUES(2) UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
        f" INSERT INTO task(id, state, reason, finished_at, {', '.join(kept)})"
        f" SELECT i, iif(i > {count - WAITING}, state, 'SUCCESS'), reason,"
        f" iif(i > {count - WAITING}, NULL, {DONE}), {', '.join(kept)} FROM n JOIN task ON task.id = 1"
    )
    connection.commit()


def write_long_log(config: Config, task: int) -> str:
    """A log of ten files of 100 MB, which is one of them under ten names. Returns its last line."""
    first, last = config.log_directory / f"of-{task}.log", "the very last line"
    first.parent.mkdir(parents=True, exist_ok=True)
    line = b"11:41:31 INFO page=55 ok rows=100 elapsed=0.80s exit=jp-4\n"
    with first.open("wb") as log:
        for _ in range(100):
            log.write(line * (1_000_000 // len(line)))
        size = log.tell()
    for number in range(1, 10):
        first.with_name(f"{first.name}.{number * size:015d}").hardlink_to(first)
    first.with_name(f"{first.name}.{10 * size:015d}").write_text(f"{last}\n")
    return last


class Load:
    """Changes the newest tasks and writes to the log of the newest, so many times a second, until it is closed."""

    def __init__(self, config: Config, changes: int, lines: int) -> None:
        assert config.db is not None
        self._db = config.db
        self._changes, self._lines = round(changes * BATCH), round(lines * BATCH)
        with closing(sqlite3.connect(self._db)) as connection:
            self.newest: int = connection.execute("SELECT max(id) FROM task").fetchone()[0]
        self._log = config.log_directory / f"of-{self.newest}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Change nothing any more."""
        self._ended.set()
        self._thread.join(5)

    def _run(self) -> None:
        with closing(sqlite3.connect(self._db, isolation_level=None, timeout=5)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            batch = 0
            while not self._ended.wait(BATCH):
                batch += 1
                self._change(connection, batch)
                with self._log.open("a") as log:
                    log.writelines(
                        f"11:41:31 INFO page={batch} row={n} ok elapsed=0.82s\n" for n in range(self._lines)
                    )

    def _change(self, connection: sqlite3.Connection, batch: int) -> None:
        ids = [(self.newest - (batch * self._changes + n) % 40,) for n in range(self._changes)]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            f"UPDATE task SET progress_done = {batch % 500}, progress_total = 500,"
            f" progress_note = 'page {batch}' WHERE id = ?",
            ids,
        )
        connection.execute("COMMIT")
