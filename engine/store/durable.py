"""Files that are there as a whole or not at all, also after a power cut, and that only their owner may read.

What is written goes to a name of its own in the same folder, is forced to disk, renamed, and the folder forced to disk. Where
the rename fails, nothing is written in place: the old file stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART = ".part"
"""What the names of unfinished files end with."""


@contextmanager
def published(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """The name of a new, empty file (0600) to write; what stands there at the end becomes `target`, durably.

    Its folder is made where it is missing (0700). On any error the unfinished file is removed and `target` is untouched.
    Raises `FileExistsError` where `target` exists, unless it may be replaced.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}{PART}")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    try:
        yield part
        sync(part)
        if target.exists() and not replace:
            raise FileExistsError(17, os.strerror(17), str(target))
        os.replace(part, target)
        sync(target.parent)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def append_line(path: Path, line: str) -> None:
    """Write `line` behind the whole lines of a file (0600), durably. A last line without its end, left by a writer that
    died, is cut off: it never counted."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        end = _end_of_lines(fd)
        os.ftruncate(fd, end)
        data = line.encode() + b"\n"
        while data:
            written = os.pwrite(fd, data, end)
            data, end = data[written:], end + written
        os.fsync(fd)
    finally:
        os.close(fd)


def last_line(path: Path) -> str:
    """The last whole line of a file, without its end; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return ""
    return lines[-2].decode("utf-8", "replace") if len(lines) > 1 else ""


def _end_of_lines(fd: int) -> int:
    end = os.fstat(fd).st_size
    while end:
        start = max(0, end - 4096)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
