"""What is due in a lane is found in its order, whatever else waits there."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from taskdeck.engine.rules.new_task import new_task
from taskdeck.engine.rules.tasks import POLICY
from taskdeck.engine.rules.timing import add_seconds, utc_text
from taskdeck.engine.store import tasks
from tests.scratch import ANN, Scratch

WAITS = st.tuples(st.integers(0, 4), st.integers(-3, 3))
"""Priority, and the seconds from now on at which it is due."""


@settings(max_examples=15, deadline=None)
@given(st.lists(WAITS, max_size=25), st.integers(1, 6))
def test_the_due_of_a_lane_come_page_by_page_in_the_order_in_which_they_start(
    waiting: list[tuple[int, int]], page: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder))
        now = utc_text(scratch.clock.utc())
        new = [new_task("fetch", "{}", level, add_seconds(now, later)) for level, later in waiting]
        for each in (new, [new_task("other", "{}", 0)]):
            if each:
                scratch.do(tasks.create_all, each, ANN)
        found: list[Any] = []
        while rows := scratch.do(tasks.due, "fetch", page, after=found[-1] if found else None):
            found += rows
        scratch.close()
    due = [(level, later, number) for number, (level, later) in enumerate(waiting, 1) if later <= 0]
    assert [row.id for row in found] == [number for _, _, number in sorted(due)]


def test_what_is_not_due_is_not_read_to_find_what_is(scratch: Scratch) -> None:
    later = add_seconds(utc_text(scratch.clock.utc()), 3600.0)
    new = [new_task("fetch", "{}", n % 7, later) for n in range(3000)] + [new_task("fetch", "{}", 3)]
    scratch.do(tasks.create_all, new, ANN)
    steps = [0]

    def step() -> None:
        steps[0] += 1

    scratch.tx.connection.set_progress_handler(step, 100)
    assert [row.id for row in scratch.do(tasks.due, "fetch", 100)] == [3001]
    scratch.tx.connection.set_progress_handler(None, 0)
    assert steps[0] < 20


def test_what_a_waiting_task_says_itself_are_the_columns_of_its_policy() -> None:
    names = tasks.Waiting._make(tasks.Waiting._fields)
    assert names.own == POLICY
