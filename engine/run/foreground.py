"""The launcher of a screen: holds a terminal and its modes while a deck, in a session of its own, draws on it.

It passes on what the terminal tells (a new size, a continue), stops itself when the deck steps aside, and gives the shell a
usable terminal back however things end: also when all below it is killed. The two talk in lines over a socket pair:

    to the deck:    resize · continue · leave (go from the screen) · go (the answer to enter)
    from the deck:  enter (may I draw?) · in, out (the screen is taken, given back) · suspended · say TEXT
                    detached (it works on without a screen) · end CODE
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import termios
from collections.abc import Callable
from typing import Any

VARIABLE = "TASKDECK_TERMINAL_FD"
"""The deck's end of the socket pair, in its environment. The supervisor hands it down and says its own words there."""

PATIENCE = 3.0
"""Seconds in which a deck that is asked to leave must have gone; then the terminal is taken from it."""

RESTORE = (
    b"\x1b[?2026l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # no mouse
    b"\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[0m\x1b[?7h\x1b[?1049l\x1b[?25h"  # the main screen, with its cursor
)
"""What undoes everything that a screen may have asked of a terminal."""

MOST_SAID = 5
"""Lines that are told at the end; of more, the last."""
STOPS = 20
"""How often a job is stopped that somebody keeps continuing in the background; a kernel that doesn't stop it is let be."""
SIGNALS = (signal.SIGWINCH, signal.SIGCONT, signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def launch(
    command: list[str],
    *,
    silent: Callable[[int], bool] = lambda code: False,
    before_return: Callable[[], None] = lambda: None,
) -> int:
    """Run `command`, which draws on this terminal; returns its exit code, 0 once it works on without the terminal.

    What it has to say is told behind it, unless `silent` says of its exit code that nobody need know. `before_return` is
    called before the terminal is given back: whoever goes on with it takes its signals over there.
    """
    _wait_for_the_foreground()
    ours, theirs = socket.socketpair()
    environment = {**os.environ, VARIABLE: str(theirs.fileno())}
    # Signals first: none may end this process between the start of the screen and its end.
    foreground = Foreground(ours, _modes())
    child = subprocess.Popen(
        command, env=environment, pass_fds=(theirs.fileno(),), start_new_session=True, restore_signals=True
    )
    theirs.close()
    code = None
    try:
        code = foreground.hold(child)
        return code
    finally:
        before_return()
        foreground.restore()
        if code is None or not silent(code):
            foreground.tell()


class Foreground:
    """One deck's time on this terminal."""

    def __init__(self, link: socket.socket, modes: list[Any] | None) -> None:
        self._link = link
        self._modes = modes
        self._drawn_on = False
        self._leaving = 0
        self._heard = b""
        self._code: int | None = None
        self._said: list[str] = []
        self._arrived: list[int] = []
        self._wakeup, theirs = os.pipe()
        for fd in (self._wakeup, theirs):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, self._arrive)

    def hold(self, child: subprocess.Popen[bytes]) -> int:
        """Until the deck has detached, or all of it has ended; returns the exit code."""
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while self._code is None:
            ready = poll.poll(PATIENCE * 1000 if self._leaving else None)
            self._act_on_signals()
            if not ready and self._leaving:
                self._code = 0 if self._leaving == signal.SIGINT else 128 + self._leaving
            elif any(fd == self._link.fileno() for fd, _ in ready) and not self._hear():
                return self._ended(child)
        return self._code

    def restore(self) -> None:
        """Give the terminal its modes and its main screen back; harmless when that has been done."""
        with contextlib.suppress(termios.error):
            if self._modes is not None and termios.tcgetattr(0) != self._modes:
                termios.tcsetattr(0, termios.TCSANOW, self._modes)
        if self._drawn_on:
            self._drawn_on = False
            _write(1, RESTORE)

    def tell(self) -> None:
        """Say below the prompt what had to be said meanwhile."""
        for text in self._said[-MOST_SAID:]:
            _write(2, f"taskdeck: {text}\n".encode("utf-8", "replace"))

    # ---- signals -------------------------------------------------------------------------------------------------

    def _arrive(self, number: int, frame: object) -> None:
        self._arrived.append(number)

    def _act_on_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, 4096)
        arrived, self._arrived = self._arrived, []
        for number in dict.fromkeys(arrived):
            if number == signal.SIGWINCH:
                self._send("resize")
            elif number == signal.SIGCONT:
                self._go_on()
            else:
                self._leaving = self._leaving or number
                self._send("leave")

    def _go_on(self) -> None:
        _wait_for_the_foreground()
        self._send("continue")

    def _step_aside(self) -> None:
        """Ctrl+Z: the whole job stops, as the shell knows it; the deck goes on drawing when it continues."""
        self.restore()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(0, signal.SIGTSTP)  # without a shell that could continue it, the kernel lets this pass
        self._arrived = [number for number in self._arrived if number != signal.SIGCONT]
        self._go_on()

    # ---- the deck ------------------------------------------------------------------------------------------------

    def _hear(self) -> bool:
        """Act on what the deck told. False when nobody is left on the other side."""
        try:
            data = self._link.recv(65536)
        except OSError:
            return False
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode("utf-8", "replace").partition(" ")
            self._obey(word, rest)
        return bool(data)

    def _obey(self, word: str, rest: str) -> None:
        match word:
            case "enter":
                self._send("go")
            case "in":
                self._drawn_on = True
            case "out":
                self._drawn_on = False
            case "suspended":
                self._step_aside()
            case "say":
                self._said.append(rest)
            case "detached":
                self._code = 0 if self._leaving in (0, signal.SIGINT) else 128 + self._leaving
            case "end":
                self._code = int(rest)

    def _send(self, word: str) -> None:
        with contextlib.suppress(OSError):
            self._link.send(f"{word}\n".encode(), socket.MSG_DONTWAIT)

    def _ended(self, child: subprocess.Popen[bytes]) -> int:
        """All on the other side are gone without a word."""
        code = child.wait()
        return 128 - code if code < 0 else code


def _modes() -> list[Any] | None:
    try:
        return termios.tcgetattr(0)
    except termios.error:
        return None


def _wait_for_the_foreground() -> None:
    """A job in the background stops, as one that reads or sets the terminal's modes would, until it is brought forward."""
    with contextlib.suppress(OSError):
        for _ in range(STOPS):
            if os.tcgetpgrp(0) == os.getpgrp():
                return
            os.kill(0, signal.SIGTTOU)


def _write(fd: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # the terminal may have gone
        os.write(fd, data)
