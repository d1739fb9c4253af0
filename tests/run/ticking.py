"""The scheduler's side of an engine over a scratch database: ticks by hand, one worker, no processes."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from taskdeck.engine.rules.failures import Failure, FailureClass
from taskdeck.engine.rules.selection import WorkerRoom
from taskdeck.engine.run.dispatch import Dispatched, Limits, dispatch
from taskdeck.engine.run.leasing import Leasing
from taskdeck.engine.run.losing import lose
from taskdeck.engine.run.messages import Outcome, Run, Save, Started, TypeInfo, stored
from taskdeck.engine.run.outcomes import Outcomes
from taskdeck.engine.run.recording import Recorder
from taskdeck.engine.store import processes
from taskdeck.engine.store.batches import Plain
from tests.scratch import Scratch


class Engine:
    """One life of it. Whoever runs what `tick` starts says so by `begin`, `tell` and `end`, or is lost."""

    def __init__(self, scratch: Scratch, free: int = 50) -> None:
        self.scratch = scratch
        self.worker_id = scratch.worker("engine-worker")
        self.free = free
        self.plain: list[Plain] = []
        """Attempts that began and hold nothing."""
        self.leasing = Leasing(random.Random(7))
        self.outcomes = Outcomes(scratch.policies, lambda low, high: low)
        self.recorder = Recorder(scratch.config, scratch.policies, self.outcomes)

    def publish(self, *types: TypeInfo) -> None:
        """What the workers can run from now on."""
        self.scratch.policies.publish(list(types))
        self.scratch.do(processes.publish_types, [(info.name, stored(info)) for info in types])

    def tick(self) -> list[Run]:
        """One pass; what it started."""
        return [run for runs in self.passes().runs.values() for run in runs]

    def passes(self) -> Dispatched:
        done = self.scratch.do(dispatch, self.limits(), self.scratch.policies)
        self.plain += done.plain
        return done

    def limits(self) -> Limits:
        """What it knows beside the database."""
        return Limits(
            workers=(WorkerRoom(self.worker_id, self.free),),
            max_running=100,
            lease=300.0,
            logs="/logs",
            leasing=self.leasing,
            routing=self.scratch.config.routing,
            circuit=self.scratch.config.circuit,
            rollbacks=self.outcomes.rollbacks,
        )

    def tell(self, *messages: Any) -> list[Any]:
        return self.scratch.do(self.recorder.record, self.worker_id, list(messages))

    def begin(self, run: Run) -> None:
        self.tell(Started(run.task_id, run.fence))

    def end(self, run: Run, kind: str = "succeeded", **fields: Any) -> None:
        self.tell(Outcome(run.task_id, run.fence, kind, **fields))

    def fail(
        self, run: Run, class_: FailureClass = FailureClass.RETRYABLE, message: str = "it broke"
    ) -> None:
        failure = Failure(class_, "broken", message, "a test")
        self.end(run, "failed", failure=msgspec.json.encode(failure).decode())

    def save(self, run: Run, data: str, version: int = 1) -> Any:
        """A checkpoint of the attempt; the answer to it."""
        return self.tell(Save(1, run.task_id, run.fence, data, version=version))[0]

    def lose(self, run: Run, *, started: bool = True) -> str:
        """The worker of this attempt is gone."""
        return self.scratch.do(
            lose,
            self.scratch.row(run.task_id),
            "worker 1 killed",
            started=started,
            policies=self.scratch.policies,
            max_losses=30,
        )
