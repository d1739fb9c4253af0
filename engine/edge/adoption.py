"""Processes whose parent has gone come to this one (a child subreaper), so that none can flee by forking twice.

Owns the request to the kernel, the list of own children and the reaping of adopted ones. Must not decide of which task a
process is.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache, partial
from threading import Lock

from . import identity, proc_files
from .identity import Process

_SET_CHILD_SUBREAPER = 36  # prctl(2), Linux 3.4
_GET_CHILD_SUBREAPER = 37
_LISTS = os.path.exists("/proc/thread-self/children")
"""Does the kernel keep lists of children (CONFIG_PROC_CHILDREN)?"""
_own: list[subprocess.Popen[bytes]] = []
_starting = Lock()


def adopt_orphans() -> bool:
    """From now on orphaned descendants become children of this process. False where the kernel does not let us."""
    return ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def adopts_all() -> bool:
    """Does every orphaned descendant come to this process, and does the kernel list its children?"""
    found = ctypes.c_int(0)
    asked = ctypes.CDLL(None, use_errno=True).prctl(_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    return _LISTS and asked == 0 and found.value == 1


def adopted() -> list[int]:
    """Our children that the main thread has: those it started, and every orphan that came to us."""
    return _numbers(_own_list(os.getpid()).read) if _LISTS else _by_parent(os.getpid())


def children(pid: int) -> list[int]:
    """The children of a process, dead ones that nobody has reaped among them; [] for one that is gone."""
    if not _LISTS:
        return _by_parent(pid)
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [child for thread in threads for child in _listed(pid, thread)]


def start(begin: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a child that makes a session of its own, so that it is never taken for an orphan. Raises what `begin` raises."""
    with _starting:
        _own[:] = [each for each in _own if each.returncode is None]
        child = begin()
        _own.append(child)
        return child


def orphans() -> list[Process]:
    """Children that came to this process, dead ones among them, as far as they are in another session than it is.

    In its own one nobody can be told from what it started itself without `start`. Any thread.
    """
    with _starting:
        own = {each.pid for each in _own if each.returncode is None}
        found = [identity.read(pid) for pid in children(os.getpid()) if pid not in own]
    return [one for one in found if one is not None and one.session != os.getsid(0)]


def descendants(pid: int) -> set[int]:
    """The pids of its children, theirs, and so on; zombies among them."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        fresh = set(children(waiting.pop())) - found
        found |= fresh
        waiting += fresh
    return found


def _listed(pid: int, thread: int | str) -> list[int]:
    return _numbers(partial(proc_files.read, f"/proc/{pid}/task/{thread}/children"))


@lru_cache(maxsize=1)
def _own_list(pid: int) -> proc_files.Kept:
    """By our pid, since a process that we fork has a list of its own."""
    return proc_files.Kept(f"/proc/{pid}/task/{pid}/children")


def _numbers(read: Callable[[], bytes]) -> list[int]:
    try:
        return [int(each) for each in read().split()]
    except OSError:  # that thread has ended meanwhile
        return []


def _by_parent(pid: int) -> list[int]:
    """Where the kernel keeps no such lists everybody is asked."""
    all_pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return [each for each in all_pids if (one := identity.read(each)) and one.parent == pid]


def channels(pid: int) -> set[str]:
    """The pipes and sockets that a process has open, as the kernel names them: `pipe:[4711]`."""
    found: set[str] = set()
    with suppress(OSError):  # gone, or another user's
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return {name for name in found if name.startswith(("pipe:", "socket:"))}


def reap(pids: Iterable[int]) -> None:
    """Collect these children of ours that have ended; those that live are left alone."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
