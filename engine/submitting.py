"""Tasks that many coroutines of a Python program submit one by one: each awaits its own answer, and they share commits.

What is submitted in one pass of the loop travels in one message and is written by one unit; more is never waited for. Must
not know how a task is checked or written.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack

import msgspec

from . import __version__, commands
from .clock import Clock, Timer, system_clock
from .commands import PATIENCE, held_by_somebody, refuse_too_large, silence_of, unanswered, unknown_fate
from .config import Config
from .edge.frames import MAX_BODY
from .edge.link import AsyncLink, open_link
from .edge.locks import DatabaseLock, Holder
from .embedded import Embedded, GaveWay, Judge, Known, warm_up
from .errors import NoEngine, TaskdeckError, Unavailable, UsageError, rebuild
from .rules import payloads
from .rules.timing import utc_text
from .run import adding
from .run.futures import begun
from .run.messages import Call, Hello, Reply, encode, to_peer
from .silence import Silence

TASKS_AT_ONCE, BYTES_AT_ONCE = 256, 2**20
"""Tasks of one message at most, and from how many bytes on the next goes into another one."""
MOST_OF_ACTOR = 100
"""Characters of the name of who submits."""
MESSAGES_AT_ONCE = 4
"""How many may be under way: one is written while the next is prepared. What comes then gathers."""
_VERB, _ASKED = "submit_each", "submit"
"""What the engine is asked for, and how it is called where who submitted is told of it."""
_ENVELOPE = 1024
"""Bytes of a message beside its tasks and who asks, at most."""


_T = TypeVar("_T")


class Added(msgspec.Struct, frozen=True, gc=False):
    """A task that is in the queue, durably. `created`: by this call; else it was known by its key. `state` is its state."""

    id: int
    created: bool
    state: str


class Fields(TypedDict, total=False):
    """What else can be said of a task, as in a line of `taskdeck add -f`; what is not said is as its type has it.

    Durations are seconds, a time is UTC text (`2026-11-29T17:12:40.000000Z`) or an aware datetime.
    """

    key: str
    priority: int
    not_before: str | datetime
    tags: Sequence[str]
    timeout: float
    max_retry: int
    on_lost: str
    needs: Sequence[str]
    route: str
    allow_direct: bool
    target: str
    bandwidth: str
    parent: int
    schedule: str


class _Run:
    """Tasks that stand together, and what they have in common: all but payload and key, encoded."""

    __slots__ = ("common", "keys", "payloads")

    def __init__(self, common: bytes) -> None:
        self.common = common
        self.payloads: list[str | None] = []
        self.keys: list[str | None] = []

    def told(self) -> list[Any]:
        """As an engine takes it (`run.submission.Runs`)."""
        return [msgspec.Raw(self.common), self.payloads, self.keys_or_none]

    @property
    def keys_or_none(self) -> list[str | None] | None:
        """The keys, if there is any."""
        return self.keys if self.keys.count(None) < len(self.keys) else None


class _Message:
    """Tasks that travel together."""

    __slots__ = ("number", "put_back", "runs", "since", "size", "waiting")

    def __init__(self) -> None:
        self.runs: list[_Run] = []
        self.waiting: list[asyncio.Future[Added]] = []
        """Who awaits each task, in order."""
        self.size = 0
        """Bytes of the tasks, at most."""
        self.number, self.since = 0, 0.0
        """Which message it is, and since when it is under way to an engine (seconds, monotonic)."""
        self.put_back = 0.0
        """Since when an engine is to take it that does not listen yet."""

    def add(self, common: bytes, payload: str | None, key: str | None, answer: asyncio.Future[Added]) -> None:
        run = self.runs[-1] if self.runs else None
        if run is None or run.common != common:
            self.runs.append(run := _Run(common))
        run.payloads.append(payload)
        run.keys.append(key)
        self.waiting.append(answer)

    def without_who_gave_up(self) -> _Message:
        """What nobody awaits any more is not sent at all."""
        if not any(answer.done() for answer in self.waiting):
            return self
        left, answers = _Message(), iter(self.waiting)
        left.size, left.number, left.put_back = self.size, self.number, self.put_back
        for run in self.runs:
            for payload, key in zip(run.payloads, run.keys, strict=True):
                if not (answer := next(answers)).done():
                    left.add(run.common, payload, key, answer)
        return left


class Submitter:
    """Submits tasks for `actor` (e.g. `api:crawler`), through the engine that works on the database, else directly.

        async with Submitter(config, actor="api:crawler") as deck:
            added = await deck.submit("page", {"url": url}, key=url)

    Any number of coroutines may submit at the same time; one that is cancelled harms no other, and its task may or may not
    have been added. Belongs to one event loop and one process: it must not be used from another thread's loop or after a
    fork.
    """

    def __init__(self, config: Config, actor: str, *, clock: Clock | None = None) -> None:
        if not isinstance(actor, str) or not 0 < len(actor) <= MOST_OF_ACTOR or not actor.isprintable():
            raise UsageError(
                "who submits can't be named so", f"it is {str(actor)[:40]!r}", "name it like api:crawler"
            )
        self._config = config
        self._actor = actor
        self._clock = clock or system_clock()
        self._room = MAX_BODY - len(actor.encode()) - _ENVELOPE
        """Bytes that a task may have at most."""
        self._gathered = deque[_Message]()
        """What nobody has been told of yet."""
        self._link: AsyncLink | None = None
        self._holder: Holder | None = None
        """The engine at the other end of the link."""
        self._under_way = deque[_Message]()
        """To the engine."""
        self._sent = 0
        self._judge, self._known = Judge(config, self._clock, self._blocking), Known()
        self._alone: Embedded | None = None
        """Writes as long as there is no engine."""
        self._being_written = list[_Message]()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The one in which something was submitted."""
        self._seeking: asyncio.Task[None] | None = None
        """Looks for an engine."""
        self._aside = ThreadPoolExecutor(3, "taskdeck-submit")
        """Where that blocks: one looks for an engine, and where there is none another writes, while a third asks handlers.
        Those of the loop may all be taken by callers that wait for us."""
        self._watch: Timer | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def submit(self, type: str, payload: Any = None, **fields: Unpack[Fields]) -> Added:
        """Add a task of a Python type; returns once it is durable. `payload` is its value, or the JSON text of it.

        Raises `InvalidPayload`, `SecretInInput`, `UsageError` or `NotFound` (its parent) for what is wrong with this task;
        `Unavailable` where it can't be added now, or where nobody knows whether it was, since the engine went away: with a
        key it can be submitted again; and what `commands.call` raises.
        """
        return await self._hand_in({"type": type, **fields}, payload)

    async def submit_command(
        self,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        pause: str = "stop",
        **fields: Unpack[Fields],
    ) -> Added:
        """Add a command, which runs in `cwd` (by default where we are now); as `submit`.

        `env`: variables, or references to what the worker has. `pause`: `stop` or `checkpoint`.
        """
        command = {"argv": argv, "cwd": _directory(cwd), "env": env or {}, "pause": pause}
        return await self._hand_in({"command": command, **fields})

    async def close(self) -> None:
        """Take no more, wait for what is under way, end the link."""
        self._is_closed = True
        try:
            while waiting := self._awaited():
                await asyncio.wait(waiting)
        finally:
            if self._watch is not None:
                self._watch.cancel()
            link, self._link = self._link, None
            if link is not None:
                link.on_arrival(_nothing)
                link.cut()  # nobody awaits what it may still hold, and an engine that was stopped would never take it
                await link.wait_closed()
            if self._alone is not None:
                await self._alone.close()
            self._aside.shutdown(wait=False)

    def _awaited(self) -> list[asyncio.Future[Any]]:
        if self._seeking is not None:
            return [self._seeking]
        messages = [*self._under_way, *self._being_written, *self._gathered]
        return [answer for message in messages for answer in message.waiting if not answer.done()]

    # ---- gathering -----------------------------------------------------------------------------------------------

    def _hand_in(self, common: dict[str, Any], payload: Any = None) -> asyncio.Future[Added]:
        if self._is_closed:
            raise UsageError("nothing can be submitted any more", "this Submitter is closed")
        if isinstance(when := common.get("not_before"), datetime):
            common["not_before"] = _utc(when)
        text: str | None = payload if payload is None or type(payload) is str else _text(payload)
        key = common.pop("key") if "key" in common else None
        if key is not None and type(key) is not str:
            common["key"], key = key, None  # it is judged where all else is
        try:
            body = _encode(common)
            size = len(body) + (_size(text) if text else 0) + (_size(key) if key else 0)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UsageError("this is no task that can be handed in", str(error)) from None
        if size > self._room:
            refuse_too_large(_ASKED, size + MAX_BODY - self._room)
        if (loop := self._loop) is None:  # asking for it each time would take as long as most of the rest
            self._loop = loop = asyncio.get_running_loop()
        if not self._gathered:
            loop.call_soon(self._go_on)
        answer: asyncio.Future[Added] = loop.create_future()
        self._message_for(size).add(body, text, key, answer)
        return answer

    def _message_for(self, size: int) -> _Message:
        """The one in which so many more bytes go."""
        message = self._gathered[-1] if self._gathered else None
        if message is None or len(message.waiting) >= TASKS_AT_ONCE or message.size + size > BYTES_AT_ONCE:
            self._gathered.append(message := _Message())
        message.size += size
        return message

    def _take(self) -> _Message | None:
        """What goes next."""
        while self._gathered:
            message = self._gathered.popleft().without_who_gave_up()
            if message.waiting:
                return message
        return None

    def _go_on(self) -> None:
        """Send what has gathered, or look for somebody to send it to."""
        if self._link is not None and self._link.closed:
            self._lose(unknown_fate(_ASKED))
        elif self._link is not None:
            self._send(self._link)
        elif self._alone is not None:
            self._write(self._alone)
        elif self._seeking is None and self._gathered:
            self._seeking = asyncio.get_running_loop().create_task(self._seek())
            self._seeking.add_done_callback(self._sought)

    async def _seek(self) -> None:
        while self._gathered and self._link is None and self._alone is None:
            await self._find()

    def _sought(self, _: asyncio.Task[None]) -> None:
        """Also where somebody cancelled all tasks of the loop: who ends may have more to submit."""
        self._seeking = None
        if not self._awaited():
            self._gathered.clear()
        self._go_on()

    async def _find(self) -> None:
        """An engine, or what stands in for one."""
        try:
            self._link = await self._opened()
            if self._link is None:
                loop = asyncio.get_running_loop()
                with_us = self._config, self._clock, self._judge, self._known, self._blocking, loop
                self._alone = await self._blocking(partial(Embedded, *with_us, self._look_anew))
                if not self._known.was_there:
                    self._blocking(warm_up)
        except Exception as error:  # nothing of it was sent
            if message := self._take():
                _tell_all(message, error)

    def _blocking(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._aside, copy_context().run, work)

    # ---- where there is no engine --------------------------------------------------------------------------------

    def _write(self, alone: Embedded) -> None:
        while self._gathered and alone.queued < MESSAGES_AT_ONCE:  # who waits for handlers does not count
            if not (message := self._take()):
                break
            self._sent += 1
            message.number = self._sent
            self._being_written.append(message)
            told = begun(partial(self._add, alone, message))
            told.add_done_callback(partial(self._is_written, message))

    def _add(self, alone: Embedded, message: _Message) -> Awaitable[list[Any]]:
        runs = [(_decode(run.common), run.payloads, run.keys_or_none) for run in message.runs]
        return adding.add_each(alone, [({"runs": runs}, self._actor)])

    def _is_written(self, message: _Message, told: asyncio.Future[list[Any]]) -> None:
        self._being_written.remove(message)
        answer = _cancelled() if told.cancelled() else told.exception() or told.result()[0]
        if isinstance(answer, GaveWay):
            self._alone = None
            self._put_back(message)
        elif isinstance(answer, Exception):
            _tell_all(message, answer)
        elif isinstance(answer, list):
            _tell(message, answer)
        self._look_anew()
        self._go_on()

    def _look_anew(self) -> None:
        """Once the database is free: an engine may have come, which judges by other handlers and secrets."""
        if self._alone is not None and self._alone.rests and not self._being_written:
            self._alone = None

    def _put_back(self, message: _Message) -> None:
        """In front of what came after it."""
        message.put_back = message.put_back or self._clock.monotonic()
        if self._clock.monotonic() - message.put_back > PATIENCE:
            _tell_all(message, held_by_somebody(self._config))
            return
        self._gathered = deque(sorted([message, *self._gathered], key=lambda each: each.number or inf))

    # ---- through the engine --------------------------------------------------------------------------------------

    async def _opened(self) -> AsyncLink | None:
        """A link to the engine that works on the database; None where none listens."""
        holder = await self._blocking(partial(DatabaseLock.holder, self._config.db))
        if holder is None or holder.role != "engine":
            return None
        try:
            link = await open_link(holder.socket, aside=self._aside)
        except NoEngine:
            return None  # it is starting, or just ended
        self._holder = holder
        link.on_arrival(self._hear)
        link.send(encode([Hello("client", code_version=__version__)]))
        return link

    def _send(self, link: AsyncLink) -> None:
        # A peer that takes nothing is sent no more, or the link would be cut for it.
        while self._gathered and len(self._under_way) < MESSAGES_AT_ONCE and link.unsent <= BYTES_AT_ONCE:
            if not (message := self._take()):
                break
            self._sent += 1
            message.number, message.since = self._sent, self._clock.monotonic()
            self._under_way.append(message)
            args = {"runs": [run.told() for run in message.runs]}
            link.send(encode([Call(self._sent, _VERB, args, self._actor)]), at_once=True)
        if self._watch is None and self._under_way:
            self._watch = self._clock.call_after(commands.ANSWER_WITHIN, self._see_that_it_answers)

    def _hear(self) -> None:
        link = self._link
        if link is None:  # it ended before it was made use of: that is seen then
            return
        try:
            while (body := link.received()) is not None:
                for reply in to_peer(body):
                    self._answer(reply)
        except Exception:  # what it says can't be understood; what follows could not be either
            self._lose(unknown_fate(_ASKED))
            return
        self._go_on()

    def _answer(self, reply: Any) -> None:
        message = self._under_way[0]
        if not isinstance(reply, Reply) or reply.req != message.number:
            raise ValueError("this is no answer to what was asked")
        if reply.error is None:
            _tell(message, reply.value)
        else:
            _tell_all(message, rebuild(reply.error))
        self._under_way.popleft()

    def _see_that_it_answers(self) -> None:
        """One that is silent for as long as an answer may take is waited for no more."""
        self._watch = None
        if not self._under_way or self._holder is None:
            return
        left = self._under_way[0].since + commands.ANSWER_WITHIN - self._clock.monotonic()
        if left > 0:
            self._watch = self._clock.call_after(left, self._see_that_it_answers)
            return
        silence = silence_of(self._config, self._holder)
        unsent, self._gathered = self._gathered, deque[_Message]()
        for message in unsent:  # or each group of them would wait as long again
            _tell_all(message, _not_sent(silence))
        self._lose(unanswered(silence, _ASKED, {}))

    def _lose(self, why: Unavailable) -> None:
        """The link is of no more use. What the engine had not begun by now it leaves alone."""
        link, self._link, self._holder = self._link, None, None
        if link is not None:
            link.on_arrival(_nothing)
            link.cut()
        lost, self._under_way = self._under_way, deque[_Message]()
        for message in lost:
            _tell_all(message, why)
        self._go_on()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def _nothing() -> None:
    """Nobody is told of what arrives."""


def _cancelled() -> Unavailable:
    return Unavailable(
        "what submits was cancelled before it knew of this task",
        "it may or may not have been added",
        "look first: taskdeck list; with a key it can safely be submitted again",
    )


def _not_sent(silence: Silence) -> Unavailable:
    return Unavailable(
        f"the engine (pid {silence.pid}) takes no more tasks: {silence.what}",
        "this one was not sent to it, and is not added",
        silence.remedy,
    )


def _text(payload: Any) -> str:
    """The JSON text of a payload. One that is such a text is not looked at here."""
    if isinstance(payload, str):
        return str.__str__(payload)  # one of a type of its own could not be sent
    if isinstance(payload, bytes):
        return payloads.read(payload, where="payload")[1]
    return payloads.encode(payload)


def _size(text: str) -> int:
    """Its bytes. Raises `ValueError` where it is no Unicode."""
    return len(text) if text.isascii() else len(text.encode())


def _directory(named: str | os.PathLike[str] | None) -> str:
    try:
        return os.getcwd() if named is None else os.path.abspath(os.fspath(named))
    except (TypeError, OSError) as error:
        raise UsageError("the command has no directory to run in", str(error), "name one: cwd=…") from None


def _utc(moment: datetime) -> str:
    try:
        return utc_text(moment)
    except ValueError as error:
        raise UsageError("not_before needs a time zone", str(error)) from None


def _tell(message: _Message, answers: Sequence[int | Mapping[str, Any]]) -> None:
    """Each what it was answered: its new id, its task, or why it is refused."""
    for future, answer in zip(message.waiting, answers, strict=True):
        if future.done():  # who awaited it was cancelled
            continue
        if isinstance(answer, int):
            future.set_result(Added(answer, True, "PENDING"))
        elif "id" in answer:
            future.set_result(Added(answer["id"], answer["created"], answer["state"]))
        else:
            future.set_exception(rebuild(answer))


def _tell_all(message: _Message, error: Exception) -> None:
    """To each an error of its own: each adds to it where it was raised."""
    for future in message.waiting:
        if not future.done():
            future.set_exception(rebuild(error.as_told()) if isinstance(error, TaskdeckError) else error)
