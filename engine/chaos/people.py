"""People at the command line while all of it happens: they add tasks, pause, cancel, retry and hold, and are told what became
of it. A thread of its own, since an engine that is stopped lets them wait.

Who is not told whether a task was added, adds it again under its key, as anyone should.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

from ..clock import Clock
from ..commands import call
from ..config import Config
from ..errors import TaskdeckError, UsageError

ACTOR = "cli:chaos"
BATCH = (1, 6)
"""Tasks that are added at once, at least and at most."""
REST = (0.05, 0.3)
"""Seconds between two acts."""
MOST_OPEN = 60
"""Tasks that wait at most before more are added."""
ACTS = (
    "pause",
    "resume",
    "cancel",
    "retry",
    "pause",
    "resume",
    "cancel",
    "retry",
    "discard",
    "hold",
    "reset",
)
SCOPES = ("all", "type:chaos_walk", "type:shell", "pool:browser")


class People:
    """Acts until told to go home. What they know afterwards is in `acknowledged`, `retried` and `acts`."""

    def __init__(self, config: Config, seed: int, tasks: Iterator[dict[str, Any]], clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._rng = random.Random(f"chaos people {seed}")
        self._tasks = tasks
        self._waiting: list[dict[str, Any]] = []
        self._home = Event()
        self._mistake: UsageError | None = None
        self._thread = Thread(target=self._work, name="people", daemon=True)
        self.acknowledged: dict[str, int] = {}
        """Key → task, of every task that somebody was told of."""
        self.retried: Counter[int] = Counter()
        """How often somebody may have asked to run a task again."""
        self.acts: Counter[str] = Counter()
        self.unanswered = 0
        self.problems: list[tuple[int, str]] = []
        """Answers that break an invariant."""
        self.open = 0
        """How many tasks are not at rest, as the runner sees it."""

    def begin(self) -> None:
        """Come to work."""
        self._thread.start()

    def go_home(self, patience: float) -> bool:
        """Finish what is begun; False = somebody still waits for an answer. Raises what was asked wrongly."""
        self._home.set()
        if self._thread.ident is not None:
            self._thread.join(patience)
        if self._mistake is not None:
            raise self._mistake
        return not self._thread.is_alive()

    def last_orders(self) -> None:
        """What has not been answered is asked again, and everything that was held back goes on. Raises `TaskdeckError`."""
        while self._waiting:
            self._submit()
        for scope in SCOPES:
            call(self._config, "release", ACTOR, clock=self._clock, scope=scope)
        numbers = sorted(self.acknowledged.values())
        call(self._config, "resume", ACTOR, clock=self._clock, ids=numbers)

    def _work(self) -> None:
        while not self._home.is_set():
            try:
                if self._waiting or (self.open < MOST_OPEN and self._rng.random() < 0.6):
                    self._submit()
                elif self.acknowledged:
                    self._act(self._rng.choice(ACTS))
            except UsageError as mistake:
                self._mistake = mistake
                return
            except TaskdeckError:
                self.unanswered += 1
            self._home.wait(self._rng.uniform(*REST))

    def _submit(self) -> None:
        if not self._waiting:
            self._waiting = [next(self._tasks) for _ in range(self._rng.randint(*BATCH))]
        again = self._rng.random() < 0.1  # a trigger that fires twice
        for _ in range(1 + again):
            answers = call(self._config, "submit", ACTOR, clock=self._clock, specs=self._waiting)
            for spec, answer in zip(self._waiting, answers, strict=True):
                known = self.acknowledged.setdefault(spec["key"], answer["id"])
                if known != answer["id"]:
                    self.problems.append((6, f"{spec['key']}: told to be #{known}, then #{answer['id']}"))
        self.acts["add"] += len(self._waiting)
        self._waiting = []

    def _act(self, act: str) -> None:
        if act == "hold":
            scope = self._rng.choice(SCOPES)
            call(self._config, "hold", ACTOR, clock=self._clock, scope=scope)
            self._home.wait(self._rng.uniform(0.2, 1.0))
            call(self._config, "release", ACTOR, clock=self._clock, scope=scope)
        elif act == "reset":
            names = [f"browser-{n}" for n in (1, 2, 3)]
            for verb in ("resource_disable", "resource_enable", "resource_reset"):
                call(
                    self._config,
                    verb,
                    ACTOR,
                    clock=self._clock,
                    ids=names[:1] if verb.endswith("disable") else names,
                )
        else:
            newest = sorted(self.acknowledged.values())[-40:]
            ids = self._rng.sample(newest, min(len(newest), self._rng.randint(1, 3)))
            if act == "retry":
                self.retried.update(ids)  # before the answer, which may be lost
            call(self._config, act, ACTOR, clock=self._clock, ids=ids)
        self.acts[act] += 1
