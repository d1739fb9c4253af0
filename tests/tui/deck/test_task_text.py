"""The deck's page of a task tells what is in doubt and what is rolled back."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from taskdeck.engine import views
from taskdeck.engine.config import load
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.tui.deck.reads import detail
from taskdeck.tui.deck.states import Glyphs
from taskdeck.tui.deck.tables import task_cells, task_columns
from taskdeck.tui.deck.task_text import heading, section
from tests.seeded import Seed
from tests.tui.calls import Calls
from tests.tui.test_records import in_doubt, with_steps


def shown(taskdeck: Calls, task_id: int, name: str) -> str:
    with views.open_view(load(db=taskdeck.db, environ={})) as view:
        return " ".join(" ".join(section(name, detail(task_id)(view), Glyphs(), 80)).split())


def test_an_operation_in_doubt_is_told_with_since_when_and_the_remedy(taskdeck: Calls, seed: Seed) -> None:
    task_id = in_doubt(seed, "upload:1")
    assert f"taskdeck operation done {task_id} upload:1" in shown(taskdeck, task_id, "Summary")
    assert "operation upload:1: in doubt since" in shown(taskdeck, task_id, "Checkpoint")


def test_a_rollback_is_told_with_its_steps_and_the_end_that_follows(taskdeck: Calls, seed: Seed) -> None:
    task_id = with_steps(seed, "release", "refund")
    assert "undo 1 release: registered" in shown(taskdeck, task_id, "Checkpoint")
    taskdeck("cancel", str(task_id))
    assert "0 of 2 steps done, then cancelled" in shown(taskdeck, task_id, "Summary")


def test_a_running_task_shows_how_long_this_attempt_has_run_and_no_error_of_an_earlier_one(
    taskdeck: Calls, seed: Seed
) -> None:
    task_id = seed.third_attempt(seed.worker())
    with DatabaseLock(taskdeck.db, role="engine", incarnation="x") as lock:
        assert lock.acquire()
        with views.open_view(load(db=taskdeck.db, environ={})) as view:
            task = view.tasks(views.Filter())[0]
            summary = " ".join(section("Summary", detail(task_id)(view), Glyphs(), 80))
    now = views.parse_utc("2026-11-29T12:00:07.000000Z")
    cells = task_cells(task, now, Glyphs())
    assert "7s" in cells["when"][0]
    assert cells["note"][0] == "sh -c 'sleep 2; exit 1'"
    assert "last error  it failed with exit code 1" in summary


@pytest.mark.parametrize(
    ("state", "columns", "wide", "narrow"),
    [
        ("RETRYING", {"next_run_at": "2026-11-29T12:00:48.000000Z"}, "in 48s", "in 48s"),
        ("RETRYING", {"next_run_at": "2026-11-29T12:04:13.000000Z"}, "in 4m13s", "in 4m13s"),
        ("PENDING", {"next_run_at": "2026-11-29T12:17:20.000000Z"}, "in 17m20s", "in 17m"),
        ("PENDING", {"next_run_at": "2026-12-10T12:00:00.000000Z"}, "in 11d0h", "in 11d0h"),
        ("PENDING", {"next_run_at": "2026-11-29T11:00:00.000000Z"}, "due", "due"),
        ("NEEDS_REVIEW", {"updated_at": "2026-11-29T11:56:00.000000Z"}, "4m ago", "4m ago"),
        ("SUCCESS", {"finished_at": "2025-11-29T12:00:00.000000Z"}, "365d ago", "365d ago"),
        ("RUNNING", {"attempt_started_at": "2026-11-29T11:55:44.000000Z"}, "for 4m16s", "for 4m"),
        ("RUNNING", {"attempt_started_at": "2026-11-29T11:29:30.000000Z"}, "for 30m", "for 30m"),
    ],
)
def test_what_is_to_come_what_goes_on_and_what_is_past_are_told_apart_at_every_width(
    taskdeck: Calls, seed: Seed, state: str, columns: dict[str, str], wide: str, narrow: str
) -> None:
    seed.task()
    with views.open_view(load(db=taskdeck.db, environ={})) as view:
        task = msgspec.structs.replace(view.tasks(views.Filter())[0], state=state, waits=[], **columns)
    cells = task_cells(task, views.parse_utc("2026-11-29T12:00:00.000000Z"), Glyphs())
    assert (cells["when"][0], cells["short when"][0]) == (wide, narrow)
    for width in (40, 60, 80, 93, 160):
        column = next(each for each in task_columns(width) if each.title == "WHEN")
        assert cell_len(cells[column.key][0]) <= column.width


@pytest.mark.parametrize(
    ("state", "attempts", "retries", "shown"),
    [
        ("PENDING", 0, 0, "0/3"),
        ("RUNNING", 1, 0, "1/3"),
        ("RETRYING", 2, 2, "2/3"),
        ("NEEDS_REVIEW", 3, 2, "3/3"),
        ("CANCELLED", 2, 2, "2/3"),
        ("PENDING", 3, 0, "3/6"),  # retried by hand
        ("RUNNING", 4, 0, "4/6"),
        ("RETRYING", 4, 1, "4/6"),
        ("NEEDS_REVIEW", 6, 2, "6/6"),
        ("PENDING", 1, 0, "1/4"),  # drained: that one was free
    ],
)
def test_attempts_are_shown_against_how_many_there_will_be_at_most_as_things_stand(
    taskdeck: Calls, seed: Seed, state: str, attempts: int, retries: int, shown: str
) -> None:
    runs = {"worker_id": seed.worker(), "lease_until_boot": 1e9} if state == "RUNNING" else {}
    task_id = seed.task(state=state, attempt=attempts, retry_count=retries, max_retry=2, **runs)
    with views.open_view(load(db=taskdeck.db, environ={})) as view:
        found = detail(task_id)(view)
    assert f"attempt {shown}" in heading(found, Glyphs())[1]
    assert task_cells(found.task, views.now(), Glyphs())["try"][0] == shown
