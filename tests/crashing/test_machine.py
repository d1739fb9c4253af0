"""People, workers, time and crashes in any order that hypothesis can think of, against the real store.

Ten examples of thirty steps, quickly; `TASKDECK_TEST_DEPTH=50` for fifty times as many (see benchmarks/nightly.py).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from taskdeck.engine.demo.invariants import Outside, judge
from taskdeck.engine.rules.failures import FailureClass
from taskdeck.engine.run.messages import Run
from tests import replay
from tests.crashing.life import HOLDS, Life, Stale, acknowledged, finish, task

DEPTH = int(os.environ.get("TASKDECK_TEST_DEPTH", "1"))
VERBS = ("pause", "resume", "cancel", "kill", "stop_tasks", "retry", "discard")
FAILURES = tuple(each for each in FailureClass)


class Day(RuleBasedStateMachine):
    """`runs` are the attempts that the worker knows, stale ones too: whoever is stale is refused and stops."""

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
        self.count = 0
        self.runs: dict[int, Run] = {}
        self.stopped: set[int] = set()
        self.stepped_back = False

    @initialize()
    def begin(self) -> None:
        self.life = Life(self.folder, visible=True).begin()

    def teardown(self) -> None:
        try:
            self.life.lose_worker()
            finish(self.life)
            outside = Outside(acknowledged(self.folder), effects=self.life.effects())
            found = {
                n: each for n, each in judge(self.folder / "taskdeck.db", outside).problems.items() if each
            }
            assert found == {}
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- people --------------------------------------------------------------------------------------------------

    @rule(
        type_=st.sampled_from(["job", "browse", "once_only"]),
        effects=st.integers(0, 2),
        again=st.booleans(),
        max_retry=st.integers(0, 2),
    )
    def submit(self, type_: str, effects: int, again: bool, max_retry: int) -> None:
        self.count += not (again and self.count)
        name = f"task-{self.count}"
        known = acknowledged(self.folder).get(name)
        (number,) = self.life.submit(task(name, type_, effects, max_retry=max_retry))
        assert known in (None, number)

    @precondition(lambda self: self.count)
    @rule(verb=st.sampled_from(VERBS), pick=st.integers(0, 9), again=st.booleans())
    def act(self, verb: str, pick: int, again: bool) -> None:
        states = self.life.states()
        number = sorted(states)[pick % len(states)]
        self.life.act(verb, number, again=again)

    @rule(scope=st.sampled_from(HOLDS), held=st.booleans())
    def hold(self, scope: str, held: bool) -> None:
        self.life.act("hold" if held else "release", scope=scope)

    @rule(verb=st.sampled_from(["enable", "disable", "reset"]))
    def resource(self, verb: str) -> None:
        self.life.act(f"resource_{verb}", "browser-1")

    # ---- scheduler and time --------------------------------------------------------------------------------------

    @rule()
    def tick(self) -> None:
        self.runs |= {run.fence: run for run in self.life.tick()}

    @rule(seconds=st.sampled_from([1.0, 40.0, 4000.0]))
    def pass_time(self, seconds: float) -> None:
        self.life.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-90.0, 90.0]))
    def step_the_wall_clock(self, seconds: float) -> None:
        self.life.clock.step(seconds)
        self.stepped_back |= seconds < 0

    # ---- the worker ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.runs)
    @rule(pick=st.integers(0, 9), what=st.sampled_from(["start", "save", "intend", "begin_effect", "once"]))
    def go_on(self, pick: int, what: str) -> None:
        run = self._run(pick)
        try:
            if run.fence not in self.life.worker.begun:
                self.life.start(run)
            if what == "save":
                self.life.save(run, step=pick)
            elif what == "once":
                self.life.once(run, f"effect-{run.task_id}")
            elif what == "intend":
                self.life.intend(run, f"intent-{run.fence}")
        except Stale:
            self._forget(run)

    @precondition(lambda self: self.runs)
    @rule(
        pick=st.integers(0, 9),
        kind=st.sampled_from(
            ["succeeded", "cancelled", "paused", "drained", "never_started", "stopped", "resumed"]
        ),
    )
    def end(self, pick: int, kind: str) -> None:
        run = self._run(pick)
        if kind == "resumed" and run.fence not in self.stopped:
            return
        try:
            if kind != "never_started" and run.fence not in self.life.worker.begun:
                self.life.start(run)
            if kind == "never_started" and run.fence in self.life.worker.begun:
                return
            self.life.end(run, kind)
        except Stale:
            kind = "stale"
        if kind == "stopped":
            self.stopped.add(run.fence)
        elif kind != "resumed":
            self._forget(run)

    @precondition(lambda self: self.runs)
    @rule(pick=st.integers(0, 9), failure=st.sampled_from(FAILURES), in_doubt=st.booleans())
    def fail(self, pick: int, failure: FailureClass, in_doubt: bool) -> None:
        run = self._run(pick)
        try:
            if run.fence not in self.life.worker.begun:
                self.life.start(run)
            self.life.end(run, "in_doubt" if in_doubt else "failed", failure)
        except Stale:
            pass
        self._forget(run)

    @rule()
    def lose_the_worker(self) -> None:
        self.life.lose_worker()
        self.runs.clear()
        self.stopped.clear()

    @rule(worker_lives=st.booleans())
    def crash_and_recover(self, worker_lives: bool) -> None:
        """The engine dies, alone or with its worker, and another one begins a little later."""
        worker = self.life.worker if worker_lives else None
        if worker is None:
            self.life.worker.die()
            self.runs.clear()
            self.stopped.clear()
        self.life.database.close()
        self.life.clock.advance(5.0)
        self.life = Life(self.folder, self.life.clock, visible=True).begin(worker)
        held = [number for number, state in self.life.states().items() if state == "RUNNING"]
        assert set(held) <= {run.task_id for run in self.runs.values()}

    @rule()
    def look_back(self) -> None:
        """Also while all of it goes on, the tables tell what the events tell."""
        found = replay.check(self.folder / "taskdeck.db")
        assert [each for each in found if not (self.stepped_back and _is_of_the_wall_clock(each))] == []

    def _run(self, pick: int) -> Run:
        fences = sorted(self.runs)
        return self.runs[fences[pick % len(fences)]]

    def _forget(self, run: Run) -> None:
        self.runs.pop(run.fence, None)
        self.stopped.discard(run.fence)


def _is_of_the_wall_clock(problem: str) -> bool:
    """Is it told by a wall clock that was set back? An attempt that is still open while the next one runs is not."""
    return "before the event before it" in problem or (
        " ran until " in problem and not problem.endswith(" ran until now")
    )


TestDay = Day.TestCase
TestDay.settings = settings(
    max_examples=10 * DEPTH,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    # To shrink takes minutes, which the limit of a test does not give; what failed is printed whole, and is short enough.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
