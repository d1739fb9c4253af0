"""A real terminal for journeys of the deck: a pty, a shell's part in it, and pyte to see what stands on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable
from contextlib import suppress

import pyte

from tests.journeys.decks import TASKDECK, Deck

FULL_SCREEN = b"\x1b[?1049h"
MAIN_SCREEN = b"\x1b[?1049l"
MODES_ON = (b"\x1b[?1000h", b"\x1b[?1003h", b"\x1b[?1006h", b"\x1b[?2004h", b"\x1b[?1004h")


class Terminal:
    """A terminal of `columns` x `lines` with a command in its foreground, read all the time unless `deaf`."""

    def __init__(self, deck: Deck, *command: str, columns: int = 80, lines: int = 24, **env: str) -> None:
        self._deck = deck
        self.ours, self.theirs = pty.openpty()
        self.resize(columns, lines)
        self.modes = termios.tcgetattr(self.theirs)
        self.received = b""
        """All bytes that came, since the terminal is there."""
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._text: str | None = None
        self._lock = threading.Lock()
        self.deaf = threading.Event()
        self._closed = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.launch(*command, **env)

    def launch(self, *command: str, **env: str) -> subprocess.Popen[bytes]:
        """Start a command, `taskdeck` if none is named, as the leader of the terminal's session."""
        env = {"TERM": "xterm-256color", "TASKDECK_ENGINE__WORKERS": "1", **env}
        self.launcher = subprocess.Popen(
            ["setsid", "--ctty", *(command or (str(TASKDECK),))],
            env={**self._deck.env, **env},
            cwd=self._deck.home,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
        )
        self._deck.children.append(self.launcher)
        return self.launcher

    # ---- what a person does --------------------------------------------------------------------------------------

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self.ours, keys)

    def resize(self, columns: int, lines: int) -> None:
        """Pull at the corner of the window."""
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if hasattr(self, "_screen"):
            with self._lock:
                self._screen.resize(lines, columns)
                self._text = None

    def hang_up(self) -> None:
        """The line drops."""
        self._closed.set()
        self._reader.join(5)
        for fd in (self.theirs, self.ours):
            with suppress(OSError):
                os.close(fd)

    # ---- what a person sees --------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The screen, line by line."""
        with self._lock:
            if self._text is None:  # made anew only when something came: it is asked for fifty times a second
                self._text = "\n".join(self._screen.display)
            return self._text

    def until_text(self, *texts: str) -> None:
        """Wait until all of these stand on the screen."""
        try:
            self._deck.until(lambda: all(text in self.text for text in texts), f"{texts}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text}") from None

    def until_received(self, data: bytes, after: int = 0) -> None:
        """Wait for these bytes behind the first `after` ones."""
        self._deck.until(lambda: data in self.received[after:], f"{data!r} in {self.received[-2000:]!r}")

    def until_usable(self) -> None:
        """Wait until a shell could go on: the first modes, the main screen, nothing left on."""
        self._deck.until(self._is_usable, f"a usable terminal behind {self.received[-600:]!r}")

    def _is_usable(self) -> bool:
        def is_on(mode: bytes) -> bool:
            return self.received.rfind(mode) > self.received.rfind(mode[:-1] + b"l")

        hidden = self.received.rfind(b"\x1b[?25l") > self.received.rfind(b"\x1b[?25h")
        return (
            termios.tcgetattr(self.theirs) == self.modes
            and not hidden
            and not any(map(is_on, (FULL_SCREEN, *MODES_ON)))
        )

    def _read(self) -> None:
        while not self._closed.is_set():
            if self.deaf.is_set():
                self._closed.wait(0.02)
                continue
            if not select.select([self.ours], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self.ours, 65536)
            except OSError:
                return
            with self._lock:
                self.received += data
                self._stream.feed(data)
                self._text = None


def until_ended(deck: Deck, child: subprocess.Popen[bytes], what: str = "the launcher ends") -> int:
    """Wait for the end of a process; returns its exit code."""
    look: Callable[[], bool] = lambda: child.poll() is not None  # noqa: E731
    deck.until(look, what)
    deck.children.remove(child)
    assert child.returncode is not None
    return child.returncode


HANG_UP = 128 + signal.SIGHUP
