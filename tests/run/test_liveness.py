"""Who is silent, who is busy, who is gone: a warden with a manual clock over real processes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from taskdeck.engine.config import load
from taskdeck.engine.edge import identity
from taskdeck.engine.edge.link import open_link, serve
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.run import messages as m
from taskdeck.engine.run.journal import StartJournal
from taskdeck.engine.run.outcomes import Outcomes
from taskdeck.engine.run.reception import Reception
from taskdeck.engine.run.recording import Recorder
from taskdeck.engine.run.recovery import recover
from taskdeck.engine.run.warden import Warden
from taskdeck.engine.run.workforce import Workforce
from taskdeck.engine.store import tasks
from taskdeck.engine.store.writer import Writer
from tests.eventually import eventually
from tests.faults import fault
from tests.scratch import Scratch

BUSY = "while True: pass"
STILL = "import signal; signal.pause()"


class Engine:
    """Writer, reception and warden of an engine that has just started, over a process that stands for a worker."""

    def __init__(self, scratch: Scratch, folder: Path, does: str) -> None:
        self.scratch, self.clock = scratch, scratch.clock
        self.config = load(db=scratch.path, environ={"HOME": str(folder)}, cwd=folder)
        self.writer = Writer(
            scratch.database, scratch.path, clock=self.clock, boot_id="this-boot", redactor=Redactor()
        )
        self.writer.start()
        self.process = subprocess.Popen([sys.executable, "-c", does])
        who = identity.of(self.process.pid)
        assert who is not None
        self.who = who
        self.worker_id = scratch.worker("w", who.pid)
        scratch.do(
            lambda tx: tx.connection.execute(
                "UPDATE worker SET start_time = ?, boot_id = ?, state = 'READY'",
                (who.start_time, who.boot_id),
            )
        )
        self.task = scratch.start(scratch.add(), self.worker_id)
        journal = self.config.log_directory / "workers" / "w.starts"
        journal.parent.mkdir(parents=True)
        StartJournal(journal).start(self.task["fence"])
        self.workforce = Workforce()
        recorder = Recorder(self.config, scratch.policies, Outcomes(scratch.policies, lambda low, high: low))
        self.reception = Reception(
            self.config, self.clock, self.writer, recorder, scratch.policies, self.workforce, lambda: None
        )
        self.warden = Warden(
            self.config,
            self.clock,
            self.writer,
            scratch.policies,
            self.workforce,
            self.reception,
            engine_id=scratch.engine_id,
            socket_path=folder / "s",
            code_version="0",
            outcomes=recorder._outcomes,
            on_change=lambda: None,
        )
        self.warden._stopping = True  # nobody takes the place of who goes

    async def begin(self) -> list[str]:
        """What an engine does at its start. Returns the stories of the recovery."""
        found = await recover(
            self.config, self.clock, self.writer, self.scratch.policies, self.scratch.engine_id + 1
        )
        self.warden.adopt(found.survivors)
        return found.stories

    async def ticks(self, seconds: float) -> None:
        """Let so much time pass, with the warden's ticks in it; the worker says nothing."""
        for _ in range(int(seconds / 5)):
            self.clock.advance(5)
            await self.warden.tick()

    async def gone(self) -> None:
        """Wait until the worker is buried."""
        async with asyncio.timeout(15):
            await self.workforce.all_gone(None)

    def spend(self) -> None:
        """Wait until the worker has used some more of the processor."""
        before = identity.cpu_seconds(self.who.pid) or 0.0
        eventually(lambda: (identity.cpu_seconds(self.who.pid) or 0.0) > before)

    @property
    def state(self) -> tuple[str, str | None]:
        return self.scratch.query("SELECT state, evidence FROM worker")[0]

    async def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.warden._workforce:
            await self.gone()
        await self.writer.close()


@pytest_asyncio.fixture
async def engine(scratch: Scratch, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    made = Engine(scratch, tmp_path, getattr(request, "param", STILL))
    yield made
    await made.close()


async def test_a_worker_that_lives_keeps_its_task_and_has_a_fresh_lease(engine: Engine) -> None:
    engine.clock.advance(10_000)  # longer than any lease
    assert await engine.begin() == [f"#{engine.task['id']} goes on with worker {engine.worker_id}"]
    row = engine.scratch.row(engine.task["id"])
    assert (row["state"], row["fence"]) == (tasks.RUNNING, engine.task["fence"])
    assert row["lease_until_boot"] == engine.clock.boot() + engine.config.engine.lease
    assert engine.state == ("AWAY", "its engine was lost; its process lives and is waited for")
    await engine.ticks(60)
    assert engine.process.poll() is None


@fault("TF260")
async def test_a_recovery_that_takes_longer_than_a_lease_costs_no_healthy_worker_its_task(
    engine: Engine,
) -> None:
    orphans = []
    for number in range(2, 42):  # workers that no process is behind
        worker_id = engine.scratch.worker(f"w{number}", 2**22 + number)
        orphans += [engine.scratch.start(engine.scratch.add(), worker_id)["id"] for _ in range(5)]
    begun, recovering = engine.clock.boot(), asyncio.create_task(engine.begin())
    while not recovering.done():
        engine.clock.advance(10)
        await asyncio.wait({recovering}, timeout=0.001)
    assert engine.clock.boot() - begun > engine.config.engine.lease
    await engine.ticks(60)
    assert engine.process.poll() is None
    row = engine.scratch.row(engine.task["id"])
    assert (row["state"], row["fence"]) == (tasks.RUNNING, engine.task["fence"])
    assert {engine.scratch.state(each).value for each in orphans} == {"PENDING"}


@fault("TF027")
async def test_silence_is_shown_with_the_evidence_and_only_the_end_of_the_lease_ends_the_worker(
    engine: Engine,
) -> None:
    engine.process.send_signal(signal.SIGSTOP)
    eventually(lambda: identity.state(engine.who.pid) == "T")
    await engine.begin()
    await engine.ticks(95)
    state, evidence = engine.state
    assert state == "SUSPECT"
    assert evidence is not None
    assert "no heartbeat for 9" in evidence
    assert "is stopped (SIGSTOP)" in evidence
    await engine.ticks(engine.config.engine.lease - 105)
    assert engine.process.poll() is None
    assert engine.scratch.state(engine.task["id"]) is tasks.RUNNING
    await engine.ticks(20)
    await engine.gone()
    assert engine.process.wait() == -signal.SIGKILL
    row = engine.scratch.row(engine.task["id"])
    assert (row["state"], row["losses"]) == ("PENDING", 1)


@pytest.mark.parametrize("engine", [BUSY], indirect=True)
async def test_a_worker_that_is_busy_for_ten_leases_without_a_word_loses_nothing(engine: Engine) -> None:
    await engine.begin()
    spans = int(10 * engine.config.engine.lease / engine.config.engine.suspect_after)
    for _ in range(spans):
        engine.spend()
        await engine.ticks(engine.config.engine.suspect_after + 5)
    engine.spend()
    await engine.ticks(5)
    assert engine.process.poll() is None
    row = engine.scratch.row(engine.task["id"])
    assert (row["state"], row["fence"]) == (tasks.RUNNING, engine.task["fence"])
    assert engine.state[0] == "AWAY"


async def test_proof_of_death_takes_over_without_any_tick(engine: Engine) -> None:
    await engine.begin()
    engine.process.kill()
    await engine.gone()
    assert engine.scratch.state(engine.task["id"]) == "PENDING"
    assert ("WORKER_LOST", "process_gone") in engine.scratch.events()


@pytest.mark.parametrize("before", [True, False], ids=["without an engine", "under an engine"])
async def test_what_had_begun_in_a_worker_whose_spool_cannot_be_read_is_never_run_again_unasked(
    engine: Engine, before: bool
) -> None:
    path = engine.config.log_directory / "workers" / "w.spool"
    path.write_bytes(b"taskdeck spool, protocol 999\nfinished")
    if before:
        engine.process.kill()
        engine.process.wait()
    await engine.begin()
    if not before:
        engine.process.kill()
        await engine.gone()
    assert engine.scratch.state(engine.task["id"]) == "NEEDS_REVIEW"
    assert engine.scratch.events().count(("ALERT_RAISED", "spool_unreadable")) == 1
    assert path.with_suffix(".unreadable").read_bytes().endswith(b"finished")
    assert not path.exists()


async def test_the_tasks_of_a_dead_worker_that_can_not_be_settled_go_to_review_and_hold_no_stop_up(
    engine: Engine,
) -> None:
    await engine.begin()
    (handle,) = engine.workforce
    handle.journal = Path("no\0path.starts")
    engine.process.kill()
    await engine.gone()
    assert engine.scratch.state(engine.task["id"]) == "NEEDS_REVIEW"
    assert engine.state[0] == "LOST"
    assert ("ALERT_RAISED", "row_failed") in engine.scratch.events(engine.task["id"])


async def test_without_a_sound_journal_everything_counts_as_begun(engine: Engine) -> None:
    journal = engine.config.log_directory / "workers" / "w.starts"
    journal.write_bytes(b"\x93garbage")
    engine.process.kill()
    engine.process.wait()
    await engine.begin()
    assert engine.scratch.one("SELECT outcome FROM attempt") == "lost"


async def test_a_journal_that_is_no_file_keeps_no_engine_from_starting(engine: Engine) -> None:
    journal = engine.config.log_directory / "workers" / "w.starts"
    journal.unlink()
    journal.mkdir()
    engine.process.kill()
    engine.process.wait()
    await engine.begin()
    assert engine.scratch.one("SELECT outcome FROM attempt") == "lost"


async def test_a_death_between_two_looks_is_seen_all_the_same(engine: Engine) -> None:
    found = await recover(engine.config, engine.clock, engine.writer, engine.scratch.policies, 99)
    engine.process.kill()
    engine.process.wait()
    engine.warden.adopt(found.survivors)
    await engine.gone()
    assert engine.scratch.state(engine.task["id"]) == "PENDING"


class Caller:
    """A worker's side of a connection, spoken by hand; the process that speaks is the test's own."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine, self.path = engine, folder / "r" / "s.sock"

    async def listen(self) -> None:
        async def welcome(link: m.Any) -> None:
            hello, *rest = m.from_peer(await link.receive())
            assert isinstance(hello, m.Hello)
            await self._engine.reception.serve(link, hello, rest)

        self.server = await serve(self.path, welcome)

    async def say(self, *said: m.Message) -> list[m.Any]:
        """Connect, say it, and hear the first answer."""
        self.link = await open_link(self.path)
        self.link.send(m.encode(list(said)))
        body = await self.link.receive()
        return [] if body is None else list(m.to_peer(body))


@pytest_asyncio.fixture
async def caller(engine: Engine, tmp_path: Path) -> AsyncIterator[Caller]:
    """The worker of this engine is the test's own process."""
    made = Caller(engine, tmp_path)
    me = identity.me()
    engine.scratch.do(
        lambda tx: tx.connection.execute("UPDATE worker SET pid = ?, start_time = ?", (me.pid, me.start_time))
    )
    await made.listen()
    yield made
    await made.server.close()
    for handle in engine.workforce:
        engine.workforce.remove(handle)


def hello(**fields: m.Any) -> m.Hello:
    me = identity.me()
    return m.Hello("worker", "w", me.pid, me.start_time, me.boot_id, "0", **fields)


async def test_a_worker_comes_back_with_what_it_knows_and_goes_on(engine: Engine, caller: Caller) -> None:
    unsent = engine.scratch.start(engine.scratch.add(), engine.worker_id)
    await engine.begin()
    fence = engine.task["fence"]
    (welcome,) = await caller.say(hello(fences=[fence, 999]))
    assert (welcome.recorded, welcome.fences) == (0, [fence])
    row = engine.scratch.row(unsent["id"])  # it was claimed, and never arrived: free, and nobody's fault
    assert (row["state"], row["losses"]) == ("PENDING", 0)
    assert ("WORKER_RETURNED", "returned") in engine.scratch.events()
    assert engine.state == ("READY", None)
    outcome = m.Outcome(engine.task["id"], fence, "succeeded")
    caller.link.send(m.encode([m.Numbered(1), outcome]))
    body = await caller.link.receive()
    assert body is not None
    assert m.to_peer(body) == [m.Recorded(1)]
    # The receipt is lost with the link: it says so again, on another one, and nothing is applied twice.
    (welcome,) = await caller.say(hello(fences=[fence]), m.Numbered(1), outcome)
    assert (welcome.recorded, welcome.fences) == (1, [])
    ended = [kind for kind, _ in engine.scratch.events(engine.task["id"]) if kind == "TASK_FINISHED"]
    assert ended == ["TASK_FINISHED"]


async def test_a_worker_of_another_protocol_is_told_to_end_and_not_listened_to(
    engine: Engine, caller: Caller
) -> None:
    await engine.begin()
    outcome = m.Outcome(engine.task["id"], engine.task["fence"], "succeeded")
    said = await caller.say(hello(protocol=99, fences=[engine.task["fence"]]), m.Numbered(1), outcome)
    assert said == [m.Farewell(now=True)]
    eventually(lambda: ("WORKER_RETIRED", "protocol") in engine.scratch.events())
    assert engine.scratch.state(engine.task["id"]) is tasks.RUNNING
    (handle,) = engine.workforce
    assert not handle.takes_more
    assert handle.end_by < float("inf")
    caller.link.close()


async def test_who_was_never_of_this_database_is_told_to_go(engine: Engine, caller: Caller) -> None:
    await engine.begin()
    stranger = m.Hello("worker", "stranger", 1, 2, "another-boot", "0")
    assert await caller.say(stranger) == [m.Farewell(now=True)]
    impostor = m.Hello("worker", "w", 1, 2, "another-boot", "0")
    assert await caller.say(impostor) == []
    assert engine.scratch.state(engine.task["id"]) is tasks.RUNNING


async def test_a_link_that_broke_is_shown_and_nothing_else(engine: Engine, caller: Caller) -> None:
    await engine.begin()
    await caller.say(hello(fences=[engine.task["fence"]]))
    (handle,) = engine.workforce
    caller.link.close()
    await asyncio.wait_for(handle.link_ended.wait(), 10)
    await engine.ticks(5)
    assert engine.state[0] == "AWAY"
    assert ("WORKER_AWAY", "link_broke") in engine.scratch.events()
    await caller.say(hello(fences=[engine.task["fence"]]))
    assert engine.state == ("READY", None)
    assert engine.scratch.state(engine.task["id"]) is tasks.RUNNING
