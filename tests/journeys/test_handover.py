"""`taskdeck restart`: a new engine takes over in order, and what runs never notices."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import Popen

from tests.journeys.decks import Deck, kill


def restart(deck: Deck) -> dict[str, dict[str, int]]:
    return json.loads(deck.ok("restart", "--json"))


def until_back(deck: Deck, times: int) -> None:
    deck.until(lambda: len(deck.events(None, "WORKER_RETURNED")) >= times, "the worker is back")


def test_what_runs_goes_on_in_its_attempt_under_a_new_engine_and_nothing_is_charged(deck: Deck) -> None:
    file, gate = deck.home / "out", deck.home / "gate"
    walk = deck.add("walk", json.dumps({"file": str(file), "to": 100_000, "pause": 0.02}))
    script = "while [ ! -e {} ]; do sleep 0.05; done"
    command = deck.add("--", "sh", "-c", script.format(gate))
    run = deck.start()
    pid, worker = deck.until_command(command), deck.worker_of(command)
    deck.until(file.exists, "it walks")
    new_code_that_can_not_be_loaded_is_refused_and_the_engine_works_on(deck)
    done = restart(deck)
    assert (done["old"]["id"], done["new"]["id"]) == (1, 2)
    assert done["new"]["supervisor_pid"] == done["old"]["supervisor_pid"] == run.pid
    until_back(deck, 1)
    assert deck.states() == ["RUNNING", "RUNNING"]
    assert (deck.worker_of(walk), deck.worker_of(command)) == (worker, worker)
    gate.touch()
    deck.until_state(command, "SUCCESS")
    assert [(each["command_pid"], each["outcome"]) for each in deck.attempts(command)] == [(pid, "succeeded")]
    (row,) = deck.rows("SELECT losses, losses_total, retry_count, attempt FROM task WHERE id = ?", walk)
    assert tuple(row.values()) == (0, 0, 0, 1)
    assert not deck.events(None, "ENGINE_LOST", "WORKER_LOST", "ALERT_RAISED"), deck.told()
    assert [each["reason"] for each in deck.events(None, "ENGINE_STOPPED")] == ["handed_over"]
    another = deck.home / "another-gate"
    an_engine_whose_supervisor_is_gone_has_one_again_afterwards(deck, run, script.format(another), another)
    deck.ok("stop")
    deck.until(lambda: not deck.processes(), "all has ended")


def an_engine_whose_supervisor_is_gone_has_one_again_afterwards(
    deck: Deck, run: Popen[bytes], script: str, gate: Path
) -> None:
    task_id = deck.add("--", "sh", "-c", script)
    deck.until_command(task_id)
    kill(run.pid)
    run.wait(10)
    done = restart(deck)
    assert done["new"]["supervisor_pid"] not in (None, run.pid)
    gate.touch()
    deck.until_state(task_id, "SUCCESS")
    assert len(deck.attempts(task_id)) == 1


def new_code_that_can_not_be_loaded_is_refused_and_the_engine_works_on(deck: Deck) -> None:
    good = Path(deck.config).read_text()
    deck.config.write_text(good + "\n[engine]\nnonsense = 1\n")
    pid = deck.engine_pid
    refused = deck.cli("restart", "--db", str(deck.db), "--config", str(other(deck, good)))
    assert refused.returncode == 4, refused.stderr
    assert "can't be started" in refused.stderr
    assert deck.engine_pid == pid
    deck.config.write_text(good)


def other(deck: Deck, text: str) -> Path:
    """A sound configuration for the command line itself, so that it is the engine that refuses."""
    path = deck.home / "other.toml"
    path.write_text(text)
    return path


def test_without_an_engine_there_is_nothing_to_restart(deck: Deck) -> None:
    deck.add("--", "true")
    refused = deck.cli("restart")
    assert refused.returncode == 3
    assert "taskdeck run" in refused.stderr
