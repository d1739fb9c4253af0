"""A backup from beginning to end: a name, one snapshot, the look at the copy, its place, and the old ones that go.

Works while an engine is at work, and takes nothing from it: the copy is made by this process, over a connection of its own.
The engine runs this as a program (`python -m taskdeck.engine.run.backing_up`), so that its loop stays free.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import msgspec

from ..clock import Clock, system_clock
from ..config import Config, load
from ..edge.paths import told_path
from ..errors import Refused, TaskdeckError, Unavailable, UsageError, kept_from
from ..rules.timing import utc_text
from ..store import backup
from ..store.durable import published
from ..store.reading import Reader
from .arguments import Arguments

SUFFIX = ".db"


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was written, looked at and found whole. `removed`: older ones that went for it."""

    path: str
    bytes: int
    schema: int
    tasks: int
    events: int
    removed: list[str] = []


def back_up(config: Config, target: Path | str | None, keep: int | None, clock: Clock) -> BackupReport:
    """Copy the database to `target`: a new file, or a folder (by default the configured one) that gets a file with the time
    in its name. With `keep`, only so many of those stay in the folder.

    What does not exist yet is a file if its name ends in `.db`; anything else, or with a slash at its end, is a folder.

    Raises `StoreError` where the copy is not whole (it is removed), `Refused`, `UsageError`, `Unavailable`.
    """
    if target == "":
        raise UsageError("an empty word names no place", remedy="name a file or a folder, or nothing")
    if target is None:
        folder, keep = config.backup_directory, keep or config.backup.keep
    else:
        folder = _folder(target)
    if keep is not None and folder is None:
        raise UsageError(
            "--keep counts the backups in a folder", f"{target} is a file", "name a folder, or none"
        )
    try:
        path = _new_name(folder, config.db, clock) if folder else _own_name(target)
        made = _write(config, path)
        removed = _remove_old(folder, config.db, keep) if folder and keep else []
    except OSError as error:
        what = f"the backup can't be written to {folder or target}"
        raise kept_from(error, what, "name another place") from error
    return msgspec.structs.replace(made, removed=[told_path(each) for each in removed])


def newest(folder: Path, database: Path) -> str | None:
    """When the newest of our backups in `folder` was made (UTC text), None without one."""
    found = _ours(folder, database)
    if not found:
        return None
    day, moment = found[-1].name.removeprefix(f"{database.stem}-")[:15].split("T")
    date = f"{day[:4]}-{day[4:6]}-{day[6:]}"
    return f"{date}T{moment[:2]}:{moment[2:4]}:{moment[4:]}.000000Z"


def _write(config: Config, path: Path) -> BackupReport:
    with Reader(config.db) as reader, published(path) as part:
        _refuse_without_room(config.db, part)
        expected = reader.ask(lambda connection: backup.copy(connection, part))
        found = backup.check(part, expected)
    return BackupReport(
        path=told_path(path),
        bytes=path.stat().st_size,
        schema=found.schema,
        tasks=found.rows["task"],
        events=found.head.length,
    )


def _folder(target: Path | str) -> Path | None:
    """The folder that is meant, which the backup makes; None where a file is meant."""
    path = Path(os.path.abspath(target))
    is_folder = path.is_dir() or os.fspath(target).endswith(os.sep)
    if not is_folder and (path.suffix == SUFFIX or os.path.lexists(path)):
        return None
    if not path.is_dir():
        _refuse_lost_place(path)  # of a disk that is not mounted, for one: never filled in silently
    return path


def _own_name(target: Path | str | None) -> Path:
    assert target is not None
    path = Path(os.path.abspath(target))
    if os.path.lexists(path):
        raise Refused(
            f"{path} exists already", "a backup never writes over a file", "name a new file, or a folder"
        )
    _refuse_lost_place(path)
    return path


def _refuse_lost_place(path: Path) -> None:
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", remedy="make it first, or name another")


def _new_name(folder: Path, database: Path, clock: Clock) -> Path:
    """`taskdeck-20261130T101500Z.db`; with a number behind it where one of this second exists."""
    moment = re.sub(r"[-:]|\.[0-9]+", "", utc_text(clock.utc()))
    name = f"{database.stem}-{moment}"
    taken = sum(1 for each in _ours(folder, database) if each.name.startswith(name))
    return Path(os.path.abspath(folder)) / (f"{name}-{taken + 1}{SUFFIX}" if taken else f"{name}{SUFFIX}")


def _ours(folder: Path, database: Path) -> list[Path]:
    """The backups in `folder` that have our names, oldest first; others' files are never touched."""
    name = re.compile(rf"{re.escape(database.stem)}-[0-9]{{8}}T[0-9]{{6}}Z(-[0-9]+)?{re.escape(SUFFIX)}")
    if not folder.is_dir():
        return []
    found = [each for each in folder.iterdir() if name.fullmatch(each.name) and each.is_file()]
    return sorted(found, key=lambda each: (each.name[: len(database.stem) + 17], len(each.name), each.name))


def _remove_old(folder: Path, database: Path, keep: int) -> list[Path]:
    old = _ours(folder, database)[:-keep]
    for path in old:
        path.unlink()
    return old


def _refuse_without_room(database: Path, part: Path) -> None:
    """A disk that this backup would fill is worse than no backup."""
    from shutil import disk_usage  # with four compressors that no engine needs

    needed = sum(each.stat().st_size for each in (database, Path(f"{database}-wal")) if each.exists())
    free = disk_usage(part.parent).free
    if free < needed + needed // 10:
        raise Unavailable(
            f"there is not enough room for a backup in {part.parent}",
            f"{needed >> 20} MB are needed, {free >> 20} MB are free",
            "make room, or name another place",
        )


def main(arguments: list[str]) -> int:
    """The program that an engine runs: one backup by the configuration, told as a line of JSON."""
    os.nice(10)
    try:
        given = Arguments(arguments, "db config")
        file = given.get("config")
        config = load(path=Path(file) if file else None, db=Path(given.one("db")))
        report = back_up(config, None, None, system_clock())
    except TaskdeckError as error:
        print(json.dumps({"error": str(error)}))
        return error.exit_code
    print(json.dumps(msgspec.to_builtins(report)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
