"""Fault points for the crash tests: named places between every two writes, at each commit, send and receive; inert unless
the environment names one.

`TASKDECK_CRASH_AT=name` or `name:N` (the Nth time; several with commas) kills this process with SIGKILL there. With
`TASKDECK_CRASH_ONCE=FILE` only the process that creates FILE dies, so that it happens once over all restarts; its pid is
in FILE. `TASKDECK_CRASH_LOG=FILE` notes who passes each point, a line each, so that a run lists those there are.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from threading import Lock

_armed: dict[str, int] = {}
_once: list[str] = []
_watchers: list[Callable[[str], None]] = []
_counting = Lock()


def arm(environ: Mapping[str, str]) -> None:
    """Read the variables anew. Raises `ValueError` where a count is no number, `OSError` where the log can't be opened."""
    _armed.clear()
    _watchers.clear()
    _once[:] = filter(None, [environ.get("TASKDECK_CRASH_ONCE")])
    for part in filter(None, environ.get("TASKDECK_CRASH_AT", "").split(",")):
        name, _, count = part.strip().partition(":")
        _armed[name] = int(count or 1)
    if log := environ.get("TASKDECK_CRASH_LOG"):
        file = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        watch(lambda name: _note(file, name))


def _note(file: int, name: str) -> None:
    os.write(file, f"{os.getpid()} {name}\n".encode())


def watch(passed: Callable[[str], None]) -> None:
    """Call this at each point from now on, until the next `arm`; what it raises is raised there."""
    _watchers.append(passed)


def crash_at(name: str) -> None:
    """Die here if this point is armed and its turn has come."""
    for passed in _watchers:
        passed(name)
    if _armed and name in _armed and _is_its_turn(name) and _may_happen():
        die()


def suppressed(name: str) -> bool:
    """Shall this step be left out? `TASKDECK_SUPPRESS=end_worker`: who counts as lost is not ended before its tasks go on."""
    return name in os.environ.get("TASKDECK_SUPPRESS", "").split(",")


def die() -> None:
    """End this process as `kill -9` does, here and now."""
    os.kill(os.getpid(), signal.SIGKILL)


def _is_its_turn(name: str) -> bool:
    with _counting:
        _armed[name] -= 1
        return _armed[name] == 0


def _may_happen() -> bool:
    if not _once:
        return True
    try:
        file = os.open(_once[0], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return False
    os.write(file, b"%d\n" % os.getpid())
    os.close(file)
    return True


arm(os.environ)
