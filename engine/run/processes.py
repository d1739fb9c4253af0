"""The process of one command: its output into the log, its end, and the burial of all that it started.

Owns the descriptors between us and it. Must not judge: `command` does.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from ..clock import Clock
from ..edge import readers, trees
from ..edge.logs import AttemptLog
from ..edge.spawn import Child, StatusLost
from .leftovers import left_of
from .messages import Left
from .strays import Commands

READ_SIZE = 256 * 1024


class Process:
    """A started command. Loop thread only; waits on processes happen in `commands.threads`."""

    def __init__(self, child: Child, mark: str, log: AttemptLog, commands: Commands) -> None:
        self.pid = child.pid
        self.exit_code: int | None = None
        """Of the main process once buried; negative = killed by that signal; None = something else collected it."""
        self.exited = asyncio.Event()
        self.output_ended = asyncio.Event()
        self.suspended = False
        self.left: list[Left] = []
        """Processes that could not be ended."""
        self._child = child
        self._closed = False
        self._endings: list[asyncio.Future[None]] = []
        self._mark = mark
        self._log = log
        self._commands = commands
        self._loop = asyncio.get_running_loop()
        assert child.stdout is not None
        self._output = child.stdout
        self._readers = readers.of_loop()
        self._readers.add(self._output, self._read)
        self._readers.add(child.pidfd, self._note_exit)

    def terminate(self) -> None:
        """TERM to all of it, and CONT: a stopped process takes no TERM before."""
        self.suspended = False
        trees.ask(self._commands.tree(self._mark, self.pid))

    def suspend(self) -> None:
        """SIGSTOP to all of it."""
        self.suspended = True
        self._commands.stop_tree(self._mark, self.pid)

    def resume(self) -> None:
        """SIGCONT to all of it."""
        self.suspended = False
        self._commands.continue_tree(self._mark, self.pid)

    def end(self, grace: float) -> asyncio.Future[None]:
        """End whatever is left: TERM, after `grace` seconds KILL; what withstands stands in `left`."""
        ending = asyncio.ensure_future(self._end(grace))
        self._endings.append(ending)
        return ending

    def nothing_is_left(self) -> bool:
        """Has it ended, and all that it started, for certain? False where it must be looked for (`end`)."""
        return self.exited.is_set() and self._commands.families.nothing_is_left()

    async def bury(self) -> None:
        """Collect the exit status and let go. Not earlier: until then the pid, and so its session, means only this one."""
        if self._endings:
            await asyncio.gather(*self._endings)
        with suppress(StatusLost):
            self.exit_code = self._child.reap()
        self.close()

    def close(self) -> None:
        """Let go of the descriptors; what the pipe still holds is lost. Harmless when done before."""
        if not self._closed:
            self._closed = True
            if not self.output_ended.is_set():
                self._readers.remove(self._output)
            if not self.exited.is_set():
                self._readers.remove(self._child.pidfd)
            self._child.close()
            self._commands.buried(self._mark)

    async def _end(self, grace: float) -> None:
        commands = self._commands
        if self.nothing_is_left():
            return
        if commands.tree(self._mark, self.pid):
            left = await self._loop.run_in_executor(
                commands.threads, commands.end_tree, self._mark, self.pid, grace
            )
            self.left = [left_of(one) for one in left]

    def _read(self) -> bool:
        """Returns whether there may be more at once."""
        try:
            data = os.read(self._output, READ_SIZE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._log.write(data)
            return True
        self._readers.remove(self._output)
        self.output_ended.set()
        return False

    def _note_exit(self) -> None:
        self._readers.remove(self._child.pidfd)
        if not self.output_ended.is_set() and self._read():
            self._read()  # mostly the end; what is longer comes in its turn
        self._commands.turns.ended(self.pid)  # first: the next one starts while this one's end is seen to
        self.exited.set()


async def all_within(clock: Clock, seconds: float, *events: asyncio.Event) -> bool:
    """Wait until all events are set, but no longer than `seconds`; True = they are."""
    if all(event.is_set() for event in events):
        return True
    everything = asyncio.gather(*(event.wait() for event in events))
    timer = asyncio.ensure_future(clock.pause(seconds))
    await asyncio.wait({everything, timer}, return_when=asyncio.FIRST_COMPLETED)
    timer.cancel()
    return everything.done() or not everything.cancel()
