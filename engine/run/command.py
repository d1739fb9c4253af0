"""One attempt of type `shell`: a command in a session of its own, with all that it starts.

Owns its way from spawn to outcome: line protocol, timeout, pause, stop. What a command prints never changes its task.
Must not know of other attempts.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from ..clock import Clock
from ..edge import trees
from ..edge.spawn import CannotStart, Child, start
from ..errors import InvalidPayload
from ..rules import failures, payloads
from ..rules.failures import Failure, FailureClass
from . import params
from .attempts import Attempt
from .crash import crash_at
from .endings import failed, failure_of, never_started, safe, timed_out
from .journal import StartJournal
from .messages import Outcome, Started, Welcome
from .processes import Process, all_within
from .protocol import LineProtocol
from .python_logs import open_log, tail_of
from .shell import CHECKPOINT_LIMIT, ShellPayload, environment, failure_class_of_codes
from .strays import Closed, Commands

LEFT_BEHIND_GRACE = 1.0
"""Seconds between TERM and KILL for what a command leaves running in the background."""

STATUS_LOST = Failure(
    FailureClass.RETRYABLE, "status_lost", "how the command ended can't be known", "processes"
)


class Command:
    """Runs the command of `attempt`; `ask` reaches it meanwhile."""

    def __init__(
        self, attempt: Attempt, settings: Welcome, journal: StartJournal, commands: Commands
    ) -> None:
        run = attempt.run
        self.attempt = attempt
        self._settings = settings
        self._journal = journal
        self._commands = commands
        self._payload: ShellPayload = params.convert(
            ShellPayload, payloads.decode(run.payload, where="payload")
        )
        self._log = open_log(run.log_path, settings)
        self._process: Process | None = None
        self._protocol: LineProtocol | None = None
        self._countdown = Countdown(attempt.clock, run.timeout, self._time_out)
        self._tasks: list[asyncio.Task[Any]] = []
        self._told_to_end = False
        self._kill_at = float("inf")

    def ask(self, what: str, grace: float) -> None:
        """`cancel`: TERM now; `drain`: at the next checkpoint; KILL after `grace` seconds. `pause`, `resume`: as it said."""
        process, attempt = self._process, self.attempt
        if process is None or process.exited.is_set():
            if what != "resume":
                attempt.ask(what)
        elif what == "resume":
            self._resume(process)
        elif what == "pause" and self._payload.pause == "stop":
            self._suspend(process)
        elif attempt.ask(what):
            self._prepare_end(process, what, grace)

    async def run(self) -> Outcome:
        """The whole attempt; never raises what the command does."""
        run = self.attempt.run
        self._journal.start(run.fence)
        crash_at("after_start_journal")
        ours, theirs = socket.socketpair()
        try:
            process = self._start(theirs.fileno())
            theirs.close()
            return await self._see_through(process, ours)
        except Closed:
            return never_started(run)
        except CannotStart as error:
            return failed(run, _cannot_start(error), exit_code=error.equivalent)
        except InvalidPayload as error:
            return failed(run, failure_of(error, self.attempt.clock.utc()))
        finally:
            theirs.close()
            await self._let_go()
            ours.close()

    async def _let_go(self) -> None:
        """Give everything back. Tasks end first: one that still watched a closed descriptor would meet its next owner's."""
        self._countdown.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._process is not None:
            self._process.close()
        self._log.close()

    def _start(self, fd: int) -> Process:
        settings, run = self._settings, self.attempt.run
        mark = trees.mark(settings.database, run.task_id, run.attempt)
        given = {
            "TASKDECK_MARK": mark,
            "TASKDECK_TASK_ID": str(run.task_id),
            "TASKDECK_ATTEMPT": str(run.attempt),
            "TASKDECK_FD": str(fd),
        }
        checkpoint = run.checkpoint or "{}"
        if len(checkpoint.encode()) <= CHECKPOINT_LIMIT:
            given["TASKDECK_CHECKPOINT"] = checkpoint
        env = environment(self._payload, os.environ, settings.environment, given)
        cwd = self._payload.cwd or None

        def spawn() -> Child:
            return start(self._payload.argv, cwd=cwd, env=env, pass_fds=[fd])

        self._process = Process(self._commands.spawn(mark, spawn), mark, self._log, self._commands)
        self.attempt.uplink.post(Started(run.task_id, run.fence, self._process.pid))
        return self._process

    async def _see_through(self, process: Process, ours: socket.socket) -> Outcome:
        """Until nothing of it is left."""
        ours.setblocking(False)
        protocol = self._protocol = LineProtocol(self.attempt, ours, self._at_checkpoint)
        self.attempt.on_stale = self._note_stale
        self._tasks.append(asyncio.ensure_future(protocol.serve()))
        self._countdown.start()
        await process.exited.wait()
        self._countdown.stop()
        clock = self.attempt.clock
        await all_within(clock, self._settings.output_drain, process.output_ended, protocol.ended)
        await process.end(
            max(0.0, self._kill_at - clock.monotonic()) if self._told_to_end else LEFT_BEHIND_GRACE
        )
        await all_within(clock, LEFT_BEHIND_GRACE, process.output_ended, protocol.ended)
        await process.bury()
        self.attempt.progress.close()
        self.attempt.doubt_all()
        return self._outcome(process)

    def _outcome(self, process: Process) -> Outcome:
        """A cancel beats the exit code; a pause or drain beats it once the command was told to end."""
        attempt, run, tail = self.attempt, self.attempt.run, tail_of(self._log, self.attempt.held.redactor)
        code = process.exit_code
        if process.left:
            attempt.note("COMMAND_LEFT_RUNNING", _left_story(process.left), {"pids": process.left})
            tail = f"{tail}\n{_left_story(process.left)}".lstrip()
        if attempt.stale or attempt.asked == "cancel" or (attempt.asked and self._told_to_end):
            kind = "cancelled" if attempt.stale else attempt.outcome_asked
            failure = _left_failure(process.left)
            return Outcome(run.task_id, run.fence, kind, failure=failure, exit_code=code, tail=tail)
        if attempt.timed_out:
            return failed(run, timed_out(run.timeout or 0.0), exit_code=code, tail=tail)
        failure = (
            STATUS_LOST if code is None else failures.from_exit(code, failure_class_of_codes(run.exit_codes))
        )
        if failure is not None:
            return failed(run, failure, exit_code=code, tail=tail)
        return Outcome(run.task_id, run.fence, "succeeded", exit_code=code, tail=tail)

    def _prepare_end(self, process: Process, what: str, grace: float) -> None:
        """`cancel` and silent commands end now; a drained one has half of the time to reach a checkpoint."""
        silent = self._protocol is None or not self._protocol.spoke
        if what == "cancel" or process.suspended:
            self._end(process, grace)
        elif what == "drain":
            self._kill_in(process, grace)
            self._after(grace / 2, lambda: self._end(process, grace / 2))
        elif silent:
            self._end(process, self._settings.cancel_grace)

    def _at_checkpoint(self) -> None:
        if self.attempt.asked and self._process is not None:
            self._end(self._process, self._settings.cancel_grace)

    def _time_out(self) -> None:
        if self._process is not None:
            self.attempt.timed_out = True
            self._end(self._process, self._settings.cancel_grace)

    def _note_stale(self) -> None:
        """Another attempt owns the task: this one must end, whatever it has been asked."""
        if self._process is not None:
            self._end(self._process, self._settings.cancel_grace)

    def _end(self, process: Process, grace: float) -> None:
        if not self._told_to_end and not process.exited.is_set():
            self._told_to_end = True
            process.terminate()
        self._kill_in(process, grace)

    def _kill_in(self, process: Process, grace: float) -> None:
        at = self.attempt.clock.monotonic() + grace
        if at < self._kill_at:
            self._kill_at = at
            self._after(grace, lambda: process.end(0.0))

    def _suspend(self, process: Process) -> None:
        if self.attempt.asked or self._told_to_end or process.suspended:
            return
        self._countdown.stop()
        process.suspend()
        self._report("stopped")

    def _resume(self, process: Process) -> None:
        if process.suspended:
            process.resume()
            self._countdown.start()
            self._report("resumed")
        elif not self._told_to_end:
            self.attempt.withdraw("pause")

    def _report(self, kind: str) -> None:
        self.attempt.uplink.post(Outcome(self.attempt.run.task_id, self.attempt.run.fence, kind))

    def _after(self, seconds: float, act: Callable[[], Any]) -> None:
        async def later() -> None:
            await self.attempt.clock.pause(seconds)
            act()

        self._tasks.append(asyncio.ensure_future(later()))


class Countdown:
    """A timeout that stands still while it is stopped."""

    def __init__(self, clock: Clock, seconds: float | None, act: Callable[[], None]) -> None:
        self._clock = clock
        self._rest = seconds
        self._act = act
        self._since = 0.0
        self._timer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Go on with what is left."""
        if self._rest is not None and self._timer is None:
            self._since = self._clock.monotonic()
            self._timer = asyncio.ensure_future(self._run(self._rest))

    def stop(self) -> None:
        """Stand still."""
        if self._rest is not None and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._rest = max(0.0, self._rest - (self._clock.monotonic() - self._since))

    async def _run(self, seconds: float) -> None:
        await self._clock.pause(seconds)
        self._act()


def _cannot_start(error: CannotStart) -> Failure:
    """As a shell would have failed, with the reason in words."""
    failure = failures.from_exit(error.equivalent, {}) or STATUS_LOST
    return msgspec.structs.replace(failure, kind="cannot_start", message=safe(error.why))


def _left_story(pids: list[int]) -> str:
    return f"could not be ended: pid {', '.join(map(str, pids))}"


def _left_failure(pids: list[int]) -> str:
    if not pids:
        return ""
    failure = Failure(FailureClass.RETRYABLE, "left_running", _left_story(pids), "processes")
    return msgspec.json.encode(failure).decode()
