"""Groups of the kernel's (cgroup v2): whoever is born in one stays in it, whatever it forks, clears or closes.

Owns the files of the groups below our own one, and the way from a process to its group. Must not decide whose a group is,
nor enable controllers: nothing is limited, everything is found. Where no group can be made, nothing is said: it is an extra.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from . import identity, proc_files
from .identity import Identity

PREFIX = "taskdeck-"
"""What the name of every group begins with that is made directly below the group of an engine."""


class Group:
    """One group, by its directory. Harmless where it is gone: it has no members then."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def inner(self, name: str) -> Group:
        """A group within it, made or not."""
        return Group(self.path / name)

    def make(self) -> bool:
        """Have it exist, for us to use. False where we may not."""
        with suppress(OSError):
            with suppress(FileExistsError):
                os.mkdir(self.path)
            if os.access(f"{self.path}/cgroup.procs", os.W_OK):
                return True
            os.rmdir(self.path)
        return False

    def take(self, pid: int) -> bool:
        """Move a process into it (0 = this one), with all its threads; its children stay. False where that can't be."""
        return self._write("cgroup.procs", str(pid))

    def pids(self) -> list[int]:
        """The pids in this group itself; those that our pid namespace has no number for are left out."""
        try:
            found = self._list()
        except OSError:  # gone, or of a type that holds no processes
            return []
        return [int(word) for word in found.split() if word != b"0"]

    def place_of(self, pid: int) -> str:
        """The name of the group directly in it that a process is in, or in one within that; "" for any other process."""
        found = directory_of(pid)
        if found is None or found == self.path or not found.is_relative_to(self.path):
            return ""
        return found.relative_to(self.path).parts[0]

    def members(self) -> list[Identity]:
        """Who lives in it or in a group within."""
        found = (identity.read(pid) for each in self._all() for pid in each.pids())
        return [one.identity for one in found if one is not None and not one.dead]

    def kill(self) -> None:
        """KILL all in it and within, those being born too (Linux 5.14); one by one where the kernel can't."""
        if not self._write("cgroup.kill", "1"):
            for one in self.members():
                identity.kill(one, signal.SIGKILL)

    def remove(self) -> bool:
        """Take it away with the groups within, where nothing lives there. Returns whether it is gone."""
        with suppress(OSError):  # mostly there are none within
            os.rmdir(self.path)
            return True
        for each in self._all():
            with suppress(OSError):
                each.path.rmdir()
        return not self.path.is_dir()

    def _all(self) -> Iterator[Group]:
        """It and the groups within, the inmost first."""
        for folder, _, _ in os.walk(self.path, topdown=False):
            yield Group(Path(folder))

    def _list(self) -> bytes:
        return proc_files.read(f"{self.path}/cgroup.procs")

    def _write(self, name: str, text: str) -> bool:
        try:
            # Never made: the kernel's file or none.
            fd = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            os.write(fd, text.encode())
        except OSError:
            return False
        finally:
            os.close(fd)
        return True


class OwnGroup(Group):
    """The one that this process is in, which is there as long as we are: its list stays open."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._list = proc_files.Kept(f"{path}/cgroup.procs").read


def below_ours(name: str) -> Group | None:
    """The group of this name directly below our own, not made yet; None where there is no cgroup v2."""
    own = directory_of("self")
    return Group(own / (PREFIX + name)) if own is not None else None


def directory_of(process: int | str) -> Path | None:
    """The directory of the group that a process is in; None where it has none that our mounts show."""
    try:
        path = path_of(Path(f"/proc/{process}/cgroup").read_text())
        mounts = Path("/proc/self/mountinfo").read_text()
    except (OSError, ValueError):
        return None
    return shown(path, mounts) if path else None


def path_of(text: str) -> str:
    """The path in cgroup v2 that /proc/PID/cgroup tells, e.g. `/user.slice/x.scope`; "" for none."""
    lines = (line.removeprefix("0::") for line in text.splitlines() if line.startswith("0::"))
    return next(lines, "")


def shown(path: str, mountinfo: str) -> Path | None:
    """Where a mount of cgroup v2 shows this path (proc(5): root and mount point are fields 4 and 5)."""
    if path.startswith("/.."):  # above what our namespace shows
        return None
    for line in mountinfo.splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.split(" ")[0] != "cgroup2":
            continue
        root, point = (_plain(field) for field in fields.split(" ")[3:5])
        inside = os.path.relpath(path, root)
        if not inside.startswith(".."):
            return Path(point, inside)
    return None


def _plain(field: str) -> str:
    """A field of mountinfo, in which blanks and their like stand as `\\040`."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
