"""What a command says through TASKDECK_FD: one JSON object a line, and one-line answers where it asks.

Any language can speak it. Nothing that a command writes here ends or fails the task; a bad line is answered and told once.
Must not know how the command was started.
"""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

import msgspec

from ..edge import readers
from ..errors import InvalidPayload, StaleLease, TaskdeckError
from ..rules import payloads
from ..rules.cleaning import clean
from ..rules.patterns import pattern
from .attempts import Attempt, gathered
from .together import Together

MAX_LINE = 1024 * 1024
READ_SIZE = 64 * 1024
EVENT_TYPE = pattern(r"[A-Z][A-Z0-9_]{0,63}")
CHECKPOINT_LIMIT = 100_000
"""Bytes of a command's checkpoint: it comes back in one environment variable, which the kernel limits to 128 KiB."""
ANSWERS = {"new": "new", "done": "done", "in_doubt": "doubt"}

Answer = dict[str, Any] | None
Verbs = Mapping[str, tuple[tuple[str, ...], Callable[[Any, dict[str, Any]], Awaitable[Answer]]]]


class LineProtocol:
    """Serves one command at our end of its socket until it closes. `on_checkpoint` is called after each durable one."""

    def __init__(self, attempt: Attempt, sock: socket.socket, on_checkpoint: Callable[[], None]) -> None:
        self._attempt = attempt
        self._sock = sock
        self._on_checkpoint = on_checkpoint
        self._told = False
        self.spoke = False
        """Has it ever said a line that made sense?"""
        self.fault: tuple[str, str] | None = None
        """The resource that it said is at fault (empty = the one it holds), and its words."""
        self.ended = asyncio.Event()
        self._waits = False
        """Has it not said anything yet?"""
        self._serving: asyncio.Task[None] | None = None

    max_line: ClassVar[int] = MAX_LINE
    """Bytes of one line."""

    def start(self) -> None:
        """Answer from the first word on. Most commands never say any: for those nothing but a descriptor is watched."""
        self._waits = True
        readers.of_loop().add(self._sock.fileno(), self.look)

    def look(self) -> None:
        """Take the first words, where it has said any; harmless afterwards."""
        if not self._waits:
            return
        try:
            data = self._sock.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._wait_no_more()
        if data:
            self._serving = asyncio.ensure_future(self.serve(data))
        else:
            self.ended.set()

    async def stop(self) -> None:
        """Hear and answer no more."""
        self._wait_no_more()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    def _wait_no_more(self) -> None:
        if self._waits:
            self._waits = False
            readers.of_loop().remove(self._sock.fileno())

    async def serve(self, data: bytes = b"") -> None:
        """Read lines and answer them, in order; `data` is what has been read already."""
        loop = asyncio.get_running_loop()
        lines = Lines(self.max_line)
        try:
            await self._greet()
            while data := data or await loop.sock_recv(self._sock, READ_SIZE):
                arrived, data = data, b""
                for line in lines.feed(arrived):
                    await self._take(line)
            for line in lines.rest():
                await self._take(line)
        except OSError:
            pass  # it closed its end without reading our answers
        finally:
            self.ended.set()

    async def _greet(self) -> None:
        """What is said before the first line is read."""

    async def _take(self, line: bytes | None) -> None:
        try:
            if line is None:
                raise InvalidPayload("the line was skipped", f"it is longer than {self.max_line} bytes")
            answer = await self._answer_of(line)
        except TaskdeckError as error:
            answer = self._refusal(error)
        if answer is not None:
            await self._answer(answer)

    async def _answer_of(self, line: bytes) -> Answer:
        return await self._handled(line) if line.strip() else None

    def _refusal(self, error: TaskdeckError) -> dict[str, Any]:
        story = clean(str(error), limit=500)
        if not self._told and not isinstance(error, StaleLease):
            self._told = True
            self._attempt.note("PROTOCOL_ERROR", story)
        return {"error": story}

    async def _answer(self, answer: dict[str, Any]) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, msgspec.json.encode(answer) + b"\n")

    async def _handled(self, line: bytes) -> Answer:
        answer = await self._understood(self._decoded(line))
        self.spoke = True
        return answer

    async def _understood(self, said: Any) -> Answer:
        if not isinstance(said, dict):
            raise InvalidPayload("the line was not understood", "it is not a JSON object")
        verbs = [verb for verb in self.verbs if verb in said]
        if len(verbs) != 1:
            raise InvalidPayload("the line was not understood", f"it needs one of {', '.join(self.verbs)}")
        allowed, handle = self.verbs[verbs[0]]
        if unknown := said.keys() - allowed - {verbs[0]}:
            raise InvalidPayload(
                "the line was not understood",
                f"unknown key {min(unknown)[:80]!r}; known: {', '.join(allowed)}",
            )
        return await handle(self, said)

    def _decoded(self, line: bytes) -> Any:
        return payloads.decode(line, where="line")

    async def _progress(self, said: dict[str, Any]) -> Answer:
        figures = said["progress"] if isinstance(said["progress"], list) else [said["progress"]]
        if not 1 <= len(figures) <= 2 or not all(_is_number(one) for one in figures):
            raise InvalidPayload("progress was not understood", "say [done, total] or done")
        done, total = figures[0], figures[1] if len(figures) == 2 else None
        self._attempt.report(done, total, _text(said, "note"))
        return None

    async def _checkpoint(self, said: dict[str, Any]) -> Answer:
        changes = said["checkpoint"]
        if not isinstance(changes, dict):
            raise InvalidPayload("the checkpoint was not saved", "it is not a JSON object")
        if len(payloads.encode(changes).encode()) > CHECKPOINT_LIMIT:
            raise InvalidPayload(
                "the checkpoint was not saved", f"a command's is at most {CHECKPOINT_LIMIT} bytes"
            )
        await self._attempt.save(changes, merge=bool(said.get("merge", False)))
        self._note_checkpoint()
        return {"checkpoint": "saved"} if said.get("reply") else None

    async def _operation(self, said: dict[str, Any]) -> Answer:
        key, scope = _text(said, "operation"), _text(said, "scope")
        if not key or len(key) > 500:
            raise InvalidPayload("the operation was not recorded", "a key has 1 to 500 characters")
        if "done" not in said:
            state = await self._attempt.begin(key, scope)
            result = payloads.decode(state.result, where="result") if state.result else None
            answer = {"state": ANSWERS.get(state.state, state.state), "result": result, "age": state.age}
            return {**answer, "owner": state.owner} if state.owner else answer
        if not isinstance(said["done"], bool):
            raise InvalidPayload("the operation was not recorded", "done is true or false")
        await self._attempt.end(key, "DONE" if said["done"] else "NOT_DONE", scope, said.get("result"))
        return {"state": "done" if said["done"] else "not_done"}

    def _note_checkpoint(self) -> None:
        if gathered.get() is None:
            self._on_checkpoint()

    async def _together(self, said: dict[str, Any]) -> Answer:
        parts = said["together"]
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise InvalidPayload("nothing was written", "together is a list of objects")
        async with Together(self._attempt, self._on_checkpoint):
            for part in parts:
                if not any(part.keys() >= keys for keys in self.may_stand_together):
                    known = ", ".join(" + ".join(sorted(keys)) for keys in self.may_stand_together)
                    raise InvalidPayload("nothing was written", f"together may be written: {known}")
                await self._understood(part)
        return {"together": "written"}

    may_stand_together: ClassVar[tuple[frozenset[str], ...]] = tuple(
        map(frozenset, (["progress"], ["checkpoint"], ["operation", "done"], ["event"]))
    )
    """The keys of what can be written in one transaction."""

    async def _rollback(self, said: dict[str, Any]) -> Answer:
        argv = said["rollback"]
        if (
            not isinstance(argv, list)
            or not argv
            or not all(isinstance(word, str) and "\0" not in word for word in argv)
        ):
            raise InvalidPayload(
                "the undo step was not registered", "it is a list of texts, the program first"
            )
        if not argv[0]:
            raise InvalidPayload("the undo step was not registered", "its program is empty")
        number = await self._attempt.on_rollback(
            clean(shlex.join(argv), limit=80),
            {"argv": argv},
            repeatable=said.get("repeatable") is True,
            undoes=_text(said, "undoes"),
            scope=_text(said, "scope"),
        )
        return {"rollback": number}

    async def _event(self, said: dict[str, Any]) -> Answer:
        kind = _text(said, "event")
        if not EVENT_TYPE.fullmatch(kind):
            raise InvalidPayload("the event was not understood", "its type is A-Z 0-9 _, at most 64")
        payload = said.get("payload")
        self._attempt.note(kind, _text(said, "message"), payload if isinstance(payload, dict) else None)
        return None

    async def _fault(self, said: dict[str, Any]) -> Answer:
        name, message = _text(said, "fault"), _text(said, "message")
        held = self._attempt.held
        if name and not held.holds(name) and name not in held.resources:
            raise InvalidPayload("the fault was not noted", f"the attempt does not hold {name[:80]!r}")
        self.fault = name, message
        return None

    verbs: ClassVar[Verbs] = {
        "progress": (("note",), _progress),
        "checkpoint": (("merge", "reply"), _checkpoint),
        "operation": (("scope", "done", "result"), _operation),
        "together": ((), _together),
        "rollback": (("repeatable", "undoes", "scope"), _rollback),
        "event": (("message", "payload"), _event),
        "fault": (("message",), _fault),
    }
    """What may be said, with the other keys that may stand beside it."""


class Lines:
    """Cuts a stream into lines; a line over the limit is not kept and comes out as None."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that `data` completes."""
        *ends, tail = data.split(b"\n")
        lines = [self._complete(end) for end in ends]
        self._add(tail)
        return lines

    def rest(self) -> list[bytes | None]:
        """A last line without its newline."""
        return [self._complete(b"")] if self._buffer or self._skipping else []

    def _complete(self, end: bytes) -> bytes | None:
        self._add(end)
        line = None if self._skipping else bytes(self._buffer)
        self._buffer.clear()
        self._skipping = False
        return line

    def _add(self, piece: bytes) -> None:
        if not self._skipping:
            self._buffer += piece
        if len(self._buffer) > self._limit:
            self._buffer.clear()
            self._skipping = True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(said: dict[str, Any], key: str) -> str:
    value = said.get(key, "")
    if not isinstance(value, str):
        raise InvalidPayload("the line was not understood", f"{key} is not a text")
    return value
