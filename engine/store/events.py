"""The audit: the one place where events are made, redacted, chained and written.

A unit of work collects its events; they are written, in order, right before the commit of the same transaction, so that a
change without its event (or the other way round) can't exist. The head of the chain is read inside that transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ..rules.chain import COLUMNS, PAYLOAD, Row, hashes_alike, row_hash
from .inserting import Given, insert, insert_alike, insert_columns

_INSERT = (
    "INSERT INTO event_log(event_id, task_id, resource_id, route_id, worker_id, event_type, level, reason, actor,"
    " message, payload_json, created_at, hash) VALUES ",
    "(?,?,?,?,?,?,?,?,?,?,?,?,?)",
)
_INSERT_ALIKE = (
    "INSERT INTO event_log(event_id, task_id, resource_id, route_id, worker_id, event_type, level, reason, actor,"
    " message, payload_json, created_at, hash)"
    " SELECT ? + key, ? + key, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, value FROM json_each(?)"
)
BEFORE_ALL, LAST_OF_ALL = -(2**63), 2**63 - 1
"""Ids before the first event that anyone could have put into the table, and behind the last."""

# Constant SQL: peewee's own way costs as much again as reading and hashing the rows.
_WINDOW = (
    f"SELECT {', '.join(COLUMNS)}, hash FROM event_log WHERE event_id > ? AND event_id <= ?"
    " ORDER BY event_id LIMIT ?"
)
_HEAD = "SELECT event_id, count, hash FROM event_head WHERE id = 1"
_MOVE_HEAD = "UPDATE event_head SET event_id = ?, count = ?, hash = ? WHERE id = 1"


Event = tuple[int | None, str | None, str | None, int | None, str, str, str | None, str, str, str | None, str]
"""The values of a `PendingEvent`, whose making costs as much as the hash: what comes by the thousand is a bare tuple."""


class PendingEvent(NamedTuple):
    """A row of `event_log` before it has its id and hash; the order of the columns is the order of the chain."""

    task_id: int | None
    resource_id: str | None
    route_id: str | None
    worker_id: int | None
    event_type: str
    level: str
    reason: str | None
    actor: str
    message: str
    payload_json: str | None
    created_at: str


class AlikeEvents(NamedTuple):
    """Events, one for each of these tasks, that tell the same of them but for their payloads."""

    tasks: Sequence[int]
    """Their ids; a range where there are no payloads."""
    rest: tuple[str | int | None, ...]
    """The values of a `PendingEvent` behind the task's id."""
    payloads: Sequence[str] = ()
    """JSON text of each, in the place of that of `rest`; empty = it holds for all of them."""


def payload_text(payload: Mapping[str, Any] | None) -> str | None:
    """The JSON text of an event's payload, or None for none."""
    return msgspec.json.encode(payload).decode() if payload else None


def append(connection: sqlite3.Connection, events: Sequence[Event | AlikeEvents]) -> None:
    """Chain and write `events` behind the last row. Call inside the transaction that makes the changes."""
    before, count, previous = connection.execute(_HEAD).fetchone()
    event_id = before
    rows = list[Row]()
    for event in events:
        if isinstance(event, AlikeEvents):
            insert(connection, *_INSERT, rows)
            rows = []
            hashes = hashes_alike(previous, event_id + 1, *event)
            if event.payloads:
                ids = range(event_id + 1, event_id + 1 + len(hashes))
                rest = list[Given](event.rest)
                rest[PAYLOAD] = event.payloads
                insert_columns(connection, *_INSERT, (ids, event.tasks, *rest, hashes), len(hashes))
            else:
                insert_alike(connection, _INSERT_ALIKE, event.rest, hashes, (event_id + 1, event.tasks[0]))
            event_id, previous = event_id + len(hashes), hashes[-1]
            continue
        event_id += 1
        row = (event_id, *event)
        previous = row_hash(previous, row)
        rows.append((*row, previous))
    insert(connection, *_INSERT, rows)
    connection.execute(_MOVE_HEAD, (event_id, count + event_id - before, previous))


def window(connection: sqlite3.Connection, after: int, last: int, limit: int) -> list[Row]:
    """The first `limit` rows of the audit behind event `after` up to event `last`, as `rules.chain` takes them."""
    return connection.execute(_WINDOW, (after, last, limit)).fetchall()


def head(tx: Any) -> tuple[int, int, str, str]:
    """The head of the committed chain: event_id, count, hash; and now as UTC text."""
    return (*tx.connection.execute(_HEAD).fetchone(), tx.now)


def was_told(connection: sqlite3.Connection, task_id: int, event_type: str, reason: str) -> bool:
    """Does the audit hold such an event of this task?"""
    sql = "SELECT 1 FROM event_log WHERE task_id = ? AND event_type = ? AND reason = ? LIMIT 1"
    return connection.execute(sql, (task_id, event_type, reason)).fetchone() is not None
