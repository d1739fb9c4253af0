"""Runs attempts, Python handlers and commands alike, as many as the engine sends. One outcome for each `Run`, always.

Owns which attempts live in this worker. Must not decide what runs, or when: the engine does.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from ..clock import Clock
from .attempts import Attempt
from .calls import HandlerCall
from .command import Command
from .endings import failed, failure_of, never_started
from .gateway import Gateway
from .handlers import SHELL, Handler, Registry
from .journal import StartJournal
from .messages import Ask, Outcome, Run, Validate, Validated, Welcome
from .strays import Commands
from .sync_call import SyncCall
from .uplink import Uplink
from .validation import validate

MANY = 8
"""While more attempts than this run here, the ends of processes are told some together: no slot stays empty for that."""


class Call(Protocol):
    """One attempt on its way."""

    attempt: Attempt
    ends_together: bool
    """May its end wait, where many run, to be told with others?"""

    def ask(self, what: str, grace: float) -> None:
        """Pass a wish of the engine on."""
        ...

    async def run(self) -> Outcome:
        """The whole attempt."""
        ...


class Executor:
    """All attempts of one worker. Loop thread only, except `running`."""

    def __init__(
        self,
        registry: Registry,
        uplink: Uplink,
        journal: StartJournal,
        commands: Commands,
        clock: Clock,
        settings: Welcome,
        gateway: Gateway,
    ) -> None:
        self.registry = registry
        self.uplink = uplink
        self.journal = journal
        self.commands = commands
        self.clock = clock
        self.settings = settings
        self.gateway = gateway
        self._loop = asyncio.get_running_loop()
        self.closing = False
        self.idle = asyncio.Event()
        """Set when `close` was called and the last attempt has ended."""
        self._calls: dict[int, Call] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        commands.families.others_run = self._has_handlers

    def _has_handlers(self) -> bool:
        """Any thread may ask."""
        return any(isinstance(call, HandlerCall) for call in list(self._calls.values()))

    def running(self) -> list[int]:
        """The fences of live attempts; any thread may ask."""
        return list(self._calls)

    def start(self, run: Run) -> None:
        """Begin an attempt; its outcome follows whatever happens."""
        handler = self.registry.get(run.type)
        if self.closing or run.fence in self._calls or handler is None:
            self.uplink.post(never_started(run))
            return
        try:
            call = self._call(run, handler)
        except Exception as error:  # e.g. a checkpoint that is no JSON: this attempt's trouble alone
            self.uplink.post(failed(run, failure_of(error, self.clock.utc())))
            return
        self._calls[run.fence] = call
        self._tasks[run.fence] = self._loop.create_task(self._see_through(run, call))

    def ask(self, ask: Ask) -> None:
        """Pass a wish on; one for an attempt that has just ended says nothing new."""
        call = self._calls.get(ask.fence)
        if call is not None:
            call.ask(ask.what, ask.grace)

    def disown_others(self, fences: list[int]) -> None:
        """The engine that is there now holds only these attempts for ours: all others end, and nothing of them counts."""
        ours = set(fences)
        for fence, call in list(self._calls.items()):
            if fence not in ours:
                call.attempt.disown()

    def validate(self, question: Validate) -> None:
        """Answer whether a payload fits a type."""
        handler = self.registry.get(question.type)
        problem = validate(handler, question.payload) if handler else f'no type "{question.type}" here'
        self.uplink.post(Validated(question.req, problem))

    def close(self, *, now: bool) -> None:
        """Take no more; `idle` is set when the last attempt has ended. With `now` they are drained."""
        self.closing = True
        if now:
            for call in list(self._calls.values()):
                call.ask("drain", self.settings.cancel_grace)
        self._note_idle()

    def _call(self, run: Run, handler: Handler) -> Call:
        attempt = Attempt(run, self.uplink, self.clock, self.gateway, handler.info.checkpoint_version)
        if run.type == SHELL:
            return Command(attempt, self.settings, self.journal, self.commands)
        if handler.info.sync:
            return SyncCall(attempt, handler, self.settings, self.journal, self.commands)
        return HandlerCall(attempt, handler, self.settings, self.journal, self._loop)

    async def _see_through(self, run: Run, call: Call) -> None:
        try:
            outcome = await call.run()
        except BaseException as error:  # the last border: an outcome even of what went wrong in here
            outcome = failed(run, failure_of(error, self.clock.utc()))
        self.uplink.post(outcome, patient=len(self._calls) > MANY and call.ends_together)
        del self._calls[run.fence], self._tasks[run.fence]
        if self.closing:
            self._note_idle()

    def _note_idle(self) -> None:
        if not self._calls:
            self.idle.set()
