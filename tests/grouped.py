"""A control group (cgroup v2) of a test's own; the test is skipped, with the reason, where none can be made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.edge import cgroups
from taskdeck.engine.edge.cgroups import Group


@contextmanager
def own_group() -> Iterator[Group]:
    """It has no members in the end, or the test fails."""
    group = cgroups.below_ours(f"test-{uuid4().hex}")
    if group is None:
        pytest.skip("there is no cgroup v2 here")
    if not group.make():
        pytest.skip(f"no group can be made in {group.path.parent}")
    try:
        yield group
    finally:
        clock = SystemClock()
        end = clock.monotonic() + 10
        while not group.remove() and clock.monotonic() < end:
            group.kill()
            clock.sleep(0.01)
        assert not group.path.exists()


def is_empty(group: Group) -> bool:
    """Does the kernel say that nothing lives in it or within? So does one that is gone."""
    try:
        return "populated 0" in (group.path / "cgroup.events").read_text()
    except FileNotFoundError:
        return True
    except OSError:  # removed while it was being read
        return not group.path.is_dir()
