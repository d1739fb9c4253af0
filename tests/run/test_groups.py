"""Each worker and each of its commands has a group of its own (cgroup): whose an orphan is needs no guess, whoever lives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.edge import identity
from taskdeck.engine.edge.cgroups import PREFIX, Group
from taskdeck.engine.edge.identity import Identity
from taskdeck.engine.run import groups, leftovers
from taskdeck.engine.run import messages as m
from tests.eventually import eventually
from tests.faults import fault
from tests.grouped import is_empty, own_group
from tests.run.engine_double import engine, kill

ONE_BY_ONE = """
import os, sys
from pathlib import Path
from taskdeck.engine.edge import spawn
from taskdeck.engine.edge.cgroups import Group
from taskdeck.engine.run.groups import AttemptGroups

own = Group(Path(sys.argv[1]))
assert own.take(0)
groups = AttemptGroups(own)

def start(mark, *argv):
    return groups.start(mark, lambda: spawn.start(argv, env={"PATH": os.environ["PATH"]}))

def tell():
    print(*sorted(path.name for path in own.path.glob("task-*")) or ["none"])

start("x:1:1", "true").wait()
lasts = start("x:2:1", "sleep", "600")
tell()
start("x:3:1", "true").wait()
tell()
print(groups.members("x:2:1") == [lasts.identity], groups.members("x:3:1"))
os.kill(lasts.pid, 9)
lasts.wait()
groups.leave("x:2:1")
start("x:4:1", "sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &").wait()
print(len(groups.members("x:4:1")))
groups.kill("x:4:1")
"""
FLEE = "env -i setsid sh -c '(exec 3>&- </dev/null >/dev/null 2>&1; exec sleep 300) & exit' & wait;"


def named(those: list[Identity], name: str) -> list[Identity]:
    return [one for one in those if identity.name(one.pid) == name]


def asleep(group: Group, task_id: int, count: int) -> list[Identity]:
    """The members of a task's group that sleep, once they are so many."""
    found = [one for each in groups.of_task(group, task_id) for one in named(each.members(), "sleep")]
    return found if len(found) == count else []


def of_worker(parent: Group, journal: Path) -> Group:
    """The group of the worker with this journal, found by the file beside that; nothing else about it stands there."""
    group = parent.inner(PREFIX + journal.stem)
    assert group.make()
    journal.with_suffix(groups.SUFFIX).write_text(f"{group.path}\n")
    return group


@fault("TF133")
def test_an_orphan_ends_with_its_own_command_though_nothing_else_tells_whose_it_is(tmp_path: Path) -> None:
    with own_group() as group, engine(tmp_path, group=group.path) as double:
        bystander = double.shell("sleep", "300", task_id=41)
        makes = double.shell("sh", "-c", FLEE + "exec sleep 300", task_id=43)
        both = eventually(lambda: asleep(group, 43, 2))
        double.say(m.Ask(41, bystander, "cancel", 0.2))
        double.outcome(bystander)
        assert all(identity.alive(one) for one in both)
        double.say(m.Ask(43, makes, "cancel", 0.2))
        assert double.outcome(makes).left == []
        assert not any(identity.alive(one) for one in both)
        eventually(lambda: not list(group.path.glob("task-*")), "the groups of what has ended go")


def test_only_what_lasts_until_the_next_start_or_leaves_something_has_a_group() -> None:
    with own_group() as group:
        done = subprocess.run(
            [sys.executable, "-c", ONE_BY_ONE, str(group.path)], capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        assert done.stdout.splitlines() == ["none", "task-2.1", "True []", "1"]


@fault("TF133")
def test_what_a_killed_worker_leaves_is_in_its_group_and_is_ended_with_that(tmp_path: Path) -> None:
    journal = tmp_path / "w-1.starts"
    with own_group() as parent, engine(tmp_path, group=(group := of_worker(parent, journal)).path) as double:
        double.shell("sh", "-c", FLEE + "exec sleep 300", task_id=43)
        eventually(lambda: asleep(group, 43, 2))
        double.run("runs", {"script": FLEE + "exec sleep 300"}, task_id=44)
        eventually(lambda: len(named(group.members(), "sleep")) == 4)
        kill(double.worker.pid)
        double.worker.wait()
        members = group.members()
        assert len(named(members, "sleep")) == 4
        found = leftovers.find_leftovers(tmp_path / "t.db", "w-1", [43], SystemClock(), journal)
        assert set(members) <= set(found)
        left = leftovers.end_leftovers(tmp_path / "t.db", "w-1", [43], SystemClock(), journal)
        assert left == []
        assert is_empty(group)
        assert not any(identity.alive(one) for one in members)


def test_a_group_is_found_again_by_the_file_beside_the_journal_and_nothing_else_is(tmp_path: Path) -> None:
    journal = tmp_path / "0123456789abcdef.starts"
    assert groups.of_worker(journal) is None
    with own_group() as parent:
        mine, other = parent.inner(PREFIX + journal.stem), parent.inner(PREFIX + "another")
        assert mine.make()
        assert other.make()
        file = journal.with_suffix(groups.SUFFIX)
        for wrong in (str(other.path), str(parent.path), "/", "", "\0", f"{mine.path}-gone"):
            file.write_text(wrong)
            assert groups.of_worker(journal) is None
        file.write_text(f"{mine.path}\n")
        assert (found := groups.of_worker(journal))
        assert found.path == mine.path
        groups.sweep(tmp_path, [journal.stem])
        assert mine.path.exists()
        groups.sweep(tmp_path, [])
        assert not mine.path.exists()
        assert not file.exists()
        assert other.path.exists()


def test_a_worker_whose_group_cannot_be_entered_works_without(tmp_path: Path) -> None:
    with engine(tmp_path, group=tmp_path / "no-group") as double:
        assert double.outcome(double.shell("true")).kind == "succeeded"


@pytest.mark.parametrize(
    ("name", "task"), [("task-42.3", 42), ("other", None), ("task-", None), ("task-x.1", None)]
)
def test_the_name_of_a_group_tells_its_task(name: str, task: int | None) -> None:
    assert groups.task_of(name) == task
