"""A list of any length that draws what is seen: a million ids cost as much as a hundred.

Owns the cursor (an id, not a place), the marks, the window, and the drawing of rows. Rows come from a provider, one call
for each row that comes into sight; what it doesn't have yet is asked for by `Wanted` and drawn when `update_row` names it.
Must not read anything, sort or filter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding
from textual.cache import LRUCache
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from .cells import Align, fit, shown
from .looks import LineWidget

Id = Hashable
"""What names a row: the id of a task, the name of a resource."""
Cell = tuple[str, str]
"""A text as it came, and a look (`looks.LOOKS`)."""
Provider = Callable[[Id], Mapping[str, Cell] | None]
"""Cells by column key; None where they aren't there yet."""

NEAR = 200
"""How far around its last place an id is looked for before the whole list is searched."""
WHEEL = 3
KEPT = 1_024
"""Drawn rows that are kept."""


@dataclass(frozen=True)
class Column:
    """A column: `width` cells, or at least so many where `flex` lets it take what is left."""

    key: str
    title: str
    width: int
    align: Align = "left"
    flex: bool = False


class VirtualList(LineWidget, can_focus=True):
    """Rows by id in columns, with a cursor and marks."""

    BINDINGS = [
        Binding("j,down", "down", "down", id="list.down", show=False),
        Binding("k,up", "up", "up", id="list.up", show=False),
        Binding("g,home", "top", "to the first", id="list.top", show=False),
        Binding("G,end", "bottom", "to the last", id="list.bottom", show=False),
        Binding("pagedown,ctrl+d", "page_down", "a page down", id="list.page_down", show=False),
        Binding("pageup,ctrl+u", "page_up", "a page up", id="list.page_up", show=False),
        Binding("L,right", "right", "columns to the right", id="list.right", show=False),
        Binding("H,left", "left", "columns to the left", id="list.left", show=False),
        Binding("enter", "open", "open", id="list.open", show=False),
        Binding("space", "mark", "mark", id="list.mark", show=False),
        Binding("v", "range", "mark from here to there", id="list.range", show=False),
        Binding("a", "mark_all", "mark all, or none", id="list.all", show=False),
    ]

    class Selected(Message):
        """Enter or a double click on a row."""

        def __init__(self, list: VirtualList, id: Id) -> None:
            super().__init__()
            self.list, self.id = list, id
            self.set_sender(list)  # else one that a parent caused would not come back to it

        @property
        def control(self) -> VirtualList:
            """The list, for `@on(VirtualList.Selected, "#tasks")`."""
            return self.list

    class Moved(Selected):
        """The cursor is on another row now."""

    class Marked(Message):
        """The marks have changed."""

        def __init__(self, list: VirtualList) -> None:
            super().__init__()
            self.list = list
            self.set_sender(list)

        @property
        def control(self) -> VirtualList:
            """The list."""
            return self.list

    class Wanted(Marked):
        """Rows came into sight that the provider didn't have: `ids`."""

        def __init__(self, list: VirtualList, ids: tuple[Id, ...]) -> None:
            super().__init__(list)
            self.ids = ids

    def __init__(
        self,
        columns: Sequence[Column],
        provider: Provider = lambda id: None,
        *,
        empty: str = "nothing here",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """`provider` may be set later; `empty` is said where there are no rows."""
        super().__init__(id=id, classes=classes)
        self.provider = provider
        self.empty = empty
        self.cursor_id: Id | None = None
        """The row under the cursor; None in an empty list alone."""
        self.marked: set[Id] = set()
        """The marked ids, in the list or not."""
        self._columns = tuple(columns)
        self._ids: Sequence[Id] = ()
        self._cursor = 0
        self._top = 0
        self._left = 0
        self._anchor: Id | None = None
        self._strips: LRUCache[Id, Strip] = LRUCache(KEPT)
        self._widths: tuple[int, ...] = ()
        self._places: dict[Id, int] | None = None
        self._missing: dict[Id, None] = {}

    # --- what is in it ---------------------------------------------------------------------------------------

    @property
    def ids(self) -> Sequence[Id]:
        """All ids in order."""
        return self._ids

    @property
    def shown_ids(self) -> tuple[Id, ...]:
        """The ids in sight, from the top."""
        return tuple(self._ids[self._top : self._top + self._room])

    @property
    def above(self) -> int:
        """How many rows are above what is in sight."""
        return self._top

    @property
    def position(self) -> int:
        """The cursor's row, from 1; 0 in an empty list."""
        return self._cursor + 1 if self._ids else 0

    def set_rows(self, ids: Sequence[Id]) -> None:
        """Show these ids in this order. The cursor stays on its item, and the item on its line, where both can."""
        before, line = self.shown_ids, self._cursor - self._top
        self._ids = ids
        found = None if self.cursor_id is None else find(ids, self.cursor_id, self._cursor)
        self._cursor = min(self._cursor, max(len(ids) - 1, 0)) if found is None else found
        self._top = self._cursor - line
        self._keep_in_sight()
        if self.shown_ids != before or not ids:
            self.refresh()
        self._settle()

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Other columns, or other titles, from now on."""
        self._columns = tuple(columns)
        self._left = 0
        self.forget()
        self.refresh()

    def update_row(self, id: Id) -> None:
        """The cells of a row have changed: draw its line again, if it is in sight."""
        self._strips.discard(id)
        if self._places is None:
            self._places = {id: line for line, id in enumerate(self.shown_ids, self._head)}
        if (line := self._places.get(id)) is not None:
            self._refresh_line(line)

    def update_rows(self, ids: Iterable[Id] | None = None) -> None:
        """As `update_row` for many, or for all."""
        if ids is None:
            self._strips.clear()
            self.refresh()
            return
        for id in ids:
            self.update_row(id)

    def move_to(self, id: Id) -> bool:
        """Put the cursor on a row. Returns whether the list holds it."""
        found = find(self._ids, id, self._cursor)
        if found is not None:
            self._go(found)
        return found is not None

    def show_first(self) -> None:
        """Bring the first rows into sight, if the cursor stays in sight as well."""
        if self._top and self._cursor < self._room:
            self._top, self._places = 0, None
            self.refresh()

    def clear_marks(self) -> None:
        """No marks, and no range that has begun."""
        self._anchor = None
        self._mark(self.marked, False)

    # --- keys and mouse --------------------------------------------------------------------------------------

    def action_down(self) -> None:
        self._go(self._cursor + 1)

    def action_up(self) -> None:
        self._go(self._cursor - 1)

    def action_top(self) -> None:
        self._go(0)

    def action_bottom(self) -> None:
        self._go(len(self._ids) - 1)

    def action_page_down(self) -> None:
        self._page(1)

    def action_page_up(self) -> None:
        self._page(-1)

    def action_right(self) -> None:
        self._shift(1)

    def action_left(self) -> None:
        self._shift(-1)

    def action_open(self) -> None:
        if self.cursor_id is not None:
            self.post_message(self.Selected(self, self.cursor_id))

    def action_mark(self) -> None:
        """Mark the row or take its mark, and go on to the next."""
        if self.cursor_id is not None:
            self._mark([self.cursor_id], self.cursor_id not in self.marked)
            self.action_down()

    def action_range(self) -> None:
        """The first press says where a range begins, the second marks it."""
        if self._anchor is None:
            self._anchor = self.cursor_id
            return
        start = find(self._ids, self._anchor, self._cursor)
        self._anchor = None
        if start is not None:
            first, last = sorted((start, self._cursor))
            self._mark(self._ids[first : last + 1], True)

    def action_mark_all(self) -> None:
        """Mark every row; none, if all of them are marked."""
        everything = set(self._ids)
        self._mark(everything, not everything <= self.marked)

    def on_click(self, event: events.Click) -> None:
        line = event.get_content_offset_capture(self).y - self._head
        if 0 <= line < len(self.shown_ids):
            self._go(self._top + line)
            if event.chain == 2:
                self.action_open()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._go(self._cursor + WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._go(self._cursor - WHEEL)

    def on_resize(self) -> None:
        self.forget()
        self._keep_in_sight()
        self.refresh()

    # --- moving ----------------------------------------------------------------------------------------------

    @property
    def _head(self) -> int:
        """Lines above the rows: the titles, unless there is no room to waste."""
        return 1 if self.size.height > 2 else 0

    @property
    def _room(self) -> int:
        return max(self.size.height - self._head, 0)

    def _go(self, index: int) -> None:
        if not self._ids:
            return
        before, top = self._cursor, self._top
        self._cursor = min(max(index, 0), len(self._ids) - 1)
        self._keep_in_sight()
        if self._top != top:
            self.refresh()
        elif self._cursor != before:
            self._refresh_line(before - top + self._head)
            self._refresh_line(self._cursor - top + self._head)
        self._settle()

    def _page(self, pages: int) -> None:
        rows = pages * max(self._room - 1, 1)
        self._top = min(max(self._top + rows, 0), max(len(self._ids) - self._room, 0))
        self._places = None
        self.refresh()
        self._go(self._cursor + rows)

    def _shift(self, columns: int) -> None:
        """Scroll sideways, a column at a time, as long as something is hidden there."""
        hidden = 1 + sum(self._layout()) + len(self._columns) - self.size.width
        starts = [0]
        for width in self._layout():
            starts.append(starts[-1] + width + 1)
        at = sum(1 for start in starts if start < self._left) + columns
        self._left = min(max(starts[min(max(at, 0), len(starts) - 1)], 0), max(hidden, 0))
        self.refresh()

    def _keep_in_sight(self) -> None:
        """Move the window as little as the cursor asks for."""
        room = max(self._room, 1)
        self._top = max(min(self._top, self._cursor, len(self._ids) - room), self._cursor - room + 1, 0)
        self._places = None

    def _settle(self) -> None:
        """The cursor's id follows its place; who listens hears of it."""
        now = self._ids[self._cursor] if self._ids else None
        if now != self.cursor_id:
            self.cursor_id = now
            if now is not None:
                self.post_message(self.Moved(self, now))

    def _mark(self, ids: Iterable[Id], on: bool) -> None:
        self.marked = self.marked.union(ids) if on else self.marked.difference(ids)
        self.refresh()
        self.post_message(self.Marked(self))

    # --- drawing ---------------------------------------------------------------------------------------------

    def forget(self) -> None:
        self._strips.clear()
        self._widths = ()
        self._places = None

    def render_line(self, y: int) -> Strip:
        """A line of what is in sight: called by Textual for lines that have changed."""
        if y < self._head:
            return self._titles()
        index = self._top + y - self._head
        if index >= len(self._ids):
            return self._nothing() if y == self._head and not self._ids else self.blank()
        return self._row(self._ids[index])

    def _row(self, id: Id) -> Strip:
        is_cursor = id == self.cursor_id
        sign = "*" if id in self.marked else ">" if is_cursor else " "
        strip = self._whole(sign, self._cells(id))
        return strip.apply_style(self.look("cursor")) if is_cursor else strip

    def _cells(self, id: Id) -> Strip:
        strip = self._strips.get(id)
        if strip is None:
            cells = self.provider(id)
            if cells is None:
                self._miss(id)
                return self._line([("...", "dim")])
            nothing: Cell = ("", "")
            strip = self._line([cells.get(column.key, nothing) for column in self._columns])
            self._strips[id] = strip
        return strip

    def _line(self, cells: Sequence[Cell]) -> Strip:
        """The cells of a row behind each other, each as wide as its column."""
        pieces: list[Cell] = []
        ascii = self.ascii
        for column, width, (text, look) in zip(self._columns, self._layout(), cells, strict=False):
            pieces += [(fit(shown(text, ascii=ascii), width, column.align, ascii=ascii), look), (" ", "")]
        return self.strip(pieces)

    def _whole(self, sign: str, cells: Strip) -> Strip:
        """A line as wide as the widget: the sign stays, the cells are scrolled sideways."""
        room, style = max(self.size.width - 1, 0), self.look("")
        cells = cells.crop_extend(self._left, self._left + room, style)
        first = next(iter(cells), None)
        if sign == " " and first is not None and first.style is not None and not first.style.reverse:
            style = first.style  # a blank looks the same, and another style costs bytes
        return Strip([Segment(sign, style), *cells]).simplify()

    def _titles(self) -> Strip:
        return self._whole(" ", self._line([(column.title, "title") for column in self._columns]))

    def _nothing(self) -> Strip:
        text = shown(self.empty, ascii=self.ascii)
        return self.strip(
            [(" " + fit(text, max(self.size.width - 1, cell_len(text)), ascii=self.ascii), "dim")]
        )

    def _layout(self) -> tuple[int, ...]:
        """The width of each column in this width of the widget."""
        if not self._widths:
            self._widths = widths(self._columns, self.size.width - 1)
        return self._widths

    def _miss(self, id: Id) -> None:
        if not self._missing:
            self.call_after_refresh(self._ask)
        self._missing[id] = None

    def _ask(self) -> None:
        ids, self._missing = tuple(self._missing), {}
        self.post_message(self.Wanted(self, ids))

    def _refresh_line(self, line: int) -> None:
        self.refresh(Region(0, line, self.size.width, 1))


def widths(columns: Sequence[Column], room: int) -> tuple[int, ...]:
    """The width of each column, one blank behind each: flexible ones share what the others leave."""
    left = max(room - sum(column.width + 1 for column in columns), 0)
    flexible = sum(column.flex for column in columns)
    found: list[int] = []
    for column in columns:
        share = -(-left // flexible) if column.flex else 0
        left, flexible = left - share, flexible - column.flex
        found.append(column.width + share)
    return tuple(found)


def find(ids: Sequence[Id], wanted: Id, near: int) -> int | None:
    """The place of an id, looked for around `near` first."""
    for index in range(max(near - NEAR, 0), min(near + NEAR, len(ids))):
        if ids[index] == wanted:
            return index
    try:
        return ids.index(wanted)
    except ValueError:
        return None
