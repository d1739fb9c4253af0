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
        for pid in pids()
        if (one := identity.of(pid))
        and _notice_of(pid) == notice
        and sees_our_files(pid)
        and identity.alive(one)
    ]


def children(supervisor: Identity) -> list[int]:
    """The pids of its living engines: one that starts, works or ends. None: it rests, or is about to go.

    They are in its session, unlike workers and strays that it adopted from an engine that died.
    """
    found = [one for pid in pids() if (one := identity.read(pid)) and not one.dead]
    session = next((one.session for one in found if one.identity == supervisor), None)
    return [one.identity.pid for one in found if (one.parent, one.session) == (supervisor.pid, session)]


def is_supervisor(pid: int) -> bool:
    """Does this process supervise an engine, of whatever database?"""
    return tuple(command_line(pid)[1:4]) == SUPERVISOR


def command_line(pid: int) -> list[str]:
    """The words by which a process was started; [] for one that is gone, or in the middle of an exec."""
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # gone meanwhile
        return []
    return [os.fsdecode(word) for word in data.split(b"\0")]


def sees_our_files(pid: int) -> bool:
    """A container's process may name a path of ours that is another one. False too for another user's."""
    try:
        return os.path.samefile(f"/proc/{pid}/root", "/")
    except OSError:  # gone, or another user's
        return False


def pids() -> list[int]:
    """Every process that we can see."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _notice_of(pid: int) -> str | None:
    """The notice of the supervisor with this pid, by its real path; None for any other process."""
    words = command_line(pid)
    if tuple(words[1:4]) != SUPERVISOR:
        return None
    folder, name = os.path.split(words[4])
    database = os.path.realpath(os.path.join(folder, name.removesuffix(".gave-up")))
    return os.path.realpath(gave_up_file(Path(database)))
