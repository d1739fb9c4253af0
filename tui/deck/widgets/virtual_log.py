"""A log that may have any length: follows the end, wraps, searches, and narrows to a level.

Owns the level, the search with its marks, and the drawing of lines; the place in the log is `log_window`'s. Lines are given
by `log_lines`; where they come from is the business of who opens the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from textual.binding import Binding
from textual.cache import LRUCache
from textual.message import Message
from textual.strip import Strip
from textual.worker import get_current_worker

from .cells import chopped, shown
from .log_lines import LEVELS, Indexed, Narrowed, Ring, level_of
from .log_window import PACE, LogWindow

T = TypeVar("T")

KEPT = 1_024
"""Drawn lines that are kept."""
QUICK = 20_000
"""So many lines are searched at once; more of them in a thread."""
LOOK_OF_LEVEL = ("dim", "", "warn", "bad")


class VirtualLog(LogWindow, can_focus=True):
    """Lines of text, the newest in sight while `following`."""

    BINDINGS = [
        Binding("L,right", "right", "scroll to the right", id="log.right", show=False),
        Binding("H,left", "left", "scroll to the left", id="log.left", show=False),
        Binding("w", "wrap", "wrap on or off", id="log.wrap", show=False),
        Binding("l", "level", "next level", id="log.level", show=False),
        Binding("n", "next_match", "next match", id="log.next_match", show=False),
        Binding("N", "previous_match", "previous match", id="log.previous_match", show=False),
        Binding("e", "next_error", "next error", id="log.next_error", show=False),
        Binding("E", "previous_error", "previous error", id="log.previous_error", show=False),
    ]

    class Changed(Message):
        """What `status` tells has changed."""

        def __init__(self, log: VirtualLog) -> None:
            super().__init__()
            self.log = log
            self.set_sender(log)  # else one that a parent caused would not come back to it

        @property
        def control(self) -> VirtualLog:
            """The log."""
            return self.log

    class Older(Changed):
        """The first line that is held came into sight; `prepend` takes what was before it."""

    def __init__(
        self,
        *,
        empty: str = "no output yet",
        pace: float = PACE,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """`empty` is said where there are no lines; `pace` is the time between repaints for new lines (seconds)."""
        super().__init__(pace=pace, id=id, classes=classes)
        self.empty = empty
        self.wrap = False
        self.level = ""
        self.sought = ""
        self.not_found = False
        """Did the last search end where it began?"""
        self._narrowed: Narrowed | None = None
        self._left = 0
        self._found: int | None = None
        self._drawn: LRUCache[int, list[Strip]] = LRUCache(KEPT)

    # --- what is in it ---------------------------------------------------------------------------------------

    def open(self, source: Sequence[str]) -> None:
        """Show another log, its end first: a list is taken over, any other sequence is read by index."""
        self._lines = Ring(source) if isinstance(source, list) else Indexed(source)
        self._left, self.new_lines, self._found, self.following = 0, 0, None, True
        self.not_found = False
        self._narrow()
        self._draw_anew()

    def append(self, lines: Iterable[str]) -> None:
        """Lines that came at the end of a list that was opened."""
        assert isinstance(self._lines, Ring), "a sequence grows by itself: call `grown`"
        before = self._lines.end
        self._lines.append(lines)
        self._grow(self._lines.end - before)

    def grown(self, count: int) -> None:
        """The sequence that was opened has so many more lines at its end."""
        self._grow(count)

    def prepend(self, lines: Sequence[str]) -> None:
        """Lines that were before the first one of a list that was opened."""
        assert isinstance(self._lines, Ring)
        self._lines.prepend(lines)
        self._narrow()
        self._show()

    def set_level(self, level: str) -> None:
        """Show lines of this level and above only, one of `LEVELS`."""
        self.level = level if level in LEVELS else ""
        self._narrow()
        self._draw_anew()

    def search(self, text: str) -> None:
        """Go to the next line with `text`, from the top of the window on; small letters match in any case."""
        self.sought = text
        self._found = None
        self._drawn.clear()
        if text:
            self._seek(self._matches(text), 0)
        self._show()

    @property
    def lines(self) -> Sequence[int]:
        """The numbers of all lines that the level lets through."""
        return super().lines if self._narrowed is None else self._narrowed.numbers

    @property
    def status(self) -> str:
        """One line for a title: following, new lines, level, search, wrap."""
        parts = ["follow ON" if self.following else "follow off"]
        if self.new_lines:
            parts.append(f"{self.new_lines:,} new")
        if self.level:
            parts.append(f"level>={self.level}")
        if self.sought:
            parts.append(
                f"/{shown(self.sought, ascii=self.ascii)}" + (": not found" if self.not_found else "")
            )
        if self.wrap:
            parts.append("wrap")
        return "  ".join(parts)

    # --- keys ------------------------------------------------------------------------------------------------

    def action_wrap(self) -> None:
        """Long lines on several rows, or cut at the edge."""
        self.wrap, self._left, self._row = not self.wrap, 0, 0
        self._draw_anew()

    def action_level(self) -> None:
        """The next level, and everything after the last."""
        self.set_level(LEVELS[(LEVELS.index(self.level) + 1) % len(LEVELS)])

    def action_right(self) -> None:
        self._shift(self.size.width // 2)

    def action_left(self) -> None:
        self._shift(-(self.size.width // 2))

    def action_next_match(self) -> None:
        if self.sought:
            self._seek(self._matches(self.sought), 1)

    def action_previous_match(self) -> None:
        if self.sought:
            self._seek(self._matches(self.sought), -1)

    def action_next_error(self) -> None:
        self._seek(_is_error, 1)

    def action_previous_error(self) -> None:
        self._seek(_is_error, -1)

    def on_resize(self) -> None:
        self._draw_anew()

    # --- narrowing -------------------------------------------------------------------------------------------

    def _narrow(self) -> None:
        """Find the lines of the level; of very many in a thread, while everything is shown."""
        level = LEVELS.index(self.level)
        lines, self._narrowed = self._lines, None
        if level and lines.end - lines.first <= QUICK:
            self._narrowed = Narrowed(lines, level)
        elif level:
            self._aside(lambda: Narrowed(lines, level), self._narrow_to)

    def _narrow_to(self, found: Narrowed) -> None:
        if found.is_of(self._lines, LEVELS.index(self.level)):
            self._narrowed = found
            self._draw_anew()

    def _aside(self, work: Callable[[], T], take: Callable[[T], None]) -> None:
        """Do something long in a thread, then go on here; what is begun later ends it."""

        def run() -> None:
            found = work()
            if not get_current_worker().is_cancelled:
                self.app.call_from_thread(take, found)

        self.run_worker(run, thread=True, exclusive=True, group=take.__name__, exit_on_error=False)

    # --- searching -------------------------------------------------------------------------------------------

    def _matches(self, text: str) -> Callable[[str], bool]:
        if text != text.lower():
            return lambda line: text in line
        return lambda line: text in line.lower()

    def _seek(self, wanted: Callable[[str], bool], step: int) -> None:
        """Go to the next line that is wanted, around the end if need be; `step` 0 begins with the line here."""
        self._settle()
        start = self._top if self._found is None else self._found
        numbers = self.lines if isinstance(self.lines, range) else list(self.lines)
        way = _around(numbers, start, step)
        if len(numbers) <= QUICK:
            self._go_to(self._first(wanted, way))
            return
        self._aside(lambda: self._first(wanted, way), self._go_to)

    def _first(self, wanted: Callable[[str], bool], way: Iterator[int]) -> int | None:
        return next((number for number in way if wanted(self._lines.line(number))), None)

    def _go_to(self, number: int | None) -> None:
        """Show a line that was found, some lines before it as well."""
        self.not_found = number is None
        if number is not None:
            for changed in (number, self._found):
                if changed is not None:
                    self._drawn.discard(changed)
            self._found, self.following = number, False
            self._top, self._row = number, 0
            self._step(-(self.size.height // 3))
        self._show()

    # --- told by the window ----------------------------------------------------------------------------------

    def height_of(self, number: int) -> int:
        return len(self._strips(number)) if self.wrap else 1

    def came(self) -> None:
        if self._narrowed is not None:
            self._narrowed.update()

    def older(self) -> None:
        self.post_message(self.Older(self))

    def changed(self) -> None:
        if self.is_mounted:
            self.post_message(self.Changed(self))

    # --- drawing ---------------------------------------------------------------------------------------------

    def forget(self) -> None:
        self._drawn.clear()

    def _shift(self, cells: int) -> None:
        if not self.wrap:
            longest = max(
                (strip.cell_length for n, _ in self._seen() for strip in self._strips(n)), default=0
            )
            self._left = max(min(self._left + cells, longest - self.size.width), 0)
            self.refresh()

    def _draw_anew(self) -> None:
        self._drawn.clear()
        self._show()

    def render_line(self, y: int) -> Strip:
        """A row of what is in sight: called by Textual for rows that have changed."""
        seen = self._seen()
        if y >= len(seen):
            if y or self.lines:
                return self.blank()
            return self.strip([(shown(self.empty, ascii=self.ascii), "dim")]).crop_extend(
                0, self.size.width, self.look("")
            )
        number, row = seen[y]
        return self._strips(number)[row].crop_extend(self._left, self._left + self.size.width, self.look(""))

    def _strips(self, number: int) -> list[Strip]:
        """A line as it is drawn: one row, or several where it is wrapped."""
        strips = self._drawn.get(number)
        if strips is None:
            line = self._lines.line(number)
            text = shown(line, ascii=self.ascii)
            look = LOOK_OF_LEVEL[level_of(line)]
            rows = chopped(text, self.size.width) if self.wrap else [text]
            strips = [self.strip(self._pieces(row, look)) for row in rows]
            if number == self._found:
                strips = [strip.apply_style(self.look("strong")) for strip in strips]
            self._drawn[number] = strips
        return strips

    def _pieces(self, text: str, look: str) -> Iterator[tuple[str, str]]:
        """A row with what is sought marked."""
        sought = self.sought
        where = text.lower() if sought == sought.lower() else text
        if not sought or len(where) != len(text):
            yield text, look
            return
        at = 0
        while (found := where.find(sought, at)) >= 0:
            yield text[at:found], look
            yield text[found : found + len(sought)], "found"
            at = found + len(sought)
        yield text[at:], look


def _is_error(line: str) -> bool:
    return level_of(line) == 3


def _around(numbers: Sequence[int], start: int, step: int) -> Iterator[int]:
    """All numbers once, from `start` (itself last, or first with `step` 0) on, or backwards with -1."""
    at = bisect_left(numbers, start)
    count = len(numbers)
    if step < 0:
        return (numbers[(at - 1 - n) % count] for n in range(count))
    begin = at + 1 if step and at < count and numbers[at] == start else at
    return (numbers[(begin + n) % count] for n in range(count))
