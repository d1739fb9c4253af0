"""The groups of workers (cgroups): each has one of its own, and in it one for each process that it starts for an attempt.

A worker's group is named by its incarnation, which nobody else has, and stands in a file beside its journal: so the next
engine finds it wherever it runs itself, and a `stop` without one too. Must not decide when anything ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from threading import Lock

from msgspec import Struct

from ..edge import adoption, cgroups, trees
from ..edge.cgroups import Group, OwnGroup
from ..edge.identity import Identity
from ..edge.paths import open_private
from ..edge.spawn import Child

SUFFIX = ".group"
ROUNDS = 20
"""How often it is looked whether a command forks while it is moved: each round moves all that are there."""


def make(journal: Path) -> Group | None:
    """A group for the worker with this journal; None where none can be made."""
    group = cgroups.below_ours(journal.stem)
    if group is None or not group.make():
        return None
    try:
        with open(journal.with_suffix(SUFFIX), "w", encoding="utf-8", opener=open_private) as file:
            file.write(f"{group.path}\n")
    except OSError:  # one that nobody would find again
        group.remove()
        return None
    return group


def means(wanted: str) -> str:
    """How the descendants of workers are found from now on, in words, with `engine.cgroups` = `wanted`."""
    if wanted != "auto":
        return "marks, sessions and descent; cgroups are off"
    group = cgroups.below_ours("")
    if group is None or not os.access(group.path.parent / "cgroup.procs", os.W_OK):
        return "marks, sessions and descent; no cgroup can be made here"
    return f"cgroups in {group.path.parent}, marks, sessions and descent"


def of_worker(journal: Path) -> Group | None:
    """The group of the worker with this journal, though another engine made it; None where it has none (any more)."""
    try:
        path = Path(journal.with_suffix(SUFFIX).read_text(encoding="utf-8").removesuffix("\n"))
    except (OSError, ValueError):
        return None
    known = path.name == cgroups.PREFIX + journal.stem and (path / "cgroup.procs").exists()
    return Group(path) if known else None


def forget(journal: Path) -> None:
    """The worker is settled: its group goes if nothing lives in it, else later (`sweep`)."""
    group = of_worker(journal)
    if group is None or group.remove():
        with suppress(OSError):  # a folder that can't be written: the file names a group that is gone
            journal.with_suffix(SUFFIX).unlink()


def sweep(folder: Path, living: Collection[str]) -> None:
    """Remove the empty groups of all workers but those of these incarnations, whichever engine left them."""
    for file in folder.glob("*" + SUFFIX):
        if file.stem not in living:
            forget(file)


def of_task(group: Group | None, task_id: int) -> list[Group]:
    """The groups in a worker's that are of this task's attempts."""
    return [Group(path) for path in group.path.glob(f"task-{task_id}.*")] if group else []


def tasks_of(group: Group | None) -> set[int]:
    """The tasks that have a group in a worker's."""
    found = (task_of(path.name) for path in group.path.glob("task-*")) if group else ()
    return {each for each in found if each is not None}


def task_of(name: str) -> int | None:
    """The task for which a group of this name was made; None for any other name."""
    words = name.removeprefix("task-").split(".")
    return int(words[0]) if name.startswith("task-") and words[0].isdecimal() else None


class _Newcomer(Struct):
    """The command that was started last, while it is in its worker's group."""

    mark: str
    pid: int
    before: set[int]
    """Who was there when it came."""


class AttemptGroups:
    """The groups that one worker makes within its own (`own` None: it has none, and all of this does nothing). Any thread.

    A command is born in the worker's group and moved once its program is in place: by vfork, which is how commands start
    (a fork of a whole worker costs five times as much), it can't move itself. It is moved before the next one is started
    (`settle`), so that whoever appeared in the worker's own group since can be nobody else's and is moved too. One that has
    ended by then, with all that it started, needs no group: to make, enter and remove one costs as much as to run it.
    """

    def __init__(self, own: Group | None = None) -> None:
        self._own = OwnGroup(own.path) if own is not None else None
        self._groups: dict[str, Group] = {}
        self._newcomer: _Newcomer | None = None
        self._lock = Lock()
        self.alone: Callable[[], bool] = lambda: True
        """Do no handlers run in this process itself, whose children are born in its group too?"""
        self.lasting = False
        """Had the command that came before the last to be moved?"""

    @property
    def is_made(self) -> bool:
        """Has the worker a group?"""
        return self._own is not None

    @property
    def has_newcomer(self) -> bool:
        """Is there one that may have to be moved?"""
        return self._newcomer is not None

    def start(self, mark: str, start: Callable[[], Child]) -> Child:
        """Start a command, after the one before has been moved. Raises what `start` raises."""
        if self._own is None:
            return start()
        with self._lock:
            before = {*self._settle(self._own), os.getpid()}
            child = start()
            self._newcomer = _Newcomer(mark, child.pid, before)
        return child

    def settle(self) -> None:
        """Move the command that was started last into a group of its own, if anything of it lives."""
        if self._own is not None:
            with self._lock:
                self._settle(self._own)

    def members(self, mark: str) -> list[Identity]:
        """Who lives in the group of this command."""
        self._settle_if(mark)
        group = self._groups.get(mark)
        return group.members() if group else []

    def kill(self, mark: str) -> None:
        """KILL them all at once."""
        self._settle_if(mark)
        if group := self._groups.get(mark):
            group.kill()

    def owner(self, pid: int) -> str | None:
        """The mark of the command in whose group a process is; None for any other."""
        self.settle()
        if not self._groups or self._own is None:
            return None
        name = self._own.place_of(pid)
        return next((mark for mark, group in list(self._groups.items()) if group.path.name == name), None)

    def leave(self, mark: str) -> None:
        """The command is buried. A group in which something withstands stays until its worker's goes."""
        with self._lock:
            if self._newcomer is not None and self._newcomer.mark == mark:
                self._newcomer = None
        if group := self._groups.pop(mark, None):
            group.remove()

    def _settle_if(self, mark: str) -> None:
        if self._newcomer is not None and self._newcomer.mark == mark:
            self.settle()

    def _settle(self, own: Group) -> list[int]:
        """Returns who is in the worker's own group after that."""
        newcomer, self._newcomer = self._newcomer, None
        there = own.pids()
        if newcomer is None:
            return there
        fresh = self._of(newcomer, there)
        self.lasting = bool(fresh)
        if not fresh or not (group := own.inner(_name(newcomer.mark))).make():
            return there
        self._groups[newcomer.mark] = group
        for _ in range(ROUNDS):
            if not any([group.take(each) for each in fresh]):
                break
            there = own.pids()
            fresh = self._of(newcomer, there)
        return there

    def _of(self, newcomer: _Newcomer, there: list[int]) -> list[int]:
        """Who of these has come with the newcomer: unless handlers run here, whoever is new."""
        fresh = [each for each in there if each not in newcomer.before]
        if fresh and not self.alone():
            below = {newcomer.pid, *adoption.descendants(newcomer.pid)}
            fresh = [each for each in fresh if each in below or trees.mark_of(each) == newcomer.mark]
        return fresh


def _name(mark: str) -> str:
    """`task-42.3` for the third attempt of task 42."""
    return "task-" + ".".join(mark.split(":")[1:])
