"""The deck's page of a task tells what is in doubt and what is rolled back."""

from __future__ import annotations

from taskdeck.engine import views
from taskdeck.engine.config import load
from taskdeck.tui.deck.reads import detail
from taskdeck.tui.deck.states import Glyphs
from taskdeck.tui.deck.task_text import section
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
