"""The warden: starts workers, sees them die or fall silent, and has what they held taken over.

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
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ..clock import Clock
from ..config import Config
from ..crash import crash_at, suppressed
from ..edge import identity
from ..errors import StoreError, TaskdeckError, Unavailable
from ..rules.failures import Failure, FailureClass
from ..rules.liveness import (
    Limits,
    Signs,
    Verdict,
    died_at_start,
    ended_in_order,
    gap,
    judge,
    restart_delay,
    worn_out,
)
from ..store import operations, processes, tasks
from ..store.tasks import ENGINE
from ..store.transaction import Transaction
from ..store.writer import Writer
from . import births, recovery, starting, watch_records, withstanding
from .asks import OUTCOMES
from .births import Ahead
from .foundlings import Foundlings
from .leftovers import end_leftovers
from .losing import take_all
from .messages import Farewell, Outcome
from .outcomes import Outcomes
from .policies import Policies
from .reception import Reception
from .telling import counted, handlers_named
from .workforce import WorkerHandle, Workforce

log = logging.getLogger("taskdeck.warden")

LAST_WORDS_TAKE = 0.5
"""Seconds in which the link of a dead worker is at its end, unless a child of its holds it open."""
BURIALS_TAKE = 10.0
"""Seconds after which a burial that has begun is left to the next engine's recovery."""


class Warden:
    """Owns the worker processes of one engine. Everything here runs on the engine's loop."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        writer: Writer,
        policies: Policies,
        workforce: Workforce,
        reception: Reception,
        *,
        engine_id: int,
        socket_path: Path,
        code_version: str,
        outcomes: Outcomes,
        on_change: Callable[[], None],
        foundlings: Foundlings | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self.config = config
        self._ahead = ahead or Ahead(config)
        self._clock = clock
        self._writer = writer
        self._policies = policies
        self._workforce = workforce
        self._reception = reception
        self._engine_id = engine_id
        self.socket_path = socket_path
        """Where the workers that it starts find the engine."""
        self._code_version = code_version
        self._outcomes = outcomes
        self._on_change = on_change
        self._foundlings = foundlings or Foundlings()
        self._stop_asked = asyncio.Event()
        self._trouble = False
        self._quick_deaths = 0
        self._stopping = False
        self._last_tick: float | None = None
        self._chores: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        workforce.on_full = lambda handle: self._begin_chore(self._recycle(handle))

    # ---- starting ------------------------------------------------------------------------------------------------

    def adopt(self, survivors: list[dict[str, Any]]) -> None:
        """Take over workers (their rows) that outlived their engine: they are waited for, and watched as all others are."""
        handlers = starting.handlers_fingerprint(self.config) if survivors else ""
        for row in survivors:
            who = identity.named_by(row)
            now = self._clock.monotonic()
            pidfd = identity.open_pidfd(who)
            handle = WorkerHandle(
                row["id"], row["incarnation"], who, None, -1 if pidfd is None else pidfd,
                starting.journal_of(self.config, row), self.config.engine.slots, now, now,
            )  # fmt: skip
            handle.away = True
            handle.said_bye = row["state"] == "STARTING"  # it never came up: it goes by itself
            handle.begun_tasks, handle.recycle_after = row["tasks"], self.config.engine.recycle_tasks
            handle.cpu_at_beat = identity.cpu_seconds(who.pid) or 0.0
            handle.lease_until = self._clock.boot() + self.config.engine.lease
            if row["state"] == "DRAINING":
                handle.retiring = True
            elif (row["code_version"], row["handlers"]) != (self._code_version, handlers):
                handle.outdated = (
                    f"it runs other code ({row['code_version']} {row['handlers']}) than this engine"
                )
            self._workforce.add(handle)
            self._reception.expect(handle.incarnation).set_result(handle)
            if pidfd is None:
                self._begin_chore(self._after_death(handle))
            else:
                asyncio.get_running_loop().add_reader(pidfd, self._on_death, handle)

    async def start(self) -> None:
        """Start as many workers as the configuration asks for, beside those that are there."""
        for handle in self._workforce:
            if handle.outdated and not handle.retiring:
                await self._retire(handle, handle.outdated)
        async with self._starting:
            handlers = starting.handlers_fingerprint(self.config)
            while self._workforce.lasting < self.config.engine.workers and not self._stopping:
                await self._start_one(handlers)
        self._ahead.end()

    async def _start_one(self, handlers: str) -> None:
        waiting = self._ahead.take()
        incarnation = waiting.incarnation if waiting else secrets.token_hex(8)
        expected = self._reception.expect(incarnation)
        folder = self.config.log_directory / "workers"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        journal_path = folder / f"{incarnation}.starts"
        process = births.give_birth(
            self.config, self.socket_path, incarnation, journal_path, waiting.process if waiting else None
        )
        who = identity.of(process.pid)
        pidfd = os.pidfd_open(process.pid)
        assert who is not None  # not reaped yet, so it can't be gone
        worker_id = await self._writer.write(
            starting.record, self._engine_id, incarnation, who, self._code_version, handlers, journal_path
        )
        crash_at("after_worker_recorded")
        now = self._clock.monotonic()
        handle = WorkerHandle(
            worker_id, incarnation, who, process, pidfd, journal_path, self.config.engine.slots, now, now
        )
        handle.lease_until = self._clock.boot() + self.config.engine.lease
        handle.recycle_after = self.config.engine.recycle_tasks
        self._workforce.add(handle)
        asyncio.get_running_loop().add_reader(pidfd, self._on_death, handle)
        expected.set_result(handle)

    # ---- watching ------------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Judge the silent. A gap in the engine's own ticks gives everyone a fresh lease instead of a verdict."""
        now, every = self._clock.monotonic(), min(5.0, self.config.engine.heartbeat / 3)
        boot = self._clock.boot()  # a suspended host is away too, and only this clock counts that
        away = self._last_tick is not None and gap(boot - self._last_tick, every)
        self._last_tick = boot
        if self._writer.failing:
            self._trouble = True  # beats that can't be written are no silence
        elif self._trouble:
            self._trouble, away = False, True
        for handle in self._workforce:
            if away or self._writer.failing:
                handle.last_beat = now
                handle.lease_until = self._clock.boot() + self.config.engine.lease
            if away:
                await self._writer.write(tasks.renew, handle.id, self.config.engine.lease)
            elif not self._writer.failing and not handle.doomed:
                await self._note_away(handle)
                await self._judge(handle, now)
                await self._force(handle, now)
                await self._recycle(handle)

    async def _note_away(self, handle: WorkerHandle) -> None:
        """Its link broke and it has not come back since, though it lives: that is shown, not acted on."""
        if handle.link is not None and handle.link.closed and handle.link_ended.is_set() and not handle.away:
            handle.away = True
            await self._writer.write(watch_records.away, handle)

    async def _recycle(self, handle: WorkerHandle) -> None:
        """A worker that has done enough is replaced: it ends when it runs nothing more."""
        engine = self.config.engine
        handle.recycle_after = engine.recycle_tasks
        if not handle.takes_more or self._stopping:
            return
        limits = Limits(engine.recycle_tasks, engine.recycle_memory << 20, engine.recycle_age)
        age = self._clock.monotonic() - handle.started
        if why := worn_out(limits, tasks=handle.begun_tasks, memory=handle.rss, age=age):
            await self._retire(handle, why)

    async def _retire(self, handle: WorkerHandle, why: str) -> None:
        """It gets nothing new and ends when its attempts have; another takes its place at once."""
        handle.retiring = True
        await self._writer.write(watch_records.retired, handle, why)
        handle.send(Farewell(now=False))
        self._begin_chore(self._fill_places())

    async def _fill_places(self) -> None:
        while not self._stopping:
            try:
                return await self.start()
            except (OSError, TaskdeckError) as error:
                log.error("a worker can't be started: %s", error)
                await self._rest(restart_delay(5))

    async def _force(self, handle: WorkerHandle, now: float) -> None:
        """Attempts that are long past their limit, and that their worker has not ended: the engine ends them.

        A handler that swallows its cancellation, or blocks the loop, can only be ended with its worker. What becomes of
        these tasks is written first, so that the end of the worker charges nobody else.
        """
        late = {fence: what for fence, (until, what) in handle.deadlines.items() if now >= until}
        if not late:
            return
        forced = await self._write(self._end_late, handle, late)
        handle.forced_by += forced
        handle.forget(list(late))
        if forced:
            log.error(
                "worker %d is ended: %s would not end", handle.id, ", ".join(f"#{each}" for each in forced)
            )
            self._doom(handle)

    def _end_late(self, tx: Transaction, handle: WorkerHandle, late: dict[int, str]) -> list[int]:
        forced = []
        for task in tasks.of_worker(tx, handle.id):
            what = late.get(task["fence"])
            if what is None:
                continue
            failure = Failure(
                FailureClass.RETRYABLE, "timeout", "it did not end at its timeout", "engine's limit"
            )
            outcome = Outcome(
                task["id"], task["fence"], "failed", failure=msgspec.json.encode(failure).decode()
            )
            if what != "timeout":
                outcome = Outcome(task["id"], task["fence"], OUTCOMES[what])
            operations.doubt_open_ones(tx, task["fence"], "would_not_end")
            self._outcomes.apply(tx, task, outcome)
            forced.append(task["id"])
        if forced:
            tx.event(
                "WORKER_FORCED",
                actor=ENGINE,
                worker_id=handle.id,
                level="error",
                reason="would_not_end",
                message=f"ended by the engine: {', '.join(f'#{each}' for each in forced)} would not end",
                payload={"tasks": forced, "others": len(handle.running) - len(forced)},
                ours=True,
            )
        return forced

    def _doom(self, handle: WorkerHandle) -> None:
        """End a worker for good; its death is seen by its pidfd."""
        handle.doomed = True
        if suppressed("end_worker"):  # as if its death were certain: what it then says must change nothing
            self._begin_chore(self._after_death(handle))
            return
        identity.kill(handle.identity, signal.SIGKILL)

    async def _judge(self, handle: WorkerHandle, now: float) -> None:
        engine = self.config.engine
        if handle.process is not None and not handle.types and now - handle.started > engine.start_timeout:
            log.error(
                "worker %d did not come up within %.0f s: %s",
                handle.id,
                engine.start_timeout,
                f"it was still loading {handlers_named(self.config.taskdeck.handlers)} (see: taskdeck config check)"
                if handle.link is not None
                else "it never spoke",
            )
            self._doom(handle)
            return
        if now >= handle.end_by:
            log.error("worker %d of another protocol did not end in time; it is ended", handle.id)
            self._doom(handle)
            return
        silent = now - handle.last_beat
        cpu = identity.cpu_seconds(handle.identity.pid) or 0.0
        signs = Signs(silent, handle.lease_until - self._clock.boot(), cpu, handle.cpu_at_beat)
        verdict = judge(signs, engine.suspect_after)
        if verdict is Verdict.SUSPECT and not handle.suspect:
            handle.suspect = True
            await self._writer.write(watch_records.suspect, handle, signs)
        elif verdict is Verdict.LOST:
            log.warning(
                "worker %d: its lease ran out after %.0f s of silence; it is ended", handle.id, silent
            )
            self._doom(handle)
        elif verdict is Verdict.ALIVE and cpu > handle.cpu_at_beat and silent >= engine.suspect_after:
            handle.cpu_at_beat, handle.last_beat = cpu, now
            handle.lease_until = self._clock.boot() + engine.lease
            await self._writer.write(watch_records.busy, handle, engine.lease)
            handle.suspect = False

    def _on_death(self, handle: WorkerHandle) -> None:
        asyncio.get_running_loop().remove_reader(handle.pidfd)
        self._begin_chore(self._after_death(handle))

    def _begin_chore(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(chore)
        self._chores.add(task)
        task.add_done_callback(self._chore_done)

    def _chore_done(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("after the death of a worker: %s: %s", type(error).__name__, error, exc_info=error)

    async def _after_death(self, handle: WorkerHandle) -> None:
        """Hear its last words, end what it left running, have its tasks taken over, start a new one."""
        if handle.buried:
            return self._let_go(handle)  # its end was suppressed, and has come now
        handle.ready, handle.doomed = False, True
        try:
            began = await self._settle(handle)
        except Exception as error:  # its tasks must not be held for ever by somebody who is dead
            log.error("worker %d can't be settled", handle.id, exc_info=error)
            began, handle.buried = True, True
            await self._write(recovery.leave, handle.id, handle.identity.pid, error)
        finally:
            if not identity.alive(handle.identity):
                self._let_go(handle)
            self._workforce.remove(handle)
        self._on_change()
        if not self._stopping:
            await self._replace(handle, began=began)

    async def _settle(self, handle: WorkerHandle) -> bool:
        """Write its last words, end what it left running, take over what it held. Returns whether it had begun any."""
        await self._hear_last_words(handle)
        held = await self._write(lambda tx: tasks.of_worker(tx, handle.id))
        task_ids = [row["id"] for row in held] + handle.forced_by
        incarnation = "" if suppressed("end_worker") else handle.incarnation
        orphans = partial(self._foundlings.left_by, handle.identity)
        left = await asyncio.to_thread(
            end_leftovers, self.config.db, incarnation, task_ids, self._clock, handle.journal, orphans
        )
        for problem in left:
            log.error("worker %d: %s", handle.id, problem)
        await self._write(withstanding.record, left, handle.id)
        await self._write(withstanding.record_doubtful, self._foundlings.doubtful(handle.identity), handle.id)
        self._foundlings.reap()
        await self._hear_last_words(handle)  # a child that it forked may have held the link open
        replayed = await recovery.replay(
            self._write, self._reception.recorder, handle.id, handle.journal.with_suffix(".spool")
        )
        handle.said_bye |= replayed.said_bye
        held = await self._write(lambda tx: tasks.of_worker(tx, handle.id))
        started = recovery.begun(handle.journal, handle.identity.boot_id, held)
        handle.buried = True
        await self._write(self._bury, handle, self._exit_code(handle), held, started, replayed.unreadable)
        crash_at("after_takeover")
        recovery.forget_files(handle.journal, unreadable=bool(replayed.unreadable))
        return bool(started)

    async def _hear_last_words(self, handle: WorkerHandle) -> None:
        """What is still in its link is written before anything is taken from it."""
        if handle.link is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_TAKE):
                    await handle.link_ended.wait()

    def _exit_code(self, handle: WorkerHandle) -> int | None:
        if handle.process is None or identity.alive(handle.identity):
            return None
        return handle.process.wait()

    def _let_go(self, handle: WorkerHandle) -> None:
        """It is dead beyond doubt."""
        self._reception.forget(handle.incarnation)
        if handle.pidfd >= 0:
            asyncio.get_running_loop().remove_reader(handle.pidfd)
            os.close(handle.pidfd)
            handle.pidfd = -1
        if handle.process is not None:
            handle.process.wait()

    async def _write(self, unit: Callable[..., Any], *args: Any) -> Any:
        while True:
            try:
                return await self._writer.write(unit, *args)
            except (StoreError, Unavailable) as error:
                log.error("the end of a worker can't be written yet: %s", error)
                await self._clock.pause(0.5)

    def _bury(
        self,
        tx: Transaction,
        handle: WorkerHandle,
        code: int | None,
        held: list[dict[str, Any]],
        started: set[int],
        unreadable: str,
    ) -> None:
        how = _how_it_ended(handle, code)
        is_wanted = not (handle.retiring or handle.outdated or self._stopping)
        orderly = not held and ended_in_order(
            code, came_up=bool(handle.types), said_bye=handle.said_bye, is_wanted=is_wanted
        )
        if not processes.end_worker(tx, handle.id, "ENDED" if orderly else "LOST", how):
            return
        tx.event(
            "WORKER_ENDED" if orderly else "WORKER_LOST",
            actor=ENGINE,
            worker_id=handle.id,
            level="info" if orderly else "error",
            reason="ended" if orderly else "process_gone",
            message=f"pid {handle.identity.pid}: {how}; it held {counted(len(held), 'task', 'tasks')}",
            payload={"pid": handle.identity.pid, "exit_code": code, "tasks": [row["id"] for row in held]},
            ours=True,
        )
        if not orderly:
            lost = counted(len(held), "task", "tasks")
            log.error("worker %d (pid %d): %s; it held %s", handle.id, handle.identity.pid, how, lost)
        stories = take_all(
            tx,
            held,
            f"worker {handle.id} {how}",
            started,
            self._policies,
            self.config.engine.max_losses,
            charged=not handle.forced_by,
            suspected=not self._stopping,
            doubt=recovery.tell_unreadable(tx, handle.id, handle.journal, unreadable) if unreadable else "",
        )
        for story in stories:
            log.warning("%s", story)

    async def _replace(self, handle: WorkerHandle, *, began: bool) -> None:
        lived = self._clock.monotonic() - handle.started
        at_start = handle.process is not None and not handle.retiring and died_at_start(lived, began)
        self._quick_deaths = self._quick_deaths + 1 if at_start else 0
        await self._rest(restart_delay(max(0, self._quick_deaths - 1)))
        await self._fill_places()

    async def _rest(self, seconds: float) -> None:
        """Wait, unless the engine is to stop meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop_asked.wait()

    async def give_back(self, task_ids: list[int], worker_id: int) -> None:
        """These were claimed for a worker that went away before they could be sent: they are free (never started)."""

        def unit(tx: Transaction) -> None:
            held = [row for row in tasks.of_worker(tx, worker_id) if row["id"] in task_ids]
            cause = f"worker {worker_id} went away"
            take_all(tx, held, cause, set(), self._policies, self.config.engine.max_losses)

        await self._write(unit)

    # ---- stopping ------------------------------------------------------------------------------------------------

    async def stop(self, grace: float) -> None:
        """Drain: attempts have `grace` seconds to reach their next checkpoint; then what is left is ended, workers too."""
        self._stopping = True
        self._stop_asked.set()
        self._workforce.drain(grace)
        if not await self._workforce.all_gone(grace + 1.0):
            for handle in self._workforce:
                log.warning("worker %d did not end in time and is killed", handle.id)
                identity.kill(handle.identity, signal.SIGKILL)
            await self._workforce.all_gone(None)
        while self._chores:  # a worker may have been on its way up when the stop came
            await asyncio.gather(*self._chores, return_exceptions=True)
            self._workforce.drain(0.0, now=True)
            if not await self._workforce.all_gone(1.0):
                for handle in self._workforce:
                    self._doom(handle)

    async def hand_over(self) -> None:
        """Leave the workers to the next engine: nobody is started, judged or replaced any more; who died is buried first."""
        self._stopping = True
        self._stop_asked.set()
        async with self._starting:  # who is on the way up is on record by then
            for handle in self._workforce:
                if handle.pidfd >= 0:
                    asyncio.get_running_loop().remove_reader(handle.pidfd)
        if self._chores:
            await asyncio.wait(self._chores, timeout=BURIALS_TAKE)

    def hurry(self) -> None:
        """No more time: end all attempts now."""
        self._workforce.drain(0.0, now=True)


def _how_it_ended(handle: WorkerHandle, code: int | None) -> str:
    if code is None:
        return "its end was suppressed" if identity.alive(handle.identity) else "its process is gone"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
