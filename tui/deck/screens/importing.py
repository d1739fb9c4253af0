"""A list of routes before it is imported: what becomes of each line, the bad ones first. Nothing is written from here."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from taskdeck.engine.config import Config

from ... import route_lists
from ..states import Glyphs
from ..tables import Cells, Plan
from ..widgets.cells import shown
from ..widgets.panes import Table, moment
from ..widgets.virtual_list import Column
from .confirm import DEAF

if TYPE_CHECKING:
    from taskdeck.engine.commands import Import

LOOKS = {"new": "good", "changed": "warn", "duplicate": "dim", "bad": "bad"}
FIRST = ("bad", "changed", "new", "duplicate")
"""The order of kinds: what needs a look comes first."""


async def look_at(config: Config, file: str) -> Import:
    """What importing this file would change; read and compared in a thread. Raises `TaskdeckError`."""
    from taskdeck.engine import commands

    return await asyncio.to_thread(lambda: commands.look_at_list(config, route_lists.read(file)))


def import_columns(width: int) -> list[Column]:
    """For any width."""
    head = [Column("line", "LINE", 5, "right"), Column("kind", "IS", 9)]
    ids = [Column("id", "ID", 20)] if width >= 70 else []
    return [*head, *ids, Column("what", "WHAT", 20, flex=True)]


def import_cells(found: Any, now: datetime, glyphs: Glyphs) -> Cells:
    """What becomes of a line."""
    return {
        "line": (str(found.line or "-"), "dim"),
        "kind": (found.kind, LOOKS.get(found.kind, "")),
        "id": (found.id or "-", ""),
        "what": (route_lists.told(found), LOOKS["bad"] if found.kind == "bad" else ""),
    }


PLAN = Plan("line", lambda each: each.line, import_columns, import_cells, "there is nothing in it")


class ImportPage(ModalScreen["Import | None"]):
    """Answers with the list where it is to be imported, without its bad lines."""

    BINDINGS = [
        Binding("y", "answer(True)", "import", id="import.yes"),
        Binding("n,escape,q", "answer(False)", "leave it", id="import.no"),
    ]

    def __init__(self, file: str, found: Import, glyphs: Glyphs) -> None:
        super().__init__()
        self._file, self._found = file, found
        self._table = Table(PLAN, glyphs, id="import-list")

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            yield Static(
                Content.styled(shown(f"{self._file}: {route_lists.summary(self._found)}"), "bold"),
                markup=False,
            )
            yield self._table
            yield Static(Content(self._ask()), markup=False)

    def _ask(self) -> str:
        if not route_lists.to_write(self._found):
            return "nothing to import   esc closes"
        return f"y {route_lists.wish(self._found)}   n leave it"

    def on_mount(self) -> None:
        self._since = moment()
        self._table.fill(sorted(self._found.lines, key=lambda each: (FIRST.index(each.kind), each.line)))
        self._table.focus()

    def action_answer(self, yes: bool) -> None:
        if moment() - self._since < DEAF or (yes and not route_lists.to_write(self._found)):
            return
        self.dismiss(self._found if yes else None)
