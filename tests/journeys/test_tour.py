"""The way of the README: add, run until idle, look; the exit code tells how it went."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.faults import fault
from tests.journeys.decks import TASKDECK, Deck, examples


@pytest.mark.parametrize("deck", ["new"], indirect=True)
def test_run_until_idle_says_by_its_exit_code_how_it_went_and_where_to_look(deck: Deck) -> None:
    one = {"TASKDECK_ENGINE__WORKERS": "1"}
    well = deck.add("--", "sh", "-c", "echo to work; echo done >&2")
    command = [TASKDECK, "run", "--until-idle"]
    run = subprocess.run(
        command, env=deck.env | one, cwd=deck.home, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert run.stdout == b""
    assert deck.state(well) == "SUCCESS"
    assert deck.ok("log", well) == "to work\ndone\n"

    another, failed = deck.add("--", "true"), deck.add("--", "sh", "-c", "echo broken; exit 64")
    ended = deck.cli("run", "--until-idle", **one)
    assert ended.returncode == 1
    assert "1 FAILED, 1 SUCCESS (see: taskdeck list state:failed)" in ended.stderr
    assert deck.states() == ["SUCCESS", "SUCCESS", "FAILED"]
    listed = {each["id"]: each["state"] for each in map(json.loads, deck.ok("list", "--json").splitlines())}
    assert listed == {well: "SUCCESS", another: "SUCCESS", failed: "FAILED"}
    assert deck.show(failed)["error"]["class"] == "fatal"
    assert deck.ok("log", failed) == "broken\n"
    assert "broken" in deck.ok("show", failed)

    stubborn = deck.add("--retries", "1", "--", "false")
    assert deck.finish(deck.start("--until-idle")) == 6
    assert deck.state(stubborn) == "NEEDS_REVIEW"
    assert [each["outcome"] for each in deck.attempts(stubborn)] == ["failed", "failed"]
    assert deck.ok("audit", "verify").startswith("the audit is whole")


@fault("TF240", "TF241")
def test_a_folder_of_commands_is_added_once_however_often_it_is_added(deck: Deck) -> None:
    folder = deck.home / "folder"
    shutil.copytree(examples("folder"), folder)
    (folder / "config.toml").unlink()  # the scratch one has shorter times
    command = ["./add_all.sh", "--env", "SECONDS_A_LINE=0.001"]
    added = [
        subprocess.run(command, cwd=folder, env=deck.env, capture_output=True, text=True, check=True)
        for _ in "12"
    ]
    assert added[0].stdout == added[1].stdout
    scripts = sorted(each.name for each in (folder / "jobs").iterdir())
    assert deck.states() == ["PENDING"] * len(scripts)

    assert deck.finish(deck.start("--until-idle")) == 0
    assert deck.states() == ["SUCCESS"] * len(scripts)
    again = next(
        row["id"] for row in deck.rows("SELECT id FROM task WHERE idempotency_key = 'folder:try_again.sh'")
    )
    assert [each["outcome"] for each in deck.attempts(again)] == [
        "failed",
        "succeeded",
    ]  # TF240: its own key is no hindrance
    assert deck.ok("log", again, "--attempt", "2") == "printed at attempt 2\n"
    assert (folder / "out" / "SHA256SUMS").read_text().count("texts/") == 3
    slow = next(
        row["id"] for row in deck.rows("SELECT id FROM task WHERE idempotency_key = 'folder:read_slowly.sh'")
    )
    assert json.loads(
        deck.rows("SELECT data FROM checkpoint WHERE task_id = ? ORDER BY seq DESC", slow)[0]["data"]
    ) == {"done": 42}


def test_every_posix_shell_can_write_checkpoints_however_many_run_at_once(deck: Deck) -> None:
    """A POSIX shell can name descriptors 0 to 9 only."""
    script = """printf '{"checkpoint": {"pid": %d}}\\n' $$ >&"$TASKDECK_FD"; until [ -e gate ]; do sleep 0.02; done"""
    jsonl = deck.home / "tasks.jsonl"
    jsonl.write_text("\n".join(json.dumps({"command": ["sh", "-c", script]}) for _ in range(12)))
    deck.ok("add", "-f", jsonl)
    run = deck.start("--until-idle")
    deck.until(lambda: len(deck.rows("SELECT DISTINCT task_id FROM checkpoint")) == 12, "12 checkpoints")
    (deck.home / "gate").touch()
    assert deck.finish(run) == 0
    saved = {json.loads(row["data"])["pid"] for row in deck.rows("SELECT data FROM checkpoint")}
    assert saved == {row["command_pid"] for row in deck.rows("SELECT command_pid FROM attempt")}
