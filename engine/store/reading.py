"""Reading the database for screens and verbs: read-only, in keyset windows, plain dicts out.

Owns all SQL that only reads. Changes nothing and creates no file: where no writer has the database open it is read as an
unchanging file, and read again if that turns out to be wrong. May be used while an engine writes; never by workers.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from peewee import SQL, ModelSelect, PeeweeException, SqliteDatabase, Tuple, fn

from ..errors import NotFound, NotPermitted, SchemaMismatch, StoreError
from ..rules.filters import EventFilter, Filter
from ..rules.retention import ArchiveRow
from . import archive_rows, events
from . import tables as t
from .backup import newer
from .conditions import event_conditions, task_conditions
from .database_file import file_mark
from .diagnosis import diagnosis, is_passing, refusal
from .events import BEFORE_ALL
from .tasks import FAMILY
from .transaction import SCHEMA_VERSION

Row = dict[str, Any]
T = TypeVar("T")

SUMMARY = 1000
"""Characters of a payload that a list reads."""

CHAIN_WINDOW = 5000
"""Audit rows read at once while the chain is checked."""

PRAGMAS = (("query_only", 1), ("busy_timeout", 10_000), ("cache_size", -8192))

_LAST_CHECKPOINT = "(SELECT c.data FROM checkpoint c WHERE c.task_id = t1.id ORDER BY c.seq DESC LIMIT 1)"
_SUMMARY = (
    f"CASE WHEN t1.type = 'shell' THEN substr(json_extract(t1.payload, '$.argv'), 1, {SUMMARY})"
    f" ELSE substr(t1.payload, 1, {SUMMARY}) END"
)
_BULKY = frozenset({"payload", "result"})


class Reader:
    """A read-only connection to one database; use it in one thread, and close it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark = file_mark(path)
        self._db, self._stamp = _connect(path)
        self._opened = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; harmless when closed."""
        self._db.close()

    def version(self) -> tuple[object, ...]:
        """A value that differs once anyone has changed the database (a few µs)."""
        if (self._stamp and self._stamp != _stamp(self.path)) or self._has_moved():
            self._reopen()
        return (self._opened, self._db.connection().execute("PRAGMA data_version").fetchone()[0])

    def tasks(
        self, wanted: Filter, *, now: str, limit: int = 0, before: int | None = None, whole: bool = False
    ) -> list[Row]:
        """The newest tasks that match, newest first, ids under `before`; `limit` 0 = all. `whole` adds bulky columns."""
        query = _task_columns(whole).where(*task_conditions(wanted, now), True).order_by(t.Task.id.desc())
        if before is not None:
            query = query.where(t.Task.id < before)
        return self._dicts(query.limit(limit) if limit else query)

    def upcoming(self, *, now: str, limit: int) -> list[Row]:
        """The waiting tasks that come next: due ones in the order of the queue, then the others by their time."""
        waiting = _task_columns(False).where(t.Task.state.in_(("PENDING", "RETRYING")))
        due = waiting.where(t.Task.next_run_at <= now)
        due = due.order_by(t.Task.effective_priority, t.Task.next_run_at, t.Task.id)
        found = self._dicts(due.limit(limit))
        if len(found) < limit:
            later = waiting.where(t.Task.next_run_at > now).order_by(t.Task.next_run_at, t.Task.id)
            found += self._dicts(later.limit(limit - len(found)))
        return found

    def task_ids(
        self,
        wanted: Filter,
        *,
        now: str,
        after: int | None = None,
        before: int | None = None,
        limit: int = 0,
        skip: int = 0,
        newest_first: bool = False,
    ) -> list[int]:
        """The ids of the tasks that match, oldest first, between `after` and `before`; `limit` 0 = all."""
        query = t.Task.select(t.Task.id).where(*task_conditions(wanted, now), *_between(after, before), True)
        query = query.order_by(t.Task.id.desc() if newest_first else t.Task.id)
        if limit:
            query = query.limit(limit).offset(skip)
        return self.ask(lambda connection: [row[0] for row in connection.execute(*query.sql())])

    def count(self, wanted: Filter, *, now: str, after: int | None = None) -> int:
        """How many tasks match, with ids over `after`."""
        query = t.Task.select().where(*task_conditions(wanted, now), *_between(after, None), True)
        return self._read(lambda: query.count(self._db))

    def states(self, ids: list[int]) -> dict[int, str]:
        """The state of each of these tasks that exists."""
        found: dict[int, str] = {}
        for start in range(0, len(ids), 500):
            query = t.Task.select(t.Task.id, t.Task.state).where(t.Task.id.in_(ids[start : start + 500]))
            found.update((row["id"], row["state"]) for row in self._dicts(query))
        return found

    def attempts(self, task_id: int) -> list[Row]:
        """All attempts of a task, first to last."""
        query = t.Attempt.select().where(t.Attempt.task_id == task_id).order_by(t.Attempt.number)
        return self._dicts(query)

    def checkpoints(self, task_id: int) -> list[Row]:
        """The kept checkpoints of a task, newest first."""
        return self._dicts(
            t.Checkpoint.select().where(t.Checkpoint.task_id == task_id).order_by(t.Checkpoint.seq.desc())
        )

    def operations(self, task_id: int) -> list[Row]:
        """The operations of a task, those that its retries and clones share with it included; first to last."""
        family = self.ask(lambda connection: connection.execute(FAMILY, (task_id,)).fetchone()[0])
        own = (t.Operation.task_id == task_id) | (t.Operation.scope == f"task:{family}")
        return self._dicts(t.Operation.select().where(own).order_by(t.Operation.id))

    def in_doubt(self) -> list[Row]:
        """Every operation in doubt, by task."""
        doubted = t.Operation.select().where(t.Operation.state == "IN_DOUBT")
        return self._dicts(doubted.order_by(t.Operation.task_id, t.Operation.id))

    def rollback_steps(self, task_id: int) -> list[Row]:
        """The undo steps that a task registered, in their order."""
        own = t.RollbackStep.task_id == task_id
        return self._dicts(t.RollbackStep.select().where(own).order_by(t.RollbackStep.number))

    def workers(self, *, ended: int = 0) -> list[Row]:
        """Workers that live, and the last `ended` that don't; oldest first."""
        live = self._dicts(t.Worker.select().where(t.Worker.ended_at.is_null()).order_by(t.Worker.id))
        if not ended:
            return live
        gone = t.Worker.select().where(t.Worker.ended_at.is_null(False)).order_by(t.Worker.id.desc())
        return [*reversed(self._dicts(gone.limit(ended))), *live]

    def running_attempts(self) -> list[Row]:
        """Task, number and worker of each attempt that has not ended, with its task's type and whether it is suspect."""
        query = t.Attempt.select(
            t.Attempt.task_id, t.Attempt.number, t.Attempt.worker_id, t.Task.type, t.Task.suspect
        )
        query = query.join(t.Task, on=(t.Attempt.task_id == t.Task.id)).where(t.Attempt.ended_at.is_null())
        return self._dicts(query.order_by(t.Attempt.id))

    def ahead(self, task: Row, *, now: str) -> int:
        """How many due tasks come before this waiting one."""
        due = t.Task.state.in_(("PENDING", "RETRYING")) & (t.Task.next_run_at <= now)
        order = Tuple(t.Task.effective_priority, t.Task.next_run_at, t.Task.id)
        place = Tuple(task["effective_priority"], task["next_run_at"], task["id"])
        return self._read(lambda: t.Task.select().where(due, order < place).count(self._db))

    def events(self, wanted: EventFilter, *, now: str, after: int = 0, limit: int = 0) -> list[Row]:
        """The newest events that match with ids over `after`, oldest first; `limit` 0 = all."""
        query = t.Event.select().where(t.Event.event_id > after, *event_conditions(wanted, now))
        query = query.order_by(t.Event.event_id.desc())
        return self._dicts(query.limit(limit) if limit else query)[::-1]

    def counts(self) -> dict[str, int]:
        """How many tasks are in each state that has any."""
        query = t.Task.select(t.Task.state, fn.COUNT(SQL("*")).alias("n")).group_by(t.Task.state)
        return {row["state"]: row["n"] for row in self._dicts(query)}

    def engine(self) -> Row | None:
        """The last engine that started on this database."""
        rows = self._dicts(t.Engine.select().order_by(t.Engine.id.desc()).limit(1))
        return rows[0] if rows else None

    def holds(self) -> list[Row]:
        """What is held, and by whom."""
        return self._dicts(t.Hold.select().order_by(t.Hold.scope))

    def paused_by_holds(self) -> dict[int, str]:
        """Tasks that a hold has paused → its scope."""
        query = t.HoldTask.select(t.HoldTask.task_id, t.HoldTask.scope)
        return {row["task_id"]: row["scope"] for row in self._dicts(query)}

    def leftovers(self) -> list[Row]:
        """Processes that could not be ended and are not known to be gone."""
        return self._dicts(t.Leftover.select().where(t.Leftover.gone_at.is_null()).order_by(t.Leftover.id))

    def types(self) -> list[Row]:
        """The handler types as the last worker published them."""
        return self._dicts(t.TaskType.select().order_by(t.TaskType.name))

    def head(self) -> tuple[int, int, str]:
        """The recorded end of the audit chain: last event id, number of events, hash."""
        query = t.EventHead.select(t.EventHead.event_id, t.EventHead.count, t.EventHead.hash)
        rows = self._read(lambda: list(query.tuples().execute(self._db)))
        return rows[0] if rows else (0, 0, "")

    def last_event(self) -> int:
        """The id of the newest row of the audit, 0 for none."""
        return self._read(lambda: t.Event.select(fn.MAX(t.Event.event_id)).scalar(self._db)) or 0

    def archives(self) -> list[ArchiveRow]:
        """The archives on record, those of events by their range."""
        return self.ask(archive_rows.all_archives)

    def archived(self, task_id: int) -> Row | None:
        """What is remembered of a task that was archived; see `archive_rows.where_is`."""
        return self.ask(lambda connection: archive_rows.where_is(connection, task_id))

    def chain(self, last: int, after: int = BEFORE_ALL) -> Iterator[tuple[Any, ...]]:
        """Audit rows up to event `last`, all columns in table order, in windows; constant memory."""
        while rows := self.ask(
            lambda connection, after=after: events.window(connection, after, last, CHAIN_WINDOW)
        ):
            yield from rows
            after = rows[-1][0]

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """The answer to a question that needs the connection itself; asked again where a writer came in between."""
        return self._read(lambda: question(self._db.connection()))

    def _dicts(self, query: ModelSelect[Any]) -> list[Row]:
        return self._read(lambda: list(query.dicts().execute(self._db)))

    def _read(self, ask: Callable[[], T]) -> T:
        try:
            found = ask()
            if self._stamp is None or self._stamp == _stamp(self.path):
                return found
        except (sqlite3.Error, PeeweeException) as error:
            if self._stamp is None or self._stamp == _stamp(self.path):
                raise _unreadable(self.path, error) from error
        self._reopen()  # someone opened it for writing under our eyes: ask again, with locks this time
        return self._read(ask)

    def _has_moved(self) -> bool:
        """Does the name lead to another file by now? While it leads nowhere, what is open is read on."""
        found = file_mark(self.path)
        return found is not None and found != self._mark

    def _reopen(self) -> None:
        self._db.close()
        self._mark = file_mark(self.path)
        self._db, self._stamp = _connect(self.path)
        self._opened += 1


Stamp = tuple[int, int, int]


def _connect(path: Path) -> tuple[SqliteDatabase, Stamp | None]:
    """Open `path`; the stamp is given where it is read as an unchanging file (no writer has it open)."""
    try:
        stamp = _stamp(path)
    except FileNotFoundError:
        raise NotFound(
            f"there is no database at {path}", remedy="`taskdeck add -- COMMAND` makes one"
        ) from None
    except OSError as error:
        raise NotPermitted(f"{path} can't be read", error.strerror or "", "ask as its owner") from error
    mode = "mode=ro" if stamp is None else "mode=ro&immutable=1"
    database = SqliteDatabase(
        f"file:{quote(str(path.absolute()))}?{mode}",
        uri=True,
        pragmas=PRAGMAS,
        cached_statements=256,
        timeout=10,
    )
    try:
        database.connect()
        _check_schema(database, path)
    except StoreError:
        database.close()
        raise
    except (sqlite3.Error, PeeweeException) as error:
        database.close()
        raise _unreadable(path, error) from error
    return database, stamp


def _stamp(path: Path) -> Stamp | None:
    """What identifies the file's content while no write-ahead log lies beside it, or an empty one; None where one does."""
    found = os.stat(path)
    if _holds_something(f"{path}-wal") or os.path.exists(f"{path}-journal"):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _holds_something(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False


def _check_schema(database: SqliteDatabase, path: Path) -> None:
    version = database.connection().execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        raise StoreError(f"{path} is not a database of taskdeck", remedy="name another file with --db")
    if version > SCHEMA_VERSION:
        raise newer(path, database.connection())
    if version < SCHEMA_VERSION:
        raise SchemaMismatch(
            f"{path} has schema {version}, this taskdeck reads schema {SCHEMA_VERSION}",
            "it was written by an older taskdeck",
            "start the engine once: `taskdeck run` migrates it",
        )


def _unreadable(path: Path, error: Exception) -> StoreError | NotPermitted:
    if not os.access(path, os.R_OK):
        return NotPermitted(f"{path} can't be read", "no permission", "ask as its owner")
    if is_passing(error):
        return refusal(diagnosis(error), f"{path} can't be read now")
    return StoreError(
        f"{path} can't be read as a taskdeck database", str(error), "check the path, or restore a backup"
    )


def _between(after: int | None, before: int | None) -> list[Any]:
    over = [] if after is None else [t.Task.id > after]
    return over if before is None else [*over, t.Task.id < before]


def _task_columns(whole: bool) -> ModelSelect[Any]:
    fields = [field for field in t.Task._meta.sorted_fields if whole or field.name not in _BULKY]  # pyright: ignore
    more = [SQL(_SUMMARY).alias("summary")]
    if whole:
        more.append(SQL(_LAST_CHECKPOINT).alias("checkpoint"))
    return t.Task.select(*fields, *more)
