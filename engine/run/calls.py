"""One attempt of a Python handler: call it, bound it, stop it, and say how it ended.

Whatever the handler does, exactly one outcome follows. Must not know of other attempts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .. import StopRequested
from ..clock import Timer
from ..crash import crash_at
from ..rules import payloads
from .attempts import Attempt, no_one
from .context import Context
from .endings import InDoubt, failed, in_doubt, timed_out, told
from .handlers import Handler
from .journal import StartJournal
from .messages import Outcome, Started, Welcome
from .python_logs import PythonLog
from .resuming import resume

CANCEL_EVERY = 1.0
"""Seconds between two cancellations of a handler that swallowed one."""


class HandlerCall:
    """Runs `handler` for `attempt`; `ask` reaches it meanwhile."""

    ends_together = False

    def __init__(
        self,
        attempt: Attempt,
        handler: Handler,
        settings: Welcome,
        journal: StartJournal,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.attempt = attempt
        self._loop = loop
        self._handler = handler
        self._settings = settings
        self._journal = journal
        self._log = PythonLog(attempt, settings)
        self._context = Context(attempt, handler, self._log.write)
        attempt.on_stale = self._note_stale
        self._timers: list[Timer] = []
        self._task: asyncio.Task[Any] | None = None
        """The task to cancel: only while the handler itself runs."""

    def ask(self, what: str, grace: float) -> None:
        """`pause`: at the next checkpoint; all others too, but by force after `grace` seconds (a kill has none)."""
        if what == "resume":
            self.attempt.withdraw("pause")
        elif (self.attempt.ask(what) or what in (self.attempt.asked, "drain")) and what != "pause":
            self._after(grace, self._force)

    def _note_stale(self) -> None:
        """Another attempt owns the task, and its route may be another's: nothing goes out any more."""
        self._timers.append(asyncio.ensure_future(self._context.hang_up()))
        self._after(self._settings.cancel_grace, self._force)

    async def run(self) -> Outcome:
        """The whole attempt; never raises what the handler raised."""
        run = self.attempt.run
        crash_at("before_start_journal")
        self._journal.start(run.fence)
        crash_at("after_start_journal")
        self.attempt.uplink.post(Started(run.task_id, run.fence))
        if run.timeout:
            self._after(run.timeout, self._time_out)
        try:
            result, error = await self._call()
            try:
                await self._context.settle(succeeded=error is None)
            except BaseException as late:
                error = error or late
            self.attempt.doubt_all()
            return self._outcome(result, error)
        finally:
            for timer in self._timers:
                timer.cancel()
            self._timers.clear()  # they and the attempt refer to this, and would keep it
            self.attempt.on_stale = no_one
            self._log.close()

    async def _call(self) -> tuple[str, BaseException | None]:
        """The handler's result as JSON text, or what it raised."""
        handler, run = self._handler, self.attempt.run
        assert handler.function is not None
        try:
            if run.checkpoint_seq:  # else it goes on with what it has
                await self._context.begin(resume(run, handler))
            arguments = handler.arguments(run.payload) if not run.step else ()
            self._task = asyncio.current_task(self._loop)
            if run.step:
                result = await self._context.roll_back()
            else:
                result = await handler.function(self._context, *arguments)
            self._task = None
            return ("" if result is None else payloads.encode(result)), None
        except BaseException as error:  # the executor's border: whatever is raised becomes an outcome
            return "", error
        finally:
            self._task = None

    def _outcome(self, result: str, error: BaseException | None) -> Outcome:
        """Work that is done is never hidden; a cancel beats a failure; a stop beats what it caused."""
        attempt, run = self.attempt, self.attempt.run
        if attempt.stale:  # refused by its fence whatever it says, but the worker's slot is accounted for
            return Outcome(run.task_id, run.fence, "cancelled")
        if error is None:
            return Outcome(run.task_id, run.fence, "succeeded", result=result, tail=self._log.tail())
        stopped = isinstance(error, asyncio.CancelledError) or _holds(error, StopRequested)
        if attempt.cancelled or (attempt.asked and stopped):
            return Outcome(run.task_id, run.fence, attempt.outcome_asked, tail=self._log.tail())
        if attempt.timed_out:
            return failed(run, timed_out(run.timeout or 0.0), tail=self._log.tail())
        if isinstance(error, InDoubt):
            return in_doubt(run, str(error), tail=self._log.tail())
        self._log.write(told(error))
        return failed(run, attempt.held.failure(error, attempt.clock.utc()), tail=self._log.tail())

    def _after(self, seconds: float, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        def begin() -> None:
            self._timers.append(asyncio.ensure_future(act()))

        self._timers.append(self.attempt.clock.call_after(seconds, begin))

    async def _time_out(self) -> None:
        self.attempt.timed_out = True
        await self._force()

    async def _force(self) -> None:
        """Cancel it, again and again; who swallows that is named, and left to the engine's force."""
        for count in range(1, 1_000_000):
            if self._task is None:
                return
            self._task.cancel()
            await self.attempt.clock.pause(CANCEL_EVERY)
            if count == 1 and self._task is not None:
                self.attempt.note("HANDLER_WONT_STOP", "the handler goes on after being cancelled")


def _holds(error: BaseException, kind: type[BaseException]) -> bool:
    """Is it of this kind, or a group (of a task group) that holds one?"""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(kind) is not None
    return isinstance(error, kind)
