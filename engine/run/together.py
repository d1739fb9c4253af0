"""`ctx.together`: what a handler says in the block is written in one transaction when the block ends, or none of it.

Checkpoints, operations that were done, progress and events then never tell different stories, whatever dies in between.
Must not hold back an intent: that is durable before its effect.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token
from types import TracebackType

from .attempts import Attempt, gathered
from .messages import Message


class Together:
    """`async with ctx.together():` nobody is asked to stop in there; `check` is called behind it."""

    def __init__(self, attempt: Attempt, check: Callable[[], None]) -> None:
        self._attempt = attempt
        self._check = check
        self._before = attempt.checkpoint
        self._parts: list[Message] = []
        self._token: Token[list[Message] | None] | None = None

    async def __aenter__(self) -> None:
        if gathered.get() is not None:
            raise RuntimeError("`together` stands within another one already")
        self._before = self._attempt.checkpoint
        self._token = gathered.set(self._parts)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._token is not None
        gathered.reset(self._token)
        if error is not None:
            self._attempt.checkpoint = self._before
            await self._attempt.settle_alone(self._parts)
            return
        try:
            await self._attempt.commit(self._parts)
        except BaseException:
            self._attempt.checkpoint = self._before
            raise
        self._check()
