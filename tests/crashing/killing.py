"""Kills a scenario at every fault point it passes, one after the other, and judges what the next engine makes of it.

A process of its own with one thread, so that it may fork: each child lives through the scenario on a copy of an empty
database and dies by SIGKILL at its point; the next life begins on what is left, brings everything to rest, and the nine
invariants are judged.

usage: python -m tests.crashing [--every N] [--from N] [--recovery]
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from taskdeck.engine import crash
from taskdeck.engine.clock import ManualClock
from taskdeck.engine.demo.invariants import Outside, judge
from taskdeck.engine.run import recovery
from taskdeck.engine.run.messages import Outcome
from tests.crashing.day import live_through
from tests.crashing.life import Life, acknowledged, finish, task

DAY = 86_400.0
"""Seconds between two lives: whatever waited for a time is due."""
WORKERS = 24
"""So many are lost together with their engine before recovery is killed again and again."""
recovery.PART = 1  # so that recovery also dies between two tasks of one worker
BROKEN = 70
"""Exit code of a child whose scenario could not be lived through at all."""


def points(folder: Path) -> list[str]:
    """Every fault point that the day passes, in order: found by living through it once, unharmed."""
    passed: list[str] = []
    crash.watch(passed.append)
    try:
        live_through(Life(folder).begin())
    finally:
        crash.arm({})
    return passed


def killed_at(number: int, folder: Path, live: Callable[[], object]) -> bool:
    """Live through it in a child that dies at its `number`th point, from 1. False = it never came to that point."""
    if not (child := os.fork()):
        left = [number]

        def passed(name: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                crash.die()

        with suppress(BaseException):
            crash.watch(passed)
            live()
            os._exit(0)
        os._exit(BROKEN)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in (0, -signal.SIGKILL), f"point {number}: what leads there can't be lived through"
    return ended != 0


def problems_after(folder: Path, lives: int = 1) -> list[str]:
    """Recover, bring everything to rest, judge. `lives`: how many days have passed."""
    finish(later(folder, lives).begin())
    verdicts = judge(folder / "taskdeck.db", Outside(acknowledged(folder), effects=_effects(folder)))
    return [f"{number}. {each}" for number, found in verdicts.problems.items() for each in found]


def later(folder: Path, days: int = 1) -> Life:
    """A life that begins so many days after the first."""
    clock = ManualClock()
    clock.advance(DAY * days)
    return Life(folder, clock)


def hands_full(folder: Path) -> None:
    """Die while several workers run many attempts: some between an effect and its record, one with an end in its spool."""

    def live() -> None:
        life = Life(folder).begin()
        _busy(life, 0)
        for number in range(1, WORKERS):
            life.hire()  # the one before stays, with its hands full
            _busy(life, number)
        crash.die()

    killed_at(1 << 60, folder, live)


def _busy(life: Life, number: int) -> None:
    """The newest worker takes all that is there: the first is not begun, the second did something, the last has ended."""
    life.submit(
        *(task(f"busy-{number}-{n}", effects=2) for n in range(3)),
        task(f"careful-{number}", "once_only"),
        *([task("in-use", "browse")] if number == 0 else []),
    )
    runs = life.tick()
    for run in runs[1:]:
        life.start(run)
    life.begin_effect(runs[1], f"busy-{number}-1:0")
    life.keep(Outcome(runs[-2].task_id, runs[-2].fence, "succeeded"))


def _effects(folder: Path) -> list[str]:
    ledger = folder / "effects.log"
    return ledger.read_text().splitlines() if ledger.exists() else []


@contextmanager
def scratch() -> Iterator[Callable[[], Path]]:
    """Makes folders, each with an empty database in it; in memory where there is such a place."""
    memory = Path("/dev/shm")
    base = Path(
        tempfile.mkdtemp(prefix="taskdeck-crashing-", dir=memory if os.access(memory, os.W_OK) else None)
    )
    made = Counter[str]()
    try:
        template = base / "template"
        template.mkdir()
        Life(template).database.close()

        def copy() -> Path:
            made["copies"] += 1
            folder = base / str(made["copies"])
            shutil.copytree(template, folder)
            return folder

        yield copy
    finally:
        shutil.rmtree(base, ignore_errors=True)
