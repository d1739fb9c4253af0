"""The views of resources and routes, and the page of one route with what makes its score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget

from .. import keys, reads, tables
from ..bridge import Question, Trouble
from ..route_text import page
from ..states import Glyphs
from ..widgets.panes import Pane, ResourceTable, RouteTable
from ..widgets.text import TextPane, lines
from .page import Page, Target, standing


class ResourcesPage(Page):
    """All resources and slots."""

    title = "Resources"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="resources")
        self._table = ResourceTable(tables.RESOURCES, glyphs, id="resources-list")
        self._pane = Pane("Resources", self._table, id="resources-pane")

    def compose(self) -> ComposeResult:
        yield self._pane

    def entry(self) -> Widget:
        return self._table

    def questions(self) -> Mapping[str, Question]:
        return {"resources": Question(reads.resources, every=25)}

    def take(self, name: str, value: Any) -> None:
        self._table.fill(value)
        busy = sum(each.state in ("LEASED", "RUNNING") for each in value)
        fault = sum(each.state == "FAULT" for each in value)
        self._pane.entitle(f"{busy} of {len(value)} in use" + (f", {fault} in FAULT" if fault else ""))


class RoutesPage(Page):
    """All routes, the best first."""

    title = "Routes"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="routes")
        self._table = RouteTable(tables.ROUTES, glyphs, id="routes-list")
        self._pane = Pane("Routes", self._table, id="routes-pane")

    def compose(self) -> ComposeResult:
        yield self._pane

    def entry(self) -> Widget:
        return self._table

    def questions(self) -> Mapping[str, Question]:
        return {"routes": Question(reads.routes, every=25)}

    def take(self, name: str, value: Any) -> None:
        self._table.fill(tables.best_first(value))
        usable = sum(each.state in ("AVAILABLE", "LEASED", "RUNNING") for each in value)
        self._pane.entitle(f"{usable} of {len(value)} usable; a score of 100 is best")


class RoutePage(Page):
    """One route: its score as a sum, the stages of its last check, its last results."""

    title = "Route"
    BINDINGS = keys.ROUTE

    def __init__(self, glyphs: Glyphs, name: str) -> None:
        super().__init__(id=f"route-{id(self)}")
        self._route = name
        self._found: Any = None
        self._glyphs = glyphs
        self._text = TextPane(id=f"route-text-{id(self)}")

    def compose(self) -> ComposeResult:
        yield Pane(f"Route {self._route}", self._text, id=f"route-pane-{id(self)}")

    def entry(self) -> Widget:
        return self._text

    def target(self) -> Target:
        return Target("route", [self._route], {self._route: standing(self._found)} if self._found else {})

    def questions(self) -> Mapping[str, Question]:
        return {"route": Question(reads.route(self._route), key=self._route, every=25)}

    def take(self, name: str, value: Any) -> None:
        self._found = value
        self._draw()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        if self._found is not None:
            width = (self._text.size.width or self.deck.size.width) - 1
            self._text.tell(lines(page(self._found, self._glyphs, width), ascii=self._glyphs.ascii_only))

    def refuse(self, name: str, trouble: Trouble) -> None:
        self._text.tell(Content(str(trouble)))
