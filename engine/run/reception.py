"""The reception: the engine's end of every worker's connection. Hears reports, has them written down, answers.

Frames of one worker are written in order, one commit after the other; a full or busy disk holds them up, it never loses
them. Decides nothing about tasks: that is `recording` and `outcomes`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from ..clock import Clock
from ..config import Config
from ..edge import identity
from ..edge.link import AsyncLink, LinkError
from ..errors import StoreError, Unavailable
from ..store import processes
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from ..store.writer import Writer
from .crash import crash_at
from .messages import (
    Answer,
    Beat,
    Farewell,
    Hello,
    Manifest,
    Outcome,
    Save,
    Started,
    Validate,
    Validated,
    Welcome,
    from_peer,
    stored,
)
from .policies import Policies
from .recording import Recorder
from .telling import counted
from .workforce import FORCE_SLACK, WorkerHandle, Workforce

log = logging.getLogger("taskdeck.reception")

AT_ONCE = 1024
"""Messages after which what else has arrived waits for the next commit."""

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
    ) -> None:
        self.config = config
        self._clock = clock
        self._writer = writer
        self._recorder = recorder
        self._policies = policies
        self._workforce = workforce
        self._on_change = on_change
        self._expected: dict[str, asyncio.Future[WorkerHandle]] = {}
        self._validations: dict[int, asyncio.Future[str]] = {}
        self._requests = 0

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

        An unknown incarnation is not one of ours: it is cut.
        """
        handle = await self._recognise(link, hello)
        if handle is None:
            return
        handle.link = link
        handle.send(self._welcome(handle))
        if self._workforce.draining:
            handle.send(Farewell(now=False))
        try:
            await self._hear(handle, rest)
            while (body := await link.receive()) is not None:
                messages = from_peer(body)
                while len(messages) < AT_ONCE and (body := link.received()) is not None:
                    messages += from_peer(body)
                await self._hear(handle, messages)
        except (LinkError, msgspec.DecodeError) as error:
            log.warning("worker %d: its link broke: %s", handle.id, error)
        finally:
            handle.ready = False
            handle.link_ended.set()

    async def _recognise(self, link: AsyncLink, hello: Hello) -> WorkerHandle | None:
        expected = self._expected.get(hello.incarnation)
        handle = await asyncio.shield(expected) if expected is not None else None
        if handle is None or link.peer().pid != handle.identity.pid:
            log.warning("a worker that is not ours said hello (pid %d)", link.peer().pid)
            return None
        return handle

    def _welcome(self, handle: WorkerHandle) -> Welcome:
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
        )

    async def _hear(self, handle: WorkerHandle, messages: list[Any]) -> None:
        handle.last_beat = self._clock.monotonic()
        reports = []
        for message in messages:
            if isinstance(message, Manifest):
                await self._publish(handle, message)
            elif isinstance(message, Validated):
                self._validated(message)
            else:
                if isinstance(message, Beat):
                    self._beat(handle, message)
                reports.append(message)
        if reports:
            answers = await self._write_down(handle, reports)
            crash_at("after_reports_recorded")
            if answers:
                handle.send(*answers)
            self._settle(handle, reports)

    async def _write_down(self, handle: WorkerHandle, reports: list[Any]) -> list[Answer]:
        """Until it is written: a full or busy disk holds reports up, it never loses them."""
        complained = False
        while True:
            try:
                return await self._writer.write(self._recorder.record, handle.id, reports)
            except (StoreError, Unavailable) as error:
                if not complained:
                    log.error("reports of worker %d can't be written yet: %s", handle.id, error)
                complained = True
                await self._clock.pause(0.5)

    def _settle(self, handle: WorkerHandle, reports: list[Any]) -> None:
        now, slack = self._clock.monotonic(), self.config.engine.cancel_grace + FORCE_SLACK
        ended = False
        for report in reports:
            if isinstance(report, Started):
                handle.begun(report.fence, now, slack)
            elif isinstance(report, Save):
                handle.alone.discard(report.fence)  # it got further than where its worker died
            elif isinstance(report, Outcome):
                ended = True
                self._outcome(handle, report, now, slack)
        if ended:
            self._on_change()

    def _outcome(self, handle: WorkerHandle, outcome: Outcome, now: float, slack: float) -> None:
        """A suspended attempt's timeout stands still; one that goes on has its whole timeout before the engine steps in."""
        if outcome.kind not in ("stopped", "resumed"):
            handle.forget(outcome.fence)
            return
        handle.asked.pop(outcome.fence, None)
        if outcome.kind == "stopped":
            handle.deadlines.pop(outcome.fence, None)
        else:
            handle.begun(outcome.fence, now, slack)

    def _beat(self, handle: WorkerHandle, beat: Beat) -> None:
        handle.cpu_at_beat = identity.cpu_seconds(handle.identity.pid) or beat.cpu
        handle.lease_until = self._clock.boot() + self.config.engine.lease
        handle.suspect = False

    async def _publish(self, handle: WorkerHandle, manifest: Manifest) -> None:
        handle.types = {info.name: info for info in manifest.types}
        self._policies.publish(manifest.types)
        await self._writer.write(self._record_manifest, handle.id, manifest)
        handle.ready = True
        self._workforce.published.set()
        self._on_change()

    def _record_manifest(self, tx: Transaction, worker_id: int, manifest: Manifest) -> None:
        settings = [(info.name, stored(info)) for info in manifest.types]
        changed = processes.publish_types(tx, settings)
        processes.set_worker(tx, worker_id, "READY")
        tx.event(
            "WORKER_READY",
            actor=ENGINE,
            worker_id=worker_id,
            reason="manifest",
            message=counted(len(manifest.types), "type", "types"),
            payload={"changed": changed} if changed else None,
        )
        for problem in manifest.problems if changed or manifest.problems else ():
            tx.event(
                "WORKER_PROBLEM",
                actor=ENGINE,
                worker_id=worker_id,
                level="error",
                reason="handlers",
                message=problem,
            )
            log.error("handlers: %s", tx.redactor.text(problem))

    async def validate(self, type_name: str, payload: str) -> str:
        """Ask a ready worker whether a payload fits a type. Returns the problem, or ""."""
        async with asyncio.timeout(self.config.engine.start_timeout):
            await self._workforce.published.wait()
        handle = self._workforce.able(type_name)
        if handle is None:
            known = ", ".join(sorted(self._workforce.types - {"shell"})) or "none"
            return f"no handler for type {type_name!r} (known types: {known})"
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

    def _validated(self, answer: Validated) -> None:
        future = self._validations.pop(answer.req, None)
        if future is not None and not future.done():
            future.set_result(answer.problem)
