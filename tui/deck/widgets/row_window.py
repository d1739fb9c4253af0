"""The window on a list of any length: which rows are in sight, and the cursor, which is an item and not a place.

Owns the ids, where the window and the cursor are, and the keys that move them. What a row looks like is drawn by who builds
on this. Must not read anything, sort or filter.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.binding import Binding
from textual.geometry import Region

from .columns import Id
from .looks import LineWidget
from .row_ids import Unread

NEAR = 200
"""How far around its last place an id is looked for before the whole list is searched."""
WHEEL = 3


class RowWindow(LineWidget):
    """Rows by id, some of them in sight, one below the cursor."""

    BINDINGS = [
        Binding("j,down", "down", "down", id="list.down", show=False),
        Binding("k,up", "up", "up", id="list.up", show=False),
        Binding("g,home", "top", "to the first", id="list.top", show=False),
        Binding("G,end", "bottom", "to the last", id="list.bottom", show=False),
        Binding("pagedown,ctrl+d", "page_down", "a page down", id="list.page_down", show=False),
        Binding("pageup,ctrl+u", "page_up", "a page up", id="list.page_up", show=False),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.cursor_id: Id | None = None
        """The row under the cursor; None in an empty list, and where its id has not been read."""
        self._ids: Sequence[Id] = ()
        self._cursor = 0
        self._top = 0
        self._places: dict[Id, int] | None = None

    def moved(self, id: Id) -> None:
        """Called when the cursor came to another row."""

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

    def on_focus(self) -> None:
        self._refresh_line(self._cursor - self._top + self._head)

    def on_blur(self) -> None:
        self._refresh_line(self._cursor - self._top + self._head)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._go(self._cursor + WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._go(self._cursor - WHEEL)

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

    def _keep_in_sight(self) -> None:
        """Move the window as little as the cursor asks for."""
        room = max(self._room, 1)
        self._top = max(min(self._top, self._cursor, len(self._ids) - room), self._cursor - room + 1, 0)
        self._places = None

    def _settle(self) -> None:
        """The cursor's id follows its place."""
        now = self._ids[self._cursor] if self._ids else None
        now = None if isinstance(now, Unread) else now
        if now != self.cursor_id:
            self.cursor_id = now
            if now is not None:
                self.moved(now)

    def _line_of(self, id: Id) -> int | None:
        """The line that a row is on, if it is in sight."""
        if self._places is None:
            self._places = {id: line for line, id in enumerate(self.shown_ids, self._head)}
        return self._places.get(id)

    def _refresh_line(self, line: int) -> None:
        self.refresh(Region(0, line, self.size.width, 1))


def find(ids: Sequence[Id], wanted: Id, near: int) -> int | None:
    """The place of an id, looked for around `near` first."""
    for index in range(max(near - NEAR, 0), min(near + NEAR, len(ids))):
        if ids[index] == wanted:
            return index
    try:
        return ids.index(wanted)
    except ValueError:
        return None
