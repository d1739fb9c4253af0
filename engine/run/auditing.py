"""The whole audit, walked from its first event to its last: through the archives, then the table, held against the anchors.

Constant memory. Reads only. While it walks, an engine may write and prune.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..rules.chain import COLUMNS, START, Break, BrokenChain, Head, Row, first_break
from ..rules.models import AuditReport
from ..rules.retention import ArchiveRow, of_ranges
from ..store import anchors
from ..store.archive_files import ArchiveReader, DamagedArchive
from ..store.reading import Reader

_TYPE, _PAYLOAD = COLUMNS.index("event_type"), COLUMNS.index("payload_json")
ARCHIVED = frozenset({"EVENTS_ARCHIVED", "TASKS_ARCHIVED"})
"""Events that name an archive and its sha256: the chain itself vouches for the files."""


def verify(reader: Reader, database: Path, folder: Path | None) -> AuditReport:
    """Name the first event that is not as it was written.

    `folder`: where the archives are; None = only the table is walked.
    """
    # In this order nothing that a writer adds meanwhile can look like a break: anchors, rows, head.
    noted = anchors.read(database)
    newest = reader.last_event()
    head = Head(*reader.head())
    walk = _Walk(reader, max(newest, head.event_id), folder)
    broken = first_break(walk.rows(), head, anchors.as_rules(noted), start=walk.start)
    broken = broken or walk.first_bad_file()
    last = noted[-1] if noted else None
    return AuditReport(
        ok=broken is None,
        events=head.length,
        event_id=broken.event_id if broken else None,
        problem=broken.problem if broken else "",
        anchored_to=last.event_id if last else None,
        anchored_at=last.at if last else None,
        archives=walk.files,
        archived_to=walk.archived_to,
    )


class _Walk:
    """The rows of the audit in the order of their ids, wherever they are."""

    def __init__(self, reader: Reader, last: int, folder: Path | None) -> None:
        self._reader = reader
        self._last = last
        self._folder = folder
        self._named: dict[str, tuple[int, str]] = {}
        self._read: dict[str, str] = {}
        found = self._archives()
        self.archived_to = found[-1].last if found else 0
        self.start = START
        if folder is None and found:
            self.start = Head(found[-1].last, found[-1].last, found[-1].hash)

    @property
    def files(self) -> int:
        """How many archives were read."""
        return len(self._read)

    def rows(self) -> Iterator[Row]:
        for row in self._everything():
            if row[_TYPE] in ARCHIVED:
                self._remember(row)
            yield row

    def first_bad_file(self) -> Break | None:
        """The first archive that the chain names and that is missing or another one now."""
        if self._folder is None:
            return None
        for file, (event_id, sha256) in self._named.items():
            path = self._folder / file
            if not path.is_file():
                return Break(event_id, f"the archive that it names is missing: {path}")
            if (self._read.get(file) or _sha256(path)) != sha256:
                return Break(event_id, f"the archive that it names was changed: {path}")
        return None

    def _remember(self, row: Row) -> None:
        try:
            payload = msgspec.json.decode(row[_PAYLOAD])
            self._named[payload["file"]] = (row[0], payload["sha256"])
        except (msgspec.DecodeError, TypeError, KeyError):
            pass  # not as we write it: whether it was changed is told by its hash

    def _archives(self) -> list[ArchiveRow]:
        return [each for each in self._reader.archives() if each.kind == "events"]

    def _everything(self) -> Iterator[Row]:
        done = self.start.event_id
        while True:
            if self._folder is not None:
                for archive in self._archives():
                    if archive.first == done + 1:
                        yield from self._archived(archive)
                        done = archive.last
            for row in self._reader.chain(self._last, after=done if done else -(2**63)):
                if row[0] != done + 1 and self._was_archived(done + 1):
                    break  # an engine has pruned meanwhile: these rows are in a file now
                yield row
                done = row[0]
            else:
                return

    def _was_archived(self, event_id: int) -> bool:
        return self._folder is not None and any(
            each.first <= event_id <= each.last for each in self._archives()
        )

    def _archived(self, archive: ArchiveRow) -> Iterator[Row]:
        """The rows of one archive; those of them that stay in the table must be the same there."""
        assert self._folder is not None
        path = self._folder / archive.file
        expected, compare = archive.first, _Kept(self._reader, archive).compare
        try:
            with ArchiveReader(path) as file:
                if file.header.get("first") != archive.first or file.header.get("last") != archive.last:
                    raise BrokenChain(
                        expected, f"the archive {path} is another one: it was swapped or changed"
                    )
                for row in file.rows():
                    yield row
                    compare(row)
                    expected += 1
                self._read[archive.file] = file.sha256
        except FileNotFoundError:
            raise BrokenChain(expected, _missing(archive, path)) from None
        except (DamagedArchive, OSError) as error:
            raise BrokenChain(expected, f"the archive {path} can't be read from here on: {error}") from None
        if expected != archive.last + 1:
            raise BrokenChain(expected, f"it was removed: the archive {path} ends before it")


class _Kept:
    """What of an archive stays in the table, row by row."""

    def __init__(self, reader: Reader, archive: ArchiveRow) -> None:
        self._reader = reader
        self._archive = archive
        self._expected = of_ranges(archive.kept)
        self._next = next(self._expected, None)
        self._rows = reader.chain(archive.last, after=archive.first - 1)
        self._row = next(self._rows, None)

    def compare(self, archived: Row) -> None:
        event_id = archived[0]
        if self._row and self._row[0] < event_id:
            raise BrokenChain(self._row[0], "it was put there: an archive covers it, and does not have it")
        here = self._row if self._row and self._row[0] == event_id else None
        wanted = self._next == event_id
        if wanted and not here and event_id in self._as_it_is_now():
            raise BrokenChain(event_id, f"it was removed from the table: {self._archive.file} still has it")
        if here and not wanted:
            raise BrokenChain(event_id, f"it was put back into the table: it went into {self._archive.file}")
        if here and here != archived:
            raise BrokenChain(
                event_id, f"it was changed in the table: {self._archive.file} has it as it was written"
            )
        if here:
            self._row = next(self._rows, None)
        if wanted:
            self._next = next(self._expected, None)

    def _as_it_is_now(self) -> set[int]:
        """An engine may have dropped what it kept since we asked."""
        return {
            event_id
            for each in self._reader.archives()
            if each.id == self._archive.id
            for event_id in of_ranges(each.kept)
        }


def _missing(archive: ArchiveRow, path: Path) -> str:
    return f"events {archive.first} to {archive.last} are missing: there is no archive {path}"


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
