"""The count script, killed at a random point: it goes on, no number is written more than twice, only the last one again."""

from __future__ import annotations

import os
import random
import sys
import time
from itertools import pairwise
from pathlib import Path

from tests.faults import fault
from tests.journeys.decks import Deck, examples, kill

LAST = 20


class Count:
    """One count script as a task, and what it has written."""

    def __init__(self, deck: Deck) -> None:
        self.file = deck.home / "numbers.txt"
        self.deck = deck
        self.id = deck.add("--", sys.executable, examples("count.py"), self.file, LAST, "0.02")
        seed = int(os.environ.get("JOURNEY_SEED", random.SystemRandom().randrange(10**6)))
        print(f"JOURNEY_SEED={seed}")  # shown when the test fails; set it to see the same again
        self._random = random.Random(seed)

    def lines(self) -> list[tuple[int, int, int]]:
        """(number, pid, attempt) as written."""
        text = self.file.read_text() if self.file.exists() else ""
        return [tuple(map(int, line.split())) for line in text.splitlines()]  # type: ignore[misc]

    def reach_a_random_point(self) -> int:
        """Wait until it is somewhere in the middle; returns the pid of the command."""
        goal = len(self.lines()) + self._random.randint(2, 8)
        self.deck.until(lambda: len(self.lines()) >= goal, f"{goal} numbers")
        time.sleep(self._random.uniform(0, 0.03))  # anywhere between two numbers
        return self.lines()[-1][1]

    def check(self, kills: int) -> None:
        """All numbers, in order; each new attempt begins behind the last number of the one before, or with it again."""
        lines = self.lines()
        by_attempt: dict[int, list[int]] = {}
        for number, _, attempt in lines:
            by_attempt.setdefault(attempt, []).append(number)
        assert len(by_attempt) == kills + 1, lines
        assert len({pid for _, pid, _ in lines}) == kills + 1, lines
        for numbers in by_attempt.values():
            assert numbers == list(range(numbers[0], numbers[-1] + 1)), lines
        for before, after in pairwise(by_attempt.values()):
            assert after[0] in (before[-1], before[-1] + 1), lines
        assert lines[0][0] == 1
        assert lines[-1][0] == LAST

    def check_story(self, lost: str) -> None:
        """The events of the last loss, in order: the process, its worker, the task; taken over, resumed."""
        events = self.deck.events()
        taken = max(each["event_id"] for each in events if each["reason"] == "taken_over")
        story = [
            each for each in events if each["task_id"] in (None, self.id) and each["event_id"] <= taken + 50
        ]
        names = [_name(each) for each in story]
        at = -1
        for name in (lost, "LOST (worker_lost)", "PENDING (taken_over)", "RUNNING (dispatched)"):
            at = names.index(name, at + 1)
        saved = max(
            each["payload"]["seq"]
            for each in story
            if _name(each) == "CHECKPOINT_SAVED" and each["event_id"] < taken
        )
        assert f"resumes at checkpoint {saved}" in next(
            each["message"] for each in story if each["event_id"] == taken
        )
        assert f"resumes at checkpoint {saved}" in story[at]["message"]


def _name(event: dict) -> str:
    if event["event_type"] == "TASK_STATE":
        return f"{event['payload']['to']} ({event['reason']})"
    return event["event_type"]


def test_a_killed_engine_is_restarted_unaided_and_the_count_goes_on(deck: Deck) -> None:
    count = Count(deck)
    run = deck.start("--until-idle")
    command = count.reach_a_random_point()
    engine = deck.engine_pid
    kill(engine)
    deck.until(lambda: deck.engine_pid not in (0, engine), "another engine")
    assert deck.finish(run) == 0
    assert deck.state(count.id) == "SUCCESS"
    count.check(kills=0)
    assert {pid for _, pid, _ in count.lines()} == {command}
    assert len(deck.events(None, "ENGINE_LOST")) == 1
    assert not deck.events(None, "WORKER_LOST")


def test_a_killed_worker_loses_its_task_to_another_one(deck: Deck) -> None:
    count = Count(deck)
    run = deck.start("--until-idle", workers=2)
    command = count.reach_a_random_point()
    worker = deck.worker_of(count.id)
    kill(worker)
    deck.until(lambda: command not in deck.processes(), "its command is gone")
    assert deck.finish(run) == 0
    assert deck.state(count.id) == "SUCCESS"
    count.check(kills=1)
    count.check_story("WORKER_LOST")
    assert [each["payload"]["pid"] for each in deck.events(None, "WORKER_LOST")] == [worker]
    assert len(deck.rows("SELECT * FROM engine")) == 1


@fault("TF019", "TF246")
def test_after_a_power_cut_two_starts_make_one_continuation(deck: Deck) -> None:
    count = Count(deck)
    deck.start()
    count.reach_a_random_point()
    deck.kill_everything()
    assert deck.state(count.id) == "RUNNING"  # nobody was left to write anything else

    codes = sorted(
        deck.finish(each) for each in [deck.start("--until-idle", workers=2), deck.start("--until-idle")]
    )
    assert codes == [0, 4], deck.told()
    assert deck.state(count.id) == "SUCCESS"
    count.check(kills=1)
    count.check_story("ENGINE_LOST")
    recovered, dispatched = (
        next(
            each["event_id"]
            for each in deck.events()
            if each["event_type"] == name and each["event_id"] > lost
        )
        for lost in [max(each["event_id"] for each in deck.events(None, "ENGINE_LOST"))]
        for name in ("ENGINE_RECOVERED", "TASK_FINISHED")
    )
    assert recovered < dispatched
    Path(deck.home / "run.log").read_text()
