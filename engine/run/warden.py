"""The warden: starts workers, listens to them, sees them die or fall silent, and has what they held taken over.

Silence makes a worker suspect and nothing more; when its lease has run out it is ended by its identity first. Only proof of
death (its pidfd) lets anything be taken over, after whatever its attempts left running has been ended too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..clock import Clock
from ..config import Config
from ..edge import identity, trees
from ..edge.link import AsyncLink, LinkError
from ..errors import StoreError, Unavailable
from ..rules.liveness import Signs, Verdict, gap, judge, restart_delay
from ..rules.selection import WorkerRoom
from ..store import processes, tasks
from ..store.database import Transaction
from ..store.tasks import ENGINE
from ..store.writer import Writer
from . import journal
from .crash import crash_at
from .leftovers import end_leftovers, worker_mark
from .losing import take_all
from .messages import (
    Answer,
    Ask,
    Beat,
    Farewell,
    Hello,
    Manifest,
    Outcome,
    Run,
    Validate,
    Validated,
    Welcome,
    from_peer,
    stored,
)
from .policies import Policies
from .recording import Recorder
from .workforce import WorkerHandle

log = logging.getLogger("taskdeck.warden")

QUICK = 5.0
"""A worker that dies within so many seconds of its start died quickly: the next one waits longer."""


class Warden:
    """Owns the worker processes of one engine. Everything here runs on the engine's loop."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        writer: Writer,
        recorder: Recorder,
        policies: Policies,
        *,
        engine_id: int,
        socket_path: Path,
        code_version: str,
        on_change: Callable[[], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._writer = writer
        self._recorder = recorder
        self._policies = policies
        self._engine_id = engine_id
        self._socket = socket_path
        self._code_version = code_version
        self._on_change = on_change
        self._workers: dict[int, WorkerHandle] = {}
        self._expected: dict[str, asyncio.Future[WorkerHandle]] = {}
        self._validations: dict[int, asyncio.Future[str]] = {}
        self._requests = 0
        self._quick_deaths = 0
        self._stopping = False
        self._last_tick: float | None = None
        self._chores: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self.published = asyncio.Event()
        """Set once a worker has said what it can run."""

    # ---- starting ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the configured number of workers."""
        for _ in range(self._config.engine.workers):
            await self._start_one()

    async def _start_one(self) -> None:
        incarnation = secrets.token_hex(8)
        self._expected[incarnation] = asyncio.get_running_loop().create_future()
        folder = self._config.log_directory / "workers"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        journal_path = folder / f"{incarnation}.starts"
        process = self._spawn(incarnation, journal_path, folder)
        who = identity.of(process.pid)
        pidfd = os.pidfd_open(process.pid)
        assert who is not None  # not reaped yet, so it can't be gone
        worker_id = await self._writer.write(self._record_start, incarnation, who)
        crash_at("after_worker_recorded")
        now = self._clock.monotonic()
        handle = WorkerHandle(
            worker_id, incarnation, who, process, pidfd, journal_path, self._config.engine.slots, now, now
        )
        handle.lease_until = self._clock.boot() + self._config.engine.lease
        self._workers[worker_id] = handle
        self._empty.clear()
        asyncio.get_running_loop().add_reader(pidfd, self._on_death, handle)
        self._expected.pop(incarnation).set_result(handle)

    def _spawn(self, incarnation: str, journal_path: Path, folder: Path) -> subprocess.Popen[bytes]:
        root = self._config.file.parent if self._config.file else Path.cwd()
        command = [sys.executable, "-m", "taskdeck.engine.run.worker", "--socket", str(self._socket)]
        command += ["--incarnation", incarnation, "--logs", str(self._config.log_directory)]
        command += ["--journal", str(journal_path), "--handlers-root", str(root)]
        for handler in self._config.taskdeck.handlers:
            command += ["--handler", handler]
        environment = {key: value for key, value in os.environ.items() if key != "TASKDECK_SUPERVISOR_FD"}
        environment[trees.VARIABLE] = worker_mark(self._config.db, incarnation)
        with open(folder / "output.log", "ab", opener=_private) as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def _record_start(self, tx: Transaction, incarnation: str, who: identity.Identity) -> int:
        worker_id = processes.add_worker(
            tx,
            incarnation=incarnation,
            engine_id=self._engine_id,
            pid=who.pid,
            start_time=who.start_time,
            boot_id=who.boot_id,
            host=socket.gethostname(),
            code_version=self._code_version,
        )
        tx.event(
            "WORKER_STARTED",
            actor=ENGINE,
            worker_id=worker_id,
            reason="started",
            message=f"pid {who.pid}",
            ours=True,
        )
        return worker_id

    # ---- listening -----------------------------------------------------------------------------------------------

    async def serve(self, link: AsyncLink, hello: Hello) -> None:
        """Serve a worker's connection until it ends. An unknown incarnation is not one of ours: it is cut."""
        handle = await self._recognise(link, hello)
        if handle is None:
            return
        handle.link = link
        handle.send(self._welcome(handle))
        try:
            while (body := await link.receive()) is not None:
                await self._hear(handle, from_peer(body))
        except (LinkError, msgspec.DecodeError) as error:
            log.warning("worker %d: its link broke: %s", handle.id, error)
        finally:
            handle.ready = False
            handle.link_ended.set()

    async def _recognise(self, link: AsyncLink, hello: Hello) -> WorkerHandle | None:
        expected = self._expected.get(hello.incarnation)
        if expected is not None:
            await asyncio.shield(expected)
        for handle in self._workers.values():
            if handle.incarnation == hello.incarnation and link.peer().pid == handle.identity.pid:
                return handle
        log.warning("a worker that is not ours said hello (pid %d)", link.peer().pid)
        return None

    def _welcome(self, handle: WorkerHandle) -> Welcome:
        engine, logs = self._config.engine, self._config.logs
        return Welcome(
            worker_id=handle.id,
            heartbeat=engine.heartbeat,
            cancel_grace=engine.cancel_grace,
            output_drain=engine.output_drain,
            attempt_bytes=logs.attempt_bytes,
            attempt_files=logs.attempt_files,
            environment=list(self._config.shell.environment),
            database=str(self._config.db),
            logs=str(self._config.log_directory),
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
        ended = [each for each in reports if isinstance(each, Outcome)]
        for outcome in ended:
            if outcome.kind in ("stopped", "resumed"):
                handle.asked.pop(outcome.fence, None)
            else:
                handle.forget(outcome.fence)
        if ended:
            self._on_change()

    def _beat(self, handle: WorkerHandle, beat: Beat) -> None:
        handle.cpu_at_beat = identity.cpu_seconds(handle.identity.pid) or beat.cpu
        handle.lease_until = self._clock.boot() + self._config.engine.lease
        handle.suspect = False

    async def _publish(self, handle: WorkerHandle, manifest: Manifest) -> None:
        handle.types = {info.name: info for info in manifest.types}
        self._policies.publish(manifest.types)
        await self._writer.write(self._record_manifest, handle.id, manifest)
        handle.ready = True
        self.published.set()
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
            message=f"{len(manifest.types)} types",
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

    # ---- sending -------------------------------------------------------------------------------------------------

    def rooms(self) -> tuple[WorkerRoom, ...]:
        """The workers that take tasks."""
        return tuple(handle.room() for handle in self._workers.values() if handle.ready)

    def dispatch(self, worker_id: int, runs: list[Run], suspects: set[int]) -> None:
        """Send claimed attempts. If the link has gone meanwhile, the worker's end is handled as for any other."""
        handle = self._workers.get(worker_id)
        if handle is None:
            return
        for run in runs:
            handle.running[run.fence] = run.task_id
            if run.task_id in suspects:
                handle.alone.add(run.fence)
        handle.send(*runs)

    def pass_on(self, wishes: list[dict[str, Any]]) -> None:
        """Tell workers what people want of running attempts, once each; a withdrawn pause is told as well."""
        open_wishes = {wish["fence"]: wish for wish in wishes}
        for handle in self._workers.values():
            for fence, task_id in handle.running.items():
                wish = open_wishes.get(fence)
                wanted = wish["wanted"] if wish else None
                if wanted is None and handle.asked.get(fence) == "pause":
                    wanted = "resume"
                if wanted is not None and handle.asked.get(fence) != wanted:
                    handle.asked[fence] = wanted
                    handle.send(Ask(task_id, fence, wanted, self._config.engine.cancel_grace))

    @property
    def running(self) -> int:
        """How many attempts are with workers."""
        return sum(len(handle.running) for handle in self._workers.values())

    @property
    def types(self) -> set[str]:
        """The types that ready workers can run."""
        return {name for handle in self._workers.values() if handle.ready for name in handle.types}

    async def validate(self, type_name: str, payload: str) -> str:
        """Ask a ready worker whether a payload fits a type. Returns the problem, or ""."""
        async with asyncio.timeout(self._config.engine.start_timeout):
            await self.published.wait()
        handle = next(
            (each for each in self._workers.values() if each.ready and type_name in each.types), None
        )
        if handle is None:
            known = ", ".join(sorted(self.types - {"shell"})) or "none"
            return f"no handler for type {type_name!r} (known types: {known})"
        self._requests += 1
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._validations[self._requests] = future
        handle.send(Validate(self._requests, type_name, payload))
        try:
            async with asyncio.timeout(10):
                return await future
        except TimeoutError:
            raise Unavailable(
                "no worker answered in time whether the payload is valid", remedy="try again"
            ) from None

    def _validated(self, answer: Validated) -> None:
        future = self._validations.pop(answer.req, None)
        if future is not None and not future.done():
            future.set_result(answer.problem)

    # ---- watching ------------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Judge the silent. A gap in the engine's own ticks gives everyone a fresh lease instead of a verdict."""
        now, every = self._clock.monotonic(), self._config.engine.heartbeat / 3
        away = self._last_tick is not None and gap(now - self._last_tick, every)
        self._last_tick = now
        for handle in list(self._workers.values()):
            if away:
                handle.last_beat = now
                handle.lease_until = self._clock.boot() + self._config.engine.lease
                await self._writer.write(tasks.renew, handle.id, self._config.engine.lease)
            else:
                await self._judge(handle, now)

    async def _judge(self, handle: WorkerHandle, now: float) -> None:
        if (
            not handle.ready
            and handle.link is None
            and now - handle.started > self._config.engine.start_timeout
        ):
            log.error("worker %d did not come up within %.0f s", handle.id, self._config.engine.start_timeout)
            identity.kill(handle.identity, signal.SIGKILL)
            return
        silent = now - handle.last_beat
        cpu = identity.cpu_seconds(handle.identity.pid) or 0.0
        verdict = judge(
            Signs(silent, handle.lease_until - self._clock.boot(), cpu, handle.cpu_at_beat),
            self._config.engine.suspect_after,
        )
        if verdict is Verdict.SUSPECT and not handle.suspect:
            handle.suspect = True
            await self._writer.write(self._record_suspect, handle, silent)
        elif verdict is Verdict.LOST:
            log.warning(
                "worker %d: its lease ran out after %.0f s of silence; it is ended", handle.id, silent
            )
            identity.kill(handle.identity, signal.SIGKILL)
        elif (
            verdict is Verdict.ALIVE
            and cpu > handle.cpu_at_beat
            and silent >= self._config.engine.suspect_after
        ):
            handle.cpu_at_beat, handle.last_beat = cpu, now
            handle.lease_until = self._clock.boot() + self._config.engine.lease
            await self._writer.write(tasks.renew, handle.id, self._config.engine.lease)

    def _record_suspect(self, tx: Transaction, handle: WorkerHandle, silent: float) -> None:
        state = identity.state(handle.identity.pid)
        if processes.set_worker(tx, handle.id, "SUSPECT"):
            tx.event(
                "WORKER_SUSPECT",
                actor=ENGINE,
                worker_id=handle.id,
                level="warning",
                reason="silent",
                message=f"no heartbeat for {silent:.0f} s; process state {state}; nothing is taken from it yet",
                payload={
                    "silent_seconds": round(silent, 1),
                    "process_state": state,
                    "running": len(handle.running),
                },
                ours=True,
            )

    def _on_death(self, handle: WorkerHandle) -> None:
        asyncio.get_running_loop().remove_reader(handle.pidfd)
        task = asyncio.get_running_loop().create_task(self._after_death(handle))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def _after_death(self, handle: WorkerHandle) -> None:
        """Hear its last words, end what it left running, have its tasks taken over, start a new one."""
        if handle.link is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await handle.link_ended.wait()
        os.close(handle.pidfd)
        code = handle.process.wait()
        handle.ready = False
        held = await self._write(lambda tx: tasks.of_worker(tx, handle.id))
        task_ids = [row["id"] for row in held]
        left = await asyncio.to_thread(
            end_leftovers, self._config.db, handle.incarnation, task_ids, self._clock
        )
        for problem in left:
            log.error("worker %d: %s", handle.id, problem)
        started = journal.read(handle.journal)
        await self._write(self._bury, handle, code, held, started)
        crash_at("after_takeover")
        handle.journal.unlink(missing_ok=True)
        del self._workers[handle.id]
        if not self._workers:
            self._empty.set()
        self._on_change()
        if not self._stopping:
            await self._replace(handle)

    async def _write(self, unit: Callable[..., Any], *args: Any) -> Any:
        while True:
            try:
                return await self._writer.write(unit, *args)
            except StoreError as error:
                log.error("the end of a worker can't be written yet: %s", error)
                await self._clock.pause(0.5)

    def _bury(
        self, tx: Transaction, handle: WorkerHandle, code: int, held: list[dict[str, Any]], started: set[int]
    ) -> None:
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        orderly = code == 0 and not held
        if not processes.end_worker(tx, handle.id, "ENDED" if orderly else "LOST", how):
            return
        tx.event(
            "WORKER_ENDED" if orderly else "WORKER_LOST",
            actor=ENGINE,
            worker_id=handle.id,
            level="info" if orderly else "error",
            reason="ended" if orderly else "process_gone",
            message=f"pid {handle.identity.pid}: {how}; it held {len(held)} tasks",
            payload={"pid": handle.identity.pid, "exit_code": code, "tasks": [row["id"] for row in held]},
            ours=True,
        )
        stories = take_all(
            tx, held, f"worker {handle.id} {how}", started, self._policies, self._config.engine.max_losses
        )
        for story in stories:
            log.warning("%s", story)

    async def _replace(self, handle: WorkerHandle) -> None:
        quick = self._clock.monotonic() - handle.started < QUICK
        self._quick_deaths = self._quick_deaths + 1 if quick else 0
        await self._clock.pause(restart_delay(max(0, self._quick_deaths - 1)))
        if not self._stopping:
            await self._start_one()

    # ---- stopping ------------------------------------------------------------------------------------------------

    async def stop(self, grace: float) -> None:
        """Drain: ask every attempt to reach its next checkpoint, end what is left after `grace` seconds, see workers end."""
        self._stopping = True
        for handle in self._workers.values():
            for fence, task_id in handle.running.items():
                handle.send(Ask(task_id, fence, "drain", grace))
            handle.send(Farewell(now=False))
        if not await self._all_gone(grace + 1.0):
            for handle in list(self._workers.values()):
                log.warning("worker %d did not end in time and is killed", handle.id)
                identity.kill(handle.identity, signal.SIGKILL)
            await self._all_gone(None)
        if self._chores:
            await asyncio.gather(*self._chores, return_exceptions=True)

    def hurry(self) -> None:
        """No more time: end all attempts now."""
        for handle in self._workers.values():
            for fence, task_id in handle.running.items():
                handle.send(Ask(task_id, fence, "drain", 0.0))
            handle.send(Farewell(now=True))

    async def _all_gone(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
