"""The overview: resources, routes with their scores, the queue, and the stream of events, all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

from .. import reads, tables
from ..bridge import Question
from ..states import Glyphs
from ..widgets.panes import Pane, ResourceTable, RouteTable, Table, TaskTable
from .page import Page

ROOM = 40
"""Waiting tasks that the queue shows."""


class Overview(Page):
    """Four panes; each is a list with the keys of its kind."""

    title = "Overview"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="overview")
        self._resources = ResourceTable(tables.RESOURCES, glyphs, id="overview-resources")
        self._routes = RouteTable(tables.ROUTES, glyphs, id="overview-routes")
        self._queue = TaskTable(tables.QUEUE, glyphs, id="overview-queue")
        self._events = Table(tables.EVENTS, glyphs, id="overview-events", follow=True, titled=False)
        self._stream = reads.EventStream()
        self._rows: dict[str, int] = {}

    def compose(self) -> ComposeResult:
        with Horizontal(id="overview-top"):
            yield Pane("Resources", self._resources, id="pane-resources")
            yield Pane("Routes", self._routes, id="pane-routes")
        yield Pane("Queue", self._queue, id="pane-queue")
        yield Pane("Events", self._events, id="pane-events")

    def entry(self) -> Widget:
        return self._queue

    def questions(self) -> Mapping[str, Question]:
        return {
            "resources": Question(reads.resources, every=25),
            "routes": Question(reads.routes, every=25),
            "queue": Question(reads.queue(ROOM)),
            "events": Question(self._stream),
        }

    def take(self, name: str, value: Any) -> None:
        if name in ("resources", "routes"):
            self._rows[name] = len(value)
            self._fit()
        if name == "resources":
            self._resources.fill(value)
            busy = sum(each.state in ("LEASED", "RUNNING") for each in value)
            self.query_one("#pane-resources", Pane).entitle(f"{busy} of {len(value)} in use")
        elif name == "routes":
            self._routes.fill(tables.best_first(value))
            usable = sum(each.state in ("AVAILABLE", "LEASED", "RUNNING") for each in value)
            self.query_one("#pane-routes", Pane).entitle(f"{usable} of {len(value)} usable, best first")
        elif name == "queue":
            self._queue.fill(value.tasks)
            self.query_one("#pane-queue", Pane).entitle(f"{len(value.running)} running, then what comes next")
        elif name == "events":
            self._events.fill(value)

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """The upper panes take the lines that they need, two fifths of all at most."""
        needed = max(self._rows.values(), default=1) + 2
        self.query_one("#overview-top").styles.height = max(min(needed, self.size.height * 9 // 20), 4)
