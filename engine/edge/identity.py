"""Exact process identity on this host: a pid alone may name another process a moment later.

Owns the reading of /proc/<pid>/stat and every signal sent by identity. Linux only: without pidfds (5.3+)
the import says so. Must not decide who deserves a signal.
"""

from __future__ import annotations

import functools
import os
import select
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..clock import Clock, SystemClock
from ..errors import TaskdeckError
from ..rules.cleaning import clean

if not sys.platform.startswith("linux") or not hasattr(os, "pidfd_open"):
    raise TaskdeckError(
        "taskdeck runs on Linux only",
        f"{sys.platform} has no pidfds, so processes can't be told apart for certain",
        "use Linux 5.3 or newer",
    )

# Places in /proc/<pid>/stat counted from the state, which follows the last parenthesis (proc(5): field 3).
_STATE, _PARENT, _SESSION, _UTIME, _STIME, _THREADS, _START, _RSS = 0, 1, 3, 11, 12, 17, 19, 21


STOPPED = ("T", "t")
"""States of a process that is stopped or traced."""


class Identity(msgspec.Struct, frozen=True):
    """One process, never confused with a later one of its pid. `start_time` in clock ticks since boot."""

    pid: int
    start_time: int
    boot_id: str


class Process(NamedTuple):
    """One process and its place among the others."""

    identity: Identity
    parent: int
    session: int
    dead: bool


@functools.cache
def boot_id() -> str:
    """The kernel's random name of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def named_by(row: Mapping[str, Any]) -> Identity:
    """The process that a row of the database names by its pid, start time and boot."""
    return Identity(row["pid"], row["start_time"], row["boot_id"])


def me() -> Identity:
    """This process."""
    return Identity(os.getpid(), start_time(os.getpid()) or 0, boot_id())


def of(pid: int) -> Identity | None:
    """The identity of whatever has this pid now; None = nothing has."""
    started = start_time(pid)
    return None if started is None else Identity(pid, started, boot_id())


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None = no such process."""
    fields = _stat(pid)
    return int(fields[_START]) if fields else None


def state(pid: int) -> str | None:
    """The kernel's letter: R, S, D, T (stopped), t (traced), Z (zombie) …; None = no such process."""
    fields = _stat(pid)
    return fields[_STATE].decode() if fields else None


def name(pid: int) -> str:
    """The name that the kernel knows a process by, at most 15 characters; "?" for one that is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return clean(file.read().strip()) or "?"
    except OSError:
        return "?"


def cpu_seconds(pid: int) -> float | None:
    """CPU time spent so far, user and system, all threads; None = no such process."""
    fields = _stat(pid)
    if not fields:
        return None
    return (int(fields[_UTIME]) + int(fields[_STIME])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int) -> int | None:
    """Resident memory; None = no such process."""
    fields = _stat(pid)
    return int(fields[_RSS]) * os.sysconf("SC_PAGE_SIZE") if fields else None


def alive(identity: Identity) -> bool:
    """Is exactly this process running? A zombie, another boot, a later process of its pid are dead."""
    fields = _stat(identity.pid) if identity.boot_id == boot_id() else None
    if not fields or int(fields[_START]) != identity.start_time:
        return False
    return not _is_dead(fields)


def read(pid: int) -> Process | None:
    """Who has this pid now, and where it belongs; None = nobody. A zombie is there, and dead."""
    fields = _stat(pid)
    if not fields:
        return None
    one = Identity(pid, int(fields[_START]), boot_id())
    return Process(one, int(fields[_PARENT]), int(fields[_SESSION]), _is_dead(fields))


def open_pidfd(identity: Identity) -> int | None:
    """A descriptor that means exactly this process (the caller closes it); None = it is gone.

    Opened first, compared after: what the descriptor means can't change in between. A zombie still has one.
    """
    if identity.pid <= 0 or identity.boot_id != boot_id():
        return None
    try:
        pidfd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    if start_time(identity.pid) == identity.start_time:
        return pidfd
    os.close(pidfd)
    return None


def kill(identity: Identity, number: int) -> bool:
    """Send a signal to exactly this process; False = nobody was signalled: it is dead, or not ours."""
    pidfd = open_pidfd(identity)
    if pidfd is None:
        return False
    try:
        if not alive(identity):
            return False
        signal.pidfd_send_signal(pidfd, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(pidfd)
    return True


def wait_gone(identities: Iterable[Identity], seconds: float, clock: Clock | None = None) -> list[Identity]:
    """Block until all are dead or `seconds` have passed; returns those still alive. One descriptor a time."""
    clock = clock or SystemClock()
    end = clock.monotonic() + seconds
    return [one for one in identities if not _ends_within(one, end - clock.monotonic())]


def _ends_within(identity: Identity, seconds: float) -> bool:
    pidfd = open_pidfd(identity)
    if pidfd is None:
        return True
    try:
        return wait_readable(pidfd, seconds)
    finally:
        os.close(pidfd)


def wait_readable(fd: int, seconds: float | None) -> bool:
    """Block until the descriptor can be read (a pidfd: its process died), `seconds` at most (None = ever)."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if seconds is None else max(0.0, seconds) * 1000))


def _is_dead(fields: list[bytes]) -> bool:
    # A main thread that ended shows Z while other threads of the process go on.
    return fields[_STATE] in b"ZX" and int(fields[_THREADS]) <= 1


def _stat(pid: int) -> list[bytes] | None:
    """The fields after the command's name, which may itself hold spaces and parentheses."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, 2048).rpartition(b")")[2].split() or None
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
