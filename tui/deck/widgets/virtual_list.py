"""A list of any length that draws what is seen: a million ids cost as much as a hundred.

Owns the marks and the drawing of rows; the cursor and the window are `row_window`'s. Rows come from a provider, one call for
each row that comes into sight; what it doesn't have yet is asked for by `Wanted` and drawn when `update_row` names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from .cells import cut_mark, fit, shown
from .columns import Cell, Column, Id, Provider, widths
from .row_ids import Unread
from .row_window import RowWindow, find

__all__ = ["Cell", "Column", "Id", "Provider", "VirtualList"]

KEPT = 1_024
"""Drawn rows that are kept."""
MOST_MARKED = 10_000
"""Rows that can be marked without asking whoever knows of all of them."""


class VirtualList(RowWindow, can_focus=True):
    """Rows by id in columns, with a cursor and marks."""

    BINDINGS = [
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

    class Beyond(Marked):
        """Marks were asked for on rows that have not been read, or on very many: from one id to another, or all."""

        def __init__(self, list: VirtualList, ends: tuple[Id, Id] | None) -> None:
            super().__init__(list)
            self.ends = ends

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
        self.marked: set[Id] = set()
        """The marked ids, in the list or not."""
        self._columns = tuple(columns)
        self._left = 0
        self._anchor: Id | None = None
        self._strips: LRUCache[Id, Strip] = LRUCache(KEPT)
        self._widths: tuple[int, ...] = ()
        self._sized = Size(0, 0)
        self._missing: dict[Id, None] = {}

    # --- what is in it ---------------------------------------------------------------------------------------

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Other columns, or other titles, from now on."""
        self._columns = tuple(columns)
        self._left = 0
        self.forget()
        self.refresh()

    def update_row(self, id: Id) -> None:
        """The cells of a row have changed: draw its line again, if it is in sight."""
        self._strips.discard(id)
        if (line := self._line_of(id)) is not None:
            self._refresh_line(line)

    def update_rows(self, ids: Iterable[Id] | None = None) -> None:
        """As `update_row` for many, or for all."""
        if ids is None:
            self._strips.clear()
            self.refresh()
            return
        for id in ids:
            self.update_row(id)

    def mark(self, ids: Iterable[Id]) -> None:
        """Mark these as well."""
        self._mark(ids, True)

    def clear_marks(self) -> None:
        """No marks, and no range that has begun."""
        self._anchor = None
        self._mark(self.marked, False)

    # --- keys and mouse --------------------------------------------------------------------------------------

    def action_right(self) -> None:
        self._shift(1)

    def action_left(self) -> None:
        self._shift(-1)

    async def action_open(self) -> None:
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
        start, other = find(self._ids, self._anchor, self._cursor), self._anchor
        self._anchor = None
        if start is not None:
            first, last = sorted((start, self._cursor))
            self._mark_all(self._ids[first : last + 1], True)
        elif self.cursor_id is not None:  # it begins far away, where nothing is known of the rows any more
            self.post_message(self.Beyond(self, (other, self.cursor_id)))

    def action_mark_all(self) -> None:
        """Mark every row; none, if all of them are marked."""
        few = len(self._ids) <= MOST_MARKED
        are_marked = self.marked.issuperset(self._ids) if few else len(self.marked) >= len(self._ids)
        if are_marked:
            self._mark(self._ids if few else self.marked, False)
        else:
            self._mark_all(self._ids, True)

    def _mark_all(self, ids: Sequence[Id], on: bool) -> None:
        unread = len(ids) > MOST_MARKED or any(isinstance(each, Unread) for each in ids)
        if unread:
            self.post_message(self.Beyond(self, None if ids is self._ids else (ids[0], ids[-1])))
        else:
            self._mark(ids, on)

    async def on_click(self, event: events.Click) -> None:
        line = event.get_content_offset_capture(self).y - self._head
        if 0 <= line < len(self.shown_ids):
            self._go(self._top + line)
            if event.chain == 2:
                await self.action_open()

    def on_resize(self) -> None:
        if self.size != self._sized:  # else it has only come into sight again
            self._sized = self.size
            self.resized()

    def resized(self) -> None:
        """It has another size: what was drawn is of no use any more."""
        self.forget()
        self._keep_in_sight()
        self.refresh()

    def _shift(self, columns: int) -> None:
        """Scroll sideways, a column at a time, as long as something is hidden there."""
        hidden = 1 + sum(self._layout()) + len(self._columns) - self.size.width
        starts = [0]
        for width in self._layout():
            starts.append(starts[-1] + width + 1)
        at = sum(1 for start in starts if start < self._left) + columns
        self._left = min(max(starts[min(max(at, 0), len(starts) - 1)], 0), max(hidden, 0))
        self.refresh()

    def moved(self, id: Id) -> None:
        self.post_message(self.Moved(self, id))

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
        look = "focused cursor" if self.has_focus else "cursor"
        return strip.apply_style(self.look(look)) if is_cursor else strip

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
        cells = self._cut(cells, self._left + room).crop_extend(self._left, self._left + room, style)
        first = next(iter(cells), None)
        if sign == " " and first is not None and first.style is not None and not first.style.reverse:
            style = first.style  # a blank looks the same, and another style costs bytes
        return Strip([Segment(sign, style), *cells]).simplify()

    def _cut(self, cells: Strip, end: int) -> Strip:
        """A line that is seen up to `end`: a cell that is cut there says so, else it is read as another value."""
        if cells.cell_length <= end or end < 1:
            return cells
        edge = -1
        for width in self._layout():
            edge += width + 1
            if edge >= end:
                break
        if not cells.crop(end, edge).text.strip():
            return cells
        kept = cells.crop(0, end - 1)
        style = next(iter(cells.crop(end - 1, end))).style
        return Strip([*kept, Segment(cut_mark(self.ascii), style)])

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
