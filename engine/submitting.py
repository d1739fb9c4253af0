"""Tasks that many coroutines of a Python program submit one by one: each awaits its own answer, and they share commits.

What is submitted in one pass of the loop travels in one message and is written by one unit; more is never waited for. Must
not know how a task is checked or written.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import msgspec

from . import __version__, commands
from .clock import Clock, Timer, system_clock
from .commands import call, refuse_too_large, silence_of, unanswered, unknown_fate
from .config import Config
from .edge.frames import MAX_BODY
from .edge.link import AsyncLink, open_link
from .edge.locks import DatabaseLock, Holder
from .errors import NoEngine, TaskdeckError, Unavailable, UsageError, rebuild
from .rules import payloads
from .rules.timing import utc_text
from .run.messages import Call, Hello, Reply, encode, to_peer

SPECS_AT_ONCE, BYTES_AT_ONCE = 256, 2**20
"""Tasks of one message at most, and from how many bytes on the next goes into another one."""
MESSAGES_AT_ONCE = 4
"""How many may be under way to an engine: one is written while the next is prepared. What comes then gathers."""
_VERB, _ASKED = "submit_each", "submit"
"""What the engine is asked for, and how it is called where who submitted is told of it."""
_TEXTS = (str, bytes)
_ENVELOPE = 1024
"""Bytes of a message beside its tasks and who asks, at most."""


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


_Waiting = tuple[bytes, "asyncio.Future[Added]"]
"""An encoded task, and who awaits it."""


class _Message:
    """What is under way to an engine: who awaits it, and since when (seconds, monotonic)."""

    __slots__ = ("number", "since", "waiting")

    def __init__(self, number: int, since: float, waiting: list[_Waiting]) -> None:
        self.number = number
        self.since = since
        self.waiting = waiting


class Submitter:
    """Submits tasks for `actor` (e.g. `api:crawler`), through the engine that works on the database, else directly.

        async with Submitter(config, actor="api:crawler") as deck:
            added = await deck.submit("page", {"url": url}, key=url)

    Any number of coroutines may submit at the same time; one that is cancelled harms no other, and its task may or may not
    have been added. Belongs to one event loop and one process: it must not be used from another thread's loop or after a
    fork.
    """

    def __init__(self, config: Config, actor: str, *, clock: Clock | None = None) -> None:
        self._config = config
        self._actor = actor
        self._clock = clock or system_clock()
        self._room = MAX_BODY - len(actor.encode()) - _ENVELOPE
        """Bytes that a task may have at most."""
        self._gathered = deque[_Waiting]()
        """What nobody has been told of yet."""
        self._link: AsyncLink | None = None
        self._holder: Holder | None = None
        """The engine at the other end of the link."""
        self._under_way = deque[_Message]()
        self._sent = 0
        self._seeking: asyncio.Task[None] | None = None
        """Looks for an engine, and submits directly as long as there is none."""
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
        spec: dict[str, Any] = {"type": type, **fields}
        if payload is not None:
            spec["payload"] = payload if isinstance(payload, _TEXTS) else payloads.encode(payload)
        return await self._hand_in(spec)

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
                link.close()
                await link.wait_closed()

    def _awaited(self) -> list[asyncio.Future[Any]]:
        if self._seeking is not None:
            return [self._seeking]
        lists = [self._gathered, *(message.waiting for message in self._under_way)]
        return [answer for waiting in lists for _, answer in waiting if not answer.done()]

    # ---- gathering -----------------------------------------------------------------------------------------------

    def _hand_in(self, spec: dict[str, Any]) -> asyncio.Future[Added]:
        if self._is_closed:
            raise UsageError("nothing can be submitted any more", "this Submitter is closed")
        if isinstance(when := spec.get("not_before"), datetime):
            spec["not_before"] = _utc(when)
        try:
            body = _encode(spec)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UsageError("this is no task that can be handed in", str(error)) from None
        if len(body) > self._room:
            refuse_too_large(_ASKED, len(body) + MAX_BODY - self._room)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Added] = loop.create_future()
        if not self._gathered:
            loop.call_soon(self._go_on)
        self._gathered.append((body, answer))
        return answer

    def _take(self) -> list[_Waiting]:
        """What goes together next; what nobody awaits any more does not go at all."""
        taken = list[_Waiting]()
        gathered, size = self._gathered, 0
        while gathered and len(taken) < SPECS_AT_ONCE:
            size += len(gathered[0][0])
            if taken and size > BYTES_AT_ONCE:
                break
            each = gathered.popleft()
            if not each[1].done():
                taken.append(each)
        return taken

    def _go_on(self) -> None:
        """Send what has gathered, or look for somebody to send it to."""
        if self._link is not None and self._link.closed:
            self._lose(unknown_fate(_ASKED))
        elif self._link is not None:
            self._send(self._link)
        elif self._seeking is None and self._gathered:
            self._seeking = asyncio.get_running_loop().create_task(self._seek())

    async def _seek(self) -> None:
        try:
            while self._gathered and self._link is None:
                await self._submit_or_connect()
        finally:
            self._seeking = None
        self._go_on()

    async def _submit_or_connect(self) -> None:
        try:
            self._link = await self._opened()
        except Exception as error:  # nothing of it was sent
            _tell_all(self._take(), error)
            return
        if self._link is None and (some := self._take()):
            try:
                specs = [_decode(body) for body, _ in some]
                answers = await asyncio.to_thread(
                    call, self._config, _VERB, self._actor, clock=self._clock, specs=specs
                )
            except Exception as error:
                _tell_all(some, error)
            else:
                _tell(some, answers)

    # ---- through the engine --------------------------------------------------------------------------------------

    async def _opened(self) -> AsyncLink | None:
        """A link to the engine that works on the database; None where none listens."""
        holder = await asyncio.to_thread(DatabaseLock.holder, self._config.db)
        if holder is None or holder.role != "engine":
            return None
        try:
            link = await open_link(holder.socket)
        except NoEngine:
            return None  # it is starting, or just ended: `call` waits for it
        self._holder = holder
        link.on_arrival(self._hear)
        link.send(encode([Hello("client", code_version=__version__)]))
        return link

    def _send(self, link: AsyncLink) -> None:
        # A peer that takes nothing is sent no more, or the link would be cut for it.
        while self._gathered and len(self._under_way) < MESSAGES_AT_ONCE and link.unsent <= BYTES_AT_ONCE:
            if not (some := self._take()):
                break
            self._sent += 1
            self._under_way.append(_Message(self._sent, self._clock.monotonic(), some))
            args = {"specs": [msgspec.Raw(body) for body, _ in some]}
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
            _tell(message.waiting, reply.value)
        else:
            _tell_all(message.waiting, rebuild(reply.error))
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
        self._lose(unanswered(silence_of(self._config, self._holder), _ASKED, {}))

    def _lose(self, why: Unavailable) -> None:
        """The link is of no more use. What the engine had not begun by now it leaves alone."""
        link, self._link, self._holder = self._link, None, None
        if link is not None:
            link.on_arrival(_nothing)
            link.cut()
        lost, self._under_way = self._under_way, deque[_Message]()
        for message in lost:
            _tell_all(message.waiting, why)
        self._go_on()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def _nothing() -> None:
    """Nobody is told of what arrives."""


def _directory(named: str | os.PathLike[str] | None) -> str:
    return os.getcwd() if named is None else os.path.abspath(named)


def _utc(moment: datetime) -> str:
    try:
        return utc_text(moment)
    except ValueError as error:
        raise UsageError("not_before needs a time zone", str(error)) from None


def _tell(waiting: Sequence[_Waiting], answers: Sequence[Mapping[str, Any]]) -> None:
    """Each what it was answered: its task, or why it is refused."""
    for (_, future), answer in zip(waiting, answers, strict=True):
        if future.done():  # who awaited it was cancelled
            continue
        if "id" in answer:
            future.set_result(Added(answer["id"], answer["created"], answer["state"]))
        else:
            future.set_exception(rebuild(answer))


def _tell_all(waiting: Sequence[_Waiting], error: Exception) -> None:
    """To each an error of its own: each adds to it where it was raised."""
    for _, future in waiting:
        if not future.done():
            future.set_exception(rebuild(error.as_told()) if isinstance(error, TaskdeckError) else error)
