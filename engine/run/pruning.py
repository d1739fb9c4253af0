"""Retention: what has ended long ago goes from the tables into archives, a file and a transaction at a time.

Each file is written, forced to disk, read again and compared before anything is cut; the cut is one transaction. A crash
leaves the rows, or the file and the rows, or the file alone, never neither. Run by the engine, or by a command without one.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..clock import Clock
from ..config import Config
from ..crash import crash_at
from ..errors import StoreError, Unavailable, UsageError, kept_from
from ..rules.chain import Head, Row, first_break
from ..rules.filters import Filter, parse
from ..rules.retention import EVENTS_A_FILE, FAMILIES_A_FILE, Ages, ArchiveRow, archive_name
from ..rules.timing import utc_text
from ..store import archive_files, archives
from ..store.archives import Wanted
from ..store.durable import published
from ..store.reading import Reader

Submit = Callable[..., Any]
"""`submit(unit, *args)`: run the unit in a transaction of its own and return its result once it is durable."""

WINDOW = 5000


class PruneReport(msgspec.Struct, frozen=True, kw_only=True):
    """What went. `more`: the time was up; the rest goes when it is called again."""

    tasks: int = 0
    events: int = 0
    kept: int = 0
    """Archived events that stay in the table as well, since their tasks stay."""
    files: list[str] = []
    more: bool = False


def ages_of(config: Config, tasks: float | None = None, events_: float | None = None) -> Ages:
    """The configured ages, or the given ones. Raises `UsageError` where nothing would ever go."""
    settings = config.retention
    ages = Ages(settings.tasks if tasks is None else tasks, settings.events if events_ is None else events_)
    if not ages.tasks and not ages.events:
        raise UsageError(
            "no age is set, so that nothing ever goes",
            remedy='taskdeck prune --tasks 90d --events 180d, or [retention] tasks = "90d" in the configuration',
        )
    return ages


def look(config: Config, ages: Ages, now: str) -> dict[str, Any]:
    """What would go by these ages now; see `store.archives.outlook`."""
    with Reader(config.db) as reader:
        found = reader.ask(
            lambda connection: archives.outlook(
                connection, _wanted(config, ages, now), ages.events_before(now), now
            )
        )
    return {**found, "directory": str(config.archive_directory), **_cutoffs(ages, now)}


def _cutoffs(ages: Ages, now: str) -> dict[str, str | None]:
    return {"tasks_before": ages.tasks_before(now), "events_before": ages.events_before(now)}


def prune(
    config: Config, ages: Ages, actor: str, clock: Clock, submit: Submit, *, seconds: float = float("inf")
) -> PruneReport:
    """Archive what these ages let go, file by file, for about so many seconds. Raises `StoreError`, `Unavailable`."""
    deadline = clock.monotonic() + seconds
    now = utc_text(clock.utc())
    work = _Pruning(config, ages, actor, now, submit)
    try:
        with Reader(config.db) as reader:
            for step in (work.tasks, work.events, work.kept_before):
                while step(reader):
                    if clock.monotonic() >= deadline:
                        return work.report(more=True)
    except OSError as error:
        what = f"an archive can't be written in {config.archive_directory}"
        raise kept_from(error, what, "nothing was cut; make room, and prune again") from error
    return work.report()


class _Pruning:
    """One prune: each step archives one file and says whether there may be more."""

    def __init__(self, config: Config, ages: Ages, actor: str, now: str, submit: Submit) -> None:
        self._config = config
        self._folder = config.archive_directory
        self._keep = _keep(config)
        self._ages = ages
        self._actor = actor
        self._now = now
        self._submit = submit
        self._done = PruneReport()

    def report(self, *, more: bool = False) -> PruneReport:
        return msgspec.structs.replace(self._done, more=more)

    def tasks(self, reader: Reader) -> bool:
        wanted = Wanted(self._ages.tasks_before(self._now), self._keep)

        def read(connection: sqlite3.Connection) -> list[dict[str, Any]]:
            connection.execute("BEGIN")
            try:
                ids = archives.families(connection, wanted, self._now, FAMILIES_A_FILE)
                return archives.belongings(connection, ids)
            finally:
                connection.execute("ROLLBACK")

        found = reader.ask(read)
        if not found:
            return False
        first, last = found[0]["task"]["id"], found[-1]["task"]["id"]
        archive = ArchiveRow(kind="tasks", file="", first=first, last=last, count=len(found))
        archive = self._write(archive, found, _check_tasks)
        seen = {each["task"]["id"]: each["task"]["updated_at"] for each in found}
        self._cut(archive, archives.cut_tasks, archive, seen, self._actor)
        self._note(archive, tasks=len(found))
        return True

    def events(self, reader: Reader) -> bool:
        before = self._ages.events_before(self._now)
        first, end, previous = reader.ask(lambda connection: archives.end_of_old_events(connection, before))
        last = min(end, first + EVENTS_A_FILE - 1)
        if last < first:
            return False
        ends: list[Row] = []

        def rows() -> Iterator[dict[str, Any]]:
            for row in reader.chain(last, after=first - 1):
                ends[:] = [row]
                yield archive_files.event_line(row)

        archive = ArchiveRow(
            kind="events", file="", first=first, last=last, count=last - first + 1, previous=previous
        )
        archive = self._write(archive, rows(), _check_events, lambda: str(ends[0][-1]) if ends else "")
        kept = self._cut(archive, archives.cut_events, archive, self._keep, self._actor)
        self._note(archive, events=archive.count, kept=kept)
        return True

    def kept_before(self, reader: Reader) -> bool:
        """What stayed in the table for tasks that have ended or gone since; where its archive is still there."""
        for archive in reader.archives():
            path = self._folder / archive.file
            if archive.kept and path.is_file() and _sha256(path) == archive.sha256:
                self._submit(archives.drop_kept, archive, self._keep)
        return False

    def _write(
        self,
        archive: ArchiveRow,
        lines: Any,
        check: Callable[[Path, ArchiveRow], None],
        last_hash: Callable[[], str] = str,
    ) -> ArchiveRow:
        """The archive as it is now on disk, read again and found right."""
        names = {name: getattr(archive, name) for name in ("kind", "first", "last", "count", "previous")}
        path = self._free_name(archive)
        with published(path) as part:
            archive_files.write(part, {**names, "written_at": self._now}, lines)
            found = msgspec.structs.replace(
                archive, file=path.name, hash=last_hash(), sha256=_sha256(part), bytes=part.stat().st_size
            )
            check(part, found)
        crash_at("after_archive_written")
        return found

    def _free_name(self, archive: ArchiveRow) -> Path:
        """A name that no file has: one that is there may be of a prune that was interrupted, or of another history."""
        number = 1
        while True:
            stem = self._config.db.stem
            name = archive_name(stem, archive.kind, archive.first, archive.last, self._now, number)
            if not (self._folder / name).exists():
                return self._folder / name
            number += 1

    def _cut(self, archive: ArchiveRow, unit: Callable[..., Any], *args: Any) -> Any:
        """Cut what was archived; where that is refused, the archive goes again, since every row is still in the tables."""
        try:
            result = self._submit(unit, *args)
        except Unavailable:
            (self._folder / archive.file).unlink(missing_ok=True)
            raise
        crash_at("after_archive_cut")
        return result

    def _note(self, archive: ArchiveRow, *, tasks: int = 0, events: int = 0, kept: int = 0) -> None:
        done = self._done
        self._done = msgspec.structs.replace(
            done,
            tasks=done.tasks + tasks,
            events=done.events + events,
            kept=done.kept + kept,
            files=[*done.files, archive.file],
        )


def _keep(config: Config) -> tuple[Filter, ...]:
    return tuple(parse(each) for each in config.retention.keep)


def _wanted(config: Config, ages: Ages, now: str) -> Wanted:
    return Wanted(ages.tasks_before(now), _keep(config))


def _check_events(path: Path, archive: ArchiveRow) -> None:
    """Read it again: every event is there and the chain goes through."""
    head = Head(archive.last, archive.last, archive.hash)
    try:
        with archive_files.ArchiveReader(path) as file:
            found = first_break(
                file.rows(), head, start=Head(archive.first - 1, archive.first - 1, archive.previous)
            )
    except archive_files.DamagedArchive as error:
        raise _not_written(path, str(error)) from None
    if found:
        raise _not_written(path, f"event {found.event_id}: {found.problem}")


def _check_tasks(path: Path, archive: ArchiveRow) -> None:
    try:
        with archive_files.ArchiveReader(path) as file:
            count = sum(1 for _ in file.lines())
    except archive_files.DamagedArchive as error:
        raise _not_written(path, str(error)) from None
    if count != archive.count:
        raise _not_written(path, f"it holds {count} of {archive.count} tasks")


def _not_written(path: Path, why: str) -> StoreError:
    return StoreError(
        f"the archive {path.name} is not what was written", why, "nothing was cut; see: taskdeck audit verify"
    )


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
