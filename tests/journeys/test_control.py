"""A person's word over the command line: pause, resume, cancel, retry, stop, for what waits and what runs."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

from taskdeck.engine import commands
from taskdeck.engine.config import load
from tests.faults import fault
from tests.journeys.decks import Deck, kill, process_state


def lines(path: Path) -> list[list[int]]:
    """Lines of numbers."""
    return [list(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []


def seconds_between(earlier: dict, later: dict) -> float:
    """Between two events."""
    return (
        datetime.fromisoformat(later["created_at"]) - datetime.fromisoformat(earlier["created_at"])
    ).total_seconds()


@fault("TF224", "TF225")
def test_cancel_reaches_every_kind_of_running_command(shared: Deck) -> None:
    deck = shared
    meek = deck.add("--", "sleep", "600")
    deaf = deck.add("--", "sh", "-c", "trap '' TERM; sleep 600 & wait; sleep 600")
    tells = deck.add("--", "sh", "-c", "trap 'exit 143' TERM; sleep 600 & wait")
    flees = deck.add("--", "sh", "-c", "setsid sleep 600 & sleep 600")
    pids = {task_id: deck.until_command(task_id) for task_id in (meek, deaf, tells, flees)}
    deck.until(
        lambda: all(len(deck.commands(each)) >= 2 for each in (deaf, tells, flees)), "their children run"
    )
    before = len(deck.events(None, "RETRY_SCHEDULED", "ALERT_RAISED"))
    deck.ok("cancel", f"{meek}-{flees}")
    for task_id, pid in pids.items():
        deck.until_state(task_id, "CANCELLED")
        assert deck.moves(task_id) == ["RUNNING (dispatched)", "CANCELLED (user_cancel)"]
        assert not deck.commands(task_id)
        assert not process_state(pid)
        asked, ended = deck.events(task_id, "OPERATOR_REQUEST")[0], deck.events(task_id, "TASK_FINISHED")[0]
        assert seconds_between(asked, ended) < (8 if task_id == deaf else 2)
        assert ended["actor"].startswith("cli:")
    assert deck.attempts(tells)[0]["exit_code"] == 143
    assert deck.attempts(deaf)[0]["exit_code"] == -9
    assert len(deck.events(None, "RETRY_SCHEDULED", "ALERT_RAISED")) == before


def test_a_running_command_is_stopped_where_it_stands_and_goes_on(shared: Deck, tmp_path: Path) -> None:
    deck = shared
    out = tmp_path / "out"
    os.mkfifo(tmp_path / "gate")
    task_id = deck.add("--", "sh", "-c", f"read line < {tmp_path}/gate; echo $line > {out}")
    pid = deck.until_command(task_id)
    deck.ok("pause", task_id)
    deck.until_state(task_id, "PAUSED")
    assert process_state(pid) == "T"
    assert deck.worker_of(task_id)  # it keeps what it holds
    deck.ok("resume", task_id)
    deck.until_state(task_id, "RUNNING")
    deck.until(lambda: process_state(pid) == "S", "it goes on")
    (tmp_path / "gate").write_text("open\n")
    deck.until_state(task_id, "SUCCESS")
    assert out.read_text() == "open\n"
    assert deck.moves(task_id) == [
        "RUNNING (dispatched)",
        "PAUSED (user_pause)",
        "RUNNING (resumed)",
        "SUCCESS (done)",
    ]


def test_what_happens_to_suspended_commands_is_recorded(shared: Deck) -> None:
    deck = shared
    cancelled, killed, lost = (deck.add("--retries", "0", "--", "sleep", "600") for _ in "123")
    pids = {task_id: deck.until_command(task_id) for task_id in (cancelled, killed, lost)}
    deck.ok("pause", f"{cancelled}-{lost}")
    for task_id in pids:
        deck.until_state(task_id, "PAUSED")
    deck.ok("cancel", cancelled)
    deck.until_state(cancelled, "CANCELLED")
    kill(pids[killed])  # an outcome that arrives meanwhile is resume + finish in one transaction
    deck.until_state(killed, "NEEDS_REVIEW")
    assert deck.moves(killed)[-2:] == ["RUNNING (resumed)", "NEEDS_REVIEW (retries_exhausted)"]
    kill(deck.worker_of(lost))  # its attempt ends and the task stays as the person left it
    deck.until(lambda: deck.attempts(lost)[0]["ended_at"], "the lost attempt is closed")
    assert deck.state(lost) == "PAUSED"
    assert not deck.commands(lost)
    deck.ok("resume", lost)
    deck.until_command(lost)
    assert len(deck.attempts(lost)) == 2
    deck.ok("cancel", lost)
    deck.until_state(lost, "CANCELLED")


def test_a_killed_tree_has_no_last_word_and_a_stopped_one_has_and_stays_paused(
    shared: Deck, tmp_path: Path
) -> None:
    deck = shared
    out = tmp_path / "out"
    script = f"trap 'echo $0 >> {out}; exit 3' TERM; setsid sh -c 'trap \"\" TERM; exec sleep 600' & wait"
    killed, stopped = (deck.add("--", "sh", "-c", script, word) for word in ("killed", "stopped"))
    for task_id in (killed, stopped):
        deck.until_command(task_id)
        deck.until(lambda task_id=task_id: len(deck.commands(task_id)) >= 2, "their children run")
    deck.ok("kill", killed)
    deck.ok("stop", stopped)
    deck.until_state(killed, "CANCELLED")
    deck.until_state(stopped, "PAUSED")
    assert lines_of(out) == ["stopped"]
    assert not deck.commands(killed)
    assert not deck.commands(stopped)
    assert [deck.attempts(each)[0]["outcome"] for each in (killed, stopped)] == ["cancelled", "paused"]
    assert deck.rows("SELECT worker_id, retry_count FROM task WHERE id = ?", stopped)[0]["worker_id"] is None
    deck.ok("resume", stopped)
    deck.until_command(stopped)
    assert len(deck.attempts(stopped)) == 2
    deck.ok("kill", "type:shell", "--yes")
    deck.until_state(stopped, "CANCELLED")


def test_a_held_type_stands_still_over_a_killed_engine_and_goes_on_with_what_it_was(shared: Deck) -> None:
    deck = shared
    running = deck.add("--", "sleep", "600")
    pid = deck.until_command(running)
    assert f"#{running}" in deck.ok("pause", "type:shell")
    deck.until_state(running, "PAUSED")
    assert process_state(pid) == "T"
    later = deck.add("--", "true")
    assert "type shell is held" in deck.ok("why", later)
    assert "resume type:shell" in deck.ok("why", running)
    engines = len(deck.rows("SELECT id FROM engine"))
    kill(json.loads(deck.ok("status", "--json"))["engine"]["pid"])
    deck.until(lambda: len(deck.rows("SELECT id FROM engine")) > engines, "it is started again")
    deck.until_ready()
    assert (deck.state(running), deck.state(later)) == ("PAUSED", "PENDING")
    deck.ok("resume", "type:shell")
    deck.until_state(later, "SUCCESS")
    deck.until_state(running, "RUNNING")
    deck.ok("kill", running)
    deck.until_state(running, "CANCELLED")


def test_an_act_that_waits_happens_although_all_that_knew_of_it_was_killed(shared: Deck) -> None:
    deck = shared
    task_id = deck.add("--", "sleep", "600")
    deck.until_command(task_id)
    config = load(db=deck.db, environ={}, cwd=deck.home)
    (asked,) = commands.call(config, "cancel", "deck:ann", ids=[task_id], delay=1.0)
    assert asked["state"] == "RUNNING"
    kill(json.loads(deck.ok("status", "--json"))["engine"]["pid"])
    deck.until_state(task_id, "CANCELLED")
    assert deck.events(task_id, "TASK_FINISHED")[0]["actor"] == "deck:ann"


def test_a_handler_pauses_at_a_checkpoint_and_goes_on_from_there(shared: Deck, tmp_path: Path) -> None:
    deck = shared
    out = tmp_path / "out"
    task_id = deck.add("walk", json.dumps({"file": str(out), "to": 1000}))
    deck.until(lambda: len(lines(out)) > 3, "it walks")
    deck.ok("pause", task_id)
    deck.until_state(task_id, "PAUSED")
    walked = len(lines(out))
    assert not deck.worker_of(task_id)  # it holds nothing
    deck.ok("resume", task_id)
    deck.until(lambda: len(lines(out)) > walked + 3, "it walks on")
    deck.ok("cancel", task_id)
    deck.until_state(task_id, "CANCELLED")
    numbers = [number for number, _, _ in lines(out)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert {attempt for _, _, attempt in lines(out)} == {1, 2}


def test_a_stop_of_an_engine_that_took_over_drains_what_runs_and_keeps_its_checkpoint(deck: Deck) -> None:
    run = deck.start()
    out, gate = deck.home / "out", deck.home / "gate"
    sleeper = deck.add("--", "sh", "-c", "trap 'exit 3' TERM; sleep 600 & wait")
    deck.until_command(sleeper)
    deck.ok("restart")
    deck.until(lambda: deck.events(None, "WORKER_RETURNED"), "the worker is back")
    walk = deck.add("walk", json.dumps({"file": str(out), "gate": str(gate)}))
    deck.until(lambda: len(lines(out)) > 3, "it walks")
    deck.ok("stop")
    assert deck.finish(run) == 0
    assert deck.states() == ["PENDING", "PENDING"]
    assert deck.moves(walk)[-1] == deck.moves(sleeper)[-1] == "PENDING (drained)"
    assert not deck.processes()
    walked = len(lines(out))
    assert json.loads(deck.rows("SELECT data FROM checkpoint ORDER BY seq DESC LIMIT 1")[0]["data"]) == {
        "done": walked
    }

    deck.ok("cancel", sleeper)
    run = deck.start("--until-idle")
    deck.until(lambda: len(lines(out)) > walked + 3, "it walks on")
    gate.touch()
    assert deck.finish(run) == 0
    numbers = [number for number, _, _ in lines(out)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert f"resumes at checkpoint {walked}" in deck.events(walk, "TASK_STATE")[-2]["message"]
    task = deck.show(walk)
    assert (task["retry_count"], task["attempt"]) == (0, 2)  # a drained attempt spends no retry


@fault("TF007")
def test_retry_pressed_five_times_starts_it_once(deck: Deck) -> None:
    out = deck.home / "out"
    script = f"[ -e {out}.second ] || {{ touch {out}.second; exit 64; }}; echo start >> {out}; exec sleep 600"
    task_id = deck.add("--", "sh", "-c", script)
    assert deck.finish(deck.start("--until-idle")) == 1
    deck.start()
    deck.until_ready()
    presses = [deck.beside("retry", task_id) for _ in range(5)]
    codes = [press.communicate(timeout=30) and press.returncode for press in presses]
    assert set(codes) <= {0, 4}
    assert 0 in codes
    deck.until(lambda: lines_of(out), "it runs")
    assert deck.state(task_id) == "RUNNING"
    assert len(deck.commands(task_id)) == 1
    deck.ok("cancel", task_id)
    deck.until_state(task_id, "CANCELLED")
    assert lines_of(out) == ["start"]
    assert len(deck.attempts(task_id)) == 2
    assert deck.moves(task_id).count("PENDING (user_retry)") == 1


@fault("TF038")
def test_cancel_at_the_moment_of_completion_releases_a_slot_once(deck: Deck) -> None:
    commands = [{"command": ["sleep", "0.05"]} for _ in range(30)]
    jsonl = deck.home / "tasks.jsonl"
    jsonl.write_text("\n".join(map(json.dumps, commands)))
    deck.ok("add", "-f", jsonl)
    run = deck.start("--until-idle", TASKDECK_SHELL__CONCURRENCY="2")
    while run.poll() is None:
        deck.cli("cancel", "--yes", "state:running")
    assert run.returncode in (0, 1)
    assert set(deck.states()) <= {"SUCCESS", "CANCELLED"}
    moments = [(each["dispatched_at"], 1) for each in deck.rows("SELECT * FROM attempt")]
    moments += [(each["ended_at"], -1) for each in deck.rows("SELECT * FROM attempt")]
    running = 0
    for _, change in sorted(moments):
        running += change
        assert 0 <= running <= 2
    assert len(deck.rows("SELECT * FROM attempt")) <= 30


def lines_of(path: Path) -> list[str]:
    """Lines of a file that may not be there yet."""
    return path.read_text().splitlines() if path.exists() else []
