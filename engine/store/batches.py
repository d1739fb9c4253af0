"""Many tasks at once: those that begin for the first time, and those that end well, by one statement for all of them.

The same changes, checks and events as `tasks.transition` and `attempts` make one by one, for tasks with which nothing else
is to be done. Each row is looked at in the same transaction. What can't begin like this is left out. Where not all end that
were meant to, `IllegalTransition` is raised: the caller's savepoint takes all of it back, and they are dealt with one by one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ..errors import IllegalTransition
from ..rules.tasks import PENDING, RUNNING, SUCCESS, check
from ..rules.timing import seconds_between
from .attempts import CLOSE, OPEN
from .events import AlikeEvents
from .inserting import insert_columns
from .operations import BEGUN
from .tasks import LET_GO, Waiting, leased
from .transaction import ENGINE, Transaction

THESE = "(SELECT value FROM json_each({}))".format
"""What is in a JSON array. An UPDATE of many rows costs a third of as many UPDATEs of one."""

# The plus sign keeps the planner from going through the states to the ids instead of the other way round.
_BEGIN = (
    "UPDATE task SET state = 'RUNNING', reason = 'dispatched', attempt = attempt + 1, fence = :ahead + id,"
    " started_at = coalesce(started_at, :now), updated_at = :now{}"
    f" WHERE id IN {THESE(':these')} AND +state = 'PENDING' AND ending IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM checkpoint WHERE checkpoint.task_id = task.id) RETURNING id, payload"
)
_PLAIN = (
    "SELECT id, fence, worker_id, attempt, retry_count, started_at FROM task"
    f" WHERE id IN {THESE('?1')} AND state = 'RUNNING' AND worker_id IS NOT NULL AND wanted IS NULL AND ending IS NULL"
    " AND target = ''"
    " AND NOT EXISTS (SELECT 1 FROM request WHERE request.task_id = task.id AND done_at IS NULL)"
    f" AND NOT EXISTS (SELECT 1 FROM operation WHERE {BEGUN} AND operation.task_id = task.id)"
    " AND NOT EXISTS (SELECT 1 FROM resource_slot s WHERE s.fence = task.fence AND s.state IN ('LEASED','RUNNING'))"
    " AND NOT EXISTS (SELECT 1 FROM route_slot s WHERE s.fence = task.fence AND s.state IN ('LEASED','RUNNING')) ORDER BY id"
)
_UNTOUCHED = (
    "SELECT NOT EXISTS (SELECT 1 FROM request WHERE task_id IS NOT NULL AND done_at IS NULL)"
    f" AND NOT EXISTS (SELECT 1 FROM operation WHERE {BEGUN})"
    " AND NOT EXISTS (SELECT 1 FROM resource_slot WHERE state IN ('LEASED','RUNNING'))"
    " AND NOT EXISTS (SELECT 1 FROM route_slot WHERE state IN ('LEASED','RUNNING'))"
)
_START = f"UPDATE attempt SET started_at = coalesce(started_at, ?1) WHERE fence IN {THESE('?2')} AND ended_at IS NULL"
_COMMAND = (
    "UPDATE attempt SET command_pid = ?1, command_start_time = ?2 WHERE fence = ?3 AND ended_at IS NULL"
)
_CLOSE = f"UPDATE attempt SET started_at = coalesce(started_at, ?1), {CLOSE} WHERE"
_SUCCEED = (
    f"UPDATE task SET state = 'SUCCESS', reason = 'done', result = ?2, error = NULL, {LET_GO}, finished_at = ?1,"
    " updated_at = ?1 WHERE"
)


_STILL_PLAIN = "state = 'RUNNING' AND wanted IS NULL AND ending IS NULL AND target = ''"


class Plain(NamedTuple):
    """An attempt that lives, whose task nobody asks anything of, and that holds nothing else. None of this changes."""

    task_id: int
    fence: int
    worker_id: int
    attempt: int
    retry_count: int
    started_at: str


class Begun(NamedTuple):
    """An attempt that was just opened; `row` is its task as it waited, `payload` the JSON text of it."""

    row: Waiting
    plain: Plain
    attempt_id: int
    log_path: str
    payload: str


class Success(NamedTuple):
    """How an attempt ended well: the result is JSON text; the tail of a command's output may be None."""

    plain: Plain
    result: str
    exit_code: int | None
    tail: str | None


def begin_all(
    tx: Transaction,
    waiting: Sequence[Waiting],
    worker_id: int,
    lease: float,
    path_of: Callable[[int, int], str],
) -> list[Begun]:
    """Make those of these tasks that wait to begin from the beginning RUNNING on a worker, each with a fence and an attempt.

    `waiting` are their rows, read in this transaction (`tasks.due`). `path_of` a task and the number of its attempt is where
    the log lies. Returns those that begin, in the given order.
    """
    check(waiting[0].id, PENDING, RUNNING, "dispatched", ENGINE)
    # The fences grow with the ids, and attempts and events tell them in that order.
    in_order = sorted(waiting, key=attrgetter("id"))
    ids = [row.id for row in in_order]
    ahead, held = tx.next_fences_of(ids), leased(tx, worker_id, lease)
    sql = _BEGIN.format("".join(f", {column} = :{column}" for column in held))
    given = {**held, "ahead": ahead, "now": tx.now, "these": as_json(ids)}
    payloads = dict(tx.connection.execute(sql, given).fetchall())
    if not payloads:
        return []
    rows = [row for row in in_order if row.id in payloads]
    begun = [
        Plain(row.id, ahead + row.id, worker_id, row.attempt + 1, row.retry_count, row.started_at or tx.now)
        for row in rows
    ]
    paths = [path_of(each.task_id, each.attempt) for each in begun]
    last = _open(tx, begun, worker_id, paths)
    for number, those in groupby(begun, attrgetter("attempt")):
        tx.add([_dispatched(list(those), number, worker_id, tx.now)])
    attempts = range(last - len(begun) + 1, last + 1)  # of one statement after the other, with nobody between
    texts = [payloads[row.id] for row in rows]
    found = {each.row.id: each for each in map(Begun, rows, begun, attempts, paths, texts)}
    return [found[row.id] for row in waiting if row.id in found]


def _open(tx: Transaction, begun: Sequence[Plain], worker_id: int, paths: Sequence[str]) -> int:
    """An attempt for each. Returns the id of the last one."""
    tasks, fences, _, numbers, *_ = zip(*begun, strict=False)
    insert_columns(tx.connection, *OPEN, (tasks, numbers, worker_id, fences, 0, tx.now, paths), len(begun))
    (last,) = tx.connection.execute("SELECT last_insert_rowid()").fetchone()
    return last


def plain(tx: Transaction, claims: Collection[tuple[int, int]]) -> list[Plain]:
    """Those of these attempts (task, fence) that are plain, by task."""
    rows = tx.connection.execute(_PLAIN, (as_json(task_id for task_id, _ in claims),))
    return [Plain._make(row) for row in rows if (row[0], row[1]) in claims]


def untouched(tx: Transaction) -> bool:
    """Does nobody ask anything of any task, and does no attempt hold a resource or a route?"""
    (yes,) = tx.connection.execute(_UNTOUCHED).fetchone()
    return bool(yes)


def start_all(tx: Transaction, attempts: Collection[Plain]) -> None:
    """Their handlers were entered."""
    if attempts:
        fences = as_json(each.fence for each in attempts)
        expect(len(attempts), tx.connection.execute(_START, (tx.now, fences)))


def note_commands(tx: Transaction, commands: Sequence[tuple[int, int, int]]) -> None:
    """Their commands run: the pid, its start time (clock ticks since boot) and the fence of each."""
    rows = [(pid, start_time or None, fence) for pid, start_time, fence in commands]
    expect(len(rows), tx.connection.executemany(_COMMAND, rows))


def succeed_all(tx: Transaction, ends: Sequence[Success]) -> None:
    """Close these attempts and make their tasks SUCCESS."""
    if not ends:
        return
    check(ends[0].plain.task_id, RUNNING, SUCCESS, "done", ENGINE)
    done = tx.now, "succeeded", "done"
    silent: dict[int | None, list[int]] = {}
    told = []
    for plain, _, exit_code, tail in ends:
        if tail is None:
            silent.setdefault(exit_code, []).append(plain.fence)
        else:
            told.append((*done, exit_code, None, tail, plain.fence))
    for code, fences in silent.items():
        changed = tx.connection.execute(
            f"{_CLOSE} fence IN {THESE('?7')} AND ended_at IS NULL",
            (*done, code, None, None, as_json(fences)),
        )
        expect(len(fences), changed)
    if told:
        expect(len(told), tx.connection.executemany(f"{_CLOSE} fence = ?7 AND ended_at IS NULL", told))
    _set_success(tx, ends)
    for worker_id, those in groupby((end.plain for end in ends), attrgetter("worker_id")):
        tx.add([_succeeded(list(those), worker_id, tx.now)])
    tx.add([_finished([end.plain for end in ends], tx.now)])


def _set_success(tx: Transaction, ends: Sequence[Success]) -> None:
    empty, rows = [], []
    for end in ends:
        if end.result == "null":
            empty.append(end.plain)
        else:
            rows.append((tx.now, end.result, end.plain.task_id, end.plain.fence))
    if empty:
        these, fences = as_json(each.task_id for each in empty), as_json(each.fence for each in empty)
        sql = f"{_SUCCEED} id IN {THESE('?3')} AND {_STILL_PLAIN} AND fence IN {THESE('?4')}"
        expect(len(empty), tx.connection.execute(sql, (tx.now, "null", these, fences)))
    if rows:
        changed = tx.connection.executemany(f"{_SUCCEED} id = ?3 AND {_STILL_PLAIN} AND fence = ?4", rows)
        expect(len(rows), changed)


def _dispatched(begun: Sequence[Plain], number: int, worker_id: int, now: str) -> AlikeEvents:
    moved = f'{{"from":"PENDING","to":"RUNNING","attempt":{number},"fence":'
    rest = f',"worker":{worker_id},"resumes_at":0}}'
    payloads = [f"{moved}{each.fence}{rest}" for each in begun]
    return events(_ids(begun), worker_id, "TASK_STATE", "dispatched", f"attempt {number}", payloads, now)


def _succeeded(ended: Sequence[Plain], worker_id: int, now: str) -> AlikeEvents:
    moved = '{"from":"RUNNING","to":"SUCCESS","attempt":'
    payloads = [f'{moved}{each.attempt},"fence":{each.fence}}}' for each in ended]
    return events(_ids(ended), worker_id, "TASK_STATE", "done", "", payloads, now)


def _finished(ended: Sequence[Plain], now: str) -> AlikeEvents:
    @lru_cache(maxsize=16)
    def summary(started: str, attempt: int, retries: int) -> str:
        seconds = round(max(0.0, seconds_between(started, now)), 3)
        return f'{{"state":"SUCCESS","attempts":{attempt},"retries":{retries},"seconds":{seconds}}}'

    payloads = [summary(each.started_at, each.attempt, each.retry_count) for each in ended]
    return events(_ids(ended), None, "TASK_FINISHED", "done", "", payloads, now)


def _ids(attempts: Iterable[Plain]) -> list[int]:
    return [each.task_id for each in attempts]


def events(
    tasks: Sequence[int],
    worker_id: int | None,
    event_type: str,
    reason: str,
    message: str,
    payloads: Sequence[str],
    now: str,
    level: str = "info",
) -> AlikeEvents:
    """Events that the engine tells, one of each of these tasks; `payloads` are JSON texts."""
    rest = (None, None, worker_id, event_type, level, reason, ENGINE, message, None, now)
    return AlikeEvents(tasks, rest, payloads)


def as_json(numbers: Iterable[int]) -> str:
    """A JSON array, as `THESE` takes it."""
    return msgspec.json.encode(list(numbers)).decode()


def expect(count: int, cursor: sqlite3.Cursor) -> None:
    """Raise `IllegalTransition` unless the statement changed so many rows."""
    if cursor.rowcount != count:
        raise IllegalTransition(f"{count} rows were to change together, and {cursor.rowcount} did")
