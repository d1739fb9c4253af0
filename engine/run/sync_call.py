"""One attempt of a sync handler: `sync_handler` in a process of its own, so that it may block and be ended at any moment.

Owns what that process is given and how its end is judged. Must not import the handler's code.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable

import msgspec

from ..edge.spawn import Child, start
from ..rules import failures
from ..rules.failures import Failure, FailureClass
from .attempts import Attempt
from .endings import failed, in_doubt, safe
from .handler_protocol import GIVEN, HandlerProtocol
from .handlers import Handler
from .journal import StartJournal
from .messages import Outcome, Welcome
from .process_call import STATUS_LOST, ProcessCall
from .protocol import LineProtocol
from .strays import Commands

MODULE = "taskdeck.engine.run.sync_handler"

ENDED_FROM_OUTSIDE = Failure(
    FailureClass.RETRYABLE, "killed", "somebody ended the handler's process by SIGTERM", "ended by SIGTERM"
)


class SyncCall(ProcessCall):
    """Runs `handler` for `attempt`. Pause is a SIGSTOP; cancel is a SIGTERM, which the process raises as StopRequested."""

    def __init__(
        self,
        attempt: Attempt,
        handler: Handler,
        settings: Welcome,
        journal: StartJournal,
        commands: Commands,
    ) -> None:
        super().__init__(attempt, settings, journal, commands)
        self._handler = handler
        self._spoken: HandlerProtocol | None = None

    def _spawn(self, fd: int, given: dict[str, str]) -> Callable[[], Child]:
        env = {name: os.environ[name] for name in self._inheritable(os.environ)} | given
        return lambda: start([sys.executable, "-m", MODULE], env=env, pass_fds=[fd])

    def _protocol_on(self, ours: socket.socket) -> LineProtocol:
        given = {
            "source": self._handler.source,
            "root": self._handler.root,
            GIVEN: msgspec.to_builtins(self.attempt.run),
        }
        self._spoken = HandlerProtocol(self.attempt, ours, self._at_checkpoint, self._note_end, given)
        return self._spoken

    def _note_end(self) -> None:
        """It has said how it ended: threads and exit handlers of the author's have a little time and no more."""
        process = self._process
        if process is not None:
            self._after(self._settings.output_drain, lambda: process.end(0.0))

    def _said(self, tail: str) -> Outcome | None:
        """Work that is done is never hidden."""
        run, said = self.attempt.run, self._spoken
        if said is None or said.result is None:
            return None
        return Outcome(run.task_id, run.fence, "succeeded", result=said.result, tail=tail)

    def _judge(self, code: int | None, tail: str) -> Outcome:
        run, said = self.attempt.run, self._spoken
        if said is not None and said.stopped and self.attempt.asked:
            return Outcome(run.task_id, run.fence, self.attempt.outcome_asked, tail=tail)
        if said is not None and said.stopped:
            return failed(run, ENDED_FROM_OUTSIDE, exit_code=code, tail=tail)
        if said is not None and said.in_doubt:
            return in_doubt(run, said.in_doubt, tail=tail)
        if said is not None and said.failure is not None:
            message = safe(said.failure.message, self.attempt.held.redactor)
            failure = msgspec.structs.replace(said.failure, message=message)
            is_judged = failure.rule.startswith("raised ")
            return failed(run, failure if is_judged else self.route_fault() or failure, tail=tail)
        return failed(run, _vanished(code), exit_code=code, tail=tail)


def _vanished(code: int | None) -> Failure:
    """The process ended without a word of the handler: killed, or out by `os._exit`."""
    if code is None:
        return STATUS_LOST
    if code < 0 and (killed := failures.from_exit(code, {})):
        return msgspec.structs.replace(killed, message=killed.message.replace("command", "handler's process"))
    story = f"the handler's process exited with {code} before the handler returned"
    return Failure(FailureClass.RETRYABLE, "handler_exited", story, "processes", detail=str(code))
