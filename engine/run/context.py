"""`Context`: what a Python handler can see and say while it runs.

Owns the author's verbs and where a wish to stop is raised. Must not touch the database or decide how the attempt ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .. import NotDone, StopRequested
from ..errors import StaleLease
from ..rules import checkpoints
from ..rules.hosts import named_host
from ..rules.patterns import pattern
from .attempt_view import AttemptView
from .attempts import Attempt, gathered
from .handlers import Handler
from .held import Held
from .operations import ROLLING_BACK, Once, inside_operation
from .passwords import Passwords
from .request_log import RequestLog
from .resuming import Resumed
from .together import Together
from .undo import chosen, of_run

if TYPE_CHECKING:
    from .http_session import Http

EVENT_TYPE = pattern(r"[A-Z][A-Z0-9_]{0,63}")


class Context(AttemptView):
    """The attempt from inside. One for each attempt; never shared between them."""

    def __init__(self, attempt: Attempt, handler: Handler, write_log: Callable[[str], None]) -> None:
        super().__init__(attempt.run)
        self._attempt = attempt
        self._handler = handler
        self._write_log = write_log
        self._queued: list[asyncio.Future[None]] = []
        self._step = ""
        self._told: RequestLog | None = None
        self._http: Http | None = None
        self._hung_up = False

    @property
    def checkpoint(self) -> Mapping[str, Any]:
        """The latest checkpoint with what this attempt has saved since; read only."""
        return MappingProxyType(self._attempt.checkpoint)

    @property
    def saved(self) -> Any:
        """The checkpoint as the type that `@task(checkpoint=…)` names; None where nothing was saved yet."""
        data = self._attempt.checkpoint
        return self._handler.check_checkpoint(data) if data else None

    @property
    def http(self) -> Http:
        """HTTP through the route that this attempt holds: `async with ctx.http.get(url) as response: …`."""
        if self._http is None:
            from .http_session import Http  # most handlers never ask

            may_be_direct = self._handler.info.allow_direct or not self._handler.info.route
            self._http = Http(self._attempt, self._requests, direct=may_be_direct, closed=self._hung_up)
        return self._http

    @property
    def proxy(self) -> str:
        """The route as a proxy's URL, login included, for libraries that do their own HTTP; empty = none."""
        self._attempt.passage.tell = self._requests.passed
        return super().proxy

    @property
    def passwords(self) -> Passwords:
        """Where references to secrets are looked up."""
        return self._attempt.passage.passwords

    async def blocked(self, reason: str, host: str = "") -> None:
        """Say that a target refuses this route though its status didn't (a captcha); `host`: if empty, the one asked last."""
        if not (host or self._requests.host):
            raise ValueError("no request was made yet: name the host that refuses")
        self._requests.blocked(named_host(host) if host else self._requests.host, reason)

    def log(self, text: str) -> None:
        """Write a line to the attempt's log file (`taskdeck log`)."""
        self._write_log(text)

    async def save(self, **changes: Any) -> None:
        """Make a checkpoint: `changes` are a JSON merge patch (None removes a key), durable when it returns.

        Then raises `StopRequested` where the task shall pause or stop. `StaleLease`: another attempt owns the task;
        `InvalidPayload`: a value is no JSON or too large.
        """
        await self._save(changes)
        self.check()

    async def replace(self, checkpoint: Mapping[str, Any]) -> None:
        """As `save`, but with the whole checkpoint anew."""
        await self._save(dict(checkpoint), merge=False)
        self.check()

    def save_soon(self, **changes: Any) -> None:
        """As `save`, without waiting and without stopping: order is kept, and all is durable before the attempt ends."""
        self._queued = [one for one in self._queued if not _went_well(one)]
        self._queued.append(self._save(changes))

    def progress(self, done: float | None = None, total: float | None = None, note: str = "") -> None:
        """Show how far it is; as often as you like (four a second are sent, and the last one)."""
        self._attempt.report(done, total, note)

    def once(self, key: str, scope: str | None = None) -> Once:
        """An effect that happens at most once over crashes: `async with ctx.once(key) as op: if not op.done: …`.

        `key` is the same for the same effect in every attempt (no times, no random numbers). Its scope is the task with its
        retries and clones, unless one is named. An exception in the body leaves it in doubt, except `NotDone`.
        """
        if not key or len(key) > 500:
            raise ValueError("an operation key has 1 to 500 characters")
        verify = partial(self._handler.verify, self) if self._handler.verify else None
        return Once(self._attempt, key, scope or "", verify, self._handler.verify_after, self.check)

    def together(self) -> Together:
        """What is said in the block is written in one transaction at its end: `async with ctx.together():`.

        Checkpoints, operations done in it, progress and events; if the block raises, none of it, except how operations ended.
        """
        return Together(self._attempt, self.check)

    async def on_rollback(self, step: Callable[..., Any] | str, /, **arguments: Any) -> None:
        """Register an undo step, durable when it returns: call it before the effect that it undoes.

        `step` is a function that `@rollback` declares in the handler's module. Where the task is cancelled or fails for good,
        its steps run last-first, each once. Within `once` the step belongs to that operation: where that certainly did not
        happen there is nothing to undo, and once it is undone it may be done anew.
        """
        found = chosen(self._handler.steps, step, arguments)
        key, scope = inside_operation.get() or ROLLING_BACK
        await self._attempt.on_rollback(
            found.name, arguments, repeatable=found.settles_doubt, undoes=key, scope=scope
        )

    async def roll_back(self) -> Any:
        """Run the undo step that this attempt is for; nobody is asked to stop in its middle."""
        run = self._attempt.run
        step, arguments = of_run(self._handler.steps, run)
        if run.doubt is not None and not step.repeatable:
            await self._attempt.rest(self._handler.verify_after - run.doubt)
            self.check()
        inside = inside_operation.set(ROLLING_BACK)
        try:
            if run.doubt is not None and step.verify is not None:
                with suppress(NotDone):
                    return await step.verify(self, **arguments)
            return await step.function(self, **arguments)
        finally:
            inside_operation.reset(inside)

    async def step(self, name: str) -> None:
        """Say that a step begins; the one before has succeeded. Shown in the task's events."""
        self._end_step()
        self._step = name
        self._attempt.note("STEP_STARTED", name)

    def event(self, event_type: str, message: str = "", **payload: Any) -> None:
        """Add an event to the task's story; it changes nothing."""
        if not EVENT_TYPE.fullmatch(event_type):
            raise ValueError(f"bad event type {event_type!r}: use A-Z 0-9 _, at most 64")
        self._attempt.note(event_type, message, payload)

    def check(self) -> None:
        """Raise `StopRequested` where the task shall pause or stop; for places where there is nothing to save."""
        if self._attempt.stale:
            raise StaleLease("this attempt no longer owns its task", "another attempt took it over")
        if self._attempt.asked and not inside_operation.get() and gathered.get() is None:
            raise StopRequested(self._attempt.asked)

    async def begin(self, resumed: Resumed) -> None:
        """The handler is about to be entered: what it goes on with is durable as it sees it."""
        for fault in resumed.faults:
            self._attempt.note("NOTE", f"passed over: {fault}")
        self._attempt.checkpoint = resumed.data
        if not resumed.as_kept:
            await self._attempt.save(resumed.data, merge=False)

    async def hang_up(self) -> None:
        """The lease is lost, or the handler has ended: end what goes out by it, and tell of what was not told yet."""
        self._hung_up = True
        if self._http is not None:
            await self._http.close()
        await self._attempt.close_passage()
        if self._told is not None:
            self._told.flush()

    async def settle(self, *, succeeded: bool) -> None:
        """The handler has ended: flush what is queued. Raises what a queued checkpoint met."""
        if succeeded:
            self._end_step()
        self._attempt.end_progress()
        await self.hang_up()
        queued, self._queued = self._queued, []
        for result in await asyncio.gather(*queued, return_exceptions=True) if queued else ():
            if isinstance(result, BaseException):
                raise result

    def _save(self, changes: dict[str, Any], *, merge: bool = True) -> asyncio.Future[None]:
        whole = checkpoints.merge(self._attempt.checkpoint, changes) if merge else changes
        self._handler.check_checkpoint(whole)
        return self._attempt.save(changes, merge=merge)

    @property
    def _held(self) -> Held:
        return self._attempt.held

    @property
    def _requests(self) -> RequestLog:
        if self._told is None:
            self._told = RequestLog(self._attempt)
            self._attempt.passage.tell = self._told.passed
        return self._told

    def _end_step(self) -> None:
        if self._step:
            self._attempt.note("STEP_SUCCEEDED", self._step)
        self._step = ""


def _went_well(future: asyncio.Future[None]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
