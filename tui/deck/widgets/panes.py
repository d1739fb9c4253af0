"""Panes: a title over a list, and the list that knows how its kind of item looks. Reads nothing, acts on nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from taskdeck.engine import views

from .. import keys
from ..states import Glyphs
from ..tables import Cells, Plan
from .cells import shown
from .rooms import Down
from .row_ids import Unread
from .row_window import find
from .virtual_list import Id, VirtualList

CALM = 2.0
"""Seconds after a key press in which no row changes its place."""
KEPT = 2_000
"""Items of a list read in windows that are kept."""


def moment() -> float:
    """Seconds of the loop's clock, by which key presses are told apart."""
    return asyncio.get_running_loop().time()


class Table(VirtualList):
    """A list of one kind of item. `fill` takes all of them; `place` and `put` take ids and what is known of them."""

    BINDINGS = [
        Binding("f", "follow", "follow the end, or stay here", id="list.follow", show=False),
    ]

    def __init__(
        self, plan: Plan, glyphs: Glyphs, *, id: str, follow: bool = False, titled: bool = True
    ) -> None:
        super().__init__(plan.columns(80), self._row_of, empty="reading", id=id)
        self.plan = plan
        self.items: dict[Any, Any] = {}
        self._glyphs = glyphs
        self._drawn: dict[Any, Cells] = {}
        self._follow = follow
        self._titled = titled
        self._touched = -CALM
        self._held_back: Sequence[Id] | None = None
        self._pushed_down = False
        self._wants_end = follow

    def _row(self, id: Any) -> Strip:
        strip = super()._row(id)
        if id == self.cursor_id and self.has_focus:
            return Strip(
                [Segment(strip.text, self.look("focused cursor"))]
            )  # reversed colours would hide what is dim
        return strip

    @property
    def _head(self) -> int:
        return super()._head if self._titled else 0

    def resized(self) -> None:
        self.set_columns(self.plan.columns(self.size.width))
        super().resized()

    async def action_open(self) -> None:
        """At once, and not by a message: the next key is for the page that this one opens."""
        await self.app.run_action("app.open_row")

    def touch(self) -> None:
        """A key was pressed here: what moves rows is held back for a moment."""
        self._touched = moment()

    # ---- what is in it ---------------------------------------------------------------------------------------------

    def fill(self, items: Sequence[Any], *, at_once: bool = False) -> None:
        """These are all, in this order."""
        before, self.items = self.items, {self.plan.name(item): item for item in items}
        self.place(list(self.items), at_once=at_once)
        if self._held_back is not None:  # what has gone still stands there, as it was
            self.items = {each: before[each] for each in self._ids if each in before} | self.items
        self.redraw()

    def put(self, items: dict[Any, Any], *, asked: Sequence[Id] = ()) -> None:
        """What is known of some of the rows; what was `asked` for and did not come is gone."""
        self.items.update(items)
        if len(self.items) > KEPT:
            self.items = {each: self.items[each] for each in asked if each in self.items}
        for each in asked:
            if each not in items:
                self.items.pop(each, None)
        self.redraw([*items, *asked])

    def place(self, ids: Sequence[Id], *, at_once: bool = False) -> None:
        """Show these ids in this order; where a key was just pressed and rows would move, a moment later."""
        if at_once:
            self._touched = moment() - CALM
        self.empty = self.plan.empty
        calm = bool(self._ids) and moment() - self._touched < CALM
        at_end = self.is_following
        if calm and (at_end or self._would_move(ids)):
            self._held_back = ids
            return
        self._held_back = None
        at_top = not self._follow and (self._top == 0 or self._pushed_down)
        self.set_rows(ids)
        self._pushed_down = at_top and self._top > 0
        if at_end:
            self.action_bottom()
        elif not calm:
            self._come_down()

    def _come_down(self) -> None:
        """What is new comes into sight, where the first rows were; the cursor goes down with its item."""
        if self._pushed_down:
            self._pushed_down = False
            self.show_first()

    def _would_move(self, ids: Sequence[Id]) -> bool:
        """Would another row stand anywhere in sight?"""
        place = self._cursor if self.cursor_id is None else find(ids, self.cursor_id, self._cursor)
        if place is None:
            return True
        top = max(place - self._cursor + self._top, 0)
        seen = self.shown_ids
        then = ids[top : top + len(seen)]
        return len(then) < len(seen) or any(
            now != after for now, after in zip(seen, then, strict=True) if not isinstance(now, Unread)
        )

    @property
    def is_following(self) -> bool:
        """Does it show what comes at its end, as it comes?"""
        return self._wants_end and self.position == len(self._ids)

    def action_bottom(self) -> None:
        super().action_bottom()
        self._wants_end = self._follow

    def action_follow(self) -> None:
        """Follow the end, or stay here. Where the cursor is an item it is followed anyhow."""
        if self.is_following:
            self._wants_end = False
        elif self._follow:
            self.action_bottom()

    @property
    def unseen(self) -> int:
        """How many rows are new above what is in sight."""
        return self._top

    @property
    def current(self) -> Any:
        """The item under the cursor, if it is known."""
        return self.items.get(self.cursor_id)

    @property
    def chosen(self) -> list[Any]:
        """The ids that an act is for: the marked ones, else the one under the cursor."""
        if self.marked:
            return sorted(self.marked)
        return [] if self.cursor_id is None else [self.cursor_id]

    def tick(self) -> None:
        """A second has passed: times go on, and what was held back is shown."""
        if moment() - self._touched >= CALM:
            if self._held_back is not None:
                self.place(self._held_back)
            self._come_down()
        self.redraw()

    def redraw(self, ids: Sequence[Id] | None = None) -> None:
        """Draw the rows in sight that look otherwise than before."""
        seen = self.shown_ids
        wanted = seen if ids is None else set(seen).intersection(ids)
        now = views.now()
        for each in wanted:
            if self._cells_of(each, now) != self._drawn.get(each):
                self.update_row(each)

    def _cells_of(self, id: Any, now: datetime) -> Cells | None:
        item = self.items.get(id)
        return None if item is None else self.plan.cells(item, now, self._glyphs)

    def _row_of(self, id: Any) -> Cells | None:
        found = self._cells_of(id, views.now())
        if found is not None:
            if len(self._drawn) > 2_000:
                self._drawn.clear()
            self._drawn[id] = found
        return found


class TaskTable(Table):
    """Tasks."""

    BINDINGS = keys.TASK


class ResourceTable(Table):
    """Resources and their slots."""

    BINDINGS = keys.RESOURCE


class RouteTable(Table):
    """Routes."""

    BINDINGS = keys.ROUTE


class Pane(Down):
    """A title and what stands below it. The title of the pane that has the focus stands in brackets."""

    def __init__(self, title: str, content: Widget, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self._title = title
        self._more = ""
        self.content = content
        self._line = Static(Content(title), classes="pane-title", markup=False)

    def compose(self) -> ComposeResult:
        yield self._line
        yield self.content

    def entitle(self, more: str, name: str | None = None) -> None:
        """What is said behind the title."""
        name = self._title if name is None else name
        if (more, name) != (self._more, self._title):
            self._more, self._title = more, name
            self._draw()

    def on_mount(self) -> None:
        self._draw()

    def on_descendant_focus(self) -> None:
        self._draw()

    def on_descendant_blur(self) -> None:
        self._draw()

    def _draw(self) -> None:
        focused = self.content.has_focus
        title = shown(self._title)
        name = Content.styled(f"[{title}]" if focused else f" {title} ", "bold")
        more = Content.styled(f" {shown(self._more)}", "dim") if self._more else Content("")
        self._line.update(name + more, layout=False)
