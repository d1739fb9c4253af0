"""`ctx.once`: one business effect, recorded before and after, so that a crash in between is seen and never guessed.

Owns what happens around the body: skip what is done, settle what is in doubt, record how it ended. Must not retry the
body itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from .. import NotDone
from ..rules import payloads
from .attempts import Attempt
from .endings import InDoubt
from .messages import OperationState

inside_operation: ContextVar[tuple[str, str] | None] = ContextVar("inside_operation", default=None)
"""Key and scope of the operation whose body this is. In there nobody is asked to stop: the effect might be half done."""

ROLLING_BACK = ("", "")
"""In an undo step, which is an operation as a whole, though none that the handler named."""

Verify = Callable[[str], Awaitable[Any]]


class Once:
    """`async with ctx.once(key) as op:` do it where `op.done` is False, and set `op.result`."""

    def __init__(
        self,
        attempt: Attempt,
        key: str,
        scope: str,
        verify: Verify | None,
        verify_after: float,
        check: Callable[[], None],
    ) -> None:
        self.key = key
        self.scope = scope
        self.done = False
        self.result: Any = None
        self._attempt = attempt
        self._verify = verify
        self._verify_after = verify_after
        self._check = check
        self._inside: Token[tuple[str, str] | None] | None = None

    async def __aenter__(self) -> Once:
        state = await self._attempt.begin(self.key, self.scope)
        if state.state == "in_doubt":
            await self._settle(state)
        elif state.state == "done":
            self._take(payloads.decode(state.result, where="result") if state.result else None)
        self._inside = inside_operation.set((self.key, self.scope))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._inside is not None:
            inside_operation.reset(self._inside)
        if self.done:
            return
        if error is None:
            await self._record_done(self.result)
        elif isinstance(error, NotDone):
            await self._attempt.end(self.key, "NOT_DONE", self.scope)
        else:
            self._attempt.doubt(self.key, self.scope)

    async def _settle(self, state: OperationState) -> None:
        """Ask the type's `verify`, but only once the old request must be dead: a late one could double the effect."""
        if self._verify is None:
            raise InDoubt(self.key, state.owner)
        await self._attempt.rest(self._verify_after - state.age)
        self._check()
        try:
            result = await self._verify(self.key)
        except NotDone:
            await self._attempt.end(self.key, "NOT_DONE", self.scope)
            await self._attempt.begin(
                self.key, self.scope
            )  # a new intent, so that a crash from here on is seen too
            return
        await self._record_done(result)
        self._take(result)

    async def _record_done(self, result: Any) -> None:
        try:
            await self._attempt.end(self.key, "DONE", self.scope, result)
        except Exception:  # a result that is no JSON, a refusal: the effect happened all the same
            self._attempt.doubt(self.key, self.scope)
            raise

    def _take(self, result: Any) -> None:
        self.done = True
        self.result = result
