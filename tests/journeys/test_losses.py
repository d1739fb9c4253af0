"""What is lost is found again: poisoned tasks, orphans of a crash, crashes between any two writes."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing

from tests.faults import fault
from tests.journeys.decks import Deck


@fault("TF040")
def test_a_command_that_kills_its_worker_needs_review_and_the_others_succeed(deck: Deck) -> None:
    poison = deck.add("--", "sh", "-c", "kill -9 $PPID; sleep 600")
    others = [deck.add("--", "sh", "-c", f"echo {number}") for number in range(5)]
    assert deck.finish(deck.start("--until-idle", workers=2)) == 6, deck.told()
    assert deck.state(poison) == "NEEDS_REVIEW"
    assert [deck.state(each) for each in others] == ["SUCCESS"] * 5
    outcomes = [each["outcome"] for each in deck.attempts(poison)]
    assert set(outcomes) == {"lost"}
    assert len(outcomes) in (3, 4)  # three alone; the first one is nobody's where others had begun beside it
    assert "SIGKILL" in deck.show(poison)["error"]["message"]
    assert {row["losses"] for row in deck.rows("SELECT losses FROM task WHERE id <> ?", poison)} == {0}
    assert len({each["payload"]["pid"] for each in deck.events(None, "WORKER_LOST")}) == len(outcomes)
    row = deck.rows("SELECT losses, losses_total FROM task WHERE id = ?", poison)[0]
    assert (row["losses"], row["losses_total"]) == (3, len(outcomes))


@fault("TF014", "TF016", "TF017")
def test_orphans_of_a_crash_hold_no_slots_and_are_all_recovered_at_once(deck: Deck) -> None:
    deck.configure(deck.config.read_text() + "\n[shell]\nconcurrency = 40\n")
    gate, jsonl = deck.home / "gate", deck.home / "tasks.jsonl"
    command = ["sh", "-c", f"[ -e {gate} ] || exec sleep 600"]
    jsonl.write_text("\n".join(json.dumps({"command": command}) for _ in range(60)))
    deck.ok("add", "-f", jsonl)
    deck.start(workers=2)
    deck.until(
        lambda: len(deck.rows("SELECT * FROM attempt WHERE started_at IS NOT NULL")) == 40,
        "40 run",
    )
    deck.kill_everything()
    gate.touch()
    with closing(sqlite3.connect(deck.db, isolation_level=None)) as connection:
        connection.execute(
            "DELETE FROM worker WHERE id = 1"
        )  # somebody pruned it: its tasks are found by their own rows
    assert deck.states().count("RUNNING") == 40
    assert deck.finish(deck.start("--until-idle")) == 0, deck.told()
    assert Counter(deck.states()) == {"SUCCESS": 60}
    taken = [each["event_id"] for each in deck.events(None, "TASK_STATE") if each["reason"] == "taken_over"]
    engines = [each["event_id"] for each in deck.events(None, "ENGINE_STARTED")]
    first = next(
        each["event_id"]
        for each in deck.events()
        if each["reason"] == "dispatched" and each["event_id"] > engines[1]
    )
    assert len(taken) == 40
    assert max(taken) < first


@fault("TF004")
def test_hundreds_of_tasks_over_four_workers_run_once_each(deck: Deck) -> None:
    out, jsonl = deck.home / "out", deck.home / "tasks.jsonl"
    jsonl.write_text(
        "\n".join(json.dumps({"type": "note", "payload": {"file": str(out)}}) for _ in range(400))
    )
    deck.start(workers=4)
    deck.until(lambda: len(deck.ready_workers()) == 4, "four workers")
    deck.ok("add", "-f", jsonl)
    deck.until(lambda: deck.states().count("SUCCESS") == 400, "all of them")
    deck.stop()
    notes = [list(map(int, line.split())) for line in out.read_text().splitlines()]
    assert sorted(task_id for task_id, _ in notes) == list(range(1, 401))
    assert len({pid for _, pid in notes}) > 1


@fault("TF033")
def test_a_result_and_its_state_are_written_together_whatever_dies_around_them(deck: Deck) -> None:
    out = deck.home / "out"
    task_id = deck.add("note", json.dumps({"file": str(out)}))
    once = deck.home / "once"
    run = deck.start(
        "--until-idle",
        workers=2,
        TASKDECK_CRASH_AT="before_outcome_send,after_outcome_send",
        TASKDECK_CRASH_ONCE=str(once),
    )
    assert deck.finish(run) == 0, deck.told()
    assert once.exists()
    # The replacement of the lost worker may still be starting when the engine ends: it ends in order, too.
    assert len(deck.events(None, "WORKER_LOST")) == 1
    assert deck.state(task_id) == "SUCCESS"
    again = deck.add("note", json.dumps({"file": str(out)}))
    once.unlink()
    deck.finish(
        deck.start("--until-idle", TASKDECK_CRASH_AT="after_claim_commit:2", TASKDECK_CRASH_ONCE=str(once))
    )
    assert deck.state(again) == "SUCCESS"
    results = {row["id"]: json.loads(row["result"]) for row in deck.rows("SELECT id, result FROM task")}
    last = {each.split()[0]: int(each.split()[1]) for each in out.read_text().splitlines()}
    assert results == {task_id: last[str(task_id)], again: last[str(again)]}
