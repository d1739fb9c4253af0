"""The overview: resources, routes with their scores, the queue, and the stream of events, all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import ComposeResult
from textual.widget import Widget

from .. import reads, stock_tables, tables
from ..bridge import Question
from ..states import Glyphs
from ..widgets.panes import Pane, ResourceTable, RouteTable, Table, TaskTable
from ..widgets.rooms import Across
from .page import Page

SPARK = 15
"""Cells of the line over the last minutes."""
ROOMY = 76
"""Columns from which it is shown."""
ROOM = 40
"""Waiting tasks that the queue shows."""


class Overview(Page):
    """Four panes; each is a list with the keys of its kind."""

    title = "Overview"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="overview")
        self._resources = ResourceTable(stock_tables.RESOURCES, glyphs, id="overview-resources")
        self._routes = RouteTable(stock_tables.SHORT_ROUTES, glyphs, id="overview-routes")
        self._queue = TaskTable(tables.QUEUE, glyphs, id="overview-queue")
        self._events = Table(tables.EVENTS, glyphs, id="overview-events", follow=True, titled=False)
        self._recovered = TaskTable(tables.RECOVERED, glyphs, id="overview-recovered", titled=False)
        # Kept, not looked up: what was read may come before they are mounted and after they are gone.
        self._resources_pane = Pane("Resources", self._resources, id="pane-resources")
        self._routes_pane = Pane("Routes", self._routes, id="pane-routes")
        self._queue_pane = Pane("Queue", self._queue, id="pane-queue")
        self._recovery_pane = Pane("Recovered", self._recovered, id="pane-recovered")
        self._recoveries = reads.Recoveries()
        self._recovery: reads.Recovery | None = None
        self._put_away = 0
        self._busy = 0
        self._stream = reads.EventStream()
        self._rows: dict[str, int] = {}

    def compose(self) -> ComposeResult:
        with Across(id="overview-top"):
            yield self._resources_pane
            yield self._routes_pane
        yield self._recovery_pane
        yield self._queue_pane
        yield Pane("Events", self._events, id="pane-events")

    def on_mount(self) -> None:
        self._recovery_pane.display = False

    def entry(self) -> Widget:
        return self._queue

    def questions(self) -> Mapping[str, Question]:
        return {
            "resources": Question(reads.resources, every=25),
            "routes": Question(reads.routes, every=25),
            "queue": Question(reads.queue(ROOM)),
            "recovery": Question(self._recoveries, every=25),
            "events": Question(self._stream),
        }

    def take(self, name: str, value: Any) -> None:
        if name in ("resources", "routes"):
            self._rows[name] = len(value)
            self._fit()
        if name == "resources":
            self._resources.fill(value)
            self._resources_pane.entitle(stock_tables.in_use(value))
        elif name == "routes":
            self._routes.fill(stock_tables.best_first(value))
            self._routes_pane.entitle(f"{stock_tables.usable(value)}, best first")
        elif name == "queue":
            self._queue.fill(value.tasks)
            self._busy = len(value.running)
            self._entitle_queue()
        elif name == "events":
            self._events.fill(value)
        elif name == "recovery":
            self._recovery = value
            self._show_recovery()

    def tick(self) -> None:
        super().tick()
        self._entitle_queue()

    def _entitle_queue(self) -> None:
        """How many run, and how many tasks have ended lately, where there is room for that."""
        ended = self.deck.throughput.told(SPARK, ascii=self.deck.ascii) if self.size.width >= ROOMY else ""
        more = f"   {ended}" if ended else ""
        self._queue_pane.entitle(f"{self._busy} running, then what comes next{more}")

    def _show_recovery(self) -> None:
        """What the last start decided, as long as it is news and nobody has put it away."""
        found = self._recovery
        pane = self._recovery_pane
        pane.display = found is not None and found.event_id != self._put_away
        if found is not None and pane.display:
            self._recovered.fill(found.decided)
            pane.styles.height = 1 + min(len(found.decided), max(self.size.height // 6, 2))
            more = found.tasks - len(found.decided)
            left = f", {more} more in the events" if more > 0 else ""
            pane.entitle(f"{found.tasks} of an earlier engine{left}; esc hides this")

    def zoom(self) -> None:
        super().zoom()
        self._fit()

    def back(self) -> bool:
        if super().back():
            return True
        if not self._recovery_pane.display or self._recovery is None:
            return False
        self._put_away = self._recovery.event_id
        if self._recovered.has_focus:
            self._queue.focus()
        self._show_recovery()
        return True

    def on_resize(self) -> None:
        self._fit()
        self._show_recovery()

    def _fit(self) -> None:
        """The upper panes take the lines that they need, two fifths of all at most; all of them when they are alone."""
        if self.has_class("-zoomed"):
            self.query_one("#overview-top").styles.height = "1fr"
            return
        needed = max(self._rows.values(), default=1) + 2
        self.query_one("#overview-top").styles.height = max(min(needed, self.size.height * 9 // 20), 4)
