from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.edge import cgroups, identity
from taskdeck.engine.edge.cgroups import Group
from taskdeck.engine.edge.spawn import Child, start
from tests.faults import fault
from tests.grouped import is_empty, own_group

CLOCK = SystemClock()

FORKS = "env -i setsid sh -c '(exec </dev/null >/dev/null 2>&1; exec sleep 300) & exit' & wait; echo up; exec sleep 300"
"""Waits for a line, then leaves one behind that no mark, no parent and no pipe tells of."""


@pytest.fixture
def group() -> Iterator[Group]:
    with own_group() as made:
        yield made


@pytest.fixture
def family(group: Group) -> Iterator[Child]:
    """A process in the group and another that fled from it, both asleep."""
    child = start(["sh", "-c", f"kill -STOP $$; {FORKS}"], env={"PATH": os.environ["PATH"]})
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert group.take(child.pid)
    identity.kill(child.identity, signal.SIGCONT)
    assert child.stdout is not None
    assert identity.wait_readable(child.stdout, 10)
    until(lambda: [identity.name(one.pid) for one in group.members()] == ["sleep", "sleep"])
    yield child
    group.kill()
    child.wait(10)
    child.close()


def until(true: Callable[[], object]) -> None:
    end = CLOCK.monotonic() + 10
    while not true():
        assert CLOCK.monotonic() < end
        CLOCK.sleep(0.005)


@fault("TF133")
def test_who_fled_by_two_forks_without_a_mark_is_in_the_group_and_ends_with_it(
    group: Group, family: Child
) -> None:
    members = group.members()
    assert family.pid in {one.pid for one in members}
    assert not is_empty(group)
    group.kill()
    until(lambda: is_empty(group))
    assert not any(identity.alive(one) for one in members)
    assert group.members() == []


class Old(Group):
    """As on a kernel before 5.14, which has no cgroup.kill."""

    def _write(self, name: str, text: str) -> bool:
        return name != "cgroup.kill" and super()._write(name, text)


def test_where_the_kernel_ends_no_group_its_members_are_ended_one_by_one(group: Group, family: Child) -> None:
    Old(group.path).kill()
    until(lambda: is_empty(group))
    assert not identity.alive(family.identity)


def test_only_an_empty_group_can_be_removed_and_with_it_those_within(group: Group, family: Child) -> None:
    inner = group.inner("task-1.1")
    assert inner.make()
    assert not group.remove()
    assert not inner.path.exists()  # nothing lived in that
    assert inner.make()
    assert inner.take(family.pid)
    assert not is_empty(group)
    group.kill()
    until(group.remove)
    assert is_empty(group)
    assert group.members() == []


def test_a_group_knows_who_is_in_it_and_a_process_where_it_is(group: Group, family: Child) -> None:
    inner = group.inner("task-1.1")
    inner.make()
    inner.take(family.pid)
    assert cgroups.directory_of(family.pid) == inner.path
    assert family.pid not in group.pids()
    assert inner.pids() == [family.pid]
    assert len(group.members()) == 2


def test_where_nothing_can_be_made_nothing_is_left_behind_and_nothing_happens(tmp_path: Path) -> None:
    for place in (tmp_path / "no-group", tmp_path / "there-is" / "no-folder"):
        group = Group(place)
        assert not group.make()
        assert not group.take(os.getpid())
        group.kill()
        assert (group.pids(), group.members(), is_empty(group), group.remove()) == ([], [], True, True)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("0::/user.slice/user-0.slice/session-3.scope\n", "/user.slice/user-0.slice/session-3.scope"),
        ("4:memory:/m\n1:name=systemd:/x\n0::/\n", "/"),
        ("4:memory:/m\n1:name=systemd:/x\n", ""),
    ],
    ids=["unified", "hybrid", "v1 only"],
)
def test_the_path_in_cgroup_v2_is_read_among_those_of_v1(text: str, path: str) -> None:
    assert cgroups.path_of(text) == path


V1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"


@pytest.mark.parametrize(
    ("path", "root", "point", "shown"),
    [
        ("/a/b", "/", "/sys/fs/cgroup", "/sys/fs/cgroup/a/b"),
        ("/", "/", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified"),
        ("/docker/1f/x", "/docker/1f", "/sys/fs/cgroup", "/sys/fs/cgroup/x"),
        ("/docker/1f", "/docker/1f", "/sys/fs/cgroup", "/sys/fs/cgroup"),
        ("/docker/2e", "/docker/1f", "/sys/fs/cgroup", None),
        ("/../other", "/", "/sys/fs/cgroup", None),
        ("/a", "/", r"/mnt/control\040groups", "/mnt/control groups/a"),
    ],
)
def test_a_path_is_found_where_a_mount_shows_it(path: str, root: str, point: str, shown: str | None) -> None:
    mounts = V1 + f"41 31 0:38 {root} {point} rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
    found = cgroups.shown(path, mounts)
    assert found == (Path(shown) if shown else None)
    assert cgroups.shown(path, V1) is None
