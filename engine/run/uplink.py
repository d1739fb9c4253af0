"""The worker's way to the engine: all it says, in order, as frames of whatever is waiting; and answers to what it asks.

Saying is safe from any thread and never blocks, so that an engine which is slow to read can't stall handlers. Must not
know what an attempt is.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import msgspec

from ..edge.link import LinkError
from ..errors import Refused, StaleLease
from ..rules.failures import Failure, FailureClass
from . import messages
from .crash import crash_at
from .messages import Answer, Message, Note, Outcome

MAX_BATCH = 1024
"""Messages in one frame."""

EXIT_MUTE = 70
"""Exit code of a worker whose way to the engine has broken from within."""

MAX_FRAME = 8 * 1024 * 1024
"""Bytes; a batch above it is sent in halves. One message is far below, since JSON values are at most 1 MiB."""


class Uplink:
    """Sends from a thread of its own through `send` (which raises `LinkError` when the engine is gone)."""

    def __init__(self, send: Callable[[bytes], None], loop: asyncio.AbstractEventLoop) -> None:
        self._send = send
        self._loop = loop
        self._waiting: SimpleQueue[Message | None] = SimpleQueue()
        self._requests: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = count(1)
        self._thread = Thread(target=self._deliver, name="uplink", daemon=True)
        self._thread.start()

    def post(self, message: Message) -> None:
        """Say it; no answer is expected."""
        self._waiting.put(message)

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

    def close(self, seconds: float) -> None:
        """Send what is waiting, for at most `seconds`, and end."""
        self._waiting.put(None)
        self._thread.join(seconds)

    def _deliver(self) -> None:
        try:
            with suppress(LinkError, OSError):  # the reading side notices the same and acts
                while batch := self._next_batch():
                    self._send_batch(batch)
        except (
            BaseException
        ):  # a worker that can't speak must not live on: its death is seen, its silence is not
            traceback.print_exc()
            os._exit(EXIT_MUTE)

    def _next_batch(self) -> list[Message]:
        """What is waiting, at least one; empty = closed."""
        batch: list[Message] = []
        first = self._waiting.get()
        with suppress(Empty):
            while first is not None:
                batch.append(first)
                if len(batch) == MAX_BATCH:
                    break
                first = self._waiting.get_nowait()
            else:
                self._waiting.put(None)
        return batch

    def _send_batch(self, batch: list[Message]) -> None:
        try:
            body = messages.encode(batch)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            if len(batch) == 1:
                self._replace(batch[0], error)
            else:
                self._send_halves(batch)
            return
        if len(body) > MAX_FRAME and len(batch) > 1:
            self._send_halves(batch)
            return
        ends = any(isinstance(message, Outcome) for message in batch)
        if ends:
            crash_at("before_outcome_send")
        self._send(body)
        if ends:
            crash_at("after_outcome_send")

    def _send_halves(self, batch: list[Message]) -> None:
        half = len(batch) // 2
        self._send_batch(batch[:half])
        self._send_batch(batch[half:])

    def _replace(self, message: Message, error: Exception) -> None:
        """One message holds what no frame can carry (a lone surrogate, a number past 64 bits): it alone is refused."""
        why = f"{type(message).__name__} can't be sent: {type(error).__name__}"
        if req := getattr(message, "req", 0):
            self._loop.call_soon_threadsafe(self.answered, Answer(req, {}, why))
        elif isinstance(message, Outcome):
            failure = Failure(FailureClass.FATAL, "bad_outcome", why, "uplink")
            text = msgspec.json.encode(failure).decode()
            self._send_batch([Outcome(message.task_id, message.fence, "failed", failure=text)])
        elif hasattr(message, "fence"):
            self._send_batch([Note(message.task_id, message.fence, "NOTE", why)])  # type: ignore[attr-defined]


def value_of(answer: Answer) -> dict[str, Any]:
    """What the engine answered. Raises `StaleLease` or `Refused` where it refused."""
    if answer.error == "stale":
        raise StaleLease("this attempt no longer owns its task", "another attempt took it over")
    if answer.error:
        raise Refused("the engine refused it", answer.error)
    return answer.value
