"""What the kernel tells of the disk under a file: its room, its kind, and who holds back the log of a database.

Reads only. Must not decide what is too little or what is allowed.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from ..rules.cleaning import clean
from ..rules.filesystems import Filesystem

MOUNTS = Path("/proc/self/mountinfo")
LOCKS = Path("/proc/locks")

_READ_MARKS = range(123, 128)
"""The bytes of a database's shared memory on which readers of its log hold locks (SQLite's walformat)."""


def free_bytes(path: Path) -> int:
    """What a plain user may still write on the disk of `path`, in bytes. Raises `OSError`."""
    found = os.statvfs(_existing(path))
    if found.f_files and not found.f_favail:
        return 0  # no file can be made any more
    return found.f_bavail * found.f_frsize


def is_mounted(path: Path) -> bool:
    """Is this directory the place of a filesystem of its own? False too where it isn't there at all."""
    return os.path.ismount(path)


def filesystem_of(path: Path, mounts: Path = MOUNTS) -> Filesystem | None:
    """The filesystem that `path` lies (or would lie) on; None where the kernel doesn't say."""
    real = os.path.realpath(_existing(path))
    best: tuple[int, Filesystem] | None = None
    try:
        lines = mounts.read_text("utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    for line in lines:  # of two mounts on one place, the later one is seen
        fields = line.split(" ")
        if "-" not in fields or len(fields) < 9:
            continue
        point, kind = _unescaped(fields[4]), fields[fields.index("-") + 1]
        if _is_under(real, point) and (best is None or len(point) >= best[0]):
            best = (len(point), Filesystem(kind, point))
    return best[1] if best else None


def readers_of(database: Path, locks: Path = LOCKS) -> tuple[str, ...]:
    """The processes that read an old state of this database now, as `name (pid 7)`. Nothing where it can't be told."""
    try:
        inode = os.stat(f"{database}-shm").st_ino
        lines = locks.read_text().splitlines()
    except OSError:
        return ()
    pids = set()
    for line in lines:
        fields = line.split()  # 1: POSIX ADVISORY READ 4711 fe:00:1234 124 124
        if len(fields) < 8 or fields[3] != "READ" or not fields[5].endswith(f":{inode}"):
            continue
        if fields[6].isdigit() and int(fields[6]) in _READ_MARKS and int(fields[4]) > 0:
            pids.add(int(fields[4]))
    return tuple(f"{_name(pid)} (pid {pid})" for pid in sorted(pids))


def _name(pid: int) -> str:
    with suppress(OSError):
        return clean(Path(f"/proc/{pid}/comm").read_text("utf-8", errors="replace").strip(), limit=40)
    return "a process"


def _existing(path: Path) -> Path:
    """The nearest folder above that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _is_under(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")
