"""What ends without success is undone last-first, whatever is killed between two steps or in the middle of one."""

from __future__ import annotations

import json

from tests.journeys.decks import Deck

LOOP = """
taskdeck op begin make && touch {file} && taskdeck op rollback --undoes make -- sh -c 'echo undo make >>{log}' &&
taskdeck op done make
taskdeck op rollback -- sh -c 'echo undo more >>{log}; [ -e {gate} ] || exec sleep 600'
echo ready >{ready}
exec sleep 600
"""


def test_each_undo_step_runs_once_though_every_worker_is_killed_after_each_attempt(deck: Deck) -> None:
    out = deck.home / "out"
    task_id = deck.add("saga", json.dumps({"file": str(out)}))
    # The next attempt may be there before the worker has died of the last one: then it is not begun.
    points = "after_outcome_send,before_start_journal:2"
    run = deck.start("--until-idle", workers=2, TASKDECK_CRASH_AT=points)
    assert deck.finish(run) == 1, deck.told()
    assert deck.state(task_id) == "FAILED"
    assert out.read_text().splitlines() == ["do a", "do b", "do c", "undo c", "undo b", "undo a"]
    assert len(deck.events(None, "WORKER_LOST")) >= 3
    shown = deck.show(task_id)
    assert [each["state"] for each in shown["rollback"]] == ["DONE"] * 3
    assert "no such account" in shown["error"]["message"]


def test_a_cancelled_command_is_undone_and_a_step_that_a_power_cut_tore_apart_is_left_to_a_person(
    deck: Deck,
) -> None:
    names = {name: deck.home / name for name in ("file", "log", "gate", "ready")}
    task_id = deck.add("--", "sh", "-c", LOOP.format(**names))
    deck.start()
    deck.until(names["ready"].exists, "it has registered its steps")
    deck.ok("cancel", task_id)
    deck.until(names["log"].exists, "the last step runs")
    deck.kill_everything()
    names["gate"].touch()
    assert deck.finish(deck.start("--until-idle")) == 6, deck.told()
    assert names["log"].read_text().splitlines() == [
        "undo more",
        "undo make",
    ]  # the other one is done all the same
    doubt = next(each for each in deck.show(task_id)["operations"] if each["state"] == "IN_DOUBT")
    deck.ok("operation", "done", task_id, doubt["key"], "--retry")
    deck.finish(deck.start("--until-idle"))
    assert deck.state(task_id) == "CANCELLED", deck.told()
    assert {each["key"]: each["state"] for each in deck.show(task_id)["operations"]}["make"] == "NOT_DONE"
