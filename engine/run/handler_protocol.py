"""What a sync handler's process says: the lines of commands, and those that only our own code on the other end may use.

Every line has exactly one answer. Values of the author's travel as JSON texts, so that their limits are checked as a whole.
Must not know how the process was started.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from ..errors import InvalidPayload, TaskdeckError
from ..rules import payloads
from ..rules.failures import Failure
from .attempts import Attempt
from .protocol import LineProtocol, Verbs
from .request_log import RequestLog

MAX_LINE = 4 * 1024 * 1024
"""Bytes: a value of 1 MiB as a JSON text within JSON."""

GIVEN = "run"
"""The first line's key: what the process shall do."""


class HandlerProtocol(LineProtocol):
    """Serves one sync handler. `on_end` is called when it has said how it ended."""

    def __init__(
        self,
        attempt: Attempt,
        sock: socket.socket,
        on_checkpoint: Callable[[], None],
        on_end: Callable[[], None],
        given: dict[str, Any],
    ) -> None:
        super().__init__(attempt, sock, on_checkpoint)
        self._given = given
        self._on_end = on_end
        self.result: str | None = None
        """JSON text of what the handler returned (empty = None)."""
        self.failure: Failure | None = None
        self.in_doubt = ""
        """The operation that a person must settle, in words."""
        self.stopped = False
        """It ended because it was asked to."""
        self._requests = RequestLog(attempt)

    max_line: ClassVar[int] = MAX_LINE

    def start(self) -> None:
        """It is spoken to first."""
        self._serving = asyncio.ensure_future(self.serve())

    async def _greet(self) -> None:
        await self._answer(self._given)

    async def _answer_of(self, line: bytes) -> dict[str, Any]:
        try:
            return await self._handled(line) or {}
        except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
            raise InvalidPayload("the line was not understood", repr(error)) from None

    def _refusal(self, error: TaskdeckError) -> dict[str, Any]:
        return {"error": error.as_told()}

    def _decoded(self, line: bytes) -> Any:
        try:
            return msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidPayload("the line was not understood", str(error)) from None

    async def _save(self, said: dict[str, Any]) -> dict[str, Any]:
        changes = payloads.decode(said["save"], where="checkpoint")
        await self._attempt.save(changes, merge=bool(said.get("merge")))
        self._note_checkpoint()
        return {}

    async def _figures(self, said: dict[str, Any]) -> dict[str, Any]:
        done, total = said["figures"]
        self._attempt.report(done, total, said["note"])
        return {}

    async def _settle(self, said: dict[str, Any]) -> dict[str, Any]:
        key, scope, state = said["settle"], said.get("scope", ""), said["state"]
        if state == "IN_DOUBT":
            self._attempt.doubt(key, scope)
        else:
            text = said.get("result", "")
            result = payloads.decode(text, where="result") if text else None
            await self._attempt.end(key, state, scope, result)
        return {}

    async def _on_rollback(self, said: dict[str, Any]) -> dict[str, Any]:
        arguments = payloads.decode(said["arguments"], where="arguments")
        number = await self._attempt.on_rollback(
            said["on_rollback"],
            arguments,
            repeatable=bool(said["repeatable"]),
            undoes=said["undoes"],
            scope=said["scope"],
        )
        return {"number": number}

    async def _check(self, said: dict[str, Any]) -> dict[str, Any]:
        self._on_checkpoint()
        return {}

    async def _blocked(self, said: dict[str, Any]) -> dict[str, Any]:
        self._requests.blocked(said["host"], said["blocked"])
        return {}

    async def _requested(self, said: dict[str, Any]) -> dict[str, Any]:
        self._requests.told_by_process(said)
        return {}

    async def _returned(self, said: dict[str, Any]) -> dict[str, Any]:
        text = said["returned"]
        if text:
            payloads.decode(text, where="result")
        self.result = text
        return self._end()

    async def _failed(self, said: dict[str, Any]) -> dict[str, Any]:
        self.failure = msgspec.convert(said["failed"], Failure)
        return self._end()

    async def _doubted(self, said: dict[str, Any]) -> dict[str, Any]:
        self.in_doubt = said["in_doubt"]
        return self._end()

    async def _stopped(self, said: dict[str, Any]) -> dict[str, Any]:
        self.stopped = True
        return self._end()

    def _end(self) -> dict[str, Any]:
        self._requests.flush()
        self._on_end()
        return {}

    may_stand_together = tuple(map(frozenset, (["figures"], ["save"], ["settle"], ["event"])))

    verbs: ClassVar[Verbs] = {
        **{verb: LineProtocol.verbs[verb] for verb in ("operation", "event", "together")},
        "figures": (("note",), _figures),
        "save": (("merge",), _save),
        "settle": (("scope", "state", "result"), _settle),
        "on_rollback": (("arguments", "repeatable", "undoes", "scope"), _on_rollback),
        "check": ((), _check),
        "blocked": (("host",), _blocked),
        "requested": (("method", "status", "ms", "after", "error"), _requested),
        "returned": ((), _returned),
        "failed": ((), _failed),
        "in_doubt": ((), _doubted),
        "stopped": ((), _stopped),
    }
