"""A stage for one widget: an app of the size a test asks for, and what is on its screen as text."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar
from unittest.mock import patch

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from taskdeck.tui.deck.widgets.looks import LineWidget
from taskdeck.tui.deck.widgets.virtual_list import VirtualList
from taskdeck.tui.deck.widgets.virtual_log import VirtualLog

M = TypeVar("M", bound=Message)
W = TypeVar("W", bound=LineWidget)

PATIENCE = 20.0
"""Seconds until what is waited for counts as something that never comes."""
UNPAINTED = 0.05
"""Seconds until something is looked at that may have become so without a paint."""


class Stage(App[None], Generic[W]):
    """Shows one widget and keeps the messages that it posts."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { overflow: hidden; }"

    def __init__(self, widget: W, *, ascii: bool = False) -> None:
        super().__init__()
        self.widget = widget
        self.ascii = ascii
        self.heard: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_virtual_list_selected(self, message: VirtualList.Selected) -> None:
        self.heard.append(message)

    def on_virtual_list_moved(self, message: VirtualList.Moved) -> None:
        self.heard.append(message)

    def on_virtual_list_marked(self, message: VirtualList.Marked) -> None:
        self.heard.append(message)

    def on_virtual_list_wanted(self, message: VirtualList.Wanted) -> None:
        self.heard.append(message)

    def on_virtual_log_changed(self, message: VirtualLog.Changed) -> None:
        self.heard.append(message)

    def on_virtual_log_older(self, message: VirtualLog.Older) -> None:
        self.heard.append(message)

    def of(self, kind: type[M]) -> list[M]:
        """The messages of exactly this class."""
        return [message for message in self.heard if isinstance(message, kind) and type(message) is kind]


@asynccontextmanager
async def staged(
    widget: W, size: tuple[int, int] = (40, 8), *, ascii: bool = False
) -> AsyncIterator[tuple[Stage[W], Pilot[None]]]:
    """The widget on a screen of this size, with the focus."""
    app = Stage(widget, ascii=ascii)
    async with app.run_test(size=size) as pilot:
        widget.focus()
        await pilot.pause()
        yield app, pilot


def grid(widget: LineWidget) -> list[str]:
    """The lines of a widget as text, without blanks at their ends."""
    return [line.rstrip() for line in whole_grid(widget)]


def whole_grid(widget: LineWidget) -> list[str]:
    """The lines of a widget as text."""
    return [widget.render_line(y).text for y in range(widget.size.height)]


async def resize(app: Stage[W], pilot: Pilot[None], size: tuple[int, int]) -> None:
    """Pull at the corner of the window until the widget has this size: one that comes during a layout may be passed over."""
    for _ in range(100):
        await pilot.resize_terminal(*size)
        if app.widget.size == size:
            return
        await pilot.pause(0.02)
    raise AssertionError(f"the widget has {app.widget.size}, the window {size}")


async def until(pilot: Pilot[None], is_so: Callable[[], bool]) -> None:
    """Let the app run until something is so, which is looked at whenever it has painted, and between paints now and then."""
    app = pilot.app
    painted = asyncio.Event()
    deadline = time.monotonic() + PATIENCE
    with patch.object(app, "post_display_hook", painted.set):
        while not is_so():
            if time.monotonic() > deadline or app._exception is not None:
                raise AssertionError("it never came to be so")
            painted.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(painted.wait(), UNPAINTED)
