"""What threatens the storage, judged from figures: what a person is told, and whether anything new may start. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum
from math import ceil

from msgspec import Struct

from .settings import StorageSettings

EASING = 1.1
"""An alert is over once there is so many times the room that raised it: at its bound a figure raises one, not a hundred."""


class Fault(StrEnum):
    """Why the last changes could not be written."""

    FULL = "disk_full"
    READ_ONLY = "read_only"
    LOCKED = "locked"
    GONE = "database_gone"
    REPLACED = "database_replaced"
    TAKEN = "database_taken"
    """Another process holds the lock: its file was removed, and another engine started meanwhile."""
    BROKEN = "unwritable"
    """Whatever else the disk or SQLite says."""


class Trouble(Struct, frozen=True):
    """Nothing can be written now: the kind, in the system's words, and what to do."""

    fault: Fault
    why: str
    remedy: str


class Figures(Struct, frozen=True):
    """What was seen. Bytes; `free` by the place (`database`, `logs`); `readers` are those that hold the log back."""

    free: dict[str, int]
    wal: int = 0
    held_back: bool = False
    readers: tuple[str, ...] = ()
    trouble: Trouble | None = None


class Alert(Struct, frozen=True):
    """One thing that a person should know of. `pauses`: nothing new starts until it is over."""

    reason: str
    level: str
    message: str
    remedy: str
    pauses: bool = False

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})"


def alerts(figures: Figures, settings: StorageSettings, raised: Collection[str]) -> dict[str, Alert]:
    """What holds now, by reason. `raised` are the reasons that held before."""
    found = [*_trouble(figures), *_room(figures, settings, raised), *_log(figures, settings, raised)]
    return {each.reason: each for each in found}


def pause(found: Collection[Alert]) -> str:
    """Why nothing new may start while these alerts hold, each with its remedy; empty = it may."""
    return "; ".join(sorted(str(each) for each in found if each.pauses))


def _trouble(figures: Figures) -> Iterator[Alert]:
    if figures.trouble is not None:
        message = f"nothing can be written: {figures.trouble.why}; nothing new starts, nothing is lost"
        easy = figures.trouble.fault in (Fault.FULL, Fault.READ_ONLY)
        remedy = figures.trouble.remedy + (": it then goes on by itself" if easy else "")
        yield Alert(figures.trouble.fault, "error", message, remedy, pauses=True)


def _room(figures: Figures, settings: StorageSettings, raised: Collection[str]) -> Iterator[Alert]:
    for place, free in figures.free.items():
        low, none = f"low_disk_{place}", f"no_room_{place}"
        bound = settings.pause_free_bytes if place == "database" else 0
        if free < bound * (EASING if none in raised else 1.0):
            message = f"only {size_text(free)} are free for the {place}; nothing new starts"
            needed = f"{size_text(ceil(bound * EASING))} are free ([storage] pause_free_bytes)"
            yield Alert(none, "error", message, f"make room: it goes on by itself once {needed}", pauses=True)
        elif free < settings.warn_free_bytes * (EASING if low in raised or none in raised else 1.0):
            message = f"only {size_text(free)} are free for the {place}"
            loss = "nothing new starts below" if bound else "output of attempts is lost at"
            yield Alert(low, "warning", message, f"make room: {loss} {size_text(bound)}")


def _log(figures: Figures, settings: StorageSettings, raised: Collection[str]) -> Iterator[Alert]:
    if not figures.held_back:
        return
    who = ", ".join(figures.readers) or "a reader"
    message = (
        f"the write-ahead log has {size_text(figures.wal)}, since {who} holds an old state of the database"
    )
    remedy = "end that reader: the log then shrinks by itself"
    if figures.wal > settings.wal_pause_bytes:
        yield Alert("wal_full", "error", f"{message}; nothing new starts", remedy, pauses=True)
    elif figures.wal > settings.wal_warn_bytes / (EASING if "long_reader" in raised else 1.0):
        yield Alert("long_reader", "warning", message, remedy)


def size_text(size: int) -> str:
    """`12 MB`, for people."""
    number = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
