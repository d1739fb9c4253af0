"""One attempt of type `shell`: a command in any language.

Owns what a command is given and what its exit code and its lines say. Must not know of other attempts.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from ..edge.spawn import Child, command_environment, start
from ..rules import failures, payloads
from ..rules.failures import Failure, FailureClass
from ..rules.references import kind_of
from . import params
from .attempts import Attempt
from .endings import failed, safe
from .journal import StartJournal
from .messages import Outcome, Welcome
from .process_call import STATUS_LOST, ProcessCall
from .protocol import CHECKPOINT_LIMIT, LineProtocol
from .references import resolved
from .shell import ShellPayload
from .strays import Commands


class Command(ProcessCall):
    """Runs the command of `attempt`."""

    def __init__(
        self, attempt: Attempt, settings: Welcome, journal: StartJournal, commands: Commands
    ) -> None:
        super().__init__(attempt, settings, journal, commands)
        self._payload = _payload(attempt.run.payload)
        self._asked: dict[str, str] = {}
        """The variables of the payload, their references looked up."""
        self.suspends = self._payload.pause == "stop"

    async def _prepare(self) -> None:
        await super()._prepare()
        if any(kind_of(value) == "cmd" for value in self._payload.env.values()):
            self._asked = await asyncio.to_thread(self._look_up)  # for as long as that command takes
        else:
            self._asked = self._look_up()

    def _look_up(self) -> dict[str, str]:
        passwords = self.attempt.passage.passwords
        return {name: resolved(name, value, passwords) for name, value in self._payload.env.items()}

    def _spawn(self, fd: int, given: dict[str, str]) -> Callable[[], Child]:
        checkpoint = self.attempt.run.checkpoint or "{}"
        if len(checkpoint.encode()) <= CHECKPOINT_LIMIT:
            given["TASKDECK_CHECKPOINT"] = checkpoint
        if self.attempt.run.step:
            given["TASKDECK_ROLLBACK"] = self.attempt.run.step
        allowed = self._inheritable(self._settings.environment)
        env = _environment(self._asked, os.environ, allowed, given)
        cwd = self._payload.cwd or None
        return lambda: start(self._payload.argv, cwd=cwd, env=env, pass_fds=[fd])

    def _protocol_on(self, ours: socket.socket) -> LineProtocol:
        return LineProtocol(self.attempt, ours, self._at_checkpoint)

    def _judge(self, code: int | None, tail: str) -> Outcome:
        run = self.attempt.run
        meanings = _failure_class_of_codes(run.exit_codes)
        failure = STATUS_LOST if code is None else failures.from_exit(code, meanings)
        if failure is None:
            return Outcome(run.task_id, run.fence, "succeeded", exit_code=code, tail=tail)
        return failed(run, self._reported_fault() or self._fault_behind(failure), exit_code=code, tail=tail)

    def _fault_behind(self, failure: Failure) -> Failure:
        """The command may not know that it failed for its route; what it calls final is final."""
        by_route = self.route_fault() if failure.class_ is FailureClass.RETRYABLE else None
        return by_route or failure

    def _reported_fault(self) -> Failure | None:
        """What the command said of a resource before it failed."""
        if self._protocol is None or self._protocol.fault is None:
            return None
        name, message = self._protocol.fault
        held = self.attempt.held
        story = safe(message or "the command reported a fault", held.redactor)
        return held.blamed(
            Failure(FailureClass.RESOURCE_FAULT, "resource_fault", story, "said by the command", detail=name)
        )


_plain = msgspec.json.Decoder(ShellPayload)


def _payload(text: str) -> ShellPayload:
    """The stored payload. Raises `InvalidPayload` that names the place."""
    try:
        return _plain.decode(text)
    except msgspec.MsgspecError:  # the strict way is slower, and says exactly what is wrong
        return params.convert(ShellPayload, payloads.decode(text, where="payload"))


def _environment(
    asked: Mapping[str, str], own: Mapping[str, str], allowed: list[str], given: Mapping[str, str]
) -> dict[str, str]:
    """The command's variables: allowed ones of `own`, those that the payload asks for, then `given`."""
    found = command_environment(own, allowed, {**asked, **given})
    return found | {"PATH": _with_taskdeck(found.get("PATH", os.defpath))}


@lru_cache(maxsize=64)
def _with_taskdeck(path: str) -> str:
    """`path` with the directory of our own programs at its end, so that a command finds `taskdeck op` and `taskdeck add`."""
    ours = os.path.dirname(sys.executable)
    return path if ours in path.split(os.pathsep) else f"{path}{os.pathsep}{ours}"


def _failure_class_of_codes(exit_codes: Mapping[str, str]) -> dict[int, str]:
    """The configured map of exit codes with numbers as keys; what is no number was refused by the configuration."""
    return {int(code): meaning for code, meaning in exit_codes.items() if code.lstrip("-").isdigit()}
