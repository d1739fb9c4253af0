"""A deck on a database that a test has filled, and what is on its screen as text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from textual.events import Key
from textual.pilot import Pilot
from textual.strip import Strip

from taskdeck.engine.config import Config, load
from taskdeck.tui.deck.app import DeckApp
from taskdeck.tui.deck.widgets import lines as message_lines
from tests.tui.deck.stages import until


def settings(path: Path) -> Config:
    """The defaults on this database."""
    return load(db=path, environ={}, cwd=path.parent)


@asynccontextmanager
async def deck(path: Path, size: tuple[int, int] = (80, 24), **how: Any) -> AsyncIterator[Open]:
    """The deck, open on this database, its first page read. What it says stays, however slow the machine is."""
    app = DeckApp(settings(path), **how)
    with patch.object(message_lines, "STAYS", 3600):
        async with app.run_test(size=size) as pilot:
            opened = Open(app, pilot)
            await opened.becomes(opened.has_read)
            yield opened


class Open:
    """A deck that a test types at."""

    def __init__(self, app: DeckApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def lines(self) -> list[str]:
        """What is on the screen, without blanks at the ends of lines."""
        drawn = [strip.text.rstrip() for strip in self.strips[: self.app.size.height]]
        return drawn + [""] * (self.app.size.height - len(drawn))

    @property
    def strips(self) -> list[Strip]:
        """What is drawn, not what widgets think."""
        return self.app.screen._compositor.render_strips(self.app.size)

    @property
    def text(self) -> str:
        """The whole screen."""
        return "\n".join(self.lines)

    def has_read(self) -> bool:
        """Does it show its first page with what was read for it?"""
        lines = self.lines
        return "  reading  " not in lines[0] and any("RUN" in line for line in lines)

    async def press(self, *keys: str) -> None:
        """These keys, one after the other; what they have changed at once is painted."""
        await self.pilot.press(*keys)
        self.app.screen._on_timer_update()

    async def type(self, text: str) -> None:
        """A text at once, as it is pasted, then Enter."""
        names = {" ": "space", ":": "colon", "-": "minus", "_": "underscore"}
        for character in text:
            self.app.post_message(Key(names.get(character, character), character))
        await self.press("enter")

    async def reads(self, text: str) -> None:
        """Wait until the screen holds this."""
        try:
            await until(self.pilot, lambda: text in self.text)
        except AssertionError:
            raise AssertionError(f"{text!r} never came; the screen:\n{self.text}") from None

    async def loses(self, text: str) -> None:
        """Wait until the screen holds this no more."""
        await self.becomes(lambda: text not in self.text)

    async def becomes(self, is_so: Any) -> None:
        """Wait until something is so."""
        await until(self.pilot, is_so)
