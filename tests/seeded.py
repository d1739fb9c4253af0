"""A real database with what a test names, written through the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.rules.new_task import new_task
from taskdeck.engine.store import tasks
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.transaction import Transaction
from tests.blank import put_blank


class Plain:
    """A redactor for tests in which nothing is secret."""

    def text(self, text: str) -> str:
        return text

    def value(self, value: Any) -> Any:
        return value

    def find(self, value: Any) -> list[Any]:
        return []

    def learn(self, secret: str) -> None:
        pass


class Seed:
    """Writes rows; every method is one committed transaction."""

    def __init__(self, path: Path, clock: ManualClock | None = None) -> None:
        self.path = path
        self.clock = clock or ManualClock()
        put_blank(path)
        self.database = open_for_writing(path, "2026-11-29T12:00:00.000000Z")
        self.tx = Transaction(self.database.connection(), self.clock, "boot", Plain(), self.database)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        self.tx.begin()
        yield self.tx
        self.tx.commit()

    def sql(self, text: str, *args: Any) -> None:
        self.database.connection().execute(text, args)

    def task(
        self, type: str = "shell", payload: Any = None, *, tags: list[str] | None = None, **columns: Any
    ) -> int:
        """A task; `columns` that only later changes may set are written as they are."""
        payload = {"argv": ["true"]} if payload is None else payload
        new = new_task(
            type,
            json.dumps(payload, ensure_ascii=False),
            tags=json.dumps(tags or []),
            key=columns.pop("key", None),
        )
        with self.writing() as tx:
            task_id, _ = tasks.create(tx, new, "cli:test")
            if columns:
                names = ", ".join(f"{name} = ?" for name in columns)
                tx.connection.execute(f"UPDATE task SET {names} WHERE id = ?", (*columns.values(), task_id))
        return task_id

    def worker(self) -> int:
        with self.writing() as tx:
            tx.connection.execute(
                "INSERT INTO engine(incarnation, pid, start_time, boot_id, host, code_version, started_at)"
                " VALUES (hex(randomblob(8)), 10, 1, 'boot', 'host', '0.1.0', ?)",
                (tx.now,),
            )
            cursor = tx.connection.execute(
                "INSERT INTO worker(incarnation, engine_id, pid, start_time, boot_id, host, code_version, state,"
                " started_at) VALUES (hex(randomblob(8)), last_insert_rowid(), 11, 1, 'boot', 'host', '0.1.0',"
                " 'READY', ?)",
                (tx.now,),
            )
        assert cursor.lastrowid
        return cursor.lastrowid

    def running(self, worker: int, *, log_path: str | None = None, **columns: Any) -> int:
        task_id = self.task(
            state="RUNNING", reason="dispatched", worker_id=worker, lease_until_boot=1e9, attempt=1, **columns
        )
        with self.writing() as tx:
            fence = tx.next_fences(1)[0]
            tx.connection.execute(
                "INSERT INTO attempt(task_id, number, worker_id, fence, dispatched_at, started_at, log_path)"
                " VALUES (?, 1, ?, ?, ?, ?, ?)",
                (task_id, worker, fence, tx.now, tx.now, log_path),
            )
        return task_id

    def third_attempt(self, worker: int) -> int:
        """A command whose third attempt began at 12:00; the first one began four minutes earlier, both failed."""
        task_id = self.running(
            worker,
            payload={"argv": ["sh", "-c", "sleep 2; exit 1"]},
            started_at="2026-11-29T11:56:00.000000Z",
            error='{"kind": "exit", "message": "it failed with exit code 1"}',
        )
        self.sql("UPDATE attempt SET number = 3 WHERE task_id = ?", task_id)
        self.sql("UPDATE task SET attempt = 3, retry_count = 2 WHERE id = ?", task_id)
        return task_id

    def close(self) -> None:
        self.database.close()
