"""The views of resources and routes: a list, and beside it, where there is room, the one under the cursor; else its page
opens over the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

from taskdeck.engine import views

from .. import keys, reads, resource_text, route_text, stock_filter, stock_tables
from ..bridge import Question, Trouble
from ..states import Glyphs
from ..stock_tables import HELD
from ..tables import Cells
from ..widgets.cells import shown
from ..widgets.panes import Pane, ResourceTable, RouteTable, Table, moment
from ..widgets.text import Line, TextPane, looked
from ..widgets.virtual_list import Column, VirtualList
from .page import NOTHING, Page, Target, chosen_in, holders, standing

SETTLED = 0.15
"""Seconds for which the cursor must rest until what is under it is read."""
USABLE = ("AVAILABLE", *HELD)


class ResourceText(TextPane):
    """All that is known of a resource; its keys are those of resources."""

    BINDINGS = [*keys.TEXT, *keys.RESOURCE, *keys.HOLDER]


class RouteText(TextPane):
    """All that is known of a route; its keys are those of routes."""

    BINDINGS = [*keys.TEXT, *keys.ROUTE, *keys.HOLDER]


class Story:
    """One resource or route in a text, on a page of its own or beside the list."""

    def __init__(self, kind: str, text: TextPane, glyphs: Glyphs) -> None:
        self.kind = kind
        self.text = text
        self.name: str | None = None
        self._glyphs = glyphs
        self._found: Any = None

    def question(self) -> Question:
        """What there is to read of it."""
        assert self.name is not None
        read = reads.route_story(self.name) if self.kind == "route" else reads.resource(self.name)
        return Question(read, key=self.name, every=25)

    def tell(self, found: Any) -> None:
        """Show what was read."""
        self._found = found
        self.draw()

    def open(self, name: str | None) -> bool:
        """Let it be about another one; returns whether it was about something else."""
        if name == self.name:
            return False
        self.name, self._found = name, None
        return True

    def refuse(self, trouble: Trouble) -> None:
        """It can't be read, or is gone."""
        self._found = None
        self.text.tell(Content(shown(str(trouble))))

    def draw(self) -> None:
        """As it is at this moment: times go on."""
        if self._found is None:
            return
        width = (self.text.size.width or self.text.app.size.width) - 1
        lines = self._lines(width, views.now())
        self.text.tell(looked(lines, ascii=self._glyphs.ascii_only))

    def _lines(self, width: int, now: datetime) -> list[Line]:
        if self.kind == "route":
            return route_text.page(self._found.route, self._found.why_not, self._glyphs, width, now)
        return resource_text.page(self._found, self._glyphs, width, now)

    @property
    def target(self) -> Target:
        """What an act is for."""
        if self._found is None or self.name is None:
            return NOTHING
        items = [self._found.route] if self.kind == "route" else self._found
        tasks = tuple(task for each in items for task in holders(each))
        fences = {each.fence for each in self._leases() if each.task is not None}
        return Target(
            self.kind,
            [self.name],
            {self.name: standing(items[0])},
            {self.name: tasks},
            {self.name: fences.pop() if len(fences) == 1 else 0},
        )

    def _leases(self) -> Sequence[views.SlotView]:
        if self.kind == "resource":
            return self._found
        return self._found.route.slots if isinstance(self._found.route.slots, list) else []

    @property
    def holder(self) -> int | None:
        """The first task that holds it."""
        return next(iter(self.target.held.get(self.name, ())), None)


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
        with Vertical(classes="beside"):
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
        busy = sum(each.state in HELD for each in found)
        fault = sum(each.state == "FAULT" for each in found)
        return f"{busy} of {len(found)} in use" + (f", {fault} in FAULT" if fault else "")


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
        usable = sum(each.state in USABLE for each in found)
        return f"{usable} of {len(found)} usable; a score of 100 is best"


class StoryPage(Page):
    """One resource or route over whatever was shown."""

    def __init__(self, kind: str, glyphs: Glyphs, name: str) -> None:
        super().__init__(id=f"{kind}-{id(self)}")
        self.title = kind.title()
        text = (RouteText if kind == "route" else ResourceText)(id=f"{kind}-text-{id(self)}")
        self._story = Story(kind, text, glyphs)
        self._story.open(name)

    def compose(self) -> ComposeResult:
        yield Pane(f"{self.title} {self._story.name}", self._story.text, id=f"story-pane-{id(self)}")

    def entry(self) -> Widget:
        return self._story.text

    def target(self) -> Target:
        return self._story.target

    def holder(self) -> int | None:
        return self._story.holder

    def questions(self) -> Mapping[str, Question]:
        return {"story": self._story.question()}

    def take(self, name: str, value: Any) -> None:
        self._story.tell(value)

    def refuse(self, name: str, trouble: Trouble) -> None:
        self._story.refuse(trouble)

    def on_resize(self) -> None:
        self.call_after_refresh(self._story.draw)

    def tick(self) -> None:
        self._story.draw()
