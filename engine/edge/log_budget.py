"""What the output of all attempts may take of the disk together: the oldest that have ended go first.

Owns the files under `<logs>/tasks`. The age of a log is that of its last byte. Constant memory, however many logs there are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..rules.patterns import pattern

TASKS = "tasks"
"""The folder of the attempts' logs in the directory of the logs."""

_NAME = pattern(r"(\d+\.\d+\.log)(?:\.\d{15})?")
_SLICE = 64.0
"""Seconds of age that are removed together: what is counted is kept by slices and not by files."""


class _File(NamedTuple):
    log: str
    """The path of the log that it belongs to."""
    path: str
    size: int
    age: int


class Removed(NamedTuple):
    """What had to go: files and bytes; what is left in bytes."""

    files: int
    bytes: int
    left: int


def keep_within(directory: Path, most: int, running: Collection[str]) -> Removed:
    """Remove the oldest logs until at most `most` bytes are left. `running`: paths of the logs that are still written."""
    total, ended = 0, Counter[int]()
    for file in _files(directory / TASKS):
        total += file.size
        if file.log not in running:
            ended[file.age] += file.size
    going = _going(ended, total - most)
    files = removed = 0
    for file in _files(directory / TASKS) if going else ():
        if file.log in running or going.get(file.age, 0) <= 0:
            continue
        with suppress(OSError):
            os.unlink(file.path)
            files, removed = files + 1, removed + file.size
            going[file.age] -= file.size
    return Removed(files, removed, total - removed)


def _going(ended: Counter[int], excess: int) -> dict[int, int]:
    """How many bytes of each age must go: all of the oldest, and of the last one what is still too much."""
    going = {}
    for age in sorted(ended):
        if excess <= 0:
            break
        going[age] = min(ended[age], excess)
        excess -= ended[age]
    return going


def _files(folder: Path) -> Iterator[_File]:
    for thousand in _entries(folder):
        if not thousand.is_dir(follow_symlinks=False):
            continue
        for entry in _entries(thousand.path):
            match = _NAME.fullmatch(entry.name)
            with suppress(OSError):
                if match and entry.is_file(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    log = os.path.join(thousand.path, match[1])
                    yield _File(log, entry.path, found.st_size, int(found.st_mtime // _SLICE))


def _entries(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from entries
