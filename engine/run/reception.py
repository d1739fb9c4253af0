"""The reception: the engine's end of every worker's connection. Hears reports, has them written down, answers.

Frames of one worker are written in order, one commit after the other; a full or busy disk holds them up, it never loses
them. Decides nothing about tasks: that is `recording` and `outcomes`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ..clock import Clock
from ..config import Config
from ..crash import crash_at
from ..edge import identity
from ..edge.identity import Identity
from ..edge.link import AsyncLink, LinkError
from ..errors import StoreError, Unavailable
from ..rules.fitting import surely_fits
from ..rules.references import kind_of
from ..rules.tasks import RUNNING
from ..store import processes, tasks
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from ..store.writer import Writer
from .beats import Beats
from .losing import take_all
from .messages import (
    PROTOCOL,
    Beat,
    Bye,
    Farewell,
    Hello,
    Manifest,
    Numbered,
    Outcome,
    Recorded,
    Save,
    Started,
    Validate,
    Validated,
    Welcome,
    encode,
    from_peer,
    is_report,
    stored,
)
from .policies import Policies
from .recording import Recorder
from .telling import counted, handlers_named
from .workforce import FORCE_SLACK, WorkerHandle, Workforce

log = logging.getLogger("taskdeck.reception")

T = TypeVar("T")

AT_ONCE = 512
"""Messages after which what else has arrived waits for the next commit."""

LIVES_ON = ("stopped", "resumed")
"""Outcomes of attempts that have not ended."""

VALIDATION_WITHIN = 10.0
"""Seconds in which a worker answers whether a payload fits."""


class Reception:
    """Serves the connections of workers. Everything here runs on the engine's loop."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        writer: Writer,
        recorder: Recorder,
        policies: Policies,
        workforce: Workforce,
        on_change: Callable[[], None],
        engine_id: int = 0,
    ) -> None:
        self.config = config
        self._engine_id = engine_id
        self._clock = clock
        self._writer = writer
        self.recorder = recorder
        self._policies = policies
        self._workforce = workforce
        self._on_change = on_change
        self.beats = Beats(writer, clock, config.engine)
        self._expected: dict[str, asyncio.Future[WorkerHandle]] = {}
        self._validations: dict[int, asyncio.Future[str]] = {}
        self._requests = 0
        self._logged: list[str] = []
        """The problems of the handlers as the newest worker told them: all load the same files."""
        self._stale: set[int] = set()
        """Workers that were lost and spoke again: told of once."""

    def expect(self, incarnation: str) -> asyncio.Future[WorkerHandle]:
        """A worker with this incarnation will say hello. Set the future once its row is committed, and not before."""
        return self._expected.setdefault(incarnation, asyncio.get_running_loop().create_future())

    def forget(self, incarnation: str) -> None:
        """That worker is gone."""
        future = self._expected.pop(incarnation, None)
        if future is not None and not future.done():
            future.cancel()

    async def serve(self, link: AsyncLink, hello: Hello, rest: list[Any]) -> None:
        """Serve a worker's connection until it ends; `rest` came in one frame with its hello.

        Who is not one of ours, or no longer, is turned away.
        """
        handle = await self._recognise(link, hello)
        if handle is None:
            return
        await self._let_in(handle, link, hello)
        ended = handle.link_ended
        try:
            await self._hear(handle, rest)
            while (body := await link.receive()) is not None:
                messages = from_peer(body)
                while len(messages) < AT_ONCE and (body := link.received()) is not None:
                    messages += from_peer(body)
                await self._hear(handle, messages)
        except LinkError as error:
            log.warning("worker %d: its link broke: %s", handle.id, error)
        except msgspec.DecodeError:  # its words may hold anything
            log.warning("worker %d said what is no message of ours; its link is cut", handle.id)
        finally:
            ended.set()
            if handle.link is link:
                handle.ready = False

    async def _recognise(self, link: AsyncLink, hello: Hello) -> WorkerHandle | None:
        expected = self._expected.get(hello.incarnation)
        handle = await asyncio.shield(expected) if expected is not None else None
        if handle is None or handle.buried:
            await self._turn_away(link, hello)
            return None
        claimed = Identity(link.peer().pid, hello.start_time, hello.boot_id)
        if claimed != handle.identity:
            log.warning("pid %d says that it is worker %d, and is not", claimed.pid, handle.id)
            return None
        if hello.protocol != PROTOCOL:
            await self._dismiss(handle, link, hello)
            return None
        return handle

    async def _let_in(self, handle: WorkerHandle, link: AsyncLink, hello: Hello) -> None:
        """Greet a worker that is new, or back: what it never received is free again, all else of it goes on."""
        if handle.link is not None:  # its last words on the old link come first
            handle.link.close()
            await handle.link_ended.wait()
        recorded, held = await self._until_written(handle, self._return, handle, hello)
        now, slack = self._clock.monotonic(), self.config.engine.cancel_grace + FORCE_SLACK
        suspects = {row["fence"] for row in held if row["suspect"]}
        handle.return_with(link, {row["fence"]: row["id"] for row in held}, suspects)
        for row in held:
            if (timeout := self._policies.of(row).timeout) is not None and row["state"] is RUNNING:
                handle.timeouts[row["fence"]] = timeout
                handle.begun(row["fence"], now, slack)
        self._beat_of(handle)
        handle.said_bye = False
        handle.send(self._welcome(handle, recorded))
        if self._workforce.draining:
            self._workforce.drain_one(handle)
        elif handle.retiring:
            handle.send(Farewell(now=False))
        self._on_change()

    def _return(
        self, tx: Transaction, handle: WorkerHandle, hello: Hello
    ) -> tuple[int, list[dict[str, Any]]]:
        """Returns the number of its last recorded report, and the tasks that it goes on with."""
        known = set(hello.fences)
        held = tasks.of_worker(tx, handle.id)
        unknown = [row for row in held if row["fence"] not in known]
        if unknown:  # sent by an engine that is gone, or on a link that broke: it never arrived
            cause = f"worker {handle.id} never received it"
            take_all(tx, unknown, cause, set(), self._policies, self.config.engine.max_losses)
        tasks.renew(tx, handle.id, self.config.engine.lease)
        rest = [row for row in held if row["fence"] in known]
        state = "DRAINING" if hello.closing or handle.retiring else "READY"
        if any(processes.set_worker(tx, handle.id, state, only_from=seen) for seen in ("AWAY", "SUSPECT")):
            goes_on = ", ".join(f"#{row['id']}" for row in rest)
            tx.event(
                "WORKER_RETURNED",
                actor=ENGINE,
                worker_id=handle.id,
                reason="returned",
                message=f"pid {handle.identity.pid}: {f'goes on with {goes_on}' if rest else 'it runs nothing'}",
                payload={"tasks": [row["id"] for row in rest], "engine": self._engine_id},
                ours=True,
            )
        handle.retiring = handle.retiring or hello.closing
        return processes.recorded(tx, handle.id), rest

    async def _dismiss(self, handle: WorkerHandle, link: AsyncLink, hello: Hello) -> None:
        """It speaks another protocol, so that nothing it says can be trusted to mean what we think: it ends first."""
        link.send(encode([Farewell(now=True)]))
        handle.retiring = True
        grace = self.config.engine.cancel_grace + FORCE_SLACK
        handle.end_by = min(handle.end_by, self._clock.monotonic() + grace)
        why = f"it speaks protocol {hello.protocol} ({hello.code_version}), this engine {PROTOCOL}"
        await self._until_written(handle, self._record_dismissal, handle.id, why)
        self._on_change()
        await link.wait_closed()

    def _record_dismissal(self, tx: Transaction, worker_id: int, why: str) -> None:
        if processes.set_worker(tx, worker_id, "DRAINING", evidence=why):
            tx.event(
                "WORKER_RETIRED",
                actor=ENGINE,
                worker_id=worker_id,
                level="warning",
                reason="protocol",
                message=f"told to end: {why}",
            )

    async def _turn_away(self, link: AsyncLink, hello: Hello) -> None:
        """Who was lost and taken over, and lives all the same, is ended; who was never of this database is told to go."""
        row = await self._writer.write(processes.worker_of, hello.incarnation)
        who = Identity(hello.pid, hello.start_time, hello.boot_id)
        log.warning("a worker that is not ours (any more) said hello (pid %d)", link.peer().pid)
        if row is None or (row["pid"], row["start_time"], row["boot_id"]) != msgspec.structs.astuple(who):
            link.send(encode([Farewell(now=True)]))
        elif link.peer().pid == who.pid:
            await self._end_stale(row["id"], who)

    async def _end_stale(self, worker_id: int, who: Identity) -> None:
        """A worker that counts as lost spoke again: nothing of it is written, and it is ended for good."""
        if worker_id not in self._stale:
            self._stale.add(worker_id)
            await self._writer.write(self._record_stale, worker_id, who.pid)
        identity.kill(who, signal.SIGKILL)

    def _record_stale(self, tx: Transaction, worker_id: int, pid: int) -> None:
        tx.event(
            "WORKER_STALE",
            actor=ENGINE,
            worker_id=worker_id,
            level="error",
            reason="stale",
            message=f"pid {pid} was lost and taken over, and spoke again: it changed nothing and is ended",
            payload={"pid": pid},
            ours=True,
        )

    def _welcome(self, handle: WorkerHandle, recorded: int) -> Welcome:
        engine, logs = self.config.engine, self.config.logging
        return Welcome(
            worker_id=handle.id,
            heartbeat=engine.heartbeat,
            cancel_grace=engine.cancel_grace,
            output_drain=engine.output_drain,
            attempt_bytes=logs.attempt_bytes,
            attempt_files=logs.attempt_files,
            environment=list(self.config.shell.environment),
            database=str(self.config.db),
            logs=str(self.config.log_directory),
            away_limit=engine.away_limit,
            recorded=recorded,
            fences=sorted(handle.running),
            withheld=sorted(_variables(self.config)),
        )

    async def _hear(self, handle: WorkerHandle, messages: list[Any]) -> None:
        handle.last_beat = self._clock.monotonic()
        reports: list[tuple[int, Any]] = []
        number, beat = 0, None
        for message in messages:
            if number and is_report(message):
                reports.append((number, message))
                number += 1
            elif isinstance(message, Numbered):
                number = message.first
            elif isinstance(message, Manifest):
                await self._publish(handle, message)
            elif isinstance(message, Validated):
                self._validated(message)
            elif isinstance(message, Beat):
                self._beat(handle, message)
                beat = message
            else:
                reports.append((0, message))
        if reports:
            await self._record(handle, reports, number - 1)
        if beat is not None:
            await self.beats.heard(handle.id, beat)
        if handle.buried:
            await self._end_stale(handle.id, handle.identity)

    async def _record(self, handle: WorkerHandle, reports: list[tuple[int, Any]], upto: int) -> None:
        """Have reports written down, with their numbers; the last number is `upto`, where they have any."""
        said = [report for _, report in reports]
        ended = [each.fence for each in said if isinstance(each, Outcome) and each.kind not in LIVES_ON]
        if is_early := self._make_room(handle, ended):
            self._on_change()  # its tick comes behind what is queued here, in the same commit
        answers = await self._until_written(handle, self.recorder.record_once, handle.id, reports)
        crash_at("after_reports_recorded")
        if answers or upto > 0:
            handle.send(*answers, *([Recorded(upto)] if upto > 0 else []))
        if self._settle(handle, said, ended) and not is_early:
            self._on_change()

    async def _until_written(self, handle: WorkerHandle, unit: Callable[..., T], *args: Any) -> T:
        """A full or busy disk holds a worker's reports up, it never loses them."""
        complained = False
        while True:
            try:
                return await self._writer.write(unit, *args)
            except (StoreError, Unavailable) as error:
                if not complained:
                    log.error("reports of worker %d can't be written yet: %s", handle.id, error)
                complained = True
                await self._clock.pause(0.5)
                self._on_change()

    def _make_room(self, handle: WorkerHandle, ended: list[int]) -> bool:
        """The worker has room again where an attempt has ended, recorded or not. False where that must be waited for."""
        handle.leave(ended)
        return bool(ended) and handle.leaving.issuperset(ended)

    def _settle(self, handle: WorkerHandle, reports: list[Any], ended: list[int]) -> bool:
        """What is recorded counts in memory too. Returns whether an attempt has ended, or is suspended."""
        now, slack = self._clock.monotonic(), self.config.engine.cancel_grace + FORCE_SLACK
        is_free = False
        for report in reports:
            if isinstance(report, Started):
                handle.begun(report.fence, now, slack)
            elif isinstance(report, Outcome):
                is_free = True
                if report.kind in LIVES_ON:
                    self._goes_on(handle, report, now, slack)
            elif isinstance(report, Save):
                handle.alone.discard(report.fence)  # it got further than where its worker died
            elif isinstance(report, Bye):
                handle.said_bye = True
        handle.forget(ended)
        return is_free

    def _goes_on(self, handle: WorkerHandle, outcome: Outcome, now: float, slack: float) -> None:
        """A suspended attempt's timeout stands still; one that goes on has its whole timeout before the engine steps in."""
        handle.asked.pop(outcome.fence, None)
        if outcome.kind == "stopped":
            handle.deadlines.pop(outcome.fence, None)
        else:
            handle.begun(outcome.fence, now, slack)

    def _beat(self, handle: WorkerHandle, beat: Beat) -> None:
        handle.rss = beat.rss
        self._beat_of(handle, beat.cpu)

    def _beat_of(self, handle: WorkerHandle, cpu: float = 0.0) -> None:
        handle.last_beat = self._clock.monotonic()
        handle.cpu_at_beat = identity.cpu_seconds(handle.identity.pid) or cpu
        handle.lease_until = self._clock.boot() + self.config.engine.lease
        handle.suspect = False

    async def _publish(self, handle: WorkerHandle, manifest: Manifest) -> None:
        handle.types = {info.name: info for info in manifest.types}
        handle.problems = manifest.problems
        if handle.lasts:  # what other code says of the types is nothing for new attempts
            self._policies.publish(manifest.types)
            await self._until_written(handle, self._record_manifest, handle.id, manifest)
            self._workforce.published.set()
        handle.ready = True
        self._on_change()

    def _record_manifest(self, tx: Transaction, worker_id: int, manifest: Manifest) -> None:
        settings = [(info.name, stored(info)) for info in manifest.types]
        changed = processes.publish_types(tx, settings)
        is_new = processes.set_worker(tx, worker_id, "READY")
        if is_new or changed:
            tx.event(
                "WORKER_READY",
                actor=ENGINE,
                worker_id=worker_id,
                reason="manifest",
                message=counted(len(manifest.types), "type", "types"),
                payload={"changed": changed} if changed else None,
            )
        for problem in manifest.problems if is_new or changed else ():
            tx.event(
                "WORKER_PROBLEM",
                actor=ENGINE,
                worker_id=worker_id,
                level="error",
                reason="handlers",
                message=problem,
            )
            if problem not in self._logged:
                log.error("handlers: %s", tx.redactor.text(problem))
        self._logged = manifest.problems

    def shape_of(self, type_name: str) -> str:
        """The shape of a type's payloads (`rules.fitting`) as a ready worker has told it; empty where none has."""
        handle = self._workforce.able(type_name)
        return handle.types[type_name].shape if handle is not None else ""

    async def validate(self, type_name: str, payload: str) -> str:
        """Why a payload does not fit a type, or "". A ready worker is asked where the type's shape does not tell."""
        if not self._workforce.published.is_set():
            await self._until_published()
        handle = self._workforce.able(type_name)
        if handle is None:
            known = ", ".join(sorted(self._workforce.types - {"shell"})) or "none"
            failed = [f"failed to load: {problem}" for problem in self._workforce.problems]
            return f"no handler for type {type_name!r} ({'; '.join([*failed, f'known types: {known}'])})"
        if surely_fits(handle.types[type_name].shape, payload):
            return ""
        self._requests += 1
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._validations[self._requests] = future
        handle.send(Validate(self._requests, type_name, payload))
        try:
            async with asyncio.timeout(VALIDATION_WITHIN):
                return await future
        except TimeoutError:
            raise Unavailable(
                "no worker answered in time whether the payload is valid", remedy="try again"
            ) from None

    async def _until_published(self) -> None:
        """Wait until a worker has said what it can run. Raises `Unavailable`."""
        within = self.config.engine.start_timeout
        try:
            async with asyncio.timeout(within):
                await self._workforce.published.wait()
        except TimeoutError:
            raise Unavailable(
                f"no worker came up within {within:g} s",
                f"each loads {handlers_named(self.config.taskdeck.handlers)} first",
                "see: taskdeck config check",
            ) from None

    def _validated(self, answer: Validated) -> None:
        future = self._validations.pop(answer.req, None)
        if future is not None and not future.done():
            future.set_result(answer.problem)


def _variables(config: Config) -> set[str]:
    """The variables in which routes have their passwords."""
    references = (each.secret_ref or "" for each in config.routes)
    return {each.partition(":")[2] for each in references if kind_of(each) == "env"}
