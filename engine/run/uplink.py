"""The worker's way to the engine: all it says, in order, as frames of whatever is waiting; and answers to what it asks.

Saying is safe from any thread and never blocks, so that an engine which is slow to read can't stall handlers. Reports are
kept until they are recorded. While there is no engine they go to the spool's file, which answers for checkpoints and for ends
of operations; a beginning of an operation waits for an engine. A request that is recorded and was never answered is said
again to the next engine, under its number. Must not know what an attempt is.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, NamedTuple

import msgspec

from ..crash import crash_at
from ..edge.link import LinkError
from ..errors import Refused, StaleLease
from ..rules.failures import Failure, FailureClass
from . import messages
from .messages import Answer, Message, Note, Numbered, Outcome, Progress
from .spool import Spool

MAX_BATCH = 1024
"""Messages in one frame."""

EXIT_MUTE = 70
"""Exit code of a worker whose way to the engine has broken from within."""

MAX_FRAME = 8 * 1024 * 1024
"""Bytes; more goes in several frames. One message is far below, since JSON values are at most 1 MiB."""

PATIENCE = 0.05
"""Seconds for which what can wait is kept back, so that it goes with what comes meanwhile: one frame, one commit for all."""

Send = Callable[[bytes], None]
"""Raises `LinkError` when the engine is gone."""


class _Away(NamedTuple):
    """The engine is gone, and all that it ever said has been heard."""


class _Back(NamedTuple):
    """An engine has welcomed us, which knows our reports up to a number and these attempts as ours."""

    send: Send
    recorded: int
    fences: list[int]


class _Heard(NamedTuple):
    """The engine has recorded our reports up to this number."""

    upto: int


class _End(NamedTuple):
    """Nothing more will be said."""


_Item = Message | _Away | _Back | _Heard | _End


class Uplink:
    """Sends from a thread of its own, at once or from `back` on. Without a spool nothing is kept."""

    def __init__(
        self, send: Send | None, loop: asyncio.AbstractEventLoop, spool: Spool | None = None
    ) -> None:
        self._send = send
        self._away = False
        self._loop = loop
        self._spool = spool
        self._latest: dict[int, Progress] = {}
        """The last word of each attempt while there is no engine."""
        self._waiting: SimpleQueue[_Item] = SimpleQueue()
        self._urgent = Event()
        """Set since something was said that nothing may hold up."""
        self._hurries = False
        """Will it be set when this pass of the loop is over?"""
        self._requests: dict[int, asyncio.Future[Answer]] = {}
        """Whoever waits for an answer, by request."""
        self._unanswered: list[tuple[int, Message]] = []
        """Reports that are recorded, and whose answer may still be on its way, or have died with the engine."""
        self._numbers = count(1)
        self.fences: set[int] = set()
        """The attempts whose end is not known to be recorded; whoever receives one adds it."""
        self._thread = Thread(target=self._deliver, name="uplink", daemon=True)
        self._thread.start()

    def post(self, message: Message, *, patient: bool = False) -> None:
        """Say it; no answer is expected. A `patient` message may wait for `PATIENCE` seconds, or for the next that can't."""
        self._waiting.put(message)
        if not (patient or self._hurries):
            self._hurry_soon()

    def ask(self, build: Callable[[int], Message]) -> asyncio.Future[Answer]:
        """Say what `build` makes of a new request number; the future is the engine's answer. Loop thread only."""
        number = next(self._numbers)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._requests[number] = future
        future.add_done_callback(lambda _: self._requests.pop(number, None))
        self.post(build(number))
        return future

    def answered(self, answer: Answer) -> None:
        """Hand an answer to whoever asked; one that nobody waits for any more is dropped. Loop thread only."""
        future = self._requests.get(answer.req)
        if future is not None and not future.done():
            future.set_result(answer)

    def away(self) -> None:
        """The engine is gone; every word of it has been handed on before."""
        self._waiting.put(_Away())
        self._hurry()

    def back(self, send: Send, recorded: int, fences: list[int]) -> None:
        """An engine is there, which has recorded our reports up to `recorded` and holds these attempts for ours."""
        self._waiting.put(_Back(send, recorded, fences))
        self._hurry()

    def heard(self, upto: int) -> None:
        """The engine has recorded our reports up to this number."""
        self._waiting.put(_Heard(upto))

    def close(self, seconds: float) -> None:
        """Say what is waiting, for at most `seconds`, and end. What is not known to be recorded is in the spool's file."""
        self._waiting.put(_End())
        self._hurry()
        self._thread.join(seconds)

    def _hurry_soon(self) -> None:
        """In the loop: when its pass is over, so that all that handlers say in one pass is one frame, not a frame each.

        A handler that never lets the pass end can't hold up what others said for longer than `PATIENCE`.
        """
        if self._urgent.is_set():
            return
        try:
            in_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # another thread's
            in_loop = False
        if in_loop:
            self._hurries = True
            self._loop.call_soon(self._pass_is_over)
        else:
            self._hurry()

    def _pass_is_over(self) -> None:
        self._hurries = False
        self._hurry()

    def _hurry(self) -> None:
        if not self._urgent.is_set():  # what was put before the thread clears it is taken after that
            self._urgent.set()

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        try:
            while self._take(self._next_batch()):
                pass
        except (
            BaseException
        ):  # a worker that can't speak must not live on: its death is seen, its silence is not
            traceback.print_exc()
            os._exit(EXIT_MUTE)

    def _next_batch(self) -> list[_Item]:
        """What is waiting, at least one."""
        waiting = self._waiting
        batch = [waiting.get()]
        self._urgent.wait(PATIENCE)
        self._urgent.clear()
        batch += [waiting.get_nowait() for _ in range(min(waiting.qsize(), MAX_BATCH - 1))]
        return batch

    def _take(self, batch: list[_Item]) -> bool:
        """Do all of it in order. False at the end."""
        said: list[Message] = []
        for item in batch:
            if isinstance(item, Message):
                said.append(item)
                continue
            self._say(said)
            said = []
            match item:
                case _Heard(upto):
                    self._forget(upto)
                case _Away():
                    self._send, self._away = None, True
                case _Back():
                    self._return(item)
                case _End():
                    self._keep()
                    return False
        self._say(said)
        if self._away:
            self._keep()
        return True

    def _forget(self, upto: int) -> None:
        """These are recorded. Being recorded is not being answered: who still waits is not forgotten."""
        gone = self._spool.recorded(upto) if self._spool is not None else []
        known = self._unanswered + gone if self._requests else []
        self._unanswered = [one for one in known if self._is_open(one[1])]
        for _, message in gone:
            if isinstance(message, Outcome) and message.kind not in ("stopped", "resumed"):
                self.fences.discard(message.fence)

    def _is_open(self, message: Message) -> bool:
        future = self._requests.get(getattr(message, "req", 0))
        return future is not None and not future.done()

    def _keep(self) -> None:
        """Reports go to the file; whoever waited for that is answered."""
        if self._spool is not None and (promised := self._spool.write()):
            crash_at("after_spooled")
            self._loop.call_soon_threadsafe(self._promise, promised)

    def _promise(self, requests: list[int]) -> None:
        for request in requests:
            self.answered(Answer(request, {}))

    def _return(self, engine: _Back) -> None:
        self._forget(engine.recorded)
        self._send, self._away = engine.send, False
        latest, self._latest = self._latest, {}
        own = set(engine.fences)
        self._transmit((0, messages.encode_one(one)) for fence, one in latest.items() if fence in own)
        self._transmit((number, messages.encode_one(one)) for number, one in self._unanswered)
        if self._spool is not None:
            self._transmit(self._spool.waiting())

    def _say(self, said: list[Message]) -> None:
        entries: list[tuple[int, bytes]] = []
        for message in said:
            try:
                raw = messages.encode_one(message)
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                others = self._instead(message, error)
                entries += [self._entry(each, messages.encode_one(each)) for each in others]
            else:
                entries.append(self._entry(message, raw))
        ends = self._send is not None and any(isinstance(message, Outcome) for message in said)
        if ends:
            crash_at("before_outcome_send")
        self._transmit(entries)
        if ends:
            crash_at("after_outcome_send")

    def _entry(self, message: Message, raw: bytes) -> tuple[int, bytes]:
        """What is sent of a message, with its number if it is kept until it is recorded, else 0."""
        if self._send is None and isinstance(message, Progress):
            self._latest[message.fence] = message
        if self._spool is None or not messages.is_report(message):
            return 0, raw
        return self._spool.add(message, raw), raw

    def _transmit(self, entries: Iterable[tuple[int, bytes]]) -> None:
        """Send what was encoded, as long as there is somebody to send to; that he is gone is told by `away`."""
        try:
            for frame in _frames(entries):
                if self._send is None:
                    return
                self._send(frame)
        except (LinkError, OSError):
            self._send = None

    def _instead(self, message: Message, error: Exception) -> Iterator[Message]:
        """A message holds what no frame can carry (a lone surrogate, a number past 64 bits): it alone is refused."""
        why = f"{type(message).__name__} can't be sent: {type(error).__name__}"
        if req := getattr(message, "req", 0):
            self._loop.call_soon_threadsafe(self.answered, Answer(req, {}, why))
        elif isinstance(message, Outcome):
            failure = Failure(FailureClass.FATAL, "bad_outcome", why, "uplink")
            text = msgspec.json.encode(failure).decode()
            yield Outcome(message.task_id, message.fence, "failed", failure=text)
        elif hasattr(message, "fence"):
            yield Note(message.task_id, message.fence, "NOTE", why)  # type: ignore[attr-defined]


def _frames(entries: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """The bodies of frames that hold these messages; the first report and each behind a gap is told its number."""
    frame: list[bytes] = []
    size, expected = 0, -1
    for number, raw in entries:
        size += len(raw)
        if frame and (size > MAX_FRAME or len(frame) >= MAX_BATCH):
            yield messages.joined(frame)
            frame, size, expected = [], len(raw), -1
        if number:
            if number != expected:
                frame.append(messages.encode_one(Numbered(number)))
            expected = number + 1
        frame.append(raw)
    if frame:
        yield messages.joined(frame)


def value_of(answer: Answer) -> dict[str, Any]:
    """What the engine answered. Raises `StaleLease` or `Refused` where it refused."""
    if answer.error == "stale":
        raise StaleLease("this attempt no longer owns its task", "another attempt took it over")
    if answer.error:
        raise Refused("the engine refused it", answer.error)
    return answer.value
