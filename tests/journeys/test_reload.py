"""Reloading the configuration of a running engine: whole, or not at all, and said where people look."""

from __future__ import annotations

import json
import os
import signal

from tests.faults import fault
from tests.journeys.decks import Deck


def hang_up(deck: Deck) -> None:
    os.kill(deck.engine_pid, signal.SIGHUP)


def version(deck: Deck) -> int:
    return json.loads(deck.ok("status", "--json"))["config"]["version"]


def until_taken_over(deck: Deck, before: int) -> None:
    deck.until(lambda: len(deck.events(None, "CONFIG_RELOADED")) == before, "it is taken over")
    assert version(deck) == before + 1


@fault("TF204")
@fault("TF205")
def test_what_is_changed_in_the_file_holds_from_a_reload_on_and_a_mistake_changes_nothing(deck: Deck) -> None:
    deck.start()
    deck.until_ready()
    a_file_with_a_mistake_changes_nothing_and_status_and_events_say_so(deck)
    new_limits_hold_from_the_next_decision_on(deck)
    new_resources_are_there_and_old_ones_are_not_after_a_reload(deck)
    level_and_place_of_the_log_change_and_a_log_that_was_moved_is_begun_anew(deck)


def a_file_with_a_mistake_changes_nothing_and_status_and_events_say_so(deck: Deck) -> None:
    good = deck.config.read_text(encoding="utf-8")
    deck.configure(good + '\n[retry]\nbase = "1s"\n')
    hang_up(deck)
    deck.until(lambda: deck.events(None, "CONFIG_REJECTED"), "the file is rejected")
    assert "REJECTED" in deck.ok("status")  # while the mistake still stands there
    deck.until_state(deck.add("--", "true"), "SUCCESS")
    deck.configure(
        good.replace('base = "50ms"', 'base = "10ms"')
    )  # mended, but nobody has told the engine yet
    config = json.loads(deck.ok("status", "--json"))["config"]
    assert config["version"] == 1
    assert "retry" in config["rejected"]["why"]
    assert "REJECTED" in deck.ok("status")
    task = deck.add("--", "true")
    deck.until_state(task, "SUCCESS")

    hang_up(deck)
    deck.until(lambda: deck.events(None, "CONFIG_RELOADED"), "the mended file is taken over")
    config = json.loads(deck.ok("status", "--json"))["config"]
    assert (config["version"], config["rejected"]) == (2, None)


def new_limits_hold_from_the_next_decision_on(deck: Deck) -> None:
    deck.configure(deck.config.read_text(encoding="utf-8") + "\n[types.shell]\nmax_retry = 0\n")
    before = version(deck)
    hang_up(deck)
    until_taken_over(deck, before)
    deck.until_state(deck.add("--", "false"), "NEEDS_REVIEW")


def new_resources_are_there_and_old_ones_are_not_after_a_reload(deck: Deck) -> None:
    task = deck.add("--needs", "browser", "--", "true")
    deck.configure(deck.config.read_text(encoding="utf-8") + '\n[[resources]]\nid = "b1"\npool = "browser"\n')
    hang_up(deck)
    deck.until_state(task, "SUCCESS")
    deck.configure(deck.config.read_text(encoding="utf-8").split("\n[[resources]]")[0])
    before = version(deck)
    hang_up(deck)
    until_taken_over(deck, before)
    assert deck.rows("SELECT removed_at IS NOT NULL AS gone FROM resource") == [{"gone": 1}]


def level_and_place_of_the_log_change_and_a_log_that_was_moved_is_begun_anew(deck: Deck) -> None:
    before, rejected = version(deck), len(deck.events(None, "CONFIG_REJECTED"))
    log = deck.db.parent / "logs" / "engine.log"
    moved, elsewhere = log.with_name("engine.log-moved"), deck.home / "elsewhere.log"
    deck.until(log.exists, "the log is there")
    log.rename(moved)
    deck.configure(deck.config.read_text(encoding="utf-8") + '\n[logging]\nlevel = "debug"\n')
    hang_up(deck)
    deck.until(
        lambda: log.exists() and f"version {before + 1} is in force" in log.read_text(), "it is begun anew"
    )
    assert "works on" in moved.read_text()
    deck.until(log.with_name("engine.debug.log").exists, "what is for debugging has its own file")

    good = deck.config.read_text(encoding="utf-8")
    deck.configure(good + f'file = "{deck.db}/engine.log"\n')
    hang_up(deck)
    deck.until(
        lambda: len(deck.events(None, "CONFIG_REJECTED")) > rejected, "a place that can't be is rejected"
    )
    deck.configure(good + f'file = "{elsewhere}"\nfiles = 2\n')
    hang_up(deck)
    deck.until(
        lambda: elsewhere.exists() and f"version {before + 2} is in force" in elsewhere.read_text(),
        "it moves",
    )
