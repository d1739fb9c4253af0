"""Reading the database for screens and verbs: read-only, in keyset windows, plain dicts out.

Owns all SQL that only reads, as constant text on a plain connection: peewee would cost a quick verb as much as Python itself.
May be used while an engine writes; never by workers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from ..rules.filters import EventFilter, Filter
from ..rules.retention import ArchiveRow
from . import archive_rows, events
from .conditions import Condition, both, branches, event_conditions, task_conditions
from .database_file import file_mark
from .events import BEFORE_ALL
from .read_only import open_read_only, stamp, unreadable
from .tasks import BY_DUE, BY_LANE, DATED_ROWS, FAMILY, LANES, WAITING_ROWS, type_of_lane
from .transaction import marks

Row = dict[str, Any]
T = TypeVar("T")

SUMMARY = 1000
"""Characters of a payload that a list reads."""

CHAIN_WINDOW = 5000
"""Audit rows read at once while the chain is checked."""

_BULKY = frozenset({"payload", "result"})
_LAST_CHECKPOINT = (
    "(SELECT c.data FROM checkpoint c WHERE c.task_id = t1.id ORDER BY c.seq DESC LIMIT 1) AS checkpoint"
)
_SUMMARY = (
    f"CASE WHEN t1.type = 'shell' THEN substr(json_extract(t1.payload, '$.argv'), 1, {SUMMARY})"
    f" ELSE substr(t1.payload, 1, {SUMMARY}) END AS summary"
)
_ATTEMPT_STARTED = (
    "CASE WHEN t1.state = 'RUNNING' THEN (SELECT coalesce(a.started_at, a.dispatched_at) FROM attempt a"
    " WHERE a.task_id = t1.id AND a.number = t1.attempt) END AS attempt_started_at"
)
_RUNNING = (
    "SELECT a.task_id, a.number, a.worker_id, t.type, t.suspect FROM attempt a INDEXED BY attempt_live"
    " JOIN task t ON t.id = a.task_id WHERE a.ended_at IS NULL ORDER BY a.id"
)


class Reader:
    """A read-only connection to one database; use it in one thread, and close it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark = file_mark(path)
        self._connection, self._stamp = open_read_only(path)
        self._opened = 1
        self._columns: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; harmless when closed."""
        self._connection.close()

    def version(self) -> tuple[object, ...]:
        """A value that differs once anyone has changed the database (a few µs)."""
        if (self._stamp and self._stamp != stamp(self.path)) or self._has_moved():
            self._reopen()
        return (self._opened, self._connection.execute("PRAGMA data_version").fetchone()[0])

    # ---- tasks ---------------------------------------------------------------------------------------------------

    def tasks(
        self, wanted: Filter, *, now: str, limit: int = 0, before: int | None = None, whole: bool = False
    ) -> list[Row]:
        """The newest tasks that match, newest first, ids under `before`; `limit` 0 = all. `whole` adds bulky columns."""
        query = _union(self._task_columns(whole), wanted, now, before=before)
        return self._rows(f"{query.text} ORDER BY 1 DESC{_at_most(limit)}", *query.args)

    def upcoming(self, *, now: str, limit: int) -> list[Row]:
        """The waiting tasks that come next: due ones in the order of the queue, then the others by their time."""
        columns = self._task_columns(False)
        found: list[Row] = []
        for lane in self._rows(LANES):
            sql = (
                f"SELECT {columns} FROM {BY_LANE.format('t1')} WHERE lane = ? AND {WAITING_ROWS} AND next_run_at <= ?"
                " ORDER BY effective_priority, next_run_at, id LIMIT ?"
            )
            found += self._rows(sql, lane["lane"], now, limit)
        found = sorted(found, key=_place)[:limit]
        if len(found) < limit:
            later = (
                f"SELECT {columns} FROM {BY_DUE.format('t1')} WHERE {DATED_ROWS} AND next_run_at > ?"
                " ORDER BY next_run_at, id LIMIT ?"
            )
            found += self._rows(later, now, limit - len(found))
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
        query = _union("t1.id", wanted, now, after=after, before=before)
        sql = f"{query.text} ORDER BY 1{' DESC' if newest_first else ''}{_at_most(limit, skip)}"
        return [row[0] for row in self._tuples(sql, *query.args)]

    def count(self, wanted: Filter, *, now: str, after: int | None = None) -> int:
        """How many tasks match, with ids over `after`."""
        which = _chosen(wanted, now, after=after)
        return self._value(f"SELECT count(*) FROM task t1 WHERE {which.text}", *which.args)

    def states(self, ids: list[int]) -> dict[int, str]:
        """The state of each of these tasks that exists."""
        found: dict[int, str] = {}
        for start in range(0, len(ids), 500):
            some = ids[start : start + 500]
            found.update(self._tuples(f"SELECT id, state FROM task WHERE id IN ({marks(len(some))})", *some))
        return found

    def counts(self) -> dict[str, int]:
        """How many tasks are in each state that has any."""
        return dict(self._tuples("SELECT state, count(*) FROM task GROUP BY state"))

    def ahead(self, task: Row, *, now: str) -> int:
        """How many due tasks come before this waiting one."""
        place = _place(task)
        sql = (
            f"SELECT count(*) FROM {BY_LANE.format('t1')} WHERE lane = ? AND {WAITING_ROWS} AND next_run_at <= ?"
            " AND (effective_priority, next_run_at, id) < (?, ?, ?)"
        )
        return sum(self._value(sql, lane["lane"], now, *place) for lane in self._rows(LANES))

    # ---- what a task has on record -------------------------------------------------------------------------------

    def attempts(self, task_id: int) -> list[Row]:
        """All attempts of a task, first to last."""
        return self._rows("SELECT * FROM attempt WHERE task_id = ? ORDER BY number", task_id)

    def checkpoints(self, task_id: int) -> list[Row]:
        """The kept checkpoints of a task, newest first."""
        return self._rows("SELECT * FROM checkpoint WHERE task_id = ? ORDER BY seq DESC", task_id)

    def operations(self, task_id: int) -> list[Row]:
        """The operations of a task, those that its retries and clones share with it included; first to last."""
        scope = f"task:{self._value(FAMILY, task_id)}"
        return self._rows(
            "SELECT * FROM operation WHERE task_id = ? OR scope = ? ORDER BY id", task_id, scope
        )

    def in_doubt(self) -> list[Row]:
        """Every operation in doubt, by task."""
        return self._rows(
            "SELECT * FROM operation INDEXED BY operation_open WHERE state IN ('BEGUN','IN_DOUBT')"
            " AND state = 'IN_DOUBT' ORDER BY task_id, id"
        )

    def rollback_steps(self, task_id: int) -> list[Row]:
        """The undo steps that a task registered, in their order."""
        return self._rows("SELECT * FROM rollback_step WHERE task_id = ? ORDER BY number", task_id)

    def running_attempts(self) -> list[Row]:
        """Task, number and worker of each attempt that has not ended, with its task's type and whether it is suspect."""
        return self._rows(_RUNNING)

    # ---- processes, holds, types ---------------------------------------------------------------------------------

    def workers(self, *, ended: int = 0) -> list[Row]:
        """Workers that live, and the last `ended` that don't; oldest first."""
        live = self._rows("SELECT * FROM worker WHERE ended_at IS NULL ORDER BY id")
        if not ended:
            return live
        gone = self._rows("SELECT * FROM worker WHERE ended_at IS NOT NULL ORDER BY id DESC LIMIT ?", ended)
        return [*reversed(gone), *live]

    def engine(self) -> Row | None:
        """The last engine that started on this database."""
        return next(iter(self._rows("SELECT * FROM engine ORDER BY id DESC LIMIT 1")), None)

    def holds(self) -> list[Row]:
        """What is held, and by whom."""
        return self._rows("SELECT * FROM hold ORDER BY scope")

    def alerts(self) -> list[Row]:
        """The alerts that stand, the oldest first."""
        return self._rows(
            "SELECT reason, subject, message, since FROM standing_alert ORDER BY since, reason, subject"
        )

    def paused_by_holds(self) -> dict[int, str]:
        """Tasks that a hold has paused → its scope."""
        return dict(self._tuples("SELECT task_id, scope FROM hold_task"))

    def leftovers(self) -> list[Row]:
        """Processes that could not be ended and are not known to be gone."""
        return self._rows("SELECT * FROM leftover WHERE gone_at IS NULL ORDER BY id")

    def waiting_types(self) -> list[str]:
        """The types that have waiting tasks, by name."""
        return sorted({type_of_lane(row["lane"]) for row in self._rows(LANES)})

    def types(self) -> list[Row]:
        """The handler types as the last worker published them."""
        return self._rows("SELECT * FROM task_type ORDER BY name")

    # ---- the audit -----------------------------------------------------------------------------------------------

    def events(self, wanted: EventFilter, *, now: str, after: int = 0, limit: int = 0) -> list[Row]:
        """The newest events that match with ids over `after`, oldest first; `limit` 0 = all."""
        which = both([Condition("t1.event_id > ?", (after,)), *event_conditions(wanted, now)])
        sql = f"SELECT * FROM event_log t1 WHERE {which.text} ORDER BY t1.event_id DESC{_at_most(limit)}"
        return self._rows(sql, *which.args)[::-1]

    def head(self) -> tuple[int, int, str]:
        """The recorded end of the audit chain: last event id, number of events, hash."""
        rows = self._tuples("SELECT event_id, count, hash FROM event_head")
        return rows[0] if rows else (0, 0, "")

    def last_event(self) -> int:
        """The id of the newest row of the audit, 0 for none."""
        return self._value("SELECT max(event_id) FROM event_log") or 0

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

    # ---- asking --------------------------------------------------------------------------------------------------

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """The answer to a question that needs the connection itself; asked again where a writer came in between."""
        try:
            found = question(self._connection)
            if self._stamp is None or self._stamp == stamp(self.path):
                return found
        except sqlite3.Error as error:
            if self._stamp is None or self._stamp == stamp(self.path):
                raise unreadable(self.path, error) from error
        self._reopen()  # someone opened it for writing under our eyes: ask again, with locks this time
        return self.ask(question)

    def _rows(self, sql: str, *args: Any) -> list[Row]:
        def question(connection: sqlite3.Connection) -> list[Row]:
            cursor = connection.execute(sql, args)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

        return self.ask(question)

    def _tuples(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return self.ask(lambda connection: connection.execute(sql, args).fetchall())

    def _value(self, sql: str, *args: Any) -> Any:
        return self._tuples(sql, *args)[0][0]

    def _task_columns(self, whole: bool) -> str:
        if not self._columns:
            self._columns = tuple(row["name"] for row in self._rows("PRAGMA table_info(task)"))
        names = [f"t1.{name}" for name in self._columns if whole or name not in _BULKY]
        return ", ".join([*names, _SUMMARY, _ATTEMPT_STARTED, *([_LAST_CHECKPOINT] if whole else [])])

    def _has_moved(self) -> bool:
        """Does the name lead to another file by now? While it leads nowhere, what is open is read on."""
        found = file_mark(self.path)
        return found is not None and found != self._mark

    def _reopen(self) -> None:
        self._connection.close()
        self._mark = file_mark(self.path)
        self._connection, self._stamp = open_read_only(self.path)
        self._opened += 1


def _place(task: Row) -> tuple[int, str, int]:
    """Where a task stands in the queue."""
    return task["effective_priority"], task["next_run_at"], task["id"]


def _chosen(wanted: Filter, now: str, *, after: int | None = None, before: int | None = None) -> Condition:
    return both([*task_conditions(wanted, now), *_between(after, before)])


def _union(columns: str, wanted: Filter, now: str, **between: int | None) -> Condition:
    """The matching tasks, still without an order: SQLite merges the branches as it reads them."""
    parts = [_chosen(each, now, **between) for each in branches(wanted)]
    text = " UNION ALL ".join(f"SELECT {columns} FROM task t1 WHERE {part.text}" for part in parts)
    return Condition(text, tuple(arg for part in parts for arg in part.args))


def _between(after: int | None, before: int | None) -> Iterable[Condition]:
    if after is not None:
        yield Condition("t1.id > ?", (after,))
    if before is not None:
        yield Condition("t1.id < ?", (before,))


def _at_most(limit: int, skip: int = 0) -> str:
    return f" LIMIT {limit:d} OFFSET {skip:d}" if limit else ""
