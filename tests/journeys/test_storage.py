"""What happens to a whole deck when its storage fails it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.journeys.decks import Deck
from tests.scarce import on_a_small_disk


def test_a_full_disk_pauses_the_engine_and_loses_nothing(tmp_path: Path) -> None:
    done = on_a_small_disk(tmp_path, "4m", "-m", "tests.journeys.small_disk", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("well\n")


def test_a_deleted_database_ends_nothing_that_runs_and_its_copy_is_gone_on_with(
    deck: Deck, tmp_path: Path
) -> None:
    deck.start()
    deck.until_ready()
    go = tmp_path / "go"
    running = deck.add("--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done")
    deck.until_command(running)
    deck.db.unlink()
    copy = deck.db.with_name("taskdeck.db.rescued")
    deck.until(copy.exists, "what was in it is copied")

    def alerts() -> list[str]:
        told = json.loads(deck.ok("status", "--json"))["storage"] or {"alerts": []}
        return [each["remedy"] for each in told["alerts"]]

    assert f"mv {copy} {deck.db}" in deck.until(alerts, "it is told of")[0]
    assert deck.cli("add", "--", "true").returncode == 75
    go.touch()
    deck.until(lambda: not deck.commands(running), "the command ends")
    copy.rename(deck.db)
    deck.until_state(running, "SUCCESS")
    assert len(deck.attempts(running)) == 1
    deck.until(lambda: deck.events(None, "ALERT_CLEARED"), "it is over")
    deck.until_state(deck.add("--", "true"), "SUCCESS")
