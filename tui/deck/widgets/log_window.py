"""The window on a log: the place in it, which rows are in sight, and following the end as it grows.

Owns the number of the line at the top, and the row of it where lines are wrapped; the keys that move it; and when new lines
are drawn. How high a line is and how it looks is told by who builds on this.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from textual import events
from textual.binding import Binding
from textual.timer import Timer

from .log_lines import Lines, Ring
from .looks import LineWidget

PACE = 0.2
"""Seconds between two repaints for new lines, at the least."""
WHEEL = 3


class LogWindow(LineWidget):
    """Some rows of many lines, the last ones while `following`."""

    BINDINGS = [
        Binding("j,down", "down", "a line down", id="log.down", show=False),
        Binding("k,up", "up", "a line up", id="log.up", show=False),
        Binding("g,home", "top", "to the first line", id="log.top", show=False),
        Binding("G,end", "bottom", "to the end, and follow", id="log.bottom", show=False),
        Binding("pagedown,ctrl+d", "page_down", "a page down", id="log.page_down", show=False),
        Binding("pageup,ctrl+u", "page_up", "a page up", id="log.page_up", show=False),
        Binding("f", "follow", "follow on or off", id="log.follow", show=False),
    ]

    def __init__(self, *, pace: float = PACE, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.pace = pace
        self.following = True
        self.new_lines = 0
        """Lines that came since following ended."""
        self._lines: Lines = Ring()
        self._top = 0
        self._row = 0
        self._window: list[tuple[int, int]] | None = None
        self._timer: Timer | None = None
        self._late = False

    @property
    def lines(self) -> Sequence[int]:
        """The numbers of all lines that can be scrolled to."""
        return range(self._lines.first, self._lines.end)

    def height_of(self, number: int) -> int:
        """The rows that a line takes."""
        return 1

    def came(self) -> None:
        """Called before lines are drawn that have come."""

    def older(self) -> None:
        """Called when the first line came into sight."""

    def changed(self) -> None:
        """Called when the place, following, or what has come is another than before."""

    # --- keys and mouse --------------------------------------------------------------------------------------

    def action_down(self) -> None:
        self._scroll(1)

    def action_up(self) -> None:
        self._scroll(-1)

    def action_page_down(self) -> None:
        self._scroll(max(self.size.height - 1, 1))

    def action_page_up(self) -> None:
        self._scroll(-max(self.size.height - 1, 1))

    def action_top(self) -> None:
        self._scroll(-len(self.lines), first=True)

    def action_bottom(self) -> None:
        """To the end, which is followed from now on."""
        self.following, self.new_lines = True, 0
        self._show()

    def action_follow(self) -> None:
        """Follow the end, or stay here."""
        if self.following:
            self.following = False
            self.changed()
        else:
            self.action_bottom()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._scroll(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._scroll(-WHEEL)

    # --- growing ---------------------------------------------------------------------------------------------

    def _grow(self, count: int) -> None:
        if not self.following:
            self.new_lines += count
        self._late = True
        if self._timer is None and self.is_mounted:
            self._catch_up()

    def _catch_up(self) -> None:
        """Draw what has come, and wait a pace before the next time."""
        self._timer = None
        if self._late:
            self._late = False
            self.came()
            before = self._window
            self._settle()
            self._window = None
            if self._seen() != before:
                self.refresh()
            self.changed()
            self._timer = self.set_timer(self.pace, self._catch_up)

    # --- moving ----------------------------------------------------------------------------------------------

    def _scroll(self, rows: int, *, first: bool = False) -> None:
        """Move the window by rows; upwards it stops following."""
        self._settle()
        before = (self._top, self._row)
        if first and self.lines:
            self._top, self._row = self.lines[0], 0
        else:
            self._step(rows)
        if rows < 0 and (self._top, self._row) != before:
            self.following = False
        if rows < 0 and self.lines and self._top == self.lines[0]:
            self.older()
        self._show()

    def _step(self, rows: int) -> None:
        """Count rows from the top, over wrapped lines, to the last window at most."""
        numbers = self.lines
        at = bisect_left(numbers, self._top)
        row = self._row + rows
        while row < 0 and at > 0:
            at -= 1
            row += self.height_of(numbers[at])
        while at < len(numbers) - 1 and row >= self.height_of(numbers[at]):
            row -= self.height_of(numbers[at])
            at += 1
        if numbers:
            row = min(max(row, 0), self.height_of(numbers[at]) - 1)
            self._top, self._row = min((numbers[at], row), self._last_place())

    def _last_place(self) -> tuple[int, int]:
        """Line and row at the top of the window that ends with the last line."""
        numbers, room = self.lines, max(self.size.height, 1)
        for number in reversed(numbers):
            height = self.height_of(number)
            if height >= room:
                return number, height - room
            room -= height
        return (numbers[0], 0) if numbers else (self._lines.first, 0)

    def _settle(self) -> None:
        """Make the place one that exists: the end when following, else no line that is gone."""
        last = self._last_place()
        if self.following:
            self._top, self._row = last
            return
        numbers = self.lines
        at = bisect_left(numbers, self._top)
        if at >= len(numbers) or numbers[at] != self._top:
            self._row = 0
        self._top = numbers[at] if at < len(numbers) else last[0]
        self._top, self._row = min((self._top, self._row), last)

    def _show(self) -> None:
        """Draw the window at the place where it is now."""
        self._settle()
        self._window = None
        self.refresh()
        self.changed()

    def _seen(self) -> list[tuple[int, int]]:
        """Line and row of each row in sight."""
        if self._window is None:
            numbers, room, row = self.lines, self.size.height, self._row
            self._window = []
            for at in range(bisect_left(numbers, self._top), len(numbers)):
                if len(self._window) >= room:
                    break
                rows = range(row, self.height_of(numbers[at]))
                self._window += [(numbers[at], each) for each in rows[: room - len(self._window)]]
                row = 0
        return self._window
