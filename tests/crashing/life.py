"""One life of an engine in this process, moved by hand: real store, real decisions, real recovery; a worker that is played.

A life ends in order (`stop`) or not at all: the next one on the same folder finds what this one left, as after a kill. Every
frame between engine and worker passes the fault points of the link, so that a death there is the death of both.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from taskdeck.engine.clock import ManualClock
from taskdeck.engine.commands import _UNITS, ENGINE_VERBS
from taskdeck.engine.config import Config, TaskdeckSettings
from taskdeck.engine.crash import crash_at
from taskdeck.engine.edge import identity
from taskdeck.engine.edge.identity import Identity
from taskdeck.engine.errors import TaskdeckError
from taskdeck.engine.rules.chain import Head
from taskdeck.engine.rules.declarations import ResourceDeclaration
from taskdeck.engine.rules.failures import Failure, FailureClass
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.selection import WorkerRoom
from taskdeck.engine.rules.timing import utc_text
from taskdeck.engine.run import messages as m
from taskdeck.engine.run import submission
from taskdeck.engine.run.dispatch import Limits, dispatch
from taskdeck.engine.run.inventory import take_inventory
from taskdeck.engine.run.journal import StartJournal
from taskdeck.engine.run.leasing import Leasing
from taskdeck.engine.run.losing import take_all
from taskdeck.engine.run.outcomes import Outcomes
from taskdeck.engine.run.policies import Policies
from taskdeck.engine.run.recording import Recorder
from taskdeck.engine.run.recovery import recover
from taskdeck.engine.run.spool import Spool
from taskdeck.engine.store import anchors, events, processes, tasks
from taskdeck.engine.store.database import open_for_writing
from taskdeck.engine.store.transaction import Transaction

T = TypeVar("T")
ANN = "cli:ann"
NOBODY = 5_000_000
"""Pids from here on are above all that Linux gives: these processes are dead."""
LEDGER, ACKNOWLEDGED = "effects.log", "acknowledged.log"
TYPES = [
    m.TypeInfo("job", "day", max_retry=1),
    m.TypeInfo("browse", "day", needs=["browser"]),
    m.TypeInfo("once_only", "day", on_lost="review"),
]


HOLDS = ("all", "type:job", "pool:browser")
"""What may be held back as a whole."""


class Stale(Exception):
    """The engine said that another attempt owns the task."""


@dataclass
class Worker:
    """A worker that is played; it may outlive its engine. `process` stands for it where it can be seen to live."""

    id: int
    journal: StartJournal
    process: subprocess.Popen[bytes] | None = None
    begun: set[int] = field(default_factory=set)
    """The fences that it began."""
    said: list[tuple[int, Any]] = field(default_factory=list)
    """Its last reports, by number."""

    def number(self, messages: Iterable[Any]) -> list[tuple[int, Any]]:
        """Reports with their numbers."""
        first = self.said[-1][0] + 1 if self.said else 1
        numbered = list(enumerate(messages, first))
        self.said = [*self.said, *numbered][-5:]
        return numbered

    def die(self) -> None:
        """End the process, and let go of the journal."""
        self.journal.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Life:
    """From the lock to the last row. `folder` holds the database and what the world knows; a clock goes on over lives."""

    def __init__(self, folder: Path, clock: ManualClock | None = None, *, visible: bool = False) -> None:
        self.folder = folder
        self.visible = visible
        """Has each worker a process, so that it may outlive its engine?"""
        self.clock = clock or ManualClock()
        self.config = Config(
            taskdeck=TaskdeckSettings(db=folder / "taskdeck.db", logs=folder / "logs"),
            resources=tuple(ResourceDeclaration(f"browser-{n}", "browser") for n in (1, 2)),
        )
        self.policies = Policies(self.config)
        self.stories: list[str] = []
        self.database = open_for_writing(self.config.db, utc_text(self.clock.utc()))
        connection = self.database.connection()
        connection.execute("PRAGMA synchronous = OFF")  # a killed process loses nothing that the kernel has
        self.tx = Transaction(connection, self.clock, identity.boot_id(), Redactor(()), self.database)

    # ---- life ----------------------------------------------------------------------------------------------------

    def begin(self, survivor: Worker | None = None) -> Life:
        """As an engine begins: its row, its types, its inventory, recovery; then a worker, unless one has survived."""
        (self.folder / "logs" / "workers").mkdir(parents=True, exist_ok=True)
        number = self._count("engine")
        self.engine_id = self.do(self._record_start, number)
        crash_at("after_engine_recorded")
        self.policies.load(self.do(processes.type_settings))
        self.do(take_inventory, self.config)
        found = asyncio.run(recover(self.config, self.clock, self, self.policies, self.engine_id))  # type: ignore[arg-type]
        self.stories = found.stories
        self.outcomes = Outcomes(self.policies, lambda low, high: low)
        self.recorder = Recorder(self.config, self.policies, self.outcomes)
        self.leasing = Leasing(random.Random(7))
        if survivor is None:
            self.hire()
        else:
            assert [row["id"] for row in found.survivors] == [survivor.id]
            self.worker = survivor
            self.do(processes.set_worker, survivor.id, "READY")
            self.do(self.recorder.record_once, survivor.id, survivor.said)  # it can't know what is recorded
        return self

    def hire(self) -> None:
        """A worker begins."""
        number = self._count("worker")
        process = subprocess.Popen(["sleep", "1000"], start_new_session=True) if self.visible else None
        who = identity.of(process.pid) if process else None
        worker_id = self.do(
            self._record_worker, number, who or Identity(NOBODY + number, 1, identity.boot_id())
        )
        crash_at("after_worker_recorded")
        self.policies.publish(TYPES)
        self.do(processes.publish_types, [(info.name, m.stored(info)) for info in TYPES])
        self.do(processes.set_worker, worker_id, "READY")
        self.worker = Worker(worker_id, StartJournal(self._journal_path(number)), process)

    def lose_worker(self) -> list[str]:
        """The worker dies: what it held is taken from it, and another one begins."""
        self.worker.die()
        held = self.do(tasks.of_worker, self.worker.id)
        stories = self.do(self._bury, held)
        crash_at("after_takeover")
        self.hire()
        return stories

    def stop(self) -> None:
        """The orderly end."""
        self.do(self._record_end)
        event_id, count, digest, now = self.do(events.head)
        anchors.note(self.config.db, Head(event_id, count, digest), now)
        self.worker.die()
        self.database.close()

    def _record_start(self, tx: Transaction, number: int) -> int:
        engine_id = processes.add_engine(
            tx,
            incarnation=f"e{number}",
            pid=NOBODY + number,
            start_time=1,
            boot_id=tx.boot_id,
            host="h",
            code_version="0",
        )
        tx.event("ENGINE_STARTED", actor="engine", reason="started", message=f"engine {engine_id}, pid 1")
        return engine_id

    def _record_worker(self, tx: Transaction, number: int, who: Identity) -> int:
        return processes.add_worker(
            tx, incarnation=f"w{number}", engine_id=self.engine_id, pid=who.pid, start_time=who.start_time,
            boot_id=who.boot_id, host="h", code_version="0", journal=str(self._journal_path(number)),
        )  # fmt: skip

    def _bury(self, tx: Transaction, held: list[dict[str, Any]]) -> list[str]:
        processes.end_worker(tx, self.worker.id, "LOST", "killed")
        cause, losses = f"worker {self.worker.id} was killed", self.config.engine.max_losses
        return take_all(tx, held, cause, self.worker.begun, self.policies, losses, suspected=True)

    def _record_end(self, tx: Transaction) -> None:
        processes.end_worker(tx, self.worker.id, "ENDED", "stopped")
        processes.end_engine(tx, self.engine_id, "stopped")
        tx.event("ENGINE_STOPPED", actor="engine", reason="stopped", message=f"engine {self.engine_id}")

    def _journal_path(self, number: int) -> Path:
        return self.folder / "logs" / "workers" / f"w{number}.starts"

    def _count(self, table: str) -> int:
        return self.tx.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] + 1

    # ---- transactions --------------------------------------------------------------------------------------------

    def do(self, unit: Callable[..., T], *args: Any) -> T:
        """One unit, committed."""
        self.tx.begin()
        try:
            result = self.tx.unit(unit, *args)
        except BaseException:
            self.tx.roll_back()
            raise
        self.tx.commit()
        return result

    async def write(self, unit: Callable[..., T], *args: Any) -> T:
        """As a writer does."""
        return self.do(unit, *args)

    # ---- people --------------------------------------------------------------------------------------------------

    def submit(self, *specs: dict[str, Any]) -> list[int]:
        """Add tasks; each is acknowledged, in a file outside, once the answer is there."""
        prepared = submission.prepare(list(specs), self.tx.redactor)  # type: ignore[arg-type]
        answers = self.do(submission.submit, prepared, ANN)
        lines = (f"{spec['key']} {answer['id']}\n" for spec, answer in zip(specs, answers, strict=True))
        with (self.folder / ACKNOWLEDGED).open("a") as file:
            file.write("".join(lines))
        return [answer["id"] for answer in answers]

    def act(self, verb: str, *ids: int | str, **args: Any) -> Any:
        """A verb of the command line, on these; what is refused is an answer too."""
        assert verb in ENGINE_VERBS
        crash_at("engine_after_receive")
        named = {"ids": list(ids)} if ids else {}
        try:
            answer = self.do(_UNITS[verb], {**named, **args}, ANN)
        except TaskdeckError as refusal:
            answer = refusal
        crash_at("engine_before_send")
        return answer

    # ---- scheduler and worker ------------------------------------------------------------------------------------

    def tick(self) -> list[m.Run]:
        """One pass of the scheduler: what the worker is sent, as it arrives there."""
        room = WorkerRoom(self.worker.id, 100)
        limits = Limits(
            (room,), 100, 300.0, "logs", self.leasing, self.config.routing, self.outcomes.rollbacks
        )
        done = self.do(dispatch, limits, self.policies)
        crash_at("after_claim_commit")
        runs: list[Any] = []
        for run in done.runs.get(self.worker.id, ()):
            crash_at("engine_before_send")
            runs += m.to_peer(m.encode([run]))
            crash_at("engine_after_send")
        crash_at("after_dispatch")
        return runs

    def tell(self, *said: Any) -> list[m.Answer]:
        """What the worker says, written down and answered. Raises `Stale` where an attempt is no longer its own."""
        crash_at("link_before_send")
        body = m.encode(list(said))
        crash_at("link_after_send")
        arrived = list(m.from_peer(body))
        crash_at("engine_after_receive")
        answers = self.do(self.recorder.record_once, self.worker.id, self.worker.number(arrived))
        crash_at("after_reports_recorded")
        if any(answer.error == "stale" for answer in answers):
            raise Stale
        if answers:
            crash_at("engine_after_send")
            crash_at("link_after_receive")
        return answers

    def keep(self, *reports: Any) -> None:
        """The worker has no engine and keeps these in its spool."""
        spool = Spool(self._journal_path(self._count("worker") - 1).with_suffix(".spool"))
        for number, report in [*self.worker.said, *self.worker.number(reports)]:
            while spool.add(report, m.encode_one(report)) < number:
                pass
        spool.recorded(self.worker.said[-1][0] - len(reports))
        assert spool.write() is not None

    def start(self, run: m.Run) -> None:
        """The attempt begins: noted in the journal, then told."""
        self.worker.journal.start(run.fence)
        self.worker.begun.add(run.fence)
        crash_at("after_start_journal")
        self.tell(m.Started(run.task_id, run.fence))

    def save(self, run: m.Run, **data: Any) -> None:
        """A checkpoint."""
        crash_at("before_checkpoint_send")
        self.tell(m.Save(1, run.task_id, run.fence, json.dumps(data)))
        crash_at("after_checkpoint_saved")

    def once(self, run: m.Run, key: str) -> None:
        """An effect, once: what is in doubt is looked up in the world."""
        for _ in range(2):
            (answer,) = self.tell(m.OperationBegin(1, run.task_id, run.fence, key))
            crash_at("after_operation_begin")
            assert not answer.error, answer
            state = answer.value["state"]
            if state == "done":
                return
            if state == "new":
                self._happen(key)
                self._settle(run, key, "DONE")
                return
            self._settle(run, key, "DONE" if key in self.effects() else "NOT_DONE")

    def begin_effect(self, run: m.Run, key: str) -> None:
        """The intent, and then the effect, and then nothing more."""
        self.intend(run, key)
        self._happen(key)

    def intend(self, run: m.Run, key: str) -> None:
        """The intent alone."""
        self.tell(m.OperationBegin(1, run.task_id, run.fence, key))

    def doubt(self, run: m.Run, key: str) -> None:
        """The worker itself does not know."""
        self.tell(m.OperationEnd(0, run.task_id, run.fence, key, "IN_DOUBT"))

    def _happen(self, key: str) -> None:
        with (self.folder / LEDGER).open("a") as file:
            file.write(f"{key}\n")
        crash_at("before_operation_end")

    def _settle(self, run: m.Run, key: str, state: str) -> None:
        self.tell(
            m.OperationEnd(2, run.task_id, run.fence, key, state, result="1" if state == "DONE" else "")
        )
        crash_at("after_operation_end")

    def end(
        self, run: m.Run, kind: str = "succeeded", failure: FailureClass | None = None, **fields: Any
    ) -> None:
        """The attempt's outcome."""
        told = Failure(failure, "broken", "it broke", "a day") if failure else None
        crash_at("before_outcome_send")
        text = msgspec.json.encode(told).decode() if told else ""
        self.tell(m.Outcome(run.task_id, run.fence, kind, failure=text, **fields))
        crash_at("after_outcome_send")

    def work(self, run: m.Run) -> None:
        """A whole attempt as its payload says: so many effects, each once, with checkpoints."""
        self.start(run)
        for number in range(json.loads(run.payload).get("effects", 0)):
            self.once(run, f"{json.loads(run.payload)['name']}:{number}")
            self.save(run, done=number + 1)
        self.end(run)

    # ---- the world -----------------------------------------------------------------------------------------------

    def effects(self) -> list[str]:
        """What has happened."""
        return _lines(self.folder / LEDGER)

    def states(self) -> dict[int, str]:
        """The state of each task."""
        return dict(self.tx.connection.execute("SELECT id, state FROM task ORDER BY id").fetchall())


def acknowledged(folder: Path) -> dict[str, int]:
    """What people were told, by key."""
    return {key: int(number) for key, number in (line.split() for line in _lines(folder / ACKNOWLEDGED))}


def task(name: str, type_: str = "job", effects: int = 0, **fields: Any) -> dict[str, Any]:
    """A task as it is submitted."""
    payload = json.dumps({"name": name, "effects": effects})
    return {"type": type_, "payload": payload, "key": name, **fields}


def finish(life: Life, rounds: int = 40) -> None:
    """Let everything come to rest: what is paused goes on, what is due runs and succeeds; then the orderly end."""
    for scope in HOLDS:
        life.act("release", scope=scope)
    for verb in ("resource_enable", "resource_reset"):
        life.act(verb, "browser-1", "browser-2")
    for _ in range(rounds):
        states = life.states()
        if paused := [number for number, state in states.items() if state == "PAUSED"]:
            life.act("resume", *paused)
        life.clock.advance(4000.0)
        for run in life.tick():
            life.work(run)
        if not set(life.states().values()) & {"PENDING", "RETRYING", "PAUSED", "RUNNING", "LOST"}:
            break
    life.stop()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def names(runs: Iterable[m.Run]) -> dict[str, m.Run]:
    """Runs by the name in their payload."""
    return {json.loads(run.payload)["name"]: run for run in runs}
