"""One running attempt as its worker sees it: what it was given, what it has been asked, what it reports.

Python handlers (through `context`) and commands (through `command`) report by the same verbs, so that fences, fault points
and order are in one place. Must not decide how an attempt ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import msgspec

from ..clock import Clock
from ..crash import crash_at
from ..errors import InvalidPayload, StaleLease
from ..rules import checkpoints, payloads
from ..rules.checkpoints import NOTHING_SAVED
from .asks import OUTCOMES, STOPS
from .gateway import Gateway, Passage
from .held import Held
from .messages import (
    Answer,
    Message,
    Note,
    OnRollback,
    OperationBegin,
    OperationEnd,
    OperationState,
    Progress,
    Run,
    Save,
    Together,
)
from .uplink import Uplink, value_of

MOST_TOGETHER = 1000
"""Reports that can be written in one transaction of a handler's."""

gathered: ContextVar[list[Message] | None] = ContextVar("gathered", default=None)
"""What waits to be written together (`together`); None = everything is sent as it comes."""

PROGRESS_EVERY = 0.25
"""Seconds between two progress messages of one attempt."""


def no_one() -> None:
    """Nobody is there who must act on it."""


class Attempt:
    """The state of one attempt in its worker.

    What most attempts never use is made when it is first asked for. What this refers to does not refer back, so that an
    attempt is freed when it has ended: to look for cycles was a fifth of a worker's time.
    """

    def __init__(self, run: Run, uplink: Uplink, clock: Clock, gateway: Gateway, version: int = 1) -> None:
        self.run = run
        self.uplink = uplink
        self.clock = clock
        self.version = version
        """The handler's checkpoint version."""
        self.checkpoint: dict[str, Any] = {}
        if run.checkpoint not in NOTHING_SAVED:
            self.checkpoint = payloads.decode(run.checkpoint, where="checkpoint") or {}
        self.asked = ""
        self.stale = False
        """The engine said that another attempt owns the task: nothing of this one counts any more."""
        self.timed_out = False
        self.on_stale: Callable[[], None] = no_one
        """Called when `stale` is first learnt; whoever is called lets go of it at the end."""
        self._gateway = gateway
        self._passage: Passage | None = None
        self._progress: ProgressReport | None = None
        self._open: set[tuple[str, str]] = set()
        if run.route is not None:
            _ = self.held  # one that can't be used is told before anything begins

    @cached_property
    def held(self) -> Held:
        """The resources and the route. Raises `BadExit`."""
        return Held(self.run, self.passage.url)

    @property
    def passage(self) -> Passage:
        """By what it goes out."""
        if self._passage is None:
            self._passage = self._gateway.of(self.run)
        return self._passage

    async def close_passage(self) -> None:
        """The attempt ends, or has lost its lease: nothing goes out any more."""
        if self._passage is not None:
            await self._passage.close()

    @cached_property
    def asking(self) -> asyncio.Event:
        """Set while there is a reason to stop."""
        return asyncio.Event()

    @property
    def cancelled(self) -> bool:
        """Does whoever asks want no more of this task, whatever comes of the attempt?"""
        return self.outcome_asked == "cancelled"

    @property
    def outcome_asked(self) -> str:
        """The outcome kind that whoever asks wants, or empty."""
        return OUTCOMES.get(self.asked, "")

    def ask(self, what: str) -> bool:
        """Take a wish to stop; False = a stronger one stands already."""
        if STOPS[what] <= STOPS.get(self.asked, 0):
            return False
        self.asked = what
        self.asking.set()
        return True

    def withdraw(self, what: str) -> bool:
        """Take a wish back that wasn't granted yet; False = it isn't the one that stands."""
        if self.asked != what:
            return False
        self.asked = ""
        self.asking.clear()
        return True

    async def rest(self, seconds: float) -> None:
        """Wait, but no longer than until somebody asks the attempt to stop."""
        pause = asyncio.ensure_future(self.clock.pause(seconds))
        asked = asyncio.ensure_future(self.asking.wait())
        try:
            await asyncio.wait({pause, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            asked.cancel()

    async def request(self, build: Callable[[int], Message]) -> dict[str, Any]:
        """Ask the engine and wait. Raises `StaleLease` (and remembers it) or `Refused`."""
        return await self._answer(self._send(build))

    def save(self, changes: dict[str, Any], *, merge: bool = True) -> asyncio.Future[None]:
        """Send a checkpoint, in order with all others; the future ends when it is durable.

        Raises `InvalidPayload` or `StaleLease` at once. `stage` is taken from the key of that name.
        """
        data = payloads.encode(changes)
        kept = payloads.decode(data, where="checkpoint")  # the handler may change its own objects later
        stage = str(kept.get("stage") or "")[:200]
        run, version = self.run, self.version
        whole = checkpoints.merge(self.checkpoint, kept) if merge else kept
        if (parts := gathered.get()) is not None:
            parts.append(Save(0, run.task_id, run.fence, data, merge, version, stage))
            saved = asyncio.get_running_loop().create_future()
            saved.set_result(None)
        else:
            crash_at("before_checkpoint_send")
            answer = self._send(lambda req: Save(req, run.task_id, run.fence, data, merge, version, stage))
            saved = asyncio.ensure_future(self._saved(answer))
        self.checkpoint = whole
        return saved

    def report(self, done: float | None, total: float | None, note: str = "") -> None:
        """Tell how far it is."""
        if self._progress is None:
            self._progress = ProgressReport(self.run, self.uplink, self.clock)
        self._progress.report(done, total, note)

    def end_progress(self) -> None:
        """Send the last word of it."""
        if self._progress is not None:
            self._progress.close()

    def note(self, event_type: str, message: str = "", payload: dict[str, Any] | None = None) -> None:
        """Ask for an event; it never changes the task."""
        text = payloads.encode(payload) if payload else ""
        note = Note(self.run.task_id, self.run.fence, event_type, message[:2000], text)
        if (parts := gathered.get()) is not None:
            parts.append(note)
        else:
            self.uplink.post(note)

    async def begin(self, key: str, scope: str = "") -> OperationState:
        """Record the intent of an operation; what the engine found tells whether to do it."""
        run = self.run
        value = await self.request(lambda req: OperationBegin(req, run.task_id, run.fence, key, scope))
        state = msgspec.convert(value, OperationState)
        if state.state == "new":
            self._open.add((key, scope))
        crash_at("after_operation_begin")
        return state

    async def end(self, key: str, state: str, scope: str = "", result: Any = None) -> None:
        """Settle an operation durably as DONE (with its result) or NOT_DONE."""
        run, text = self.run, payloads.encode(result) if state == "DONE" else ""
        if (parts := gathered.get()) is not None:
            parts.append(OperationEnd(0, run.task_id, run.fence, key, state, scope, text))
            return
        crash_at("before_operation_end")
        await self.request(lambda req: OperationEnd(req, run.task_id, run.fence, key, state, scope, text))
        self._open.discard((key, scope))
        crash_at("after_operation_end")

    async def commit(self, parts: Sequence[Message]) -> None:
        """Have reports written in one transaction. Where it is refused, the engine records what was done all the same."""
        if not parts:
            return
        if len(parts) > MOST_TOGETHER:
            await self.settle_alone(parts)
            raise InvalidPayload(
                f"at most {MOST_TOGETHER} reports can be written together", f"these are {len(parts)}"
            )
        run, together = self.run, list(parts)
        crash_at("before_together_send")
        for end in _ends(parts):
            self._open.discard((end.key, end.scope))
        await self.request(lambda req: Together(req, run.task_id, run.fence, together))  # type: ignore[arg-type]
        crash_at("after_together")

    async def settle_alone(self, parts: Sequence[Message]) -> None:
        """The rest is not written: only how operations ended, since that has happened outside."""
        for end in _ends(parts):
            await self.request(lambda req, end=end: msgspec.structs.replace(end, req=req))
            self._open.discard((end.key, end.scope))

    async def on_rollback(
        self, name: str, arguments: dict[str, Any], *, repeatable: bool, undoes: str = "", scope: str = ""
    ) -> int:
        """Register an undo step durably; returns its number."""
        run, text = self.run, payloads.encode(arguments)
        crash_at("before_rollback_registered")
        value = await self.request(
            lambda req: OnRollback(
                req, run.task_id, run.fence, name, text, repeatable=repeatable, undoes=undoes, scope=scope
            )
        )
        crash_at("after_rollback_registered")
        return value["number"]

    def doubt(self, key: str, scope: str = "") -> None:
        """Say that it can't be known whether an operation's effect happened; sent before whatever follows."""
        self._open.discard((key, scope))
        run = self.run
        self.uplink.post(OperationEnd(0, run.task_id, run.fence, key, "IN_DOUBT", scope))

    def doubt_all(self) -> None:
        """The attempt ends: operations that it began and never settled are in doubt."""
        for key, scope in sorted(self._open) if self._open else ():
            self.doubt(key, scope)

    def _send(self, build: Callable[[int], Message]) -> asyncio.Future[Answer]:
        if self.stale:
            raise StaleLease("this attempt no longer owns its task", "another attempt took it over")
        return self.uplink.ask(build)

    async def _answer(self, answer: asyncio.Future[Answer]) -> dict[str, Any]:
        try:
            return value_of(await answer)
        except StaleLease:
            self.disown()
            raise

    def disown(self) -> None:
        """Another attempt owns the task: end, and say nothing more that would count."""
        if not self.stale:
            self.stale = True
            self.asking.set()
            self.on_stale()

    async def _saved(self, answer: asyncio.Future[Answer]) -> None:
        await self._answer(answer)
        crash_at("after_checkpoint_saved")


class ProgressReport:
    """At most four progress messages a second of one attempt; the last word always arrives before the attempt ends."""

    def __init__(self, run: Run, uplink: Uplink, clock: Clock) -> None:
        self._run, self._uplink, self._clock = run, uplink, clock
        self._latest: Progress | None = None
        self._sent = float("-inf")
        self._timer: asyncio.Task[None] | None = None

    def report(self, done: float | None, total: float | None, note: str = "") -> None:
        """Take the newest figures; older ones that weren't sent yet are dropped."""
        done, total = _figure("done", done), _figure("total", total)
        progress = Progress(self._run.task_id, self._run.fence, done, total, str(note)[:200])
        if (parts := gathered.get()) is not None:
            parts.append(progress)
            return
        self._latest = progress
        rest = self._sent + PROGRESS_EVERY - self._clock.monotonic()
        if rest <= 0:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.ensure_future(self._flush_after(rest))

    def flush(self) -> None:
        """Send what waits."""
        if self._latest is not None:
            self._uplink.post(self._latest)
            self._sent, self._latest = self._clock.monotonic(), None

    def close(self) -> None:
        """Send what waits and stop."""
        if self._timer is not None:
            self._timer.cancel()
        self.flush()

    async def _flush_after(self, seconds: float) -> None:
        await self._clock.pause(seconds)
        self._timer = None
        self.flush()


def _ends(parts: Sequence[Message]) -> list[OperationEnd]:
    return [part for part in parts if isinstance(part, OperationEnd)]


def _figure(name: str, value: float | None) -> float | None:
    """The number as the engine can read it. Raises `TypeError`: what is none would spoil the link for everybody."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TypeError(f"progress: {name} must be a number, not {value!r:.60}")
    return None if value is None else float(value)
