"""What stands between Textual and a terminal that may be slow, stopped, closed or full of garbage.

Never blocks the loop that the engine shares: frames that a terminal doesn't take are dropped and made good by one full
repaint. Sets no signal handlers: the launcher tells of sizes, stops and hang-ups. The only place but the virtual list that
touches Textual's privates.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import termios
import threading
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable
from typing import Any

from textual import events
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size
from textual.message import Message

MOST_WAITING = 256_000
"""Characters that may wait for the terminal; what comes on top is dropped. A full repaint at 160x48 has 19,000."""
CHUNK = 4096
CLOSE_WITHIN = 0.3
"""Seconds that a close may keep the loop, where the terminal takes nothing."""
CRASHED = 70
_X10_MOUSE = re.compile(rb"\x1b\[M[\x00-\xff]{3}")
_X10_BEGUN = re.compile(rb"\x1b\[(?:M[\x00-\xff]{0,2})?\Z")
_ESCAPE = b"\x1b"
_NO_MOUSE = "".join(f"\x1b[?{mode}l" for mode in (1000, 1002, 1003, 1005, 1006, 1015, 1016))
BEHIND = 64_000
"""Characters waiting, some full repaints, from which a terminal counts as slow."""


class FrameWriter(threading.Thread):
    """Writes in a thread of its own. `on_caught_up` is called there once all is written after frames were dropped."""

    def __init__(self, fd: int, on_caught_up: Callable[[], None]) -> None:
        super().__init__(daemon=True, name="deck-output")
        self._fd, self._reopened = _without_blocking(fd)
        self._on_caught_up = on_caught_up
        self._changed = threading.Condition()
        self._frames: deque[bytes] = deque()
        self._waiting = 0
        self._dropping = False
        self._closing = False
        self._abandoned = False

    @property
    def is_behind(self) -> bool:
        """Does the terminal take less than it is given?"""
        return self._dropping or self._waiting > BEHIND

    def put(self, text: str, *, always: bool = False) -> None:
        """Hand over a frame; it is dropped where too much waits, unless it must be written `always`."""
        with self._changed:
            if self._dropping or self._waiting > MOST_WAITING:
                self._dropping = True
                if not always:
                    return
            data = text.encode("utf-8", "replace")
            self._frames.append(data)
            self._waiting += len(data)
            self._changed.notify()

    def stop(self, seconds: float) -> bool:
        """End once all is written, after `seconds` at the latest. Returns whether all was."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self.join(seconds)
        self._abandoned = True
        return not self.is_alive() and not self._frames

    def run(self) -> None:
        try:
            while (data := self._next()) is not None:
                self._write(data)
        except OSError:
            return  # the terminal has gone; the input side tells the app
        finally:
            if self._reopened:
                os.close(self._fd)

    def _next(self) -> bytes | None:
        while True:
            with self._changed:
                caught_up = self._dropping and not self._frames and not self._closing
                if not caught_up:
                    while not self._frames and not self._closing:
                        self._changed.wait()
                    if not self._frames:
                        return None
                    data = self._frames.popleft()
                    self._waiting -= len(data)
                    return data
                self._dropping = False
            self._on_caught_up()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while rest:
            if self._abandoned:
                raise OSError("nobody waits for this any more")
            if poll.poll(100):
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(self._fd, rest[:CHUNK]) :]


class SafeDriver(LinuxDriver):
    """Textual's driver, hardened. It says `in` and `out` through `SafeApp.tell` when it takes and gives back the terminal."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        for number in (
            signal.SIGTSTP,
            signal.SIGCONT,
        ):  # theirs would restart the screen of an engine without one
            signal.signal(number, signal.SIG_DFL)
        self._output: FrameWriter | None = None
        self._modes: list[Any] | None = None
        self._wake_read, self._wake_write = -1, -1
        self.taken = False

    # ---- output --------------------------------------------------------------------------------------------------

    def write(self, data: str) -> None:
        """Hand a frame to the terminal, or drop it. Never waits."""
        if self._output is not None:
            self._output.put(data)

    def flush(self) -> None:
        """All is flushed as it comes."""

    @property
    def is_behind(self) -> bool:
        """Does the terminal take less than it is given?"""
        return self._output is not None and self._output.is_behind

    def _caught_up(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._app.refresh)

    def _get_terminal_size(self) -> tuple[int, int]:
        with contextlib.suppress(OSError):
            width, height = os.get_terminal_size(self.fileno)
            if width and height:
                return width, height
        return 80, 24

    def resized(self) -> None:
        """Look at the size of the terminal and lay out anew."""
        size = Size(*self._get_terminal_size())
        self._app.post_message(events.Resize(size, size))

    # ---- taking and giving back -----------------------------------------------------------------------------------

    def start_application_mode(self) -> None:
        """Take the terminal: its modes, the alternate screen, the input."""
        self._tell("in")
        self.taken = True
        self._output = FrameWriter(1, self._caught_up)
        self._output.start()
        self._take_modes()
        self.resized()
        # A line that broke may have left mouse reports on: without this they would go on, asked for or not.
        self._output.put(f"{_NO_MOUSE}\x1b[?1049h\x1b[?25l\x1b[?1004h", always=True)
        self._enable_mouse_support()
        self.exit_event.clear()
        self._wake_read, self._wake_write = os.pipe()
        self._key_thread = threading.Thread(target=self.run_input_thread, name="deck-input", daemon=True)
        self._key_thread.start()
        self._request_terminal_sync_mode_support()
        self._enable_bracketed_paste()
        self._disable_line_wrap()

    def _take_modes(self) -> None:
        with contextlib.suppress(termios.error):
            self.attrs_before = termios.tcgetattr(self.fileno)
            ours = termios.tcgetattr(self.fileno)
            ours[3] = self._patch_lflag(ours[3])
            ours[0] = self._patch_iflag(ours[0])
            ours[6][termios.VMIN] = 1
            termios.tcsetattr(self.fileno, termios.TCSANOW, ours)
            self._modes = termios.tcgetattr(self.fileno)

    def disable_input(self) -> None:
        """Read no more."""
        if self._key_thread is None:
            return
        self.exit_event.set()
        os.write(self._wake_write, b"x")
        self._key_thread.join(CLOSE_WITHIN)
        if not self._key_thread.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)
        self._key_thread = None
        with contextlib.suppress(termios.error):
            termios.tcflush(self.fileno, termios.TCIFLUSH)

    def stop_application_mode(self) -> None:
        """Give back the modes and the main screen."""
        self.disable_input()
        if self._output is not None:
            mouse = "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l" if self._mouse else ""
            leave = f"{mouse}\x1b[?2004l\x1b[?1004l\x1b[?7h\x1b[?1049l\x1b[?25h"
            self._output.put(leave, always=True)
        with contextlib.suppress(termios.error):
            # Modes that are not ours any more were set by somebody who has the terminal now, as a shell after `kill -9`.
            if self.attrs_before is not None and termios.tcgetattr(self.fileno) == self._modes:
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)

    def close(self) -> None:
        """Let the last frames out; the launcher does what the terminal didn't take."""
        output, self._output = self._output, None
        if output is not None and output.stop(CLOSE_WITHIN):
            self._tell("out")
        self.taken = False

    def _tell(self, word: str) -> None:
        if isinstance(self._app, SafeApp):
            self._app.tell(word)

    # ---- input ---------------------------------------------------------------------------------------------------

    def process_message(self, message: Message) -> None:
        """Hand on what was typed; of a mouse that nobody asked for nothing."""
        if self._mouse or not isinstance(message, events.MouseEvent):
            super().process_message(message)

    def run_input_thread(self) -> None:
        """Turn bytes into events until told to end. The end of the terminal ends the screen, and nothing else."""
        poll = select.poll()
        poll.register(self.fileno, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        decode = getincrementaldecoder("utf-8")("replace").decode
        parser, kept = XTermParser(self._debug), b""
        while not self.exit_event.is_set():
            ready = [fd for fd, _ in poll.poll(100)]
            if self._wake_read in ready:
                return
            data = self._read() if self.fileno in ready else b""
            if data is None:
                return self._hung_up()
            kept, data = _without_x10_mouse(kept + data, more=self.fileno in ready)
            try:
                for message in [*(parser.feed(text) if (text := decode(data)) else ()), *parser.tick()]:
                    self.process_message(message)
            except RuntimeError:
                return None  # the loop has ended
            except Exception:  # whatever a terminal sends, it is no reason to end: begin afresh behind it
                parser = XTermParser(self._debug)
        return None

    def _read(self) -> bytes | None:
        """What was typed; None at the end."""
        try:
            return os.read(self.fileno, CHUNK) or None
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            return None

    def _hung_up(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._app.exit)


class SafeApp(App[Any]):
    """What a deck needs to live beside an engine; stands before the deck's own class.

    A crash is kept in `crash` and drawn nowhere: Textual would print it with all locals. `leaving` hears of each exit.
    """

    crash: BaseException | None = None
    tell: Callable[[str], None] = staticmethod(lambda line: None)
    leaving: Callable[[], None] = staticmethod(lambda: None)
    ready: Callable[[], None] = staticmethod(lambda: None)

    def on_ready(self) -> None:
        self.ready()

    def exit(self, *arguments: Any, **named: Any) -> None:
        """Leave the screen."""
        super().exit(*arguments, **named)
        self.leaving()

    def action_suspend_process(self) -> None:
        """Ctrl+Z: give the terminal back and have the launcher stopped; the engine in this process goes on."""
        driver = self._driver
        if isinstance(driver, SafeDriver) and driver.taken:
            driver.suspend_application_mode()
            self.tell("suspended")

    action_suspend = action_suspend_process

    def come_back(self) -> None:
        """Take the terminal again, whatever it shows and whatever modes it has now, and draw everything."""
        driver = self._driver
        if isinstance(driver, SafeDriver) and self._running:
            if driver.taken:
                driver.suspend_application_mode()
            driver.resume_application_mode()
            self.refresh(layout=True)

    def resized(self) -> None:
        """The terminal has another size, or had one and lost what it showed: Textual draws nothing for an equal size."""
        if isinstance(self._driver, SafeDriver) and self._driver.taken:
            self._driver.resized()
            self.refresh()

    def abandon(self) -> None:
        """Give up a screen that doesn't end: its threads are left behind and write nothing more."""
        if isinstance(self._driver, SafeDriver):
            with contextlib.suppress(Exception):
                self._driver.suspend_application_mode()

    def _handle_exception(self, error: Exception) -> None:
        self.crash = self.crash or error
        self._return_code = CRASHED
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()
        self.leaving()

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()


def _without_blocking(fd: int) -> tuple[int, bool]:
    """A descriptor of the same terminal that never blocks. Its own: the flag of `fd` is shared with the shell."""
    with contextlib.suppress(OSError):
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC), True
    return fd, False  # of another user (su): a write may block, in its thread


def _without_x10_mouse(data: bytes, *, more: bool) -> tuple[bytes, bytes]:
    """Take out mouse reports of the old form, whose coordinates are no text. Returns what may become one, and the rest."""
    whole = len(data) < CHUNK
    data = _X10_MOUSE.sub(b"", data)
    begun = _X10_BEGUN.search(data)
    if begun is not None and (more or len(begun[0]) > len("\x1b[")):
        return begun[0] if more else b"", data[: begun.start()]
    if not whole and data.endswith(_ESCAPE):  # the key itself comes alone; this one was cut from what follows
        return _ESCAPE, data[:-1]
    return b"", data
