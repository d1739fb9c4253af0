"""All that a command left running: its children, theirs, and those that fled into sessions of their own.

Owns the mark in the environment by which they are found again, by any process and after any crash. Linux
keeps a process's first environment readable in /proc/<pid>/environ, and children inherit it. One that
clears it is still found through its session or its living ancestors. Must not reap: exit statuses belong to
`spawn`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from ..clock import Clock
from . import identity, proc_files
from .identity import Identity, Process
from .paths import database_hash

VARIABLE = "TASKDECK_MARK"
PATIENCE = 5.0
"""How long `end_tree` goes on killing (seconds): only a process stuck in the kernel outlives this."""
PAUSE = 0.01
"""How long a killed process may take to go before the next scan (seconds)."""
CHASES = 100
"""How often the newest pids are looked at between two scans: that takes 2 to 5 ms."""


def mark(db_path: str | os.PathLike[str], task_id: int, attempt: int) -> str:
    """The value of `TASKDECK_MARK` for one attempt: `<8 hex digits of the database>:<task>:<attempt>`."""
    return f"{_hash(os.fspath(db_path))}:{task_id}:{attempt}"


def worker_mark(db_path: str | os.PathLike[str], incarnation: str) -> str:
    """The same for a worker; what Python handlers start inherits it (commands get the mark of their task)."""
    return f"{_hash(os.fspath(db_path))}:worker-{incarnation}:0"


def task_mark(db_path: str | os.PathLike[str], task_id: int) -> str:
    """What the marks of a task's attempts begin with."""
    return f"{_hash(os.fspath(db_path))}:{task_id}:"


@lru_cache(maxsize=16)
def _hash(db_path: str) -> str:
    return database_hash(db_path)  # a process works for one database, and looks its path up once


def mark_of(pid: int) -> str | None:
    """The mark in the environment with which a process was started; None for none, or where it can't be read."""
    for entry in _environ(pid).split(b"\0"):
        if entry.startswith(f"{VARIABLE}=".encode()):
            return entry.partition(b"=")[2].decode("utf-8", "replace")
    return None


def find(prefix: str, session: int | None = None, roots: Iterable[Identity] = ()) -> list[Identity]:
    """All living processes of one attempt (a whole mark), one task (`<hash>:<task>:`) or one database
    (`<hash>:`).

    Adds their descendants and the members of their sessions. `session` names the session of a child that
    isn't reaped yet (its pid, which therefore can't mean anything else), `roots` who is known to belong there
    otherwise. Never this process. What we may not read is not ours.
    """
    marked = [pid for pid in _pids() if _is_marked(pid, prefix)]
    roots = list(roots)
    if not marked and not roots and session is None:
        return []
    processes = _snapshot()
    # Asked again after the identities were read: a pid given to a stranger in between is dropped.
    sure = {pid for pid in marked if pid in processes and _is_marked(pid, prefix)}
    sure |= {one.pid for one in roots if one.pid in processes and processes[one.pid].identity == one}
    family = _family(sure, session, processes)
    return [processes[pid].identity for pid in sorted(family) if not processes[pid].dead]


def marks(prefix: str) -> set[str]:
    """The marks that begin with `prefix` and are carried by any living process: one scan for however many tasks."""
    found = (mark_of(pid) for pid in _pids() if _is_marked(pid, prefix))
    return {each for each in found if each is not None}


def members_of_session(sid: int) -> list[Identity]:
    """The living processes of a session, by its number: exact while its leader lives or isn't reaped."""
    return [one.identity for one in _snapshot().values() if one.session == sid and not one.dead]


def end_tree(
    prefix: str,
    *,
    grace: float,
    clock: Clock,
    session: int | None = None,
    roots: Callable[[], Iterable[Identity]] = tuple,
    at_once: Callable[[], object] = lambda: None,
) -> list[Identity]:
    """Block until nothing of it runs: TERM (and CONT, for stopped ones), `grace` seconds, then KILL. Without grace
    KILL at once.

    `at_once` is called with each round of KILL: what ends a whole group in one stroke, so that nobody outruns the scan.
    Returns what could not be ended in `PATIENCE` seconds more: to be reported, never shown as clean.
    """
    end = clock.monotonic() + grace
    asked: set[Identity] = set()
    while grace > 0 and (found := find(prefix, session, roots())):
        ask(one for one in found if one not in asked)
        asked.update(found)
        left = end - clock.monotonic()
        # Who forks on after TERM is seen in the next round; the wait ends as soon as all known ones have
        # gone.
        if left <= 0 or identity.wait_gone(found, left, clock):
            break
    return _kill_all(prefix, session, roots, at_once, clock)


def ask(processes: Iterable[Identity]) -> None:
    """TERM each, and wake it to hear that: a stopped process takes no TERM until it is continued."""
    for one in processes:
        identity.kill(one, signal.SIGTERM)
        identity.kill(one, signal.SIGCONT)


def _kill_all(
    prefix: str,
    session: int | None,
    roots: Callable[[], Iterable[Identity]],
    at_once: Callable[[], object],
    clock: Clock,
) -> list[Identity]:
    """KILL again and again until two scans in a row, and a chase between them, find nothing."""
    end = clock.monotonic() + PATIENCE
    empty = 0
    while True:
        found = find(prefix, session, roots())
        if found:
            at_once()
        for one in found:
            identity.kill(one, signal.SIGKILL)
        empty = 0 if found else empty + 1
        if empty == 2 or clock.monotonic() >= end:
            return found
        identity.wait_gone(found, PAUSE, clock)
        if not found and _chase(prefix, clock):
            empty = 0


def _chase(prefix: str, clock: Clock) -> bool:
    """KILL who forks and exits faster than a whole scan sees: it is always among the newest pids. Takes `PAUSE` at least.

    That also gives a process in the middle of an exec, whose environment is empty for a moment, time to
    show it.
    """
    hit, until = False, clock.monotonic() + PAUSE
    with open("/proc/loadavg", "rb", buffering=0) as load:
        for _ in range(CHASES):
            newest = int(os.pread(load.fileno(), 100, 0).split()[4])
            for pid in range(newest + 2, newest - 6, -1):
                if os.access(
                    f"/proc/{pid}", os.F_OK
                ):  # most are gone, and to fail at opening takes five times as long
                    hit |= _is_marked(pid, prefix) and _kill_marked(pid, prefix)
    clock.sleep(max(0.0, until - clock.monotonic()))
    return hit


def _kill_marked(pid: int, prefix: str) -> bool:
    """Asked again once it is known who that is: a pid given to a stranger in between is left alone."""
    one = identity.of(pid) if pid != os.getpid() else None
    return one is not None and _is_marked(pid, prefix) and identity.kill(one, signal.SIGKILL)


def _family(marked: set[int], session: int | None, processes: dict[int, Process]) -> set[int]:
    """The marked ones, whoever is in a session they made, and the descendants of all of these; never this
    process.

    A session led by a living stranger (a shell into which somebody copied the variable) isn't theirs.
    """
    sessions = {processes[pid].session for pid in marked}
    made = {sid for sid in sessions if sid in marked or sid not in processes or processes[sid].dead}
    made -= {0, os.getsid(0)}  # 0: led from outside this pid namespace
    if session is not None:
        made.add(session)
    family = marked | {pid for pid, one in processes.items() if one.session in made}
    children: dict[int, list[int]] = {}
    for pid, one in processes.items():
        children.setdefault(one.parent, []).append(pid)
    ours = {os.getpid()}
    family -= ours
    waiting = list(family)
    while waiting:
        fresh = set(children.get(waiting.pop(), [])) - family - ours
        family |= fresh
        waiting.extend(fresh)
    return family


def _snapshot() -> dict[int, Process]:
    return {pid: one for pid in _pids() if (one := identity.read(pid))}


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _is_marked(pid: int, prefix: str) -> bool:
    start = f"\0{VARIABLE}={prefix}".encode()
    # A prefix ends with its colon; a whole mark must be whole, or task 4 would answer for task 42.
    return (start if prefix.endswith(":") else start + b"\0") in b"\0" + _environ(pid) + b"\0"


def _environ(pid: int) -> bytes:
    try:
        return proc_files.read(f"/proc/{pid}/environ")
    except OSError:  # gone meanwhile, or another user's
        return b""
