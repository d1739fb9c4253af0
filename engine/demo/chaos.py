"""Chaos: kills workers and the engine while the demo runs, in an order drawn from the seed, and remembers each pid.

The first worker dies at a fault point between a request and its record. Everybody else is killed from here, one at a time,
and only when the engine and a worker are back. Decides nothing about the outcome: that is what the check is for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from ..clock import Clock
from ..views import View, holder
from . import plan
from .stage import busy, ready, strike

PATIENCE = 20.0
"""Seconds after which the fault point is given up: then the check says that nothing died there."""
REST = (0.3, 0.9)
"""Seconds of work between two kills, at least and at most."""
IDLE = 2.0
"""Seconds after which an idle worker or engine is killed too."""


class Chaos:
    """The kills of one run. `tick` is called ten times a second; `tell` takes each kill in words."""

    def __init__(self, seed: int, folder: Path, clock: Clock, tell: Callable[[str], None]) -> None:
        self._rng = random.Random(f"chaos {seed}")
        self._clock = clock
        self._tell = tell
        self._mark = folder / "fault-point"
        self._began = clock.monotonic()
        self._victims = order(self._rng)
        self._next_at: float | None = None
        self._engine = 0
        self._waits_for_fault_point = True
        self.kills: list[dict[str, object]] = []

    @property
    def environment(self) -> dict[str, str]:
        """What arms the fault point: one worker dies after a request was answered and before that is recorded."""
        count = self._rng.randint(3, 9)
        return {"TASKDECK_CRASH_AT": f"before_operation_end:{count}", "TASKDECK_CRASH_ONCE": str(self._mark)}

    @property
    def is_over(self) -> bool:
        """Has everyone been killed who shall be?"""
        return not self._waits_for_fault_point and not self._victims

    def tick(self, view: View) -> None:
        """Kill the next one if its time has come."""
        if self._waits_for_fault_point:
            self._look_at_fault_point()
        elif self._victims and self._is_time(view):
            if self._victims[0] == "engine":
                self._kill_engine(view)
            else:
                self._kill_worker(view)

    # ---- the fault point -----------------------------------------------------------------------------------------

    def _look_at_fault_point(self) -> None:
        if self._mark.exists() and (pid := self._mark.read_text().strip()):
            self._waits_for_fault_point = False
            self._killed("worker", int(pid), plan.FAULT_POINT)
        elif self._clock.monotonic() - self._began > PATIENCE:
            self._waits_for_fault_point = False
            self._tell("the fault point was not reached")

    # ---- kills from here -----------------------------------------------------------------------------------------

    def _is_time(self, view: View) -> bool:
        """The engine and a worker are back, and have worked for a while; where nothing is left to do, they are idle."""
        engine = view.engine()  # with its start on record: work goes on without any engine, too
        if not (engine.running and engine.since) or engine.pid in (None, self._engine) or not ready(view):
            self._next_at = None
            return False
        if self._next_at is None:
            self._next_at = self._clock.monotonic() + self._rng.uniform(*REST)
        late = self._clock.monotonic() - self._next_at
        return late >= IDLE or (late >= 0 and bool(busy(view)))

    def _kill_engine(self, view: View) -> None:
        pid = holder(view.config).pid
        if pid and strike(pid):
            self._engine = pid
            self._victims.pop(0)
            self._killed("engine", pid, "kill -9")

    def _kill_worker(self, view: View) -> None:
        known = {kill["pid"] for kill in self.kills}
        choice = sorted(set(busy(view) or ready(view)) - known)
        if choice and strike(pid := self._rng.choice(choice)):
            self._victims.pop(0)
            self._killed("worker", pid, "kill -9")

    def _killed(self, what: str, pid: int, how: str) -> None:
        self._next_at = None
        self.kills.append({"what": what, "pid": pid, "how": how})
        self._tell(f"{what} {pid} died ({how})")


def order(rng: random.Random) -> list[str]:
    """Who is killed after the fault point, in which order: four workers, three engines, no engine first or last."""
    workers = plan.LEAST_KILLS["worker"] - 1
    middle = ["worker"] * (workers - 2) + ["engine"] * plan.LEAST_KILLS["engine"]
    rng.shuffle(middle)
    return ["worker", *middle, "worker"]
