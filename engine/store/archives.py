"""What retention asks of the tables and takes out of them. Which files are written, and when, is decided in `run.pruning`.

Tasks go by families: a task with its retries and clones, since they share their operations. A family goes only when every one
of it has ended long enough ago, waits for nobody and is in no doubt; else all of it stays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import Unavailable
from ..rules.filters import Filter
from ..rules.retention import ArchiveRow, as_ranges, of_ranges
from .archive_rows import last_archive
from .conditions import both, task_conditions
from .transaction import Transaction

_SETTLED = (
    "task.state IN ('SUCCESS','FAILED','DEAD','CANCELLED') AND task.ending IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM operation o WHERE o.task_id = task.id AND o.state IN ('BEGUN','IN_DOUBT'))"
    " AND NOT EXISTS (SELECT 1 FROM request r WHERE r.task_id = task.id AND r.done_at IS NULL)"
    " AND NOT EXISTS (SELECT 1 FROM hold_task h WHERE h.task_id = task.id)"
    " AND NOT EXISTS (SELECT 1 FROM leftover l WHERE l.task_id = task.id AND l.gone_at IS NULL)"
)
# An operation of a named scope is remembered for other tasks too: without it they would do it again.
_PRIVATE = "NOT EXISTS (SELECT 1 FROM operation o WHERE o.task_id = task.id AND o.scope NOT LIKE 'task:%')"
_LINKED = (
    "(task.parent_id IS NOT NULL OR task.id IN (SELECT parent_id FROM task WHERE parent_id IS NOT NULL))"
)


class Wanted(msgspec.Struct, frozen=True):
    """Tasks that ended before `before` (UTC text; None: none), but none that one of `keep` matches."""

    before: str | None
    keep: tuple[Filter, ...] = ()


class _Sql(msgspec.Struct, frozen=True):
    text: str
    args: tuple[Any, ...] = ()


def _kept(keep: Sequence[Filter], now: str) -> _Sql:
    """Is the task one that never goes?"""
    parts, args = ["0"], []
    for each in keep:
        which = both(task_conditions(each, now))
        parts.append(f"task.id IN (SELECT t1.id FROM task t1 WHERE {which.text})")
        args += which.args
    return _Sql(f"({' OR '.join(parts)})", tuple(args))


def _may_go(wanted: Wanted, now: str) -> _Sql:
    kept = _kept(wanted.keep, now)
    text = (
        f"{_SETTLED} AND {_PRIVATE} AND coalesce(task.finished_at, task.updated_at) < ? AND NOT {kept.text}"
    )
    return _Sql(f"({text})", (wanted.before or "", *kept.args))


def _families_that_stay(stays: str) -> str:
    """A recursive table of the linked tasks for which `stays` is true, and all of their families."""
    return (
        f"WITH RECURSIVE stay(id) AS (SELECT task.id FROM task WHERE {_LINKED} AND {stays}"
        " UNION SELECT task.parent_id FROM stay JOIN task ON task.id = stay.id WHERE task.parent_id IS NOT NULL"
        " UNION SELECT task.id FROM stay JOIN task ON task.parent_id = stay.id)"
    )


def families(connection: sqlite3.Connection, wanted: Wanted, now: str, limit: int) -> list[int]:
    """The tasks of the first `limit` families that may go, ascending."""
    if wanted.before is None:
        return []
    may_go = _may_go(wanted, now)
    roots = (
        f"{_families_that_stay('NOT ' + may_go.text)} SELECT task.id FROM task WHERE task.parent_id IS NULL"
        f" AND {may_go.text} AND task.id NOT IN (SELECT id FROM stay) ORDER BY task.id LIMIT ?"
    )
    found = [row[0] for row in connection.execute(roots, (*may_go.args, *may_go.args, limit))]
    whole = (
        "WITH RECURSIVE family(id) AS (SELECT value FROM json_each(?)"
        " UNION SELECT task.id FROM family JOIN task ON task.parent_id = family.id) SELECT id FROM family ORDER BY id"
    )
    return [row[0] for row in connection.execute(whole, (_json(found),))]


def belongings(connection: sqlite3.Connection, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Each of these tasks with all rows that refer to it, by table."""
    found: dict[int, dict[str, Any]] = {
        row["id"]: {"task": row} for row in _rows(connection, "task", "id", ids)
    }
    for table, column in _dependents(connection):
        for row in _rows(connection, table, column, ids):
            found[row[column]].setdefault(table, []).append(row)
    return [found[task_id] for task_id in sorted(found)]


def _rows(
    connection: sqlite3.Connection, table: str, column: str, ids: Sequence[int]
) -> list[dict[str, Any]]:
    cursor = connection.execute(
        f'SELECT * FROM "{table}" WHERE "{column}" IN (SELECT value FROM json_each(?)) ORDER BY rowid',
        (_json(ids),),
    )
    names = [each[0] for each in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _dependents(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Tables with a column that refers to a task, in an order in which their rows can be deleted."""
    sql = (
        'SELECT m.name, f."table", f."from" FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f'
        " WHERE m.type = 'table' AND m.name NOT IN ('task', 'resource_slot', 'route_slot')"
    )
    links = connection.execute(sql).fetchall()
    columns = {table: column for table, referred, column in links if referred == "task"}
    referred = {
        table: {to for name, to, _ in links if name == table and to in columns} - {table} for table in columns
    }
    order: list[str] = []
    while len(order) < len(columns):
        free = [
            table
            for table in sorted(columns)
            if table not in order
            and not any(table in referred[other] for other in columns if other not in order)
        ]
        order += free or sorted(set(columns) - set(order))
    return [(table, columns[table]) for table in order]


def cut_tasks(tx: Transaction, archive: ArchiveRow, seen: Mapping[int, str], actor: str) -> None:
    """Take the archived tasks out of the tables. `seen`: their ids with `updated_at` as they were archived.

    Raises `Unavailable` where one of them has changed since: then nothing is cut.
    """
    ids = sorted(seen)
    rows = tx.rows(
        f"SELECT id, type, state, idempotency_key, updated_at FROM task WHERE {_SETTLED}"
        " AND id IN (SELECT value FROM json_each(?))",
        _json(ids),
    )
    strangers = "SELECT 1 FROM task WHERE parent_id IN (SELECT value FROM json_each(?1))"
    strangers += " AND id NOT IN (SELECT value FROM json_each(?1)) LIMIT 1"
    if {row["id"]: row["updated_at"] for row in rows} != dict(seen) or tx.rows(strangers, _json(ids)):
        raise Unavailable("a task that was archived has changed meanwhile", "nothing was cut", "prune again")
    archive_id = _record(tx, archive)
    tx.connection.executemany(
        "INSERT INTO archived_task(task_id, archive_id, type, state, idempotency_key) VALUES (?,?,?,?,?)",
        [(row["id"], archive_id, row["type"], row["state"], row["idempotency_key"]) for row in rows],
    )
    for table, column in _dependents(tx.connection):
        sql = f'DELETE FROM "{table}" WHERE "{column}" IN (SELECT value FROM json_each(?))'
        tx.connection.execute(sql, (_json(ids),))
    # Children first: a parent may not go before those that name it.
    tx.connection.executemany("DELETE FROM task WHERE id = ?", [(task_id,) for task_id in reversed(ids)])
    _tell(tx, "TASKS_ARCHIVED", archive, actor, f"{archive.count} tasks went into {archive.file}")


def end_of_old_events(connection: sqlite3.Connection, before: str | None) -> tuple[int, int, str]:
    """The first event that is not archived yet, the last that may go (all before it are older than `before`), and the hash
    that the first one follows."""
    last = last_archive(connection)
    first, previous = (last.last + 1, last.hash) if last else (1, "")
    if before is None:
        return first, first - 1, previous
    young = "SELECT min(event_id) FROM event_log WHERE event_id >= ? AND created_at >= ?"
    end = connection.execute(young, (first, before)).fetchone()[0]
    if end is None:
        end = (connection.execute("SELECT max(event_id) FROM event_log").fetchone()[0] or 0) + 1
    return first, max(first, end) - 1, previous


def cut_events(tx: Transaction, archive: ArchiveRow, keep: Sequence[Filter], actor: str) -> int:
    """Take the archived events out of the table, but those of tasks that stay. Returns how many stay."""
    last = last_archive(tx.connection)
    if archive.first != (last.last + 1 if last else 1):
        raise Unavailable("other events were archived meanwhile", "nothing was cut", "prune again")
    archive_id = _record(tx, archive, cutting=1)
    kept = _events_that_stay(tx, archive, keep)
    tx.connection.execute(
        "DELETE FROM event_log WHERE event_id BETWEEN ? AND ? AND event_id NOT IN (SELECT value FROM json_each(?))",
        (archive.first, archive.last, _json(kept)),
    )
    _end_cut(tx, archive_id, kept)
    left = f", {len(kept)} of them stay in the table as well" if kept else ""
    message = f"events {archive.first} to {archive.last} went into {archive.file}{left}"
    _tell(tx, "EVENTS_ARCHIVED", archive, actor, message)
    return len(kept)


def drop_kept(tx: Transaction, archive: ArchiveRow, keep: Sequence[Filter]) -> int:
    """Take out what stayed in the table for tasks that have ended since. Returns how many went."""
    tx.connection.execute("UPDATE archive SET cutting = 1 WHERE id = ?", (archive.id,))
    still = _events_that_stay(tx, archive, keep)
    before = list(of_ranges(archive.kept))
    gone = sorted(set(before) - set(still))
    tx.connection.execute(
        "DELETE FROM event_log WHERE event_id IN (SELECT value FROM json_each(?))", (_json(gone),)
    )
    _end_cut(tx, archive.id, [each for each in before if each not in set(gone)])
    return len(gone)


def _events_that_stay(tx: Transaction, archive: ArchiveRow, keep: Sequence[Filter]) -> list[int]:
    kept = _kept(keep, tx.now)
    stays = f"(NOT ({_SETTLED}) OR {kept.text})"
    sql = (
        f"{_families_that_stay(stays)} SELECT e.event_id FROM event_log e JOIN task ON task.id = e.task_id"
        f" WHERE e.event_id BETWEEN ? AND ? AND ({stays} OR task.id IN (SELECT id FROM stay)) ORDER BY e.event_id"
    )
    args = (*kept.args, archive.first, archive.last, *kept.args)
    return [row[0] for row in tx.connection.execute(sql, args)]


def _end_cut(tx: Transaction, archive_id: int, kept: Iterable[int]) -> None:
    tx.connection.execute(
        "UPDATE archive SET cutting = 0, kept = ? WHERE id = ?", (as_ranges(kept), archive_id)
    )


def _record(tx: Transaction, archive: ArchiveRow, cutting: int = 0) -> int:
    cursor = tx.connection.execute(
        "INSERT INTO archive(kind, file, first, last, count, previous, hash, sha256, bytes, cutting, created_at)"
        " VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        (
            archive.kind,
            archive.file,
            archive.first,
            archive.last,
            archive.count,
            archive.previous,
            archive.hash,
            archive.sha256,
            archive.bytes,
            cutting,
            tx.now,
        ),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _tell(tx: Transaction, event_type: str, archive: ArchiveRow, actor: str, message: str) -> None:
    names = ("file", "first", "last", "count", "sha256")
    payload = {name: getattr(archive, name) for name in names}
    tx.event(event_type, actor=actor, reason="retention", message=message, payload=payload, ours=True)


def outlook(
    connection: sqlite3.Connection, wanted: Wanted, events_before: str | None, now: str
) -> dict[str, Any]:
    """What would go: tasks by state with the age of the oldest, events, and bytes of text in the tables, about."""
    ids = families(connection, wanted, now, 2**62)
    tasks = connection.execute(
        "SELECT state, count(*), min(finished_at), sum(length(payload) + ifnull(length(result), 0) + 200) FROM task"
        " WHERE id IN (SELECT value FROM json_each(?)) GROUP BY state",
        (_json(ids),),
    ).fetchall()
    first, last, _ = end_of_old_events(connection, events_before)
    count, oldest, size = connection.execute(
        "SELECT count(*), min(created_at), ifnull(sum(length(message) + ifnull(length(payload_json), 0) + 200), 0)"
        " FROM event_log WHERE event_id BETWEEN ? AND ?",
        (first, last),
    ).fetchone()
    return {
        "tasks": len(ids),
        "by_state": {row[0]: row[1] for row in tasks},
        "oldest_task": min((row[2] for row in tasks if row[2]), default=None),
        "events": count,
        "oldest_event": oldest,
        "bytes": sum(row[3] for row in tasks) + size,
    }


def _json(ids: Sequence[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()
