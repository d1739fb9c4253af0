"""The engine: one asyncio loop that owns the database while it lives. Composes writer, warden, scheduler and server.

Exactly one per database, by the file lock. Its order of start is the promise: lock, migrate, recover, listen, start
workers, dispatch; its order of stop the reverse. It never imports handlers and runs no user code. Processes that wait to be
workers may be there before it (`births`): until they are told whose they are, they have loaded taskdeck's code alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ..clock import Clock
from ..config import Config
from ..crash import crash_at
from ..credentials import NoCredential
from ..edge import identity
from ..edge.link import AsyncLink, remove_stale, serve, socket_path
from ..edge.locks import DatabaseLock
from ..edge.log_owner import claim
from ..edge.paths import gave_up_file, read_gave_up
from ..errors import AlreadyRunning, Refused, StorageTrouble, TaskdeckError, kept_from
from ..rules.new_task import Kind
from ..rules.redaction import Redactor
from ..rules.references import kind_of
from ..rules.storage import Fault, Trouble
from ..rules.timing import utc_text
from ..store import processes, routes, tasks
from ..store.clock_steps import restart_waits
from ..store.database import open_for_writing
from ..store.writer import Writer
from . import engine_rows as rows
from . import groups, later, withstanding
from .announce import Announcer
from .births import Ahead
from .clients import Clients, refusal
from .clock_watch import ClockWatch
from .disk_fitness import refuse_what_cant_be_written, wait_for_disk
from .dispatch import BATCH, FIRST, Dispatched, Limits, dispatch
from .foundlings import Foundlings
from .housekeeping import Housekeeping
from .idleness import Idleness, RunOptions
from .inventory import take_inventory
from .leasing import Leasing
from .listening import Listening
from .looks import Looks
from .loops import Loop
from .messages import Hello, from_peer
from .outcomes import Outcomes
from .passwords import Passwords
from .policies import Policies
from .prober import Prober
from .readiness import Readiness
from .reception import Reception
from .recording import Recorder
from .recovery import recover
from .reloading import Reloader
from .storage import StorageWatch, hold
from .telling import counted
from .warden import Warden
from .workforce import Workforce

log = logging.getLogger("taskdeck.engine")

CALLS_TAKE = 10.0
"""Seconds in which an engine that hands over answers the calls that it has begun."""

COMMANDS_TAKE = 30.0
"""Seconds for which a command without an engine may hold the database at most."""

Verb = Callable[["Engine", dict[str, Any], str], Awaitable[Any]]
Together = Callable[["Engine", list[tuple[dict[str, Any], str]]], Awaitable[list[Any]]]
"""Carries out calls (arguments, actor); returns for each its answer, or the error that refuses it."""

MOST_TOLD = 50
"""Recovered tasks of which the log tells one by one; each has its event."""


class Engine:
    """One life of an engine. `verbs` are what clients may call, `together` those whose calls are carried out at once."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        *,
        verbs: Mapping[str, Verb],
        together: Mapping[str, Together],
        redactor: Redactor,
        code_version: str,
        options: RunOptions | None = None,
        announcer: Announcer | None = None,
        read_config: Callable[[], Config] | None = None,
        log_anew: Callable[[Config], None] | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self._options = options or RunOptions()
        self.policies = Policies(config)
        self.incarnation = secrets.token_hex(8)
        self._clients = Clients(
            {name: partial(verb, self) for name, verb in verbs.items()},
            {name: partial(verb, self) for name, verb in together.items()},
        )
        self.redactor = redactor
        self._code_version = code_version
        self._announcer = announcer or Announcer(None)
        self._foundlings = Foundlings(lambda: self._announcer.supervisor)
        self._reloader = Reloader(self, read_config or (lambda: config), log_anew or (lambda _: None))
        self._socket = socket_path(config.db, os.environ)
        self._lock = DatabaseLock(
            config.db, role="engine", incarnation=self.incarnation, socket=str(self._socket)
        )
        self._looks = Looks(clock)
        self._works = asyncio.Event()
        self._stop = asyncio.Event()
        self._stop_now = False
        self._hands_over_for = ""
        """Who asked for a new engine to take over; empty = nobody."""
        self._exit_code = 0
        self._engine_id = 0
        self._started_at = ""
        self._loops: list[Loop] = []
        self._later: asyncio.Task[None] | None = None
        self._recovered: list[str] = []
        self._leasing = Leasing(random.SystemRandom())
        self._ahead = ahead
        self._has_dispatched = False
        self.alike: dict[Any, Kind] = {}
        """Tasks as they were handed in, by what is looked at once for those that are alike in it."""

    # ---- life ----------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Work until asked to stop (or idle, where the options say so). Returns the exit code.

        Raises `AlreadyRunning` when another engine holds the database, `StoreError` when it can't be opened.
        """
        self._install_signals()
        await self._take_database()
        try:
            remove_stale(
                self._socket
            )  # whoever answers there lost its lock's file, not its life: write nothing
            database = await asyncio.to_thread(open_for_writing, self.config.db, utc_text(self.clock.utc()))
            self.writer = Writer(
                database,
                self.config.db,
                clock=self.clock,
                boot_id=identity.boot_id(),
                redactor=self.redactor,
                guard=self._guard,
            )
            claim(self.config.log_directory, self.config.db)
            self.storage = StorageWatch(
                self.config,
                self.clock,
                self.writer,
                self._lock,
                on_change=self.wake,
                on_taken=lambda: self.request_stop(now=True),
            )
            self.writer.start()
            try:
                await self._live()
            finally:
                self._looks.close()
                await self.writer.close()
        finally:
            self._lock.release()
        return self._exit_code

    async def _take_database(self) -> None:
        """Take the lock. Another engine is a refusal; a command that writes for a moment is waited for."""
        await wait_for_disk(self.config, self.clock, log.warning, self._announcer.beat)
        if warning := refuse_what_cant_be_written(self.config):
            log.warning("%s", warning)
        deadline = self.clock.monotonic() + COMMANDS_TAKE
        while not self._acquire():
            holder = DatabaseLock.holder(self.config.db)
            if (holder is not None and holder.role == "engine") or self.clock.monotonic() > deadline:
                self._lock.release()
                raise already_running(self.config)
            self._lock.ask()
            await self.clock.pause(0.02)

    def _guard(self) -> Trouble | None:
        """Why the database is not ours any more; asked by the writer's thread. Once it is taken, this engine ends."""
        trouble = hold(self._lock, self.config.db)
        if trouble is not None and trouble.fault is Fault.TAKEN:
            self._loop.call_soon_threadsafe(lambda: self.request_stop(now=True))
        return trouble

    def _acquire(self) -> bool:
        try:
            return self._lock.acquire()
        except OSError as error:
            what = f"{self._lock.file} can't be made"
            raise kept_from(error, what, "name another database with --db") from None

    async def _live(self) -> None:
        self._engine_id, self._started_at = await self.writer.write(
            rows.record_start, self.incarnation, self._code_version, self._announcer.supervisor
        )
        crash_at("after_engine_recorded")
        self._foundlings.begin()
        await self._record_that_a_supervisor_gave_up()
        await self._load_types()
        await self.writer.write(take_inventory, self.config)
        await self.writer.write(routes.at_start, self.config.routing)
        passwords = Passwords(self.clock, self.redactor.learn)
        await self._learn_passwords(passwords)
        self._outcomes = outcomes = Outcomes(self.policies, random.SystemRandom().uniform)
        self._recorder = Recorder(self.config, self.policies, outcomes)
        found = await recover(
            self.config, self.clock, self.writer, self.policies, self._engine_id, self._foundlings
        )
        self._recovered = found.stories
        await self.writer.write(restart_waits)
        self._clocks = ClockWatch(self.clock, self.writer, self._on_clock_step)
        self.workforce = Workforce()
        self._idleness = Idleness(
            self._options,
            self.clock,
            self.writer,
            self.policies,
            self.workforce,
            lambda code: self.request_stop(exit_code=code),
        )
        self.reception = Reception(
            self.config,
            self.clock,
            self.writer,
            self._recorder,
            self.policies,
            self.workforce,
            self.wake,
            self._engine_id,
        )
        self.warden = Warden(
            self.config,
            self.clock,
            self.writer,
            self.policies,
            self.workforce,
            self.reception,
            engine_id=self._engine_id,
            socket_path=self._socket,
            code_version=self._code_version,
            outcomes=outcomes,
            on_change=self.wake,
            foundlings=self._foundlings,
            ahead=self._ahead,
        )
        self.prober = Prober(self.config, self.clock, self.writer, passwords, self.wake)
        self.readiness = Readiness(self.config, self.clock, self.writer, self.wake)
        await self.readiness.begin()
        self._leasing.want, self._leasing.share = self.readiness.want, self.config.engine.workers
        self.housekeeping = Housekeeping(self.config, self.clock, self.writer)
        self.warden.adopt(found.survivors)
        server = await serve(self._socket, self._serve)
        self._listening = Listening(
            server, self.config.db, self._lock, self.clock, self.writer, self._on_socket_moved
        )
        try:
            await self.warden.start()
            self._start_loops()
            self._later = later.begin(later.OF_AN_ENGINE, self.clock)
            self._works.set()
            self._loop.call_soon(self._tell_what_was_recovered)  # what waits for its turn comes first
            log.info("engine %d works on %s", self._engine_id, self.config.db)
            await self._stop.wait()
            if self._hands_over_for:
                await self._let_go_of_workers()
            else:
                await self._drain_while_it_can_be_written()
        finally:
            await self._close()

    def _tell_what_was_recovered(self) -> None:
        for story in self._recovered[:MOST_TOLD]:
            log.warning("recovered: %s", story)
        if (more := len(self._recovered) - MOST_TOLD) > 0:
            log.warning("recovered: %d more (see: taskdeck events -n 0 lost)", more)

    async def _learn_passwords(self, passwords: Passwords) -> None:
        """Those of all routes, from wherever they were declared, so that they are masked from the first event on.

        Of commands only those are run that `secrets.values` names: the others are asked where a route is used.
        """
        references = await self.writer.write(routes.references)
        references |= {each: True for each in self.config.secrets.values if kind_of(each) == "cmd"}

        def learn() -> None:
            for reference, is_needed in references.items():
                try:
                    passwords.look_up(reference)
                except NoCredential as error:
                    if is_needed:
                        log.warning("%s", error)

        await asyncio.to_thread(learn)

    async def _drain_while_it_can_be_written(self) -> None:
        """What can't be written down can't be waited for without end: after a while it is left to the next recovery."""
        draining = asyncio.create_task(self._drain())
        unwritten = 0.0
        while not draining.done():
            await asyncio.wait({draining}, timeout=0.5)
            unwritten = unwritten + 0.5 if self.writer.failing else 0.0
            if unwritten >= self.config.engine.stop_grace and not draining.done():
                draining.cancel()
                await asyncio.wait({draining})
                break
        error = None if draining.cancelled() else draining.exception()
        if draining.cancelled() or isinstance(error, StorageTrouble):
            raise unwritten_end(self.writer.trouble)
        await draining

    async def _drain(self) -> None:
        grace = 0.0 if self._stop_now else self.config.engine.stop_grace
        if self.workforce.running:
            log.info(
                "stopping: %s %.0f s to reach a checkpoint",
                counted(self.workforce.running, "attempt has", "attempts have"),
                grace,
            )
        await self.writer.write(rows.record_stopping, self.workforce.running)
        draining = asyncio.create_task(self.warden.stop(grace))
        while not draining.done():
            await asyncio.wait(
                {draining, asyncio.ensure_future(self._hurry.wait())}, return_when="FIRST_COMPLETED"
            )
            if self._hurry.is_set() and not draining.done():
                self._hurry.clear()
                self.warden.hurry()
        await draining
        await self._idleness.tell_what_is_left()

    async def _let_go_of_workers(self) -> None:
        """Finish what is under way here and close the door; what the workers run goes on without us."""
        self._announcer.again = True
        scheduler, *others = self._loops
        await scheduler.finish()  # what is claimed is also sent
        for loop in others:
            await loop.stop()
        self._listening.refuse()
        await self.warden.hand_over()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CALLS_TAKE):
                while self._clients.calls:
                    await self.clock.pause(0.01)

    async def _close(self) -> None:
        self.housekeeping.stop()
        if self._later is not None:
            self._later.cancel()
        for loop in self._loops:
            await loop.stop()
        await self.prober.stop()
        await self.readiness.stop()
        await self.reception.beats.stop()
        with contextlib.suppress(StorageTrouble, OSError):  # the next start then records that it was lost
            if self._hands_over_for:
                await self._listening.close()  # what a worker says from now on is for the next engine
                running = self.workforce.running
                await self.writer.write(rows.record_handover, self._engine_id, running, self._hands_over_for)
            else:
                await self.writer.write(rows.record_end, self._engine_id)
            await self.housekeeping.anchor()
        await self._listening.close()

    def _install_signals(self) -> None:
        self._hurry = asyncio.Event()
        self._loop = loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request_stop)
        loop.add_signal_handler(signal.SIGHUP, self._reloader.request)

    def adopt(self, config: Config) -> None:
        """Work on with other settings, from the next decision on."""
        self.config = config
        for part in (
            self.policies,
            self._recorder,
            self.reception,
            self.warden,
            self.prober,
            self.readiness,
            self.housekeeping,
            self.storage,
        ):
            part.config = config
        self.wake()

    def request_stop(self, *, now: bool = False, exit_code: int | None = None) -> None:
        """Drain and end. A second request, or `now`, gives no more time."""
        if not self._announcer.again:  # else it is too late: the next engine is asked again
            self._hands_over_for = ""
        if self._stop.is_set() or now:
            self._stop_now = True
            self._hurry.set()
        if exit_code is not None:
            self._exit_code = exit_code
        self._stop.set()
        self.wake()

    def request_handover(self, actor: str) -> None:
        """End in order, but let everything run on for the engine that follows. Raises `Refused` in the middle of a stop."""
        if self._stop.is_set():
            raise Refused("the engine is stopping already", "it takes nothing more", "see: taskdeck status")
        self._hands_over_for = actor
        self._stop.set()
        self.wake()

    async def alert(self, reason: str, message: str) -> None:
        """Put on record what a person should hear of, as soon as this engine works."""
        await self._works.wait()
        await self.writer.write(rows.record_alert, reason, message)

    async def _record_that_a_supervisor_gave_up(self) -> None:
        if told := read_gave_up(self.config.db):
            await self.writer.write(rows.record_alert, "supervisor_gave_up", told)
            with contextlib.suppress(OSError):  # then the next engine tells it once more
                gave_up_file(self.config.db).unlink()

    # ---- loops ---------------------------------------------------------------------------------------------------

    def _start_loops(self) -> None:
        clock, failed, keep = self.clock, self._on_loop_error, self.housekeeping
        self._loops = [
            Loop(name, tick, rest, clock, failed)
            for name, tick, rest in (
                ("scheduler", self._schedule, self._looks.rest),
                ("warden", self.warden.tick, lambda: self._pause(min(5.0, self.config.engine.heartbeat / 3))),
                ("prober", self.prober.tick, self.prober.rest),
                ("readiness", self.readiness.tick, self.readiness.rest),
                ("leftovers", self._look_at_leftovers, lambda: self._pause(15.0)),
                ("ageing", self._age, lambda: self._pause(60.0)),
                ("anchor", keep.anchor, lambda: self._pause(300.0)),
                ("backup", keep.back_up_if_due, lambda: self._pause(60.0)),
                ("retention", keep.prune_if_due, lambda: self._pause(60.0)),
                ("storage", self.storage.tick, self.storage.rest),
                ("socket", self._listening.tick, self._listening.rest),
                ("logs", self.storage.keep_logs_within, self.storage.rest_of_logs),
                ("clock", self._clocks.tick, self._clocks.rest),
                ("beat", self._announcer.beat, lambda: self._pause(5.0)),
            )
        ]
        for loop in self._loops:
            loop.start()

    async def _pause(self, seconds: float) -> None:
        await self.clock.pause(seconds)

    async def _look_at_leftovers(self) -> None:
        await self.writer.write(withstanding.look)
        self._foundlings.reap()

    async def _age(self) -> None:
        if self.config.engine.age_after > 0:
            await self.writer.write(tasks.age, self.config.engine.age_after)

    def _on_loop_error(self, name: str, error: Exception) -> None:
        log.error("%s: %s: %s", name, type(error).__name__, self.redactor.text(str(error)))

    def wake(self) -> None:
        """Something changed: the scheduler looks now."""
        self._looks.now()

    def refusal(self, error: Exception) -> TaskdeckError:
        """What is told of an error that kept one task out. One that nobody meant to raise stands in the log."""
        return refusal("submit_each", error)

    def wake_for(self, due: Iterable[str]) -> None:
        """Tasks came that are due then (UTC text; "" = now)."""
        self._looks.by(due)

    async def _schedule(self) -> None:
        """One tick: choose, claim, commit; then send."""
        self._looks.begin()
        pause = self.storage.pause
        limits = Limits(
            workers=() if pause else self.workforce.rooms(self.clock.monotonic()),
            max_running=self.config.engine.max_running,
            lease=self.config.engine.lease,
            logs=str(self.config.log_directory),
            leasing=self._leasing,
            routing=self.config.routing,
            circuit=self.config.circuit,
            rollbacks=self._outcomes.rollbacks,
            stopping=self._stop.is_set(),
            pause=pause,
            most=BATCH if self._has_dispatched else FIRST,
        )
        done: Dispatched = await self.writer.write(dispatch, limits, self.policies)
        crash_at("after_claim_commit")
        self._recorder.begun(done.plain)
        for worker_id, runs in done.runs.items():
            if unsent := self.workforce.dispatch(worker_id, runs, done.suspects, self.clock.monotonic()):
                await self.warden.give_back([run.task_id for run in unsent], worker_id)
        crash_at("after_dispatch")
        self.workforce.pass_on(done.wishes, self._graces(), self.clock.monotonic())
        self._looks.end(done.wake_at)
        if done.to_verify:
            self.prober.wake()
        if done.runs:
            self._has_dispatched = True
            self.wake()  # there may be more than one batch
        elif not self._stop.is_set():
            await self._idleness.look(limits)

    def _graces(self) -> dict[str, float]:
        """Seconds in which an attempt may end by itself, by what is asked of it."""
        engine = self.config.engine
        return {"stop": engine.stop_grace, "cancel": engine.cancel_grace, "kill": 0.0}

    def _on_clock_step(self, seconds: float) -> None:
        """The wall clock was set: what is due is looked for."""
        self._idleness.clock_was_set(seconds)
        self.wake()

    def _on_socket_moved(self, path: Path) -> None:
        self.warden.socket_path = path

    # ---- clients -------------------------------------------------------------------------------------------------

    async def _serve(self, link: AsyncLink) -> None:
        """One connection: a worker's, or a client's with its calls."""
        try:
            await self._converse(link)
        except (
            msgspec.DecodeError
        ):  # what it said may be a secret that was meant for somebody else: it is not told
            log.warning("pid %d said what is no message of ours; its link is cut", link.peer().pid)

    async def _converse(self, link: AsyncLink) -> None:
        body = await link.receive()
        if body is None:
            return
        hello, *rest = from_peer(body)
        if not isinstance(hello, Hello):
            return
        if hello.role == "worker":
            await self.reception.serve(link, hello, rest)
            return
        await self._clients.serve(link, rest)

    def description(self) -> dict[str, Any]:
        """What `ping` answers: who works here, since when, and the age of each loop's last pass in seconds."""
        return {
            "id": self._engine_id,
            "pid": os.getpid(),
            "incarnation": self.incarnation,
            "code_version": self._code_version,
            "started_at": self._started_at,
            "supervisor_pid": self._announcer.supervisor,
            "database": str(self.config.db),
            "stopping": self._stop.is_set(),
            "running": self.workforce.running,
            "loops": {loop.name: round(loop.age(), 3) for loop in self._loops},
            "recovered": self._recovered[:20],
            "config": self._reloader.description(),
            "storage": self.storage.description(),
            "descendants": groups.means(self.config.engine.cgroups),
        }

    async def _load_types(self) -> None:
        """What the last workers could run; recovery needs each type's contract before the first new worker speaks."""
        self.policies.load(await self.writer.write(processes.type_settings))


def unwritten_end(trouble: Trouble | None) -> StorageTrouble:
    """The end of an engine that could not write how its last attempts ended."""
    return StorageTrouble(
        "the engine ended before all was written down",
        f"{trouble.why if trouble else 'the disk took nothing'}; what ran is settled by recovery at the next start",
        trouble.remedy if trouble else "make room",
    )


def already_running(config: Config) -> AlreadyRunning:
    """The refusal that says who holds the database."""
    holder = DatabaseLock.holder(config.db)
    who = f"{holder.role} with pid {holder.pid}" if holder else "another process"
    return AlreadyRunning(
        f"{config.db} is held by {who}",
        "exactly one engine works on a database",
        "see: taskdeck status; end it with: taskdeck stop",
    )
