"""Who supervises a database: told by the command lines of living processes, since a supervisor keeps no state anywhere.

That is exact where a recorded pid is not: it finds one whose engine never came to write a row, and no stranger with its pid.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..edge import identity
from ..edge.identity import Identity
from ..edge.paths import gave_up_file
from .launcher import SUPERVISOR


def living(database: Path) -> list[Identity]:
    """The supervisors of this database that live in our file system and that we may look into."""
    notice = os.path.realpath(gave_up_file(Path(os.path.realpath(database))))
    return [
        one
        for pid in _pids()
        if (one := identity.of(pid))
        and _notice_of(pid) == notice
        and _sees_our_files(pid)
        and identity.alive(one)
    ]


def children(supervisor: Identity) -> list[int]:
    """The pids of its living children: an engine that starts, works or ends. None: it rests, or is about to go."""
    found = (identity.read(pid) for pid in _pids())
    return [one.identity.pid for one in found if one and one.parent == supervisor.pid and not one.dead]


def _notice_of(pid: int) -> str | None:
    """The notice of the supervisor with this pid, by its real path; None for any other process."""
    try:
        words = [os.fsdecode(word) for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    except OSError:  # gone meanwhile
        return None
    if tuple(words[1:4]) != SUPERVISOR:
        return None
    folder, name = os.path.split(words[4])
    database = os.path.realpath(os.path.join(folder, name.removesuffix(".gave-up")))
    return os.path.realpath(gave_up_file(Path(database)))


def _sees_our_files(pid: int) -> bool:
    """A container's supervisor may name a database of the same path that is another one."""
    try:
        return os.path.samefile(f"/proc/{pid}/root", "/")
    except OSError:  # gone, or another user's
        return False


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
