"""A real database in a scratch folder, moved by hand: what the tests of store and run share.

Factories name only what matters to the test; everything else has a plain default.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.config import Config
from taskdeck.engine.rules.declarations import ResourceDeclaration, RouteDeclaration
from taskdeck.engine.rules.new_task import new_task
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.tasks import TaskState
from taskdeck.engine.rules.timing import utc_text
from taskdeck.engine.run.inventory import take_inventory
from taskdeck.engine.run.policies import Policies
from taskdeck.engine.store import attempts, processes, tasks
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.transaction import Transaction
from tests.blank import put_blank

T = TypeVar("T")
ANN = "cli:ann"


class Scratch:
    """One database, one manual clock. `do(unit, *args)` runs a unit in a committed transaction of its own."""

    def __init__(self, folder: Path, *, secrets: tuple[str, ...] = (), config: Config | None = None) -> None:
        self.path = folder / "taskdeck.db"
        self.clock = ManualClock()
        self._reader: sqlite3.Connection | None = None
        self.config = config or Config()
        self.policies = Policies(self.config)
        put_blank(self.path)
        self.database = open_for_writing(self.path, utc_text(self.clock.utc()))
        # No machine loses its power here: what a commit waits for the disk is most of the time of a small test.
        self.database.connection().execute("PRAGMA synchronous = OFF")
        self.tx = Transaction(
            self.database.connection(), self.clock, "this-boot", Redactor(secrets), self.database
        )
        self.engine_id = self.do(self._engine)

    def close(self) -> None:
        """Close the connections; the file stays."""
        if self._reader is not None:
            self._reader.close()
        self.database.close()

    def do(self, unit: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run and commit one unit; what it raises is raised, and nothing of it is kept."""
        self.tx.begin()
        try:
            result = self.tx.unit(lambda tx: unit(tx, *args, **kwargs))
        except BaseException:
            self.tx.roll_back()
            raise
        self.tx.commit()
        return result

    def _engine(self, tx: Transaction) -> int:
        return processes.add_engine(
            tx, incarnation="e1", pid=1, start_time=1, boot_id="this-boot", host="here", code_version="0"
        )

    def worker(self, incarnation: str = "w1", pid: int = 100) -> int:
        """A worker row. Returns its id."""
        return self.do(
            processes.add_worker,
            incarnation=incarnation,
            engine_id=self.engine_id,
            pid=pid,
            start_time=7,
            boot_id="this-boot",
            host="here",
            code_version="0",
        )

    def add(self, type_name: str = "fetch", **fields: Any) -> int:
        """A PENDING task. Returns its id."""
        return self.do(tasks.create, new_task(type_name, fields.pop("payload", "{}"), **fields), ANN)[0]

    def start(self, task_id: int, worker_id: int, lease: float = 300.0) -> dict[str, Any]:
        """Claim a waiting task for a worker and open its attempt. Returns its new row."""

        def unit(tx: Transaction) -> dict[str, Any]:
            seen = tasks.get(tx, task_id)["state"]
            task = tasks.claim(
                tx, tasks.Claim(task_id, seen, worker_id), tasks.get(tx, task_id), lease, resumes_at=0
            )
            attempts.open_attempt(tx, task, None)
            attempts.mark_started(tx, task["fence"], 0)
            return task

        return self.do(unit)

    def declare(self, *declared: ResourceDeclaration | RouteDeclaration) -> None:
        """Resources and routes as the configuration would declare them."""
        self.config = msgspec.structs.replace(
            self.config,
            resources=tuple(each for each in declared if isinstance(each, ResourceDeclaration)),
            routes=tuple(each for each in declared if isinstance(each, RouteDeclaration)),
        )
        self.policies.config = self.config
        self.do(take_inventory, self.config)

    def slots(self, table: str = "resource") -> dict[str, str]:
        """The state of each slot, by `id` or `id/number`."""
        rows = self.query(
            f"SELECT {table}_id, number, state, capacity FROM {table}_slot JOIN {table} USING ({table}_id)"
        )
        return {
            name if capacity == 1 else f"{name}/{number}": state for name, number, state, capacity in rows
        }

    def running(self, **fields: Any) -> dict[str, Any]:
        """A task that runs on a worker of its own."""
        worker_id = self.worker(f"w-{self.one('SELECT count(*) FROM worker')}")
        return self.start(self.add(**fields), worker_id)

    def row(self, task_id: int) -> dict[str, Any]:
        """The task's row as it is now."""
        return self.do(tasks.get, task_id)

    def state(self, task_id: int) -> TaskState:
        """The task's state as it is now."""
        return self.row(task_id)["state"]

    def one(self, sql: str, *args: Any) -> Any:
        """The first column of the first row of a query."""
        return self.query(sql, *args)[0][0]

    def query(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """All rows of a query, read over a connection that nothing else uses."""
        if self._reader is None:
            self._reader = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        return self._reader.execute(sql, args).fetchall()

    def events(self, task_id: int | None = None) -> list[tuple[str, str | None]]:
        """(event_type, reason) of all events, or of one task's, in order."""
        where = "" if task_id is None else f" WHERE task_id = {task_id}"
        return self.query(f"SELECT event_type, reason FROM event_log{where} ORDER BY event_id")
