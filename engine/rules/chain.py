"""The hash chain of the audit: what one row's hash covers, and where a chain is broken.

Pure arithmetic on rows; `store.events` writes them, `run.auditing` hands them over to be checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
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

PAYLOAD = COLUMNS.index("payload_json") - COLUMNS.index("resource_id")
"""Its place among the values behind event and task."""

_encode = msgspec.json.Encoder().encode
_sha256 = hashlib.sha256


def row_hash(previous: str, row: tuple[int | str | None, ...]) -> str:
    """The sha256 (hex) of the previous row's hash, a newline, and `row` as compact UTF-8 JSON.

    `row` holds the values of `COLUMNS`; the first row's `previous` is the empty text. The JSON equals
    `json.dumps(row, ensure_ascii=False, separators=(",", ":"))`, so that any language can check it.
    """
    return _sha256(previous.encode() + b"\n" + _encode(row)).hexdigest()


def hashes_alike(
    previous: str,
    event_id: int,
    tasks: Sequence[int],
    rest: tuple[int | str | None, ...],
    payloads: Sequence[str] = (),
) -> list[str]:
    """The hashes of rows behind `previous`, one for each of `tasks`, that are the same behind event and task: `rest`.

    Each is as `row_hash` makes it. The events are numbered from `event_id`. `payloads` stand in the place of that of `rest`,
    where there are any.
    """
    if payloads:
        before, behind = _encode(rest[:PAYLOAD])[1:-1] + b",", b"," + _encode(rest[PAYLOAD + 1 :])[1:]
        ends = [before + _encode(payload) + behind for payload in payloads]
    else:
        ends = [_encode(rest)[1:]] * len(tasks)
    last = previous.encode()
    hashes = list[str]()
    for number, (task_id, end) in enumerate(zip(tasks, ends, strict=True), event_id):
        hashes.append(text := _sha256(b"%b\n[%d,%d,%b" % (last, number, task_id, end)).hexdigest())
        last = text.encode()
    return hashes


Row = tuple[Any, ...]
"""The values of `COLUMNS`, and the stored hash."""


class Head(NamedTuple):
    """Where the chain ends according to someone: the last event's id, the number of events, the last hash."""

    event_id: int
    length: int
    hash: str


START = Head(0, 0, "")
"""Before the first event."""


class Anchor(NamedTuple):
    """A head that was noted outside the database.

    `restored`: it is the event OPERATOR_RESTORED, with which a copy from a backup took the place of the database. Where the
    chain has that very event, the anchors noted before it are of a history that was given up, and bind no more: the hash
    of this event covers all that came before it.
    """

    event_id: int
    length: int
    hash: str
    restored: bool = False


class Break(NamedTuple):
    """The first event that is not as it was written, and what gives it away."""

    event_id: int
    problem: str


class BrokenChain(Exception):
    """Raised by a source of rows that finds the break itself, e.g. an archive that is missing."""

    def __init__(self, event_id: int, problem: str) -> None:
        super().__init__(problem)
        self.found = Break(event_id, problem)


def first_break(
    rows: Iterable[Row], head: Head, anchors: Iterable[Anchor] = (), *, start: Head = START
) -> Break | None:
    """Walk the chain: name the first event that was changed, removed, inserted or swapped, or None.

    `rows` are (`COLUMNS`…, hash) by event id, from the event behind `start`; `anchors` are in the order in which they were
    noted. Uses constant memory. Back to the last anchor even a chain that was rewritten as a whole is told.
    """
    noted = _Noted(anchors)
    ids = noted.ids
    last, previous = start.event_id, start.hash
    try:
        rows = iter(rows)
        for row in rows:
            event_id, stored = row[0], row[-1]
            if event_id != last + 1:
                return noted.certain() or _gap(last + 1, event_id)
            if row_hash(previous, row[:-1]) != stored:
                return noted.certain() or Break(event_id, _difference(previous, row, rows))
            if event_id in ids:
                noted.meet(event_id, stored)
            last, previous = event_id, stored
    except BrokenChain as broken:
        return noted.certain() or broken.found
    return noted.first() or _at_the_end(last, previous, head, noted.last())


class _Noted:
    """The anchors that the walk has still to meet, and those it met that told another hash."""

    def __init__(self, anchors: Iterable[Anchor]) -> None:
        self._pending: dict[int, list[tuple[int, Anchor]]] = {}
        for place, anchor in enumerate(anchors):
            self._pending.setdefault(anchor.event_id, []).append((place, anchor))
        self.ids = frozenset(self._pending)
        self._different: list[tuple[int, Break]] = []

    def meet(self, event_id: int, stored: str) -> None:
        for place, anchor in self._pending.pop(event_id, ()):
            if anchor.restored and anchor.hash == stored:
                self._forget_before(place)
            elif not anchor.restored and anchor.hash != stored:
                problem = "it and its hash were rewritten: the anchor outside the database noted another hash"
                self._different.append((place, Break(event_id, problem)))

    def _forget_before(self, place: int) -> None:
        self._different = [each for each in self._different if each[0] > place]
        left = {id: [each for each in these if each[0] > place] for id, these in self._pending.items()}
        self._pending = {id: these for id, these in left.items() if these}

    def certain(self) -> Break | None:
        """The first difference that no restore further on could explain."""
        restores = [place for these in self._pending.values() for place, anchor in these if anchor.restored]
        last = max(restores, default=-1)
        return min((found for place, found in self._different if place > last), default=None)

    def first(self) -> Break | None:
        """The first difference, at the end of the chain."""
        return min((found for _, found in self._different), default=None)

    def last(self) -> int:
        """The last event that an anchor names and the chain did not have; a restore that never happened names none."""
        return max(
            (id for id, these in self._pending.items() if not all(anchor.restored for _, anchor in these)),
            default=0,
        )


def _difference(previous: str, row: Row, following: Iterator[Row]) -> str:
    """What became of the event behind `previous`: is it further on, or does the rest of the chain not mind?"""
    number = row[0]
    second = next(following, None)
    third = next(following, None)
    if second and _is_event(number, previous, second):
        if third is None or _is_event(number + 1, second[-1], third):
            return f"it was put there: the event that was {number} is {number + 1} now"
        return f"it was swapped with another: the event that was {number} is {number + 1} now"
    rest = (each for each in (third, *following) if each) if third else iter(())
    try:
        moved = next((each[0] for each in rest if _is_event(number, previous, each)), None)
    except BrokenChain:
        moved = None
    if moved:
        return f"it was swapped with another: the event that was {number} is {moved} now"
    if second is None or row_hash(row[-1], second[:-1]) == second[-1]:
        before = f", or event {number - 1} and its hash were" if number > 1 else ""
        return f"it was changed{before}: its hash does not follow from the one before"
    return "it was changed, swapped or put there: its hash does not follow from the one before"


def _is_event(number: int, previous: str, row: Row) -> bool:
    """Is `row` what was event `number` behind `previous`, whatever its id is now?"""
    return row_hash(previous, (number, *row[1:-1])) == row[-1]


def _gap(expected: int, found: int) -> Break:
    if found < expected:
        return Break(found, f"it was put there: the next event is {expected}")
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
