"""The engine's end of a client's connection: its calls are carried out, and answered in the order in which they came.

Works in plain functions as messages arrive and commits end: with a task and an event for each step, a pass of the loop for
each of them would cost more than what is done in it. Loop thread only. Must not know what a verb does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ..edge.frames import MAX_BODY
from ..edge.link import AsyncLink, LinkError
from ..errors import TaskdeckError, UsageError
from .futures import begun
from .messages import Call, Reply, encode, from_peer

log = logging.getLogger("taskdeck.engine")

Verb = Callable[[dict[str, Any], str], Awaitable[Any]]
Together = Callable[[list[tuple[dict[str, Any], str]]], Awaitable[list[Any]]]
"""Carries out calls (arguments, actor); returns for each its answer, or the error that refuses it."""

CALLS_AT_ONCE, GROUPS_AT_ONCE = 64, 4
"""Calls of one client that are carried out together at most, and how many such groups at the same time: while one is
written the next is prepared, and the client hears the answers of the one before."""


class Clients:
    """All clients of one engine. `verbs` are what they may call, `together` those whose calls are carried out at once."""

    def __init__(self, verbs: Mapping[str, Verb], together: Mapping[str, Together]) -> None:
        self.verbs, self.together = verbs, together
        self.calls = 0
        """Those that are being answered."""

    async def serve(self, link: AsyncLink, rest: list[Any]) -> None:
        """Serve a client's connection until it ends; `rest` came in one frame with its hello.

        Raises `msgspec.DecodeError` where it says what is no message of ours, and whatever else keeps it from being
        understood or answered.
        """
        await _Conversation(self, link).hold(rest)


class _Group:
    """Calls of one verb that are carried out together."""

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls
        self.told: list[Any] | None = None
        """For each its answer, or the error that refuses it; none where nothing will ever be told."""
        self.is_done = False


class _Conversation:
    """Some calls go at once where their verb can do that, the next of them while these are written; all others one after the
    other, behind all that came before."""

    def __init__(self, clients: Clients, link: AsyncLink) -> None:
        self._clients = clients
        self._link = link
        self._waiting = deque[Call]()
        self._under_way = deque[_Group]()
        self._alone: asyncio.Task[None] | None = None
        self._is_cut = False
        """It said what is no message of ours, or can't be answered: nothing of it is begun any more."""
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def hold(self, rest: list[Any]) -> None:
        self._add(rest)
        self._link.on_arrival(self._go_on)
        try:
            self._go_on()
            await self._over
        finally:
            self._link.on_arrival(_nothing)  # else the link and this would hold each other

    def _go_on(self) -> None:
        """Begin what may be begun; called whenever something has come, or something else is done."""
        if self._is_cut:
            return
        try:
            while self._begins_next():
                pass
        except Exception as error:  # nobody above would hear of it
            self._cut(error)
        if self._link.closed and not self._over.done():
            self._over.set_result(None)

    def _cut(self, error: Exception) -> None:
        """With this client it can't go on: whoever holds the conversation is told why, and ends the link."""
        self._is_cut = True
        self._waiting.clear()
        if not self._over.done():
            self._over.set_exception(error)

    def _begins_next(self) -> bool:
        waiting, link = self._waiting, self._link
        while len(waiting) < CALLS_AT_ONCE * GROUPS_AT_ONCE and (body := link.received()) is not None:
            self._add(from_peer(body))
        if not waiting or self._alone is not None or len(self._under_way) >= GROUPS_AT_ONCE:
            return False
        verb = waiting[0].verb
        together = self._clients.together.get(verb)
        if together is None and self._under_way:
            return False
        most = CALLS_AT_ONCE if together else 1
        calls = [waiting.popleft()]
        while waiting and len(calls) < most and waiting[0].verb == verb:
            calls.append(waiting.popleft())
        if link.closed or link.is_abandoned():
            log.warning("not begun, since who asked has gone: requests=%d", len(calls))
        elif together:
            self._carry_out(together, calls)
        else:
            self._alone = asyncio.create_task(self._carry_out_alone(calls[0]))
            self._alone.add_done_callback(self._is_alone_no_more)
        return True

    def _add(self, messages: Sequence[Any]) -> None:
        for message in messages:
            if isinstance(message, Call):
                self._waiting.append(message)

    # ---- at once -------------------------------------------------------------------------------------------------

    def _carry_out(self, together: Together, calls: list[Call]) -> None:
        group = _Group(calls)
        self._under_way.append(group)
        self._clients.calls += len(calls)
        told = begun(lambda: together([(call.args, call.actor) for call in calls]))
        told.add_done_callback(partial(self._is_done, group))

    def _is_done(self, group: _Group, told: asyncio.Future[list[Any]]) -> None:
        group.is_done = True
        if not told.cancelled():
            error = told.exception()
            group.told = [error] * len(group.calls) if error is not None else told.result()
        try:
            while self._under_way and self._under_way[0].is_done:
                self._answer(self._under_way.popleft())
        except Exception as error:
            self._cut(error)
        self._go_on()

    def _answer(self, group: _Group) -> None:
        self._clients.calls -= len(group.calls)
        if group.told is not None:
            self._tell([_reply(call, told) for call, told in zip(group.calls, group.told, strict=True)])

    # ---- one after the other -------------------------------------------------------------------------------------

    async def _carry_out_alone(self, call: Call) -> None:
        self._clients.calls += 1
        try:
            verb = self._clients.verbs.get(call.verb)
            if verb is None:
                raise UsageError(f"the engine knows no verb {call.verb!r}", "it may be of another version")
            told = await verb(call.args, call.actor)
        except Exception as error:
            told = error
        finally:
            self._clients.calls -= 1
        self._tell([_reply(call, told)])

    def _is_alone_no_more(self, task: asyncio.Task[None]) -> None:
        self._alone = None
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._cut(error)
        self._go_on()

    def _tell(self, replies: list[Reply]) -> None:
        bodies = _bodies(replies)
        with suppress(LinkError):  # nobody waits any more
            for body in bodies:
                self._link.send(body, at_once=True)


def _nothing() -> None:
    """Nobody is told of what arrives."""


def _reply(call: Call, told: Any) -> Reply:
    """What is told of a call: its answer, or the error that refused it."""
    if isinstance(told, Exception):
        return Reply(call.req, error=refusal(call.verb, told).as_told())
    return Reply(call.req, told)


def refusal(verb: str, error: Exception) -> TaskdeckError:
    """What a client is told of an error. One that nobody meant to raise stands in the engine's log."""
    if isinstance(error, TaskdeckError):
        return error
    log.error("verb %s failed", verb, exc_info=error)
    return TaskdeckError(f"the engine failed at {verb}: {type(error).__name__}", remedy="see its log")


def _bodies(replies: list[Reply]) -> list[bytes]:
    """The frames in which these are told, in order: one, unless they are too large together."""
    body = encode(replies)
    if len(body) <= MAX_BODY:
        return [body]
    if len(replies) > 1:
        half = len(replies) // 2
        return _bodies(replies[:half]) + _bodies(replies[half:])
    error = TaskdeckError(
        "it was carried out, and the answer is too large to be told",
        f"it is {len(body)} bytes, at most {MAX_BODY}",
        "look: taskdeck list; the next time ask for it in parts",
    )
    return [encode([Reply(replies[0].req, error=error.as_told())])]
