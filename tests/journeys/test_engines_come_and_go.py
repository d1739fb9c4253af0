"""Engines that die or are replaced while work runs: workers and commands go on, and nothing is lost or done twice."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

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


def next_engine(deck: Deck) -> None:
    """Another engine, and the worker is back."""
    returned = len(deck.events(None, "WORKER_RETURNED"))
    deck.start()
    deck.until(lambda: len(deck.events(None, "WORKER_RETURNED")) > returned, "the worker has returned")


class Walk:
    """A handler that counts with checkpoints, on and on until it may end."""

    def __init__(self, deck: Deck, name: str) -> None:
        self._out, self._gate, self._deck = deck.home / name, deck.home / f"{name}.gate", deck
        self.id = deck.add(
            "walk", json.dumps({"file": str(self._out), "gate": str(self._gate), "pause": 0.02})
        )

    def begins(self) -> None:
        self._deck.until(self._out.exists, "it walks")

    def goes_on(self) -> None:
        before = len(self.numbers)
        self._deck.until(lambda: len(self.numbers) > before + 3, "it walks on")

    def ends(self) -> None:
        self._gate.touch()
        self._deck.until_state(self.id, "SUCCESS")

    @property
    def numbers(self) -> list[int]:
        return [int(line.split()[0]) for line in self._out.read_text().splitlines()]

    @property
    def outcomes(self) -> list[str | None]:
        return [each["outcome"] for each in self._deck.attempts(self.id)]


def test_a_command_outlives_ten_engines_in_one_attempt_and_what_is_done_or_wanted_between_them_counts(
    deck: Deck,
) -> None:
    file, gate = deck.home / "numbers.txt", deck.home / "gate"
    script = f"while [ ! -e {gate} ]; do echo $$ >> {file}; sleep 0.05; done; echo over"
    task_id = deck.add("--", "sh", "-c", script)
    deck.start()
    command = deck.until_command(task_id)
    worker = deck.worker_of(task_id)
    what_is_done_and_saved_without_an_engine_is_there_when_one_comes(deck)
    what_a_person_wanted_while_there_was_no_engine_reaches_the_worker_that_returns(deck)
    for _ in range(6):
        kill_engine_and_supervisor(deck)
        next_engine(deck)
    kill_engine_and_supervisor(deck)
    last = deck.start("--until-idle")
    deck.until(lambda: len(deck.events(None, "WORKER_RETURNED")) == 10, "the worker has returned ten times")
    gate.touch()
    assert deck.finish(last) == 0
    assert deck.moves(task_id) == ["RUNNING (dispatched)", "SUCCESS (done)"]
    (attempt,) = deck.attempts(task_id)
    assert (attempt["command_pid"], attempt["exit_code"]) == (command, 0)
    assert set(file.read_text().split()) == {str(command)}
    assert {row["pid"] for row in deck.rows("SELECT pid FROM worker WHERE id = 1")} == {worker}
    assert len(deck.events(None, "ENGINE_LOST")) == 10
    assert not deck.events(None, "WORKER_LOST"), deck.told()


def what_is_done_and_saved_without_an_engine_is_there_when_one_comes(deck: Deck) -> None:
    out = deck.home / "out"
    walk = deck.add("walk", json.dumps({"file": str(out), "to": 30, "pause": 0.02}))
    command = deck.add("--", sys.executable, examples("count.py"), deck.home / "numbers", 10, "0.02")
    deck.until(lambda: out.exists() and (deck.home / "numbers").exists(), "both run")
    kill_engine_and_supervisor(deck)
    deck.until(lambda: len(out.read_text().splitlines()) == 30, "it walks on without an engine")
    deck.until(lambda: not deck.commands(command), "the command has ended without an engine")
    assert [deck.state(each) for each in (walk, command)] == ["RUNNING"] * 2  # nobody was there to write it
    next_engine(deck)
    for task_id in (walk, command):
        deck.until_state(task_id, "SUCCESS")
        assert [each["outcome"] for each in deck.attempts(task_id)] == ["succeeded"]
    assert [int(line.split()[0]) for line in out.read_text().splitlines()] == list(range(1, 31))
    saved = [each["payload"]["seq"] for each in deck.events(walk, "CHECKPOINT_SAVED")]
    assert saved == list(range(1, 31))
    assert len(deck.events(walk, "TASK_FINISHED")) == 1


def what_a_person_wanted_while_there_was_no_engine_reaches_the_worker_that_returns(deck: Deck) -> None:
    walk, paused = Walk(deck, "cancelled"), deck.add("--", "sleep", "600")
    walk.begins()
    deck.until_command(paused)
    kill_engine_and_supervisor(deck)
    deck.ok("cancel", walk.id)
    deck.ok("pause", paused)
    next_engine(deck)
    deck.until_state(walk.id, "CANCELLED")
    deck.until_state(paused, "PAUSED")
    assert [len(deck.attempts(each)) for each in (walk.id, paused)] == [1, 1]
    kill_engine_and_supervisor(deck)  # a suspended command outlives its engine, too
    deck.ok("resume", paused)
    next_engine(deck)
    deck.until(lambda: deck.state(paused) == "RUNNING", "it goes on")
    assert len(deck.attempts(paused)) == 1
    deck.ok("cancel", paused)
    deck.until_state(paused, "CANCELLED")


@fault("TF019", "TF133")
def test_what_outlived_its_engine_is_kept_drained_or_ended_whatever_became_of_it_meanwhile(
    deck: Deck,
) -> None:
    deck.start()
    what_a_worker_kept_is_written_though_it_died_before_the_next_engine_came(deck)
    a_stop_without_an_engine_ends_what_outlived_it_and_loses_nothing(deck, next_away_limit="100ms")
    without_any_engine_workers_stop_at_the_next_checkpoint_and_end(deck)
    for cgroups in ("auto", "off"):
        a_stop_without_an_engine_ends_what_killed_workers_left_running(deck, cgroups)


def what_a_worker_kept_is_written_though_it_died_before_the_next_engine_came(deck: Deck) -> None:
    done = deck.add("--", sys.executable, examples("count.py"), deck.home / "numbers", 10, "0.02")
    walk = Walk(deck, "kept")
    walk.begins()
    deck.until((deck.home / "numbers").exists, "both run")
    worker = deck.worker_of(walk.id)
    kill_engine_and_supervisor(deck)
    deck.until(lambda: not deck.commands(done), "the command has ended without an engine")
    walk.goes_on()
    kill(worker, signal.SIGSTOP)
    walked = len(walk.numbers)
    kill(worker)
    deck.start()
    deck.until(lambda: len(deck.attempts(walk.id)) == 2, "it goes on")
    assert deck.state(done) == "SUCCESS"
    assert [each["outcome"] for each in deck.attempts(done)] == ["succeeded"]
    first, second = deck.attempts(walk.id)
    assert first["outcome"] == "lost"
    assert walked - 1 <= second["resumed_from"] <= walked
    deck.ok("cancel", walk.id)
    deck.until_state(walk.id, "CANCELLED")


def a_stop_without_an_engine_ends_what_outlived_it_and_loses_nothing(
    deck: Deck, next_away_limit: str
) -> None:
    walk, command = Walk(deck, "stopped"), deck.add("--", "sleep", "600")
    walk.begins()
    deck.until_command(command)
    kill_engine_and_supervisor(deck)
    told = json.loads(deck.ok("worker", "list", "--json"))
    assert (told["alive"], sorted(told["attempts"])) == (True, [f"#{walk.id}.1", f"#{command}.1"])
    assert "stands still" not in deck.ok("status")
    assert "no engine works now: its worker goes on" in " ".join(deck.ok("why", command).split())
    assert str(told["pid"]) in deck.ok("stop")
    assert not deck.processes()
    assert "was not running" in deck.ok("stop")
    deck.start(TASKDECK_ENGINE__AWAY_LIMIT=next_away_limit)
    walk.ends()
    assert walk.numbers == list(range(1, len(walk.numbers) + 1))
    assert walk.outcomes == ["drained", "succeeded"]
    deck.ok("cancel", command)
    deck.until_state(command, "CANCELLED")


def without_any_engine_workers_stop_at_the_next_checkpoint_and_end(deck: Deck) -> None:
    walk, command = Walk(deck, "away"), deck.add("--", "sleep", "600")
    walk.begins()
    deck.until_command(command)
    ended = len(deck.events(None, "WORKER_ENDED"))
    kill_engine_and_supervisor(deck)
    deck.until(lambda: not deck.processes(), "nothing runs any more")
    deck.start()
    walk.ends()
    assert walk.outcomes == ["drained", "succeeded"]
    assert walk.numbers == list(range(1, len(walk.numbers) + 1))
    deck.until_command(command)
    totals = deck.rows("SELECT losses_total FROM task WHERE id IN (?, ?)", walk.id, command)
    assert [row["losses_total"] for row in totals] == [0, 0]
    assert [each["reason"] for each in deck.events(None, "WORKER_ENDED")][ended:] == ["ended"]
    deck.ok("stop")
    assert not list(Path(deck.db.parent / "logs" / "workers").glob("*.spool"))
    deck.ok("cancel", command)


FLEES = "env -i setsid sh -c '(exec 3>&- </dev/null >/dev/null 2>&1; exec sleep 599) & exit' & wait; exec sleep 600"
"""Leaves one behind that no mark, no session and no parent tells of."""


def a_stop_without_an_engine_ends_what_killed_workers_left_running(deck: Deck, cgroups: str) -> None:
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
    deck.ok("cancel", task_id)


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


@fault("TF030")
def test_a_silent_worker_is_ended_and_one_that_could_not_be_wakes_up_changes_nothing_and_is_ended(
    deck: Deck,
) -> None:
    short = {"TASKDECK_ENGINE__SUSPECT_AFTER": "500ms", "TASKDECK_ENGINE__LEASE": "1500ms"}
    deck.start(workers=2, **short)
    a_worker_that_falls_silent_is_suspect_then_ended_and_its_task_runs_once_more(deck)
    deck.ok("stop")
    deck.start(workers=2, TASKDECK_SUPPRESS="end_worker", **short)
    for engine_dies in (False, True):
        a_worker_that_counts_as_lost_and_wakes_up_changes_nothing_and_is_ended(deck, engine_dies)


def a_worker_that_falls_silent_is_suspect_then_ended_and_its_task_runs_once_more(deck: Deck) -> None:
    walk = Walk(deck, "silent")
    walk.begins()
    silent = deck.worker_of(walk.id)
    kill(silent, signal.SIGSTOP)
    deck.until(lambda: deck.events(None, "WORKER_SUSPECT"), "it is suspect")
    assert deck.state(walk.id) == "RUNNING"  # shown, not acted on
    deck.until(lambda: len(deck.attempts(walk.id)) == 2, "another one goes on")
    walk.goes_on()
    walk.ends()
    lost = deck.events(None, "WORKER_LOST")
    assert [each["payload"]["pid"] for each in lost] == [silent]
    assert silent not in deck.processes()
    assert walk.outcomes == ["lost", "succeeded"]
    numbers = walk.numbers
    assert sorted(set(numbers)) == list(range(1, max(numbers) + 1))
    assert len(numbers) <= max(numbers) + 1


def a_worker_that_counts_as_lost_and_wakes_up_changes_nothing_and_is_ended(
    deck: Deck, engine_dies: bool
) -> None:
    walk = Walk(deck, f"woken-{engine_dies}")
    walk.begins()
    stale = deck.worker_of(walk.id)
    before = deck.events()[-1]["event_id"]

    def later(*types: str) -> list[dict[str, Any]]:
        return [each for each in deck.events(None, *types) if each["event_id"] > before]

    kill(stale, signal.SIGSTOP)
    deck.until(lambda: later("WORKER_LOST"), "it counts as lost")
    deck.until(lambda: len(deck.attempts(walk.id)) == 2, "another one goes on")
    walk.goes_on()
    assert process_state(stale) == "T"  # its end was suppressed
    if engine_dies:
        kill(deck.engine_pid)
        deck.until(lambda: later("ENGINE_STARTED"), "another engine")
    kill(stale, signal.SIGCONT)
    deck.until(lambda: later("WORKER_STALE"), "it is turned away")
    deck.until(lambda: stale not in deck.processes(), "it is ended")
    walk.ends()
    assert walk.outcomes == ["lost", "succeeded"]
    assert [each["payload"]["pid"] for each in later("WORKER_STALE")] == [stale]
    lost = later("WORKER_LOST")[0]["event_id"]
    saved = [each for each in deck.events(walk.id, "CHECKPOINT_SAVED") if each["event_id"] > lost]
    assert {each["payload"]["fence"] for each in saved} == {deck.attempts(walk.id)[1]["fence"]}


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


@fault("TF133")
def test_who_fled_from_a_killed_worker_unseen_comes_to_us_and_is_ended(deck: Deck) -> None:
    others = deck.add("--", "sh", "-c", FLEES)
    deck.start(workers=2, TASKDECK_ENGINE__CGROUPS="off")
    workers = deck.db.parent / "logs" / "workers"
    noted = deck.until(lambda: unmarked(workers), "another worker's runs")
    for without_engine in (False, True):
        for who in ("command", "handler"):
            assert deck.until(lambda: len(deck.ready_workers()) == 2, "two workers")
            flee_and_be_ended(deck, who, others, without_engine)
            assert process_state(noted) in ("R", "S"), "what a living worker owns goes on"
    deck.ok("cancel", others)
    deck.until(lambda: not process_state(noted), "it ends with its own attempt")


def flee_and_be_ended(deck: Deck, who: str, others: int, without_engine: bool) -> None:
    file = deck.home / f"pid-{who}-{without_engine}"
    fled = f'sh -c "echo \\$\\$ > {file}.new; mv {file}.new {file}; exec sleep 599"'
    flees = FLEES.replace("sleep 599", fled)
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
    deck.ok("cancel", task_id)
    deck.until_state(task_id, "CANCELLED")


def unmarked(workers: Path) -> int:
    """The pid of one who came to its last program and is written down beside a journal; 0 for none yet."""
    noted = [int(line.split()[0]) for file in workers.glob("*.kin") for line in file.read_text().splitlines()]
    names = {pid: Path(f"/proc/{pid}/cmdline") for pid in noted}
    return next((pid for pid, file in names.items() if file.exists() and b"599" in file.read_bytes()), 0)
