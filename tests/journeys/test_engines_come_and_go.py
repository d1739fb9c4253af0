"""Engines that die or are replaced while work runs: workers and commands go on, and nothing is lost or done twice."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.faults import fault
from tests.journeys.decks import Deck, examples, kill, process_state


def kill_engine_and_supervisor(deck: Deck) -> None:
    """No engine is left, and nobody who starts one."""
    pid = deck.engine_pid
    for child in deck.children:
        child.kill()
        child.wait(10)
    deck.children.clear()
    kill(pid)
    deck.until(lambda: not deck.engine_pid, "the engine is gone")


def until_returned(deck: Deck, times: int) -> None:
    deck.until(
        lambda: len(deck.events(None, "WORKER_RETURNED")) >= times, f"the worker has returned {times} times"
    )


def test_a_command_outlives_ten_engines_in_one_attempt(deck: Deck) -> None:
    file, gate = deck.home / "numbers.txt", deck.home / "gate"
    script = f"while [ ! -e {gate} ]; do echo $$ >> {file}; sleep 0.05; done; echo over"
    task_id = deck.add("--", "sh", "-c", script)
    deck.start()
    command = deck.until_command(task_id)
    worker = deck.worker_of(task_id)
    for number in range(1, 11):
        kill_engine_and_supervisor(deck)
        deck.start()
        until_returned(deck, number)
    gate.touch()
    deck.until_state(task_id, "SUCCESS")
    assert deck.moves(task_id) == ["RUNNING (dispatched)", "SUCCESS (done)"]
    (attempt,) = deck.attempts(task_id)
    assert (attempt["command_pid"], attempt["exit_code"]) == (command, 0)
    assert set(file.read_text().split()) == {str(command)}
    assert {row["pid"] for row in deck.rows("SELECT pid FROM worker WHERE id = 1")} == {worker}
    assert len(deck.events(None, "ENGINE_LOST")) == 10
    assert not deck.events(None, "WORKER_LOST"), deck.told()


def test_what_is_done_and_saved_without_an_engine_is_there_when_one_comes(deck: Deck) -> None:
    out = deck.home / "out"
    walk = deck.add("walk", json.dumps({"file": str(out), "to": 30, "pause": 0.02}))
    command = deck.add("--", sys.executable, examples("count.py"), deck.home / "numbers", 10, "0.02")
    deck.start()
    deck.until(lambda: out.exists() and (deck.home / "numbers").exists(), "both run")
    kill_engine_and_supervisor(deck)
    deck.until(lambda: len(out.read_text().splitlines()) == 30, "it walks on without an engine")
    deck.until(lambda: not deck.commands(command), "the command has ended without an engine")
    assert deck.states() == ["RUNNING", "RUNNING"]  # nobody was there to write anything else
    assert deck.finish(deck.start("--until-idle")) == 0, deck.told()
    assert deck.states() == ["SUCCESS", "SUCCESS"]
    for task_id in (walk, command):
        assert [each["outcome"] for each in deck.attempts(task_id)] == ["succeeded"]
    assert [int(line.split()[0]) for line in out.read_text().splitlines()] == list(range(1, 31))
    saved = [each["payload"]["seq"] for each in deck.events(walk, "CHECKPOINT_SAVED")]
    assert saved == list(range(1, 31))
    assert len(deck.events(walk, "TASK_FINISHED")) == 1


@fault("TF019")
def test_what_a_worker_kept_is_written_though_it_died_before_the_next_engine_came(deck: Deck) -> None:
    out = deck.home / "out"
    done = deck.add("--", sys.executable, examples("count.py"), deck.home / "numbers", 10, "0.02")
    walk = deck.add("walk", json.dumps({"file": str(out), "to": 10_000, "pause": 0.02}))
    deck.start()
    deck.until(lambda: out.exists() and (deck.home / "numbers").exists(), "both run")
    worker = deck.worker_of(walk)
    kill_engine_and_supervisor(deck)
    deck.until(lambda: not deck.commands(done), "the command has ended without an engine")
    before = len(out.read_text().splitlines())
    deck.until(lambda: len(out.read_text().splitlines()) > before + 3, "it walks on")
    kill(worker, signal.SIGSTOP)
    walked = len(out.read_text().splitlines())
    kill(worker)
    deck.start()
    deck.until(lambda: deck.show(walk)["attempt"] == 2, "it goes on")
    assert deck.state(done) == "SUCCESS"
    assert [each["outcome"] for each in deck.attempts(done)] == ["succeeded"]
    first, second = deck.attempts(walk)
    assert first["outcome"] == "lost"
    assert walked - 1 <= second["resumed_from"] <= walked
    deck.ok("cancel", walk)
    deck.until_state(walk, "CANCELLED")


def test_what_a_person_wanted_while_there_was_no_engine_reaches_the_worker_that_returns(deck: Deck) -> None:
    out = deck.home / "out"
    cancelled = deck.add("walk", json.dumps({"file": str(out), "to": 10_000, "pause": 0.02}))
    paused = deck.add("--", "sleep", "600")
    deck.start()
    deck.until(out.exists, "it walks")
    deck.until_command(paused)
    kill_engine_and_supervisor(deck)
    deck.ok("cancel", cancelled)
    deck.ok("pause", paused)
    deck.start()
    deck.until_state(cancelled, "CANCELLED")
    deck.until_state(paused, "PAUSED")
    assert [len(deck.attempts(each)) for each in (cancelled, paused)] == [1, 1]
    kill_engine_and_supervisor(deck)  # a suspended command outlives its engine, too
    deck.ok("resume", paused)
    deck.start()
    deck.until(lambda: deck.state(paused) == "RUNNING", "it goes on")
    assert len(deck.attempts(paused)) == 1
    deck.ok("cancel", paused)
    deck.until_state(paused, "CANCELLED")


def test_without_any_engine_workers_stop_at_the_next_checkpoint_and_end(deck: Deck) -> None:
    out = deck.home / "out"
    task_id = deck.add("walk", json.dumps({"file": str(out), "to": 300, "pause": 0.02}))
    command = deck.add("--", "sleep", "600")
    deck.start(TASKDECK_ENGINE__AWAY_LIMIT="100ms")
    deck.until(out.exists, "it walks")
    deck.until_command(command)
    kill_engine_and_supervisor(deck)
    deck.until(lambda: not deck.processes(), "nothing runs any more")
    walked = len(out.read_text().splitlines())
    assert walked < 300
    deck.start()
    deck.until_state(task_id, "SUCCESS")
    assert [each["outcome"] for each in deck.attempts(task_id)] == ["drained", "succeeded"]
    assert [int(line.split()[0]) for line in out.read_text().splitlines()] == list(range(1, 301))
    deck.until_command(command)
    assert [row["losses_total"] for row in deck.rows("SELECT losses_total FROM task")] == [0, 0]
    assert [each["reason"] for each in deck.events(None, "WORKER_ENDED")] == ["ended"]
    assert not list(Path(deck.db.parent / "logs" / "workers").glob("*.spool"))


def test_a_stop_without_an_engine_ends_what_outlived_it_and_loses_nothing(deck: Deck) -> None:
    out = deck.home / "out"
    walk = deck.add("walk", json.dumps({"file": str(out), "to": 200, "pause": 0.02}))
    command = deck.add("--", "sleep", "600")
    deck.start()
    deck.until(out.exists, "it walks")
    deck.until_command(command)
    kill_engine_and_supervisor(deck)
    told = json.loads(deck.ok("worker", "list", "--json"))
    assert (told["alive"], sorted(told["attempts"])) == (True, [f"#{walk}.1", f"#{command}.1"])
    assert "stands still" not in deck.ok("status")
    assert str(told["pid"]) in deck.ok("stop")
    assert not deck.processes()
    assert "was not running" in deck.ok("stop")
    deck.start()
    deck.until_state(walk, "SUCCESS")
    assert [int(line.split()[0]) for line in out.read_text().splitlines()] == list(range(1, 201))
    assert [each["outcome"] for each in deck.attempts(walk)] == ["drained", "succeeded"]


def test_new_code_gets_new_work_and_old_workers_finish_what_they_run(deck: Deck) -> None:
    out, gate = deck.home / "out", deck.home / "gate"
    handlers = deck.home / "own.py"
    handlers.write_text(OWN.format(says="old"))
    deck.configure(
        deck.config.read_text().replace("handlers = [", f"handlers = [{json.dumps(str(handlers))}, ")
    )
    running = deck.add("--", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    deck.start()
    deck.until_command(running)
    (old,) = deck.ready_workers()
    kill_engine_and_supervisor(deck)
    handlers.write_text(OWN.format(says="new"))
    deck.start()
    task_id = deck.add("says", json.dumps({"file": str(out)}))
    deck.until_state(task_id, "SUCCESS")
    assert out.read_text() == "new\n"
    assert [each["reason"] for each in deck.events(None, "WORKER_RETIRED")] == ["outdated"]
    state = "SELECT state FROM worker WHERE id = ?"
    deck.until(lambda: deck.rows(state, old["id"]) == [{"state": "DRAINING"}], "the old one is back")
    gate.touch()
    deck.until_state(running, "SUCCESS")
    assert len(deck.attempts(running)) == 1
    deck.until(lambda: deck.events(None, "WORKER_ENDED"), "it goes when it runs nothing more")
    assert old["pid"] not in deck.processes()


OWN = """
from pathlib import Path
from taskdeck.engine import task

@task("says")
async def says(ctx, wish: dict):
    with Path(wish["file"]).open("a") as out:
        out.write("{says}\\n")
"""


def test_a_worker_is_replaced_after_so_many_attempts_once_it_runs_nothing(deck: Deck) -> None:
    out = deck.home / "out"
    tasks = [deck.add("note", json.dumps({"file": str(out)})) for _ in range(3)]
    deck.start(TASKDECK_ENGINE__RECYCLE_TASKS="1")
    for each in tasks:
        deck.until_state(each, "SUCCESS")
    deck.until(lambda: len(deck.events(None, "WORKER_ENDED")) >= 2, "two were replaced")
    assert {each["reason"] for each in deck.events(None, "WORKER_RETIRED")} == {"recycled"}
    assert not deck.events(None, "WORKER_LOST"), deck.told()
    assert len({line.split()[1] for line in out.read_text().splitlines()}) == 3


@pytest.mark.parametrize("engine_dies", [False, True])
@fault("TF030")
def test_a_worker_that_counts_as_lost_and_wakes_up_changes_nothing_and_is_ended(
    deck: Deck, engine_dies: bool
) -> None:
    out = deck.home / "out"
    task_id = deck.add("walk", json.dumps({"file": str(out), "to": 60}))
    deck.start(
        TASKDECK_SUPPRESS="end_worker",
        TASKDECK_ENGINE__SUSPECT_AFTER="500ms",
        TASKDECK_ENGINE__LEASE="1500ms",
    )
    deck.until(out.exists, "it walks")
    stale = deck.worker_of(task_id)
    kill(stale, signal.SIGSTOP)
    deck.until(lambda: deck.events(None, "WORKER_LOST"), "it counts as lost")
    deck.until(lambda: deck.show(task_id)["attempt"] == 2, "another one goes on")
    assert process_state(stale) == "T"  # its end was suppressed
    if engine_dies:
        kill(deck.engine_pid)
        deck.until(lambda: len(deck.events(None, "ENGINE_STARTED")) == 2, "another engine")
    kill(stale, signal.SIGCONT)
    deck.until(lambda: deck.events(None, "WORKER_STALE"), "it is turned away")
    deck.until(lambda: stale not in deck.processes(), "it is ended")
    deck.until_state(task_id, "SUCCESS")
    assert [each["outcome"] for each in deck.attempts(task_id)] == ["lost", "succeeded"]
    assert [each["payload"]["pid"] for each in deck.events(None, "WORKER_STALE")] == [stale]
    later = [
        each
        for each in deck.events(task_id)
        if each["event_id"] > deck.events(None, "WORKER_LOST")[0]["event_id"]
    ]
    assert {each["payload"]["fence"] for each in later if each["event_type"] == "CHECKPOINT_SAVED"} == {
        deck.attempts(task_id)[1]["fence"]
    }


@pytest.mark.parametrize(
    "point",
    [
        "after_claim_commit:1",
        "after_claim_commit:3",
        "after_dispatch:2",
        "after_dispatch:3",
        "after_reports_recorded:3",
    ],
)
def test_wherever_an_engine_dies_around_an_attempt_it_runs_once_and_ends_once(deck: Deck, point: str) -> None:
    out, once = deck.home / "out", deck.home / "once"
    task_id = deck.add("note", json.dumps({"file": str(out), "pause": 0.3}))
    run = deck.start("--until-idle", TASKDECK_CRASH_AT=point, TASKDECK_CRASH_ONCE=str(once))
    assert deck.finish(run) == 0, deck.told()
    assert once.exists()
    assert len(out.read_text().splitlines()) == 1
    assert deck.state(task_id) == "SUCCESS"
    outcomes = [each["outcome"] for each in deck.attempts(task_id)]
    assert outcomes in (["succeeded"], ["never_started", "succeeded"])
    assert len(deck.events(task_id, "TASK_FINISHED")) == 1
    assert not deck.events(None, "WORKER_LOST"), deck.told()


@pytest.mark.parametrize("point", ["after_reports_recorded:2", "after_reports_recorded:3"])
def test_a_handler_that_an_engine_died_before_answering_is_answered_by_the_next(
    deck: Deck, point: str
) -> None:
    out, once = deck.home / "out", deck.home / "once"
    task_id = deck.add("saga", json.dumps({"file": str(out)}))
    run = deck.start("--until-idle", TASKDECK_CRASH_AT=point, TASKDECK_CRASH_ONCE=str(once))
    deck.finish(run)
    assert once.exists()
    assert out.read_text().splitlines() == ["do a", "do b", "do c", "undo c", "undo b", "undo a"]
    assert "lost" not in [each["outcome"] for each in deck.attempts(task_id)]


FLEES = "env -i setsid sh -c '(exec 3>&- </dev/null >/dev/null 2>&1; exec sleep 599) & exit' & wait; exec sleep 600"
"""Leaves one behind that no mark, no session and no parent tells of."""


@pytest.mark.parametrize("cgroups", ["auto", "off"])
@fault("TF133")
def test_a_stop_without_an_engine_ends_what_killed_workers_left_running(deck: Deck, cgroups: str) -> None:
    task_id = deck.add("--", "sh", "-c", FLEES)
    deck.start(TASKDECK_ENGINE__CGROUPS=cgroups)
    command = deck.until_command(task_id)
    workers = deck.db.parent / "logs" / "workers"
    fled = deck.until(lambda: unmarked(workers), "who fled is written down")
    worker = deck.worker_of(task_id)
    kill_engine_and_supervisor(deck)
    kill(worker)
    deck.until(lambda: process_state(worker) in ("", "Z"), "the worker is gone")
    assert process_state(fled) in "SR"
    told = json.loads(deck.ok("stop", "--json"))
    assert {command, fled} <= set(told["processes"])
    assert "left" not in told
    assert process_state(fled) in ("", "Z")
    assert not deck.processes()
    assert deck.state(task_id) == "RUNNING"  # the next engine writes down what became of it


@pytest.mark.parametrize("who", ["command", "handler"])
@pytest.mark.parametrize("without_engine", [False, True], ids=["engine", "no engine"])
@fault("TF133")
def test_who_fled_from_a_killed_worker_unseen_comes_to_us_and_is_ended(
    deck: Deck, who: str, without_engine: bool
) -> None:
    file = deck.home / "pid"
    fled = f'sh -c "echo \\$\\$ > {file}.new; mv {file}.new {file}; exec sleep 599"'
    flees = FLEES.replace("sleep 599", fled)
    others = deck.add("--", "sh", "-c", FLEES)
    deck.start(workers=2, TASKDECK_ENGINE__CGROUPS="off")
    noted = deck.until(lambda: unmarked(deck.db.parent / "logs" / "workers"), "another worker's runs")
    task = ("flees", json.dumps({"file": str(file)})) if who == "handler" else ("--", "sh", "-c", flees)
    task_id = deck.add(*task)
    pid = int(deck.until(lambda: file.exists() and file.read_text(), "it has fled"))
    worker = deck.worker_of(task_id)
    assert worker != deck.worker_of(others)
    if without_engine:
        kill(deck.engine_pid)
    kill(worker, signal.SIGSTOP)  # what it has written down of it is gone, as if it had not come to that
    for each in (deck.db.parent / "logs" / "workers").glob("*.kin"):
        if f"{pid} " in each.read_text():
            each.unlink()
    kill(worker)
    deck.until(lambda: not process_state(pid), "who fled is ended, and no zombie of it stays")
    deck.until(
        lambda: deck.events(task_id, "TASK_TAKEN_OVER") or deck.attempts(task_id)[0]["ended_at"], "lost"
    )
    assert process_state(noted) in ("R", "S"), "what a living worker owns goes on"
    deck.ok("cancel", others, task_id)
    deck.until(lambda: not process_state(noted), "it ends with its own attempt")


def unmarked(workers: Path) -> int:
    """The pid of one who came to its last program and is written down beside a journal; 0 for none yet."""
    noted = [int(line.split()[0]) for file in workers.glob("*.kin") for line in file.read_text().splitlines()]
    names = {pid: Path(f"/proc/{pid}/cmdline") for pid in noted}
    return next((pid for pid, file in names.items() if file.exists() and b"599" in file.read_bytes()), 0)
