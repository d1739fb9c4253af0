"""The spool of a worker: what it has reported and no engine has recorded yet, in order.

Owns the numbers of reports, and the file in which they outlive the worker while there is no engine. Each report is applied
once, since its number is recorded in the same transaction. Used by one thread; must not know what a report means.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from .messages import (
    PROTOCOL,
    Message,
    Note,
    OperationEnd,
    RouteResult,
    Save,
    Together,
    encode_one,
    one_from_peer,
)

HEADER = b"taskdeck spool 2, protocol %d\n" % PROTOCOL
RECORD = struct.Struct("<IIQ")
"""Length, CRC-32 (of all else) and number of the report that follows."""
LONGEST = 16 * 2**20
"""Bytes; far above any report, since JSON values are at most 1 MiB."""
IN_MEMORY = 8 * 2**20
"""Bytes of reports that stay in memory once they stand in the file; others are read from it when they are needed."""
LARGEST = 256 * 2**20
"""Bytes; a longer file takes no more: then notes are dropped, and checkpoints are promised by an engine only."""


class _Kept(msgspec.Struct):
    number: int
    message: Message | None
    raw: bytes | None
    size: int
    place: int = -1
    """Where in the file the report begins; -1 = it is not there."""


class Spool:
    """Numbers reports and keeps them until they are recorded. `path` None: in memory only."""

    def __init__(self, path: Path | None = None, *, largest: int = LARGEST) -> None:
        self._path = path
        self._largest = largest
        self._fd = -1
        self._end = 0
        self._last = 0
        self._kept: deque[_Kept] = deque()
        self._unwritten: deque[_Kept] = deque()
        self._in_file: deque[_Kept] = deque()
        """What stands in the file and still in memory, too."""
        self._in_memory = 0
        self.dropped = 0
        """Notes that found no room."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, message: Message, raw: bytes) -> int:
        """Keep a report; returns its number."""
        self._last += 1
        kept = _Kept(self._last, message, raw, len(raw))
        self._kept.append(kept)
        self._unwritten.append(kept)
        self._in_memory += kept.size
        return kept.number

    def recorded(self, upto: int) -> list[tuple[int, Message]]:
        """Forget the reports up to this number. Returns those that are still known in memory, with their numbers."""
        gone: list[tuple[int, Message]] = []
        while self._kept and self._kept[0].number <= upto:
            kept = self._kept.popleft()
            self._in_memory -= kept.size if kept.raw is not None else 0
            if kept.message is not None:
                gone.append((kept.number, kept.message))
        while self._unwritten and self._unwritten[0].number <= upto:
            self._unwritten.popleft()
        if not self._kept and self._end:
            self._start_anew()
        return gone

    def write(self) -> list[int] | None:
        """Make what is kept outlive this process and the power. Returns the requests that may be answered for it.

        None where the file takes nothing now: what is kept stays in memory, and nothing is promised.
        """
        block, placed = bytearray(b"" if self._end else HEADER), []
        while self._unwritten:
            kept = self._unwritten[0]
            if self._end + len(block) + kept.size > self._largest:
                if not isinstance(kept.message, Note | RouteResult):
                    break
                self._drop(kept)
                continue
            message, raw = _without_request(kept)
            block += RECORD.pack(len(raw), _checksum(kept.number, raw), kept.number)
            placed.append((kept, message, raw, self._end + len(block)))
            block += raw
            self._unwritten.popleft()
        try:
            if placed:
                self._append(bytes(block))
        except OSError:
            self._unwritten.extendleft(kept for kept, *_ in reversed(placed))
            return None
        return [request for each in placed if (request := self._settle(*each))]

    def waiting(self) -> Iterator[tuple[int, bytes]]:
        """Every report that is kept, in order, with its number."""
        for kept in list(self._kept):
            raw = kept.raw if kept.raw is not None else os.pread(self._fd, kept.size, kept.place)
            if raw:
                yield kept.number, raw

    # ---- the file ------------------------------------------------------------------------------------------------

    def _settle(self, kept: _Kept, message: Message | None, raw: bytes, place: int) -> int:
        """The report stands in the file at `place`. Returns the request that it was, 0 for none."""
        request = getattr(kept.message, "req", 0) if kept.message is not message else 0
        self._in_memory += len(raw) - kept.size
        kept.message, kept.raw, kept.size, kept.place = message, raw, len(raw), place
        self._in_file.append(kept)
        while self._in_memory > IN_MEMORY and self._in_file:
            spared = self._in_file.popleft()
            if spared.raw is not None and spared.number >= self._kept[0].number:
                spared.raw = None
                spared.message = (
                    None if isinstance(spared.message, Save | Note | Together) else spared.message
                )
                self._in_memory -= spared.size
        return request

    def _drop(self, kept: _Kept) -> None:
        self._unwritten.popleft()
        self._in_memory -= kept.size
        kept.message, kept.raw, kept.size = None, b"", 0
        self.dropped += 1

    def _append(self, block: bytes) -> None:
        if self._path is None:
            raise OSError("no file")
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            _sync_folder(self._path.parent)
        rest, place = memoryview(block), self._end
        try:
            while rest:
                written = os.pwrite(self._fd, rest, place)
                rest, place = rest[written:], place + written
            os.fsync(self._fd)
        except OSError:
            with suppress(OSError):  # what comes next may be shorter than what half stands there
                os.ftruncate(self._fd, self._end)
            raise
        self._end = place

    def _start_anew(self) -> None:
        self._end = 0
        self._in_file.clear()
        os.ftruncate(self._fd, 0)


class Unreadable(Exception):
    """A spool's file is damaged, or of another version. `reports`: those that stand before what can't be read."""

    def __init__(self, why: str, reports: list[tuple[int, Any]]) -> None:
        super().__init__(why)
        self.why = why
        self.reports = reports


def keeps_reports(path: Path) -> bool:
    """Does this file hold reports that no engine has recorded? They are not looked at."""
    try:
        return path.stat().st_size > len(HEADER)
    except OSError:  # there is none, or it is none of ours
        return False


def read(path: Path) -> list[tuple[int, Any]]:
    """What a worker that is gone had kept: (number, report), in order. Empty where there is no file.

    A torn end doesn't count: nothing was promised for it. Raises `Unreadable` where something that was written whole can't
    be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unreadable(error.strerror or type(error).__name__, []) from error
    if not data.startswith(HEADER):
        if HEADER.startswith(data) or not data.strip(b"\0"):
            return []
        raise Unreadable("it is of another version, or its head is damaged", [])
    found: list[tuple[int, Any]] = []
    place = len(HEADER)
    while place < len(data):
        record = _record(data, place)
        if record is None:
            if _is_torn(data, place):
                break
            raise Unreadable(f"it is damaged at byte {place} of {len(data)}", found)
        number, raw = record
        try:
            found.append((number, one_from_peer(raw)))
        except msgspec.DecodeError as error:
            raise Unreadable(f"report {number} is none of this version", found) from error
        place += RECORD.size + len(raw)
    return found


def _record(data: bytes, place: int) -> tuple[int, bytes] | None:
    """The report that stands whole and sound at `place`."""
    if place + RECORD.size > len(data):
        return None
    size, checksum, number = RECORD.unpack_from(data, place)
    if place + RECORD.size + size > len(data):
        return None
    raw = data[place + RECORD.size : place + RECORD.size + size]
    return (number, raw) if _checksum(number, raw) == checksum else None


def _is_torn(data: bytes, place: int) -> bool:
    """Is what can't be read at `place` the beginning of a last record, or nothing but zeros (the power went)?"""
    if place + RECORD.size > len(data) or not data[place:].strip(b"\0"):
        return True
    size, _, _ = RECORD.unpack_from(data, place)
    if size > LONGEST or place + RECORD.size + size <= len(data):
        return False
    return not any(_record(data, later) for later in range(place + 1, len(data) - RECORD.size))


def _checksum(number: int, raw: bytes) -> int:
    return zlib.crc32(raw, zlib.crc32(RECORD.pack(len(raw), 0, number)))


def _without_request(kept: _Kept) -> tuple[Message | None, bytes]:
    """The report as it stands in the file: its request is answered for as soon as it does."""
    message = kept.message
    if isinstance(message, Save | OperationEnd | Together) and message.req:
        message = msgspec.structs.replace(message, req=0)
        return message, encode_one(message)
    assert kept.raw is not None
    return message, kept.raw


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
