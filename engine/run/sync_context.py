"""`SyncContext`: what a sync handler can see and say. The verbs of `Context`, each waiting until it is done.

Runs in the handler's own process; all it does goes through the worker. Must not decide how the attempt ends.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from .. import NotDone, StopRequested
from ..clock import Clock
from ..errors import TaskdeckError
from ..rules import checkpoints, payloads
from ..rules.hosts import named_host
from ..rules.patterns import pattern
from .attempt_messages import Run
from .attempt_view import AttemptView
from .endings import InDoubt, log_line
from .handlers import Handler
from .held import Held
from .resuming import Resumed
from .sync_link import Stops, WorkerLink
from .undo import chosen, of_run

if TYPE_CHECKING:
    from .sync_http import SyncHttp

EVENT_TYPE = pattern(r"[A-Z][A-Z0-9_]{0,63}")
PROGRESS_EVERY = 0.25
"""Seconds between two progress lines."""
_inside: ContextVar[tuple[str, str] | None] = ContextVar("inside", default=None)
"""Key and scope of the operation whose body this is, in this thread."""
_gathered: ContextVar[list[dict[str, Any]] | None] = ContextVar("gathered", default=None)
"""What waits to be written together."""


class SyncContext(AttemptView):
    """The attempt from inside. A cancel raises `StopRequested` wherever it arrives, but not within a verb or a `once`."""

    def __init__(
        self, run: Run, held: Held, handler: Handler, link: WorkerLink, stops: Stops, clock: Clock
    ) -> None:
        super().__init__(run)
        self._holds = held
        self._handler = handler
        self._link = link
        self._stops = stops
        self._clock = clock
        self._saved: dict[str, Any] = {}
        self._progress = _Progress(link, clock)
        self._step = ""
        self._http: SyncHttp | None = None

    @property
    def _held(self) -> Held:
        return self._holds

    @property
    def checkpoint(self) -> Mapping[str, Any]:
        """The latest checkpoint with what this attempt has saved since; read only."""
        return MappingProxyType(self._saved)

    @property
    def saved(self) -> Any:
        """The checkpoint as the type that `@task(checkpoint=…)` names; None where nothing was saved yet."""
        return self._handler.check_checkpoint(self._saved) if self._saved else None

    def log(self, text: str) -> None:
        """Write a line to the attempt's log file (`taskdeck log`); what is printed lands there too."""
        sys.stdout.write(log_line(self._held.redactor.text(text), self._clock.utc()))
        sys.stdout.flush()

    def save(self, **changes: Any) -> None:
        """Make a checkpoint: `changes` are a JSON merge patch (None removes a key), durable when it returns.

        Then raises `StopRequested` where the task shall stop. `StaleLease`: another attempt owns the task;
        `InvalidPayload`: a value is no JSON or too large.
        """
        self._save(changes, merge=True)

    def replace(self, checkpoint: Mapping[str, Any]) -> None:
        """As `save`, but with the whole checkpoint anew."""
        self._save(dict(checkpoint), merge=False)

    def save_soon(self, **changes: Any) -> None:
        """As `save`: only async handlers need not wait for it."""
        self._save(changes, merge=True)

    def progress(self, done: float | None = None, total: float | None = None, note: str = "") -> None:
        """Show how far it is; as often as you like (four a second are sent, and the last one)."""
        if (parts := _gathered.get()) is not None:
            parts.append({"figures": [done, total], "note": note[:200]})
        else:
            self._progress.report(done, total, note)

    def once(self, key: str, scope: str | None = None) -> SyncOnce:
        """An effect that happens at most once over crashes: `with ctx.once(key) as op: if not op.done: …`.

        More about it at `Context.once`.
        """
        if not key or len(key) > 500:
            raise ValueError("an operation key has 1 to 500 characters")
        return SyncOnce(self, key, scope or "", self._link, self._stops)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is said in the block is written in one transaction at its end: `with ctx.together():`.

        More about it at `Context.together`.
        """
        if _gathered.get() is not None:
            raise RuntimeError("`together` stands within another one already")
        before, parts = self._saved, []
        with self._stops.held_off():
            token = _gathered.set(parts)
            try:
                yield
                _gathered.set(None)
                self._link.ask(together=parts)
            except BaseException:
                self._saved = before
                _gathered.set(None)
                self._settle_alone(parts)
                raise
            finally:
                _gathered.reset(token)
        self._stops.check()

    def _settle_alone(self, parts: list[dict[str, Any]]) -> None:
        """Only how operations ended is recorded, since that has happened outside; once more does no harm."""
        for part in parts:
            if "settle" in part and self._link.is_ours:
                self._link.ask(**part)

    def say(self, **said: Any) -> None:
        """Say it, at once or together with what else is said in the block."""
        if (parts := _gathered.get()) is not None:
            parts.append(said)
        else:
            self._link.ask(**said)

    def on_rollback(self, step: Callable[..., Any] | str, /, **arguments: Any) -> None:
        """Register an undo step, durable when it returns: call it before the effect that it undoes.

        More about it at `Context.on_rollback`.
        """
        found = chosen(self._handler.steps, step, arguments)
        key, scope = _inside.get() or ("", "")
        text = payloads.encode(arguments)
        self._link.ask(
            on_rollback=found.name, arguments=text, repeatable=found.settles_doubt, undoes=key, scope=scope
        )

    def roll_back(self) -> Any:
        """Run the undo step that this attempt is for; nobody is stopped in its middle."""
        run = self._run
        step, arguments = of_run(self._handler.steps, run)
        if run.doubt is not None and not step.repeatable:
            with self._stops.let_in():
                self._clock.sleep(max(0.0, self._handler.verify_after - run.doubt))
        if run.doubt is not None and step.verify is not None:
            with suppress(NotDone):
                return step.verify(self, **arguments)
        return step.function(self, **arguments)

    def step(self, name: str) -> None:
        """Say that a step begins; the one before has succeeded. Shown in the task's events."""
        self._end_step()
        self._step = name
        self.event("STEP_STARTED", name)

    def event(self, event_type: str, message: str = "", **payload: Any) -> None:
        """Add an event to the task's story; it changes nothing."""
        if not EVENT_TYPE.fullmatch(event_type):
            raise ValueError(f"bad event type {event_type!r}: use A-Z 0-9 _, at most 64")
        payloads.encode(payload)
        self.say(event=event_type, message=message, payload=payload)

    @property
    def http(self) -> SyncHttp:
        """HTTP through the route that this attempt holds: `ctx.http.get(url).json()`."""
        if self._http is None:
            from .sync_http import SyncHttp  # most handlers do without, and start faster

            info = self._handler.info
            direct = info.allow_direct or not info.route
            self._http = SyncHttp(self._held, self._clock, self._tell, direct=direct)
        return self._http

    def blocked(self, reason: str, host: str = "") -> None:
        """Say that a target refuses this route though its status didn't (a captcha); `host`: if empty, the one asked last."""
        last = self._http.host if self._http else ""
        if not (host or last):
            raise ValueError("no request was made by ctx.http yet: name the host that refuses")
        self._link.ask(blocked=reason, host=named_host(host or last))

    def _tell(self, **request: Any) -> None:
        if self._link.is_ours:
            self._link.ask(**request)

    def check(self) -> None:
        """Raise `StopRequested` where the task shall pause or stop; for places where there is nothing to save."""
        self._link.ask(check=True)

    def begin(self, resumed: Resumed) -> None:
        """The handler is about to be entered: what it goes on with is durable as it sees it."""
        for fault in resumed.faults:
            self.event("NOTE", f"passed over: {fault}")
        self._saved = resumed.data
        if not resumed.as_kept:
            self._save(resumed.data, merge=False)

    def settle(self, *, succeeded: bool) -> None:
        """The handler has ended: say what wasn't said yet; of a forked child nothing is said."""
        if not self._link.is_ours:
            return
        if self._http is not None:
            self._http.close()
        self._progress.close()
        if succeeded:
            self._end_step()

    def await_verify(self, key: str, age: float, owner: int) -> None:
        """Wait until an operation's old request must be dead: a late one could double the effect."""
        if self._handler.verify is None:
            raise InDoubt(key, owner)
        self._clock.sleep(max(0.0, self._handler.verify_after - age))

    def verify(self, key: str) -> Any:
        """What the type's `verify` says of an operation in doubt."""
        assert self._handler.verify is not None
        return self._handler.verify(self, key)

    def _save(self, changes: dict[str, Any], *, merge: bool) -> None:
        text = payloads.encode(changes)
        kept = payloads.decode(text, where="checkpoint")
        whole = checkpoints.merge(self._saved, kept) if merge else kept
        self._handler.check_checkpoint(whole)
        self.say(save=text, merge=merge)
        self._saved = whole

    def _end_step(self) -> None:
        if self._step:
            self.event("STEP_SUCCEEDED", self._step)
        self._step = ""


class SyncOnce:
    """`with ctx.once(key) as op:` do it where `op.done` is False, and set `op.result`."""

    def __init__(self, context: SyncContext, key: str, scope: str, link: WorkerLink, stops: Stops) -> None:
        self.key = key
        self.scope = scope
        self.done = False
        self.result: Any = None
        self._context = context
        self._link = link
        self._stops = stops
        self._token: Token[tuple[str, str] | None] | None = None

    def __enter__(self) -> SyncOnce:
        self._stops.check()
        self._stops.hold()  # before the intent is recorded: a stop right after it would leave doubt for nothing
        try:
            said = self._link.ask(operation=self.key, scope=self.scope)
            if said["state"] == "doubt":
                self._settle_doubt(said["age"], said.get("owner", 0))
            elif said["state"] == "done":
                self._take(said["result"])
        except BaseException:
            self._stops.release()
            raise
        self._token = _inside.set((self.key, self.scope))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            _inside.reset(self._token)
        try:
            self._record(error)
        finally:
            self._stops.release()
        if error is None:
            self._stops.check()

    def _record(self, error: BaseException | None) -> None:
        if self.done or not self._link.is_ours:  # of a child, too, that leaves a block in which it was forked
            return
        if error is None:
            self._record_done(self.result)
        else:
            self._settle("NOT_DONE" if isinstance(error, NotDone) else "IN_DOUBT")

    def _settle_doubt(self, age: float, owner: int) -> None:
        with self._stops.let_in():
            self._context.await_verify(self.key, age, owner)
        try:
            result = self._context.verify(self.key)
        except NotDone:
            self._settle("NOT_DONE")
            # A new intent, so that a crash from here on is seen too.
            self._link.ask(operation=self.key, scope=self.scope)
            return
        self._record_done(result)
        self._take(result)

    def _record_done(self, result: Any) -> None:
        try:
            self._settle("DONE", payloads.encode(result))
        except StopRequested:
            raise
        except Exception:  # a result that is no JSON, a refusal: the effect happened all the same
            self._settle("IN_DOUBT")
            raise

    def _settle(self, state: str, result: str = "") -> None:
        self._context.say(settle=self.key, scope=self.scope, state=state, result=result)

    def _take(self, result: Any) -> None:
        self.done = True
        self.result = result


class _Progress:
    """At most four lines a second; the last word is said after a while or at the end."""

    def __init__(self, link: WorkerLink, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: dict[str, Any] | None = None
        self._sent = float("-inf")
        self._timer: threading.Timer | None = None

    def report(self, done: float | None, total: float | None, note: str) -> None:
        """Take the newest figures."""
        with self._lock:
            self._latest = {"figures": [done, total], "note": note[:200]}
            rest = self._sent + PROGRESS_EVERY - self._clock.monotonic()
            if rest > 0 and self._timer is None:
                self._timer = threading.Timer(rest, self._say_quietly)
                self._timer.daemon = True
                self._timer.start()
        if rest <= 0:
            self._say()

    def close(self) -> None:
        """Say what wasn't said yet."""
        if self._timer is not None:
            self._timer.cancel()
        self._say()

    def _say(self) -> None:
        with self._lock:
            latest, self._latest, self._timer = self._latest, None, None
            self._sent = self._clock.monotonic()
        if latest is not None:
            self._link.ask(**latest)

    def _say_quietly(self) -> None:
        with suppress(TaskdeckError, StopRequested):
            self._say()
