"""The supervisor: starts the engine, sees it die or hang, restarts it. Standard library only, no state, nothing else.

It talks with the engine over one pipe: the engine writes `beat` every few seconds and `exit N` when it ends on purpose.
An announced exit is final; any other end is restarted with growing pauses, and given up after too many in a short time.
With `again` the engine hands over to the code that is on the disk now: this process becomes a new supervisor, under its pid.
SIGTERM and SIGINT are passed on (a second one means "now"), SIGHUP too. A stopped (debugged) engine is never killed.
Where a launcher holds a terminal for the engine's screen, the way to it is handed down, and this one's words go that way.
Whoever loses its engine comes to this process (a child subreaper): the next engine finds it there, here it is only reaped.
That it gave up stands in the file NOTICE as well, for `status` and for the next engine, which puts it on record.

usage: python -m taskdeck.engine.run.supervisor [--notice NOTICE] -- ENGINE COMMAND …
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque

HUNG_AFTER = 30.0
"""Seconds without a beat, on the monotonic clock, after which the engine is hung (it beats every 5 s)."""
GIVE_UP_COUNT = 5
GIVE_UP_WITHIN = 60.0
"""So many unannounced ends within so many seconds, and the supervisor stops trying."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0
EXIT_GAVE_UP = 1
SET_CHILD_SUBREAPER = 36
"""prctl(2). Kept over exec."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PIPE_VARIABLE = "TASKDECK_SUPERVISOR_FD"
TERMINAL_VARIABLE = "TASKDECK_TERMINAL_FD"
STARTED_VARIABLE = "TASKDECK_STARTED_ENGINE"
"""`PID:FD` of an engine that was started for this process before it became a supervisor, and of the pipe from it."""


class _Started:
    """An engine that this process has started before it became what it is."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, a signal's as a negative number; None = it lives."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """KILL."""
        self.send_signal(signal.SIGKILL)


Child = _Started | subprocess.Popen[bytes]


class Supervisor:
    """Watches one engine command until it ends on purpose or can't be kept alive."""

    def __init__(self, command: list[str], notice: str = "") -> None:
        self._command = command
        self._notice = notice
        self._child: Child | None = None
        self._pipe = -1
        self._last_beat = 0.0
        self._heard = b""
        self._announced: int | None = None
        self._hands_over = False
        self._asked_to_stop = False
        self._unheard: int | None = None
        named = os.environ.get(TERMINAL_VARIABLE, "")
        self._launcher = int(named) if named.isdigit() else -1
        self._wakeup_read, self._wakeup_write = os.pipe()
        for fd in (self._wakeup_read, self._wakeup_write):
            os.set_blocking(fd, False)

    def run(self) -> int:
        """Keep the engine alive. Returns the exit code of the whole."""
        signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, self._pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # what came while this process became what it is
        deaths: deque[float] = deque()
        has_begun = self._take_over()
        while True:
            if not has_begun:
                self._start()
            has_begun = False
            _adopt_orphans()
            self._watch()
            if self._announced is not None:
                return self._announced
            if self._hands_over and not self._asked_to_stop:
                self._begin_anew()
                continue  # it could not: then the new engine has an old supervisor
            if self._asked_to_stop:
                return self._code_of_a_stop()
            now = time.monotonic()
            deaths.append(now)
            while deaths and deaths[0] < now - GIVE_UP_WITHIN:
                deaths.popleft()
            if len(deaths) >= GIVE_UP_COUNT:
                self._give_up(len(deaths))
                return EXIT_GAVE_UP
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (len(deaths) - 1))
            self._say(f"the engine {self._how_it_ended()}; starting it again in {pause:g} s")
            self._rest(pause)
            if self._asked_to_stop:
                return 0

    def _start(self) -> None:
        self._let_go_of_a_lost_terminal()
        self._attend(*start(self._command, () if self._launcher < 0 else (self._launcher,)))

    def _take_over(self) -> bool:
        """Attend to the engine that was started before this program was loaded. Returns whether there is one."""
        pid, _, pipe = os.environ.pop(STARTED_VARIABLE, "").partition(":")
        if not (pid.isdigit() and pipe.isdigit()):
            return False
        os.set_inheritable(int(pipe), False)
        self._attend(_Started(int(pid)), int(pipe))
        return True

    def _attend(self, child: Child, pipe: int) -> None:
        self._child = child
        self._pipe, self._heard, self._announced, self._hands_over = pipe, b"", None, False
        self._last_beat = time.monotonic()
        if self._unheard is not None:  # it came while there was nobody to pass it to
            self._child.send_signal(self._unheard)

    def _watch(self) -> None:
        """Until the child has ended. The pipe tells of its end at once; a beat that stays away makes it hung."""
        child, open_pipe = self._child, True
        assert child is not None
        while child.poll() is None:
            waiting = [self._wakeup_read, *([self._pipe] if open_pipe else [])]
            ready, _, _ = select.select(waiting, [], [], 1.0 if open_pipe else 0.05)
            if self._wakeup_read in ready:
                self._drain_wakeups()
            if self._pipe in ready:
                open_pipe = self._hear()
            self._reap_others(child.pid)
            if time.monotonic() - self._last_beat > HUNG_AFTER and not self._is_stopped():
                self._say(f"the engine gave no sign for {HUNG_AFTER:.0f} s: it is ended and started again")
                child.kill()
                self._last_beat = (
                    time.monotonic()
                )  # one that is stuck in the kernel is not waited for, but looked at
        while open_pipe and self._hear():
            pass
        os.close(self._pipe)

    def _reap_others(self, engine: int) -> None:
        """Collect whom an earlier engine left to us, once they have ended; the engine's own end is left to `poll`."""
        ended = os.WEXITED | os.WNOHANG
        with contextlib.suppress(ChildProcessError):
            while (one := os.waitid(os.P_ALL, 0, ended | os.WNOWAIT)) and one.si_pid != engine:
                os.waitid(os.P_PID, one.si_pid, ended)

    def _hear(self) -> bool:
        """Read what the engine wrote. False at the end of the pipe."""
        try:
            data = os.read(self._pipe, 4096)
        except BlockingIOError:
            return False
        if not data:
            return False
        self._last_beat = time.monotonic()
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            if line.startswith(b"exit "):
                self._announced = int(line[5:])
            elif line == b"again":
                self._hands_over = True
        return True

    def _begin_anew(self) -> None:
        """Load this program anew, in this process. Signals wait until the new one can pass them on."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            self._say(f"the supervisor stays as it is: {error.strerror}")

    def _is_stopped(self) -> bool:
        """Stopped or traced: a person is looking at it. Its time away does not count."""
        assert self._child is not None
        try:
            with open(f"/proc/{self._child.pid}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
        except (OSError, IndexError):
            return False
        if state not in (b"T", b"t"):
            return False
        self._last_beat = time.monotonic()
        return True

    def _pass_on(self, number: int, frame: object) -> None:
        if number != signal.SIGHUP:
            self._asked_to_stop = True
        if self._child is not None and self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.send_signal(number)
        elif number != signal.SIGHUP:
            self._unheard = number

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup_read, 4096)

    def _rest(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._asked_to_stop and (left := deadline - time.monotonic()) > 0:
            select.select([self._wakeup_read], [], [], left)
            self._drain_wakeups()

    def _code_of_a_stop(self) -> int:
        """It was asked to stop and said nothing: well if the signal itself ended it, before it had begun anything."""
        assert self._child is not None
        return 0 if self._child.returncode in (0, -signal.SIGTERM, -signal.SIGINT) else 1

    def _how_it_ended(self) -> str:
        assert self._child is not None
        code = self._child.returncode
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended unannounced with exit code {code}"

    def _give_up(self, deaths: int) -> None:
        story = (
            f"the engine died {deaths} times within {GIVE_UP_WITHIN:.0f} s (the last {self._how_it_ended()})"
        )
        self._say(f"{story}: giving up; see the log")
        if self._notice:
            with contextlib.suppress(OSError):  # the disk may be what it died of
                fd = os.open(self._notice, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                os.write(fd, story.encode() + b"\n")
                os.close(fd)

    def _say(self, text: str) -> None:
        """Tell the terminal, if there still is one; under a screen its launcher says it afterwards."""
        self._let_go_of_a_lost_terminal()
        fd, line = (2, f"taskdeck: {text}\n") if self._launcher < 0 else (self._launcher, f"say {text}\n")
        with contextlib.suppress(OSError):
            os.write(fd, line.encode())

    def _let_go_of_a_lost_terminal(self) -> None:
        """Once the launcher has gone, its terminal belongs to others: neither this process nor an engine writes there."""
        if self._launcher < 0:
            return
        look = select.poll()
        look.register(self._launcher, 0)
        if not look.poll(0):
            return
        os.close(self._launcher)
        self._launcher = -1
        os.environ.pop(TERMINAL_VARIABLE, None)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nowhere, fd)
        os.close(nowhere)


def start(command: list[str], passed_on: tuple[int, ...] = ()) -> tuple[subprocess.Popen[bytes], int]:
    """Start an engine with a pipe on which it tells how it is. Returns it, and our end."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    environment = {**os.environ, PIPE_VARIABLE: str(theirs)}
    child = subprocess.Popen(command, env=environment, pass_fds=(theirs, *passed_on))
    os.close(theirs)
    return child, ours


def start_ahead(command: list[str]) -> subprocess.Popen[bytes]:
    """Start an engine for the supervisor that this process becomes next by exec: both load at the same time.

    Signals wait until that one can pass them on.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    child, pipe = start(command)
    os.set_inheritable(pipe, True)
    os.environ[STARTED_VARIABLE] = f"{child.pid}:{pipe}"
    return child


def _adopt_orphans() -> None:
    """Whoever loses its engine comes to this process. Refused: orphans go elsewhere, as without it."""
    import ctypes  # while the engine loads, which has nobody to lose yet

    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def main(arguments: list[str]) -> int:
    """Run the engine command behind `--`."""
    notice = ""
    if arguments[:1] == ["--notice"]:
        notice, arguments = "".join(arguments[1:2]), arguments[2:]
    if not arguments or arguments[0] != "--" or not arguments[1:]:
        os.write(2, b"usage: python -m taskdeck.engine.run.supervisor [--notice FILE] -- COMMAND ...\n")
        return 2
    return Supervisor(arguments[1:], notice).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
