"""The hash chain of the audit: what one row's hash covers, and where a chain is broken.

Pure arithmetic on rows; `store.events` writes them, `taskdeck.engine.views` hands them over to be checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

COLUMNS = (
    "event_id",
    "task_id",
    "resource_id",
    "route_id",
    "worker_id",
    "event_type",
    "level",
    "reason",
    "actor",
    "message",
    "payload_json",
    "created_at",
)
"""The columns of `event_log` that a hash covers, in this order for ever."""

_encode = msgspec.json.Encoder().encode
_sha256 = hashlib.sha256


def row_hash(previous: str, row: tuple[int | str | None, ...]) -> str:
    """The sha256 (hex) of the previous row's hash, a newline, and `row` as compact UTF-8 JSON.

    `row` holds the values of `COLUMNS`; the first row's `previous` is the empty text. The JSON equals
    `json.dumps(row, ensure_ascii=False, separators=(",", ":"))`, so that any language can check it.
    """
    return _sha256(previous.encode() + b"\n" + _encode(row)).hexdigest()


class Head(NamedTuple):
    """Where the chain ends according to someone: the last event's id, the number of events, the last hash."""

    event_id: int
    length: int
    hash: str


class Break(NamedTuple):
    """The first event that is not as it was written, and what gives it away."""

    event_id: int
    problem: str


def first_break(rows: Iterable[tuple[Any, ...]], head: Head, anchors: Iterable[Head] = ()) -> Break | None:
    """Walk the chain: name the first event that was changed, removed, inserted or swapped, or None.

    `rows` are (`COLUMNS`…, hash) by event id; `anchors` are heads noted outside the database, by
    event id. Uses constant memory. Back to the last anchor even a chain that was rewritten as a whole is told.
    """
    noted = {anchor.event_id: anchor for anchor in anchors}
    last, previous = 0, ""
    for row in rows:
        event_id, stored = row[0], row[-1]
        if event_id != last + 1:
            return _gap(last + 1, event_id)
        if row_hash(previous, tuple(row[:-1])) != stored:
            return Break(
                event_id, "it was changed, swapped or put there: its hash does not follow from the one before"
            )
        anchor = noted.pop(event_id, None)
        if anchor and anchor.hash != stored:
            return Break(
                event_id, "it and its hash were rewritten: the anchor outside the database noted another hash"
            )
        last, previous = event_id, stored
    return _at_the_end(last, previous, head, max(noted, default=0))


def _gap(expected: int, found: int) -> Break:
    if found < expected:
        return Break(found, "it was put there: ids start at 1")
    missing = f"events {expected} to {found - 1} are" if found - expected > 1 else f"event {expected} is"
    return Break(expected, f"it was removed: {missing} missing")


def _at_the_end(last: int, hash_: str, head: Head, anchored: int) -> Break | None:
    if head.event_id > last:
        return Break(
            last + 1, f"it was removed: the chain ends at {last}, its recorded head is {head.event_id}"
        )
    if last > head.event_id:
        return Break(head.event_id + 1, f"it was put there: the chain's recorded head is {head.event_id}")
    if anchored > last:
        return Break(
            last + 1, f"it was removed: the chain ends at {last}, an anchor outside names event {anchored}"
        )
    if head != (last, last, hash_):
        return Break(last, "the recorded head of the chain was changed: it names another hash or count")
    return None
