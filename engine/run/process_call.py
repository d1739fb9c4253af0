"""One attempt in a process of its own, with all that it starts: a command, or a sync handler.

Owns its way from spawn to outcome: timeout, pause, stop, and what it leaves behind. What it prints never changes its task.
Must not know of other attempts, nor what is spoken with the process.
"""

from __future__ import annotations

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ..crash import crash_at
from ..credentials import NoCredential
from ..edge import trees
from ..edge.exits import BadExit
from ..edge.spawn import CannotStart, Child
from ..errors import InvalidPayload
from ..rules import failures
from ..rules.failures import Failure, FailureClass
from . import channels
from .attempts import Attempt
from .countdown import Countdown
from .endings import failed, never_started, safe, timed_out
from .journal import StartJournal
from .messages import Outcome, Started, Welcome
from .processes import Process, all_within
from .protocol import LineProtocol
from .python_logs import open_log, tail_of
from .request_log import RequestLog, is_of_route
from .strays import Closed, Commands

LEFT_BEHIND_GRACE = 1.0
"""Seconds between TERM and KILL for what a process leaves running in the background."""

STATUS_LOST = Failure(
    FailureClass.RETRYABLE, "status_lost", "how the process ended can't be known", "processes"
)


class ProcessCall(ABC):
    """Runs the process of `attempt`; `ask` reaches it meanwhile."""

    def __init__(
        self, attempt: Attempt, settings: Welcome, journal: StartJournal, commands: Commands
    ) -> None:
        self.attempt = attempt
        self._settings = settings
        self._journal = journal
        self._commands = commands
        self._mark = trees.mark(settings.database, attempt.run.task_id, attempt.run.attempt)
        self._log = open_log(attempt.run.log_path, settings)
        self._process: Process | None = None
        self._protocol: LineProtocol | None = None
        self._countdown = Countdown(attempt.clock, attempt.run.timeout, self._time_out)
        self._tasks: list[asyncio.Task[Any]] = []
        self._told_to_end = False
        self._kill_at = float("inf")

    ends_together = True
    suspends = True
    """Is a pause a SIGSTOP, or a polite stop after the next checkpoint?"""

    @abstractmethod
    def _spawn(self, fd: int, given: dict[str, str]) -> Callable[[], Child]:
        """What starts the process with our socket as `fd`, and `given` in its environment. Raises what keeps it."""

    @abstractmethod
    def _protocol_on(self, ours: socket.socket) -> LineProtocol:
        """What is spoken with the process."""

    def _said(self, tail: str) -> Outcome | None:
        """The outcome by what the process has said, where that stands above every wish to stop."""
        return None

    @abstractmethod
    def _judge(self, code: int | None, tail: str) -> Outcome:
        """The outcome of a process that nobody told to end; `code` None = it can't be known."""

    def ask(self, what: str, grace: float) -> None:
        """`cancel`: TERM now; `drain`, `stop`: at the next checkpoint; KILL after `grace` seconds. `kill`: KILL now.

        `pause`, `resume`: as the type says.
        """
        process, attempt = self._process, self.attempt
        if process is None or process.exited.is_set():
            if what != "resume":
                attempt.ask(what)
        elif what == "resume":
            self._resume(process)
        elif what == "pause" and self.suspends:
            self._suspend(process)
        elif attempt.ask(what) or attempt.asked == what:  # asked again, perhaps with less time
            self._prepare_end(process, what, grace)
        elif what == "drain":  # something stronger stands; of two times to end the shorter one holds
            self._kill_in(process, grace)

    async def run(self) -> Outcome:
        """The whole attempt; never raises what the process does."""
        run = self.attempt.run
        self._journal.start(run.fence)
        crash_at("after_start_journal")
        ends: tuple[socket.socket, ...] = ()
        try:
            await self._prepare()
            ready = self._ready(channels.CHANNEL) if channels.is_free() else None
            async with self._commands.turns as turns:
                # Not before: of hundreds that wait, each descriptor would be handed to each child, and closed there.
                ours, theirs = ends = _channel()
                process = self._start(ready or self._ready(theirs.fileno()), theirs.fileno())
                turns.began(process.pid)
            theirs.close()
            return await self._see_through(process, ours)
        except Closed:
            return never_started(run)
        except CannotStart as error:
            return failed(run, _cannot_start(error), exit_code=error.equivalent)
        except (InvalidPayload, NoCredential, BadExit) as error:
            return failed(run, self.attempt.held.failure(error, self.attempt.clock.utc()))
        finally:
            await self._let_go()
            for end in ends:
                end.close()

    async def _prepare(self) -> None:
        """What takes its time before the process starts: where its route's login can't be had, it does not start."""
        passage, requests = self.attempt.passage, RequestLog(self.attempt)
        passage.tell = requests.passed
        try:
            await passage.way_out.exit()
        except (NoCredential, BadExit) as error:
            requests.unusable(error)
            raise

    def _inheritable(self, names: Iterable[str]) -> list[str]:
        """Which variables of ours the process may have: none that holds a secret; with a route, none that leads past it."""
        withheld, held = self._settings.withheld, self.attempt.held
        found = [name for name in names if name not in withheld]
        return [name for name in found if not held.hides(name)] if held.route else found

    async def _let_go(self) -> None:
        """Give everything back. Tasks end first: one that still watched a closed descriptor would meet its next owner's."""
        self._countdown.stop()
        if self._protocol is not None:
            await self._protocol.stop()
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.attempt.close_passage()
        if self._process is not None:
            self._process.close()
        self._log.close()

    def _ready(self, number: int) -> Callable[[], Child]:
        """What starts the process with our socket under this number: put together before its turn comes, if that is known."""
        run = self.attempt.run
        given = {
            **self.attempt.held.variables(),
            "TASKDECK_MARK": self._mark,
            "TASKDECK_TASK_ID": str(run.task_id),
            "TASKDECK_ATTEMPT": str(run.attempt),
            "TASKDECK_FD": str(number),
        }
        return self._spawn(number, given)

    def _start(self, start: Callable[[], Child], fd: int) -> Process:
        run, mark = self.attempt.run, self._mark
        with channels.lent(fd):
            child = self._commands.spawn(mark, start, os.fstat(fd).st_ino)
        self.attempt.passage.pids = lambda: [one.pid for one in self._commands.tree(mark, child.pid)]
        self._process = Process(child, mark, self._log, self._commands)
        started = Started(run.task_id, run.fence, child.pid, child.identity.start_time)
        self.attempt.uplink.post(started, patient=True)  # a short one's end goes in the same frame
        return self._process

    async def _see_through(self, process: Process, ours: socket.socket) -> Outcome:
        """Until nothing of it is left."""
        ours.setblocking(False)
        protocol = self._protocol = self._protocol_on(ours)
        self.attempt.on_stale = self._note_stale
        protocol.start()
        self._countdown.start()
        await process.exited.wait()
        protocol.look()
        self._countdown.stop()
        clock = self.attempt.clock
        await all_within(clock, self._settings.output_drain, process.output_ended, protocol.ended)
        if not process.nothing_is_left():
            await process.end(
                max(0.0, self._kill_at - clock.monotonic()) if self._told_to_end else LEFT_BEHIND_GRACE
            )
        await all_within(clock, LEFT_BEHIND_GRACE, process.output_ended, protocol.ended)
        await process.bury()
        await self.attempt.close_passage()
        self.attempt.end_progress()
        self.attempt.doubt_all()
        outcome = self._outcome(process)
        left = [msgspec.structs.replace(one, task_id=outcome.task_id) for one in process.left]
        return msgspec.structs.replace(outcome, left=left)

    def route_fault(self) -> Failure | None:
        """The fault of the route where the last thing that was tried by it failed for that."""
        held, lent = self.attempt.held, self.attempt.passage.lent
        if lent is None or lent.last is None or not is_of_route(held.exit, lent.last):
            return None
        return held.route_fault(lent.last)

    def _outcome(self, process: Process) -> Outcome:
        """A cancel beats the exit code; a pause or drain beats it once the process was told to end."""
        attempt, run = self.attempt, self.attempt.run
        code, tail = process.exit_code, tail_of(self._log, attempt.held.redactor)
        if not attempt.stale and (outcome := self._said(tail)):
            return outcome
        if attempt.stale or attempt.cancelled or (attempt.asked and self._told_to_end):
            kind = "cancelled" if attempt.stale else attempt.outcome_asked
            return Outcome(run.task_id, run.fence, kind, exit_code=code, tail=tail)
        if attempt.timed_out:
            return failed(run, timed_out(run.timeout or 0.0), exit_code=code, tail=tail)
        return self._judge(code, tail)

    def _prepare_end(self, process: Process, what: str, grace: float) -> None:
        """`cancel` and silent processes end now; a drained one has half of the time to reach a checkpoint."""
        silent = self._protocol is None or not self._protocol.spoke
        if what == "kill":
            self._told_to_end = True
            self._kill_in(process, 0.0)
        elif what == "cancel" or process.suspended or (what == "stop" and silent):
            self._end(process, grace)
        elif what in ("drain", "stop"):
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
        self._tasks.append(asyncio.ensure_future(self.attempt.close_passage()))  # its lease is gone

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


def _channel() -> tuple[socket.socket, socket.socket]:
    """Our end and the process's. Raises `CannotStart` where no descriptors are left."""
    try:
        return socket.socketpair()
    except OSError as error:
        raise CannotStart("no_resources", error.strerror or str(error)) from None


def _cannot_start(error: CannotStart) -> Failure:
    """As a shell would have failed, with the reason in words."""
    failure = failures.from_exit(error.equivalent, {}) or STATUS_LOST
    return msgspec.structs.replace(failure, kind="cannot_start", message=safe(error.why))
