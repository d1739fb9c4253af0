"""A list and a log full of hostile texts, for a real terminal: python -m tests.tui.deck.hostile_stage [--no-mouse]"""

from __future__ import annotations

import sys

from textual.app import App, ComposeResult

from taskdeck.tui.deck.driver import SafeDriver
from taskdeck.tui.deck.widgets.virtual_list import Cell, Column, Id, VirtualList
from taskdeck.tui.deck.widgets.virtual_log import VirtualLog
from tests.tui.deck.hostile import HOSTILE


class HostileStage(App[None]):
    """Every text in a cell, in a title and in a line."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self) -> None:
        super().__init__(driver_class=SafeDriver, ansi_color=True)
        self.theme = "ansi-dark"
        columns = [Column("text", HOSTILE[0], 30), Column("again", HOSTILE[3], 30, flex=True)]
        self.list = VirtualList(columns, self._row)
        self.log_ = VirtualLog()

    def compose(self) -> ComposeResult:
        yield self.list
        yield self.log_

    def on_mount(self) -> None:
        self.list.set_rows(range(len(HOSTILE)))
        self.log_.open([*HOSTILE, "the last line"])
        self.log_.focus()

    def _row(self, id: Id) -> dict[str, Cell]:
        assert isinstance(id, int)
        return {"text": (HOSTILE[id], "bad"), "again": (HOSTILE[id], HOSTILE[id])}


if __name__ == "__main__":
    HostileStage().run(mouse="--no-mouse" not in sys.argv)
