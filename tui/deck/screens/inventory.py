"""The views of resources and routes: a list, and beside it, where there is room, the story of the one under the cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.widget import Widget

from taskdeck.engine import views

from .. import keys, reads, stock_filter, stock_tables
from ..bridge import Question, Trouble
from ..states import Glyphs
from ..tables import Cells
from ..widgets.panes import Pane, ResourceTable, RouteTable, Table, moment
from ..widgets.rooms import Down
from ..widgets.text import TextPane
from ..widgets.virtual_list import Column, VirtualList
from .page import Page, Target, chosen_in
from .story import ResourceText, RouteText, Story

SETTLED = 0.15
"""Seconds for which the cursor must rest until what is under it is read."""


class StockPage(Page):
    """A list of things, and the story of one of them."""

    kind: ClassVar[str]
    plural: ClassVar[str]

    def __init__(self, table: Table, text: TextPane, glyphs: Glyphs) -> None:
        super().__init__(id=self.plural, classes="stock-page")
        self._glyphs = glyphs
        self._table = table
        self._columns = table.plan.columns
        table.plan = table.plan._replace(columns=self._marked)
        self._sorted_by, self._turned = "", False
        self._pane = Pane(self.title, table, id=f"{self.plural}-pane")
        self._story = Story(self.kind, text, glyphs)
        self._beside = Pane("", text, id=f"{self.plural}-beside")
        self._moved = 0.0
        self._all: Sequence[Any] = ()
        self._text = ""

    def compose(self) -> ComposeResult:
        yield self._pane
        with Down(classes="beside"):
            yield self._beside

    def entry(self) -> Widget:
        return self._table

    # ---- reading ---------------------------------------------------------------------------------------------------

    def questions(self) -> Mapping[str, Question]:
        return {"story": self._story.question()} if self._story.name is not None else {}

    def take(self, name: str, value: Any) -> None:
        if name == "story":
            self._story.tell(value)
            return
        self._all = value
        self._fill(at_once=False)

    def refuse(self, name: str, trouble: Trouble) -> None:
        if name == "story":
            self._story.refuse(trouble)
        else:
            super().refuse(name, trouble)

    def _fill(self, *, at_once: bool) -> None:
        found = stock_filter.chosen(self._all, self._text)
        found = stock_tables.ordered(found, self._sorted_by, turned=self._turned)
        self._table.fill(found, at_once=at_once)
        self._pane.entitle(self._told(found))
        self._settle()

    def _told(self, found: Sequence[Any]) -> str:
        """What is said behind the title."""
        table = self._table
        parts = [f"/ {self._text}   {len(found)} of {len(self._all)}"] if self._text else []
        parts += [f"{len(table.marked)} marked"] if table.marked else []
        return "   ".join([*parts, self.summary(found)])

    def summary(self, found: Sequence[Any]) -> str:
        """How these are, in a few words."""
        raise NotImplementedError

    def on_virtual_list_moved(self, message: VirtualList.Moved) -> None:
        message.stop()
        self._moved = moment()
        if self._has_room:
            self.set_timer(SETTLED, self._settle)

    def on_virtual_list_marked(self, message: VirtualList.Marked) -> None:
        message.stop()
        self._pane.entitle(self._told(list(self._table.items.values())))

    def on_resize(self) -> None:
        self._settle()
        self.call_after_refresh(self._story.draw)

    def _settle(self) -> None:
        """The cursor rests: tell the story of what is under it."""
        if not self._has_room or moment() - self._moved < SETTLED * 0.9:
            return
        current = self._table.current
        name = None if current is None else str(getattr(current, "resource", current.id))
        if self._story.open(name):
            self._beside.entitle("", f"{self.kind.title()} {name}" if name else "")
            self.deck.ask()

    @property
    def _has_room(self) -> bool:
        return self.screen.has_class("-normal") or self.screen.has_class("-wide")

    def target(self) -> Target:
        return self._story.target if self.deck.focused is self._story.text else chosen_in(self._table)

    def holder(self) -> int | None:
        return self._story.holder

    def tick(self) -> None:
        super().tick()
        self._story.draw()

    # ---- filter ----------------------------------------------------------------------------------------------------

    def filter(self) -> str:
        return self._text

    def set_filter(self, text: str) -> None:
        stock_filter.wanted(text)
        self._text = text
        self._fill(at_once=True)

    # ---- order -----------------------------------------------------------------------------------------------------

    def _marked(self, width: int) -> list[Column]:
        return stock_tables.marked(self._columns(width), self._sorted_by, turned=self._turned)

    def sort(self, step: int) -> None:
        width = self._table.size.width
        if step:
            self._sorted_by = stock_tables.next_column(self._columns(width), self._sorted_by, step)
            self._turned = False
        else:
            self._turned = not self._turned
        self._table.set_columns(self._marked(width))
        self._fill(at_once=True)


class ResourcesPage(StockPage):
    """All resources and slots."""

    title = "Resources"
    kind, plural = "resource", "resources"
    BINDINGS = keys.SORT

    def __init__(self, glyphs: Glyphs) -> None:
        table = ResourceTable(stock_tables.RESOURCES, glyphs, id="resources-list")
        super().__init__(table, ResourceText(id="resources-text"), glyphs)

    def questions(self) -> Mapping[str, Question]:
        return {"resources": Question(reads.resources, every=25), **super().questions()}

    def summary(self, found: Sequence[Any]) -> str:
        fault = sum(each.state == "FAULT" for each in found)
        return stock_tables.in_use(found) + (f", {fault} in FAULT" if fault else "")


class RoutesPage(StockPage):
    """All routes, the best first."""

    title = "Routes"
    kind, plural = "route", "routes"
    BINDINGS = [*keys.ROUTES, *keys.SORT]

    def __init__(self, glyphs: Glyphs) -> None:
        plan = stock_tables.ROUTES._replace(cells=self._cells)
        super().__init__(RouteTable(plan, glyphs, id="routes-list"), RouteText(id="routes-text"), glyphs)
        self._latencies: dict[str, list[float | None]] = {}
        self._seen: tuple[Any, ...] = ()

    def _cells(self, found: views.RouteView, now: datetime, glyphs: Glyphs) -> Cells:
        return stock_tables.route_cells(found, now, glyphs, self._latencies.get(found.id, ()))

    def questions(self) -> Mapping[str, Question]:
        found = {"routes": Question(reads.routes, every=25), **super().questions()}
        if self._seen:
            found["latencies"] = Question(reads.latencies(self._seen), key=self._seen)
        return found

    def take(self, name: str, value: Any) -> None:
        if name == "latencies":
            self._latencies = value
            self._table.redraw()
        else:
            super().take(name, stock_tables.best_first(value) if name == "routes" else value)
            self._look_around()

    def _look_around(self) -> None:
        """Of the routes in sight, and of no other, the last results are read."""
        seen = self._table.shown_ids
        if set(seen) - set(self._seen):
            self._seen = seen
            self.deck.ask()

    def on_virtual_list_moved(self, message: VirtualList.Moved) -> None:
        super().on_virtual_list_moved(message)
        self._look_around()

    def on_resize(self) -> None:
        super().on_resize()
        self.call_after_refresh(self._look_around)

    def summary(self, found: Sequence[Any]) -> str:
        return f"{stock_tables.usable(found)}; a score of 100 is best"
