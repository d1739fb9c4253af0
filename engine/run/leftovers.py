"""What attempts and workers left running when they ended: found by their group (cgroup), the mark in their
environment, what their worker had written down and who came to us when it died, and ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ..clock import Clock
from ..edge import identity, trees
from ..edge.cgroups import Group
from ..edge.identity import Identity
from ..edge.paths import database_hash
from . import groups, kin
from .messages import Left


def end_leftovers(
    database: Path,
    incarnation: str,
    task_ids: list[int],
    clock: Clock,
    journal: Path | None = None,
    orphans: Callable[[], Iterable[Identity]] = tuple,
) -> list[Left]:
    """End every process that these attempts left running, whatever session it fled into. Returns what could not be ended.

    `journal` is that of their worker: beside it stand its group and whom it wrote down. `orphans` who came to us when it
    died, asked for again as long as any are ended, since each may leave more. An empty `incarnation` leaves the worker
    itself, and what its Python handlers started, alone.
    """
    group, noted = _evidence(journal)
    if group is not None and incarnation:
        group.kill()  # most are gone with that; who left the group, or withstands, is looked for one by one
    left = [
        left_of(process, task_id)
        for task_id in _in_evidence(database, task_ids, group, noted, clock)
        for process in _end(
            trees.task_mark(database, task_id),
            groups.of_task(group, task_id),
            [one for one, its_task in noted.items() if its_task == task_id],
            clock,
        )
    ]
    if incarnation:
        mark = trees.worker_mark(database, incarnation)
        withstanding = _end(mark, [group], noted, clock, orphans)
        left += [left_of(one, noted.get(one) or _task(one, group)) for one in withstanding]
    return list({(one.pid, one.start_time): one for one in reversed(left)}.values())[::-1]


def find_leftovers(
    database: Path, incarnation: str, task_ids: list[int], clock: Clock, journal: Path | None = None
) -> list[Identity]:
    """The living processes that `end_leftovers` would end, but for orphans."""
    group, noted = _evidence(journal)
    marks = [
        trees.task_mark(database, each) for each in _in_evidence(database, task_ids, group, noted, clock)
    ]
    found = {one: None for mark in marks for one in trees.find(mark)}
    if incarnation:
        roots = [*(group.members() if group else ()), *noted]
        found |= dict.fromkeys(trees.find(trees.worker_mark(database, incarnation), roots=roots))
    return list(found)


def _evidence(journal: Path | None) -> tuple[Group | None, dict[Identity, int]]:
    """What tells of a worker's processes but their marks: its group, and whom it wrote down, with their tasks."""
    return (groups.of_worker(journal), kin.read(journal)) if journal is not None else (None, {})


def _in_evidence(
    database: Path, task_ids: list[int], group: Group | None, noted: Mapping[Identity, int], clock: Clock
) -> list[int]:
    """Those of these tasks of which anything may run: by a mark, a group or what was written down.

    An engine that was killed at full house held thousands; to ask for each by itself would take minutes. It is looked
    twice, since the environment of a process in the middle of an exec is empty for a moment.
    """
    prefix = f"{database_hash(database)}:"
    carried = trees.marks(prefix)
    clock.sleep(trees.PAUSE)
    carried |= trees.marks(prefix)
    found = {int(name) for name in (mark.split(":")[1] for mark in carried) if name.isdecimal()}
    found |= {*noted.values(), *groups.tasks_of(group)}
    return [task_id for task_id in task_ids if task_id in found]


def _end(
    mark: str,
    within: Iterable[Group | None],
    others: Iterable[Identity],
    clock: Clock,
    orphans: Callable[[], Iterable[Identity]] = tuple,
) -> list[Identity]:
    those = [each for each in within if each is not None]
    return trees.end_tree(
        mark,
        grace=0.0,
        clock=clock,
        roots=lambda: [*others, *orphans(), *(one for each in those for one in each.members())],
        at_once=lambda: [each.kill() for each in those],
    )


def _task(process: Identity, group: Group | None) -> int | None:
    """The task in whose group a process is."""
    return groups.task_of(group.place_of(process.pid)) if group is not None else None


def end_all(database: Path, clock: Clock) -> list[Left]:
    """End every process of this database, whichever task or worker it is of. Returns what could not be ended.

    Also where the database can't tell any more who they are; its engine and supervisor carry no mark.
    """
    prefix = f"{database_hash(database)}:"
    return [left_of(process) for process in trees.end_tree(prefix, grace=0.0, clock=clock)]


def left_of(process: Identity, task_id: int | None = None) -> Left:
    """A process that withstands, with its name as the kernel knows it."""
    return Left(process.pid, process.start_time, identity.name(process.pid), task_id)


def story(left: Iterable[Left]) -> str:
    """`pid 77 (sleep), pid 78 (sh) could not be ended`."""
    return f"{', '.join(f'pid {one.pid} ({one.name})' for one in left)} could not be ended"
