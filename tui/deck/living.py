"""A deck's life beside an engine: it comes when the terminal is free, and goes without taking anything with it.

Owns when the screen begins and ends, what becomes of a crash, and what the terminal is told afterwards.
"""

from __future__ import annotations

import asyncio
import gc
import os
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskdeck.engine import views
from taskdeck.engine.config import Config
from taskdeck.engine.garbage import begin_collecting

from .terminal import Launcher, let_go

if TYPE_CHECKING:
    from .driver import SafeApp

LEAVES_WITHIN = 3.0
"""Seconds after which a screen that was left is abandoned, if it still hasn't ended."""
CRASHED = 70


class Deck:
    """The deck of one process, on the terminal that `launcher` holds. `places`: the --db and --config that were given.

    `in_engine`: this process is, or will be, the engine too.
    """

    def __init__(self, config: Config, launcher: Launcher, places: str, *, in_engine: bool) -> None:
        self._config = config
        self._in_engine = in_engine
        self._launcher = launcher
        self._places = places
        self._app: SafeApp | None = None
        self._painted = asyncio.Event()
        self._left = asyncio.Event()
        self._crash_told_in: Path | None = None
        self._alerting: asyncio.Task[None] | None = None
        self._crashed = ""
        launcher.on_word = self._obey

    # ---- the screen ----------------------------------------------------------------------------------------------

    async def show(self) -> None:
        """Draw until the screen is left, crashes or is lost. Raises nothing."""
        try:
            if await self._launcher.may_draw() and not self._left.is_set():
                await self._draw()
        except Exception as error:  # the screen ends here, the engine beside it doesn't
            self._crash(error)
        finally:
            self._on_paint()
            self._left.set()

    async def first_paint(self, seconds: float) -> None:
        """Wait for it, or for the end of the screen, so long at most."""
        waiting = asyncio.ensure_future(self._painted.wait())
        await asyncio.wait({waiting}, timeout=seconds)
        waiting.cancel()

    def leave(self) -> None:
        """End the screen; harmless when it has ended."""
        self._left.set()
        if self._app is not None:
            self._app.exit()

    async def _draw(self) -> None:
        self._app = app = _make_app(self._config)
        app.tell, app.leaving = self._launcher.tell, self._left.set
        app.ready, app.painted = self._on_ready, self._on_paint
        app.in_engine = self._in_engine
        drawing = asyncio.create_task(app.run_async(mouse="SSH_CONNECTION" not in os.environ))
        leaving = asyncio.create_task(self._left.wait())
        await asyncio.wait({drawing, leaving}, return_when="FIRST_COMPLETED")
        leaving.cancel()
        await asyncio.wait({drawing}, timeout=LEAVES_WITHIN)
        if not drawing.done():
            app.abandon()
            drawing.cancel()
            await asyncio.wait({drawing}, timeout=LEAVES_WITHIN)
        failed = drawing.exception() if drawing.done() and not drawing.cancelled() else None
        if error := app.crash or failed:
            self._crash(error)

    def _on_ready(self) -> None:
        # Where Python has eager tasks, Textual turns them on for the whole loop. The engine is not made for them.
        asyncio.get_running_loop().set_task_factory(None)

    def _on_paint(self) -> None:
        if not gc.isenabled():
            begin_collecting()  # modules and sheets are looked at no more, which keeps the loop free of pauses
        self._painted.set()

    def _obey(self, word: str) -> None:
        if word == "leave":
            self.leave()
        elif self._app is None or self._left.is_set():
            return  # a hang-up sends a continue as well
        elif word == "resize":
            self._app.resized()
        elif word == "continue":
            self._app.come_back()

    # ---- the end -------------------------------------------------------------------------------------------------

    async def tell_that_the_engine_goes_on(self, alert: Callable[[str, str], Awaitable[None]]) -> None:
        """Give the terminal back for good. A crash is put on record by `alert(reason, message)`."""
        self._say_crash()
        self._say_engine(os.getpid())
        self._launcher.tell("detached")
        self._launcher.close()
        let_go()
        if self._crashed:
            message = (
                f"the deck crashed ({self._crashed}): {self._crash_told_in or 'it could not be written down'}"
            )
            self._alerting = asyncio.ensure_future(_quietly(alert("deck_crashed", message)))

    def tell_the_end_of_the_engine(self, code: int) -> None:
        """The engine of this process has ended with `code`; so does the process."""
        self._say_crash()
        if code == 0:
            self._say("the engine has stopped")
            self._say(f"what is left goes on at the next start: taskdeck{self._places}")
        self._launcher.tell(f"end {code}")

    def tell_the_end_of_attached(self) -> int:
        """The deck has gone, the engine is another process. Returns the exit code."""
        self._say_crash()
        if pid := views.holder(self._config).pid:
            self._say_engine(pid)
        return CRASHED if self._crashed else 0

    def _say(self, text: str) -> None:
        self._launcher.tell(f"say {text}")

    def _say_engine(self, pid: int) -> None:
        places = self._places
        self._say(f"the engine goes on (pid {pid}); back: taskdeck{places}; end it: taskdeck stop{places}")

    def _say_crash(self) -> None:
        if self._crash_told_in:
            self._say(f"the deck crashed; what happened stands in {self._crash_told_in}")
        elif self._crashed:
            self._say(f"the deck crashed: {self._crashed}")

    def _crash(self, error: BaseException) -> None:
        """Write down what happened: redacted, without the values of variables."""
        from taskdeck.engine.commands import make_redactor

        self._crashed = type(error).__name__
        stamp = views.utc_text(views.now()).replace(":", "")
        file = self._config.log_directory / f"deck-crash-{stamp}.txt"
        text = make_redactor(self._config).text("".join(traceback.format_exception(error)))
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(
                os.open(file, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="utf-8"
            ) as opened:
                opened.write(text)
        except OSError:
            return
        self._crash_told_in = file


def _make_app(config: Config) -> Any:
    from .app import DeckApp
    from .driver import SafeApp, SafeDriver

    class TerminalDeck(SafeApp, DeckApp):  # pyright: ignore[reportIncompatibleVariableOverride]
        """The deck, made safe for a terminal."""

    return TerminalDeck(config, driver_class=SafeDriver)


async def _quietly(going: Awaitable[None]) -> None:
    try:
        await going
    except Exception:  # the crash is told on the terminal and in its file; the engine may be ending
        return
