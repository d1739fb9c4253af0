"""The list of tasks with its filter, and beside it, where there is room, the task under the cursor. The inbox is the same
list of what only a person can settle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.widget import Widget

from taskdeck.engine import views

from .. import keys, reads, tables
from ..bridge import Question, Trouble
from ..states import Glyphs
from ..widgets.panes import Pane, TaskTable, moment
from ..widgets.rooms import Down
from ..widgets.row_ids import Unread
from ..widgets.virtual_list import VirtualList
from ..widgets.virtual_log import VirtualLog
from .detail import DetailView
from .page import Page, Target, chosen_in

INBOX = views.Filter(states=("NEEDS_REVIEW", "DEAD", "LOST"))
SPARE = 30
"""Rows above and below the window that are read with it."""
MOST_MARKED = 100_000
"""Tasks that can be marked one by one."""
SETTLED = 0.15
"""Seconds for which the cursor must rest until its task is read."""


class TasksPage(Page):
    """All tasks, or those of a filter, newest first."""

    title = "Tasks"
    BINDINGS = keys.SECTIONS

    def __init__(self, glyphs: Glyphs, name: str, base: views.Filter | None = None) -> None:
        super().__init__(id=name, classes="tasks-page")
        self._base = base or views.Filter()
        self._text = ""
        self._wanted = self._base
        self._ids = reads.TaskIds(self._wanted)
        self._table = TaskTable(tables.TASKS, glyphs, id=f"{name}-list")
        self._pane = Pane("Inbox" if base else "Tasks", self._table, id=f"{name}-pane")
        self._detail = DetailView(glyphs, id=f"{name}-detail")
        self._log = VirtualLog(id=f"{name}-log")
        self._log_pane = Pane("Log", self._log, id=f"{name}-log-pane")
        self._stream: reads.LogStream | None = None
        self._window: tuple[Any, ...] = ()
        self._around: Any = None
        self._beside: int | None = None
        self._another = True
        self._moved = 0.0
        if base:
            self._inbox_words()

    def _inbox_words(self) -> None:
        self._table.plan = self._table.plan._replace(empty="nothing waits for you")

    def compose(self) -> ComposeResult:
        yield self._pane
        with Down(classes="beside"):
            yield self._detail
            yield self._log_pane

    def on_mount(self) -> None:
        self._log_pane.add_class("beside-log")
        self._log.open([])

    def entry(self) -> Widget:
        return self._table

    # ---- reading ---------------------------------------------------------------------------------------------------

    def questions(self) -> Mapping[str, Question]:
        found = {
            "ids": Question(self._ids, key=(self._wanted, self._around)),
            "rows": Question(reads.tasks(self._window), key=self._window),
        }
        if self._beside is not None:
            found["detail"] = Question(reads.detail(self._beside), key=self._beside)
        if self._stream is not None:
            found["log"] = Question(self._stream, key=self._stream, every=2)
        return found

    def take(self, name: str, value: Any) -> None:
        if name == "ids":
            self._table.place(value, at_once=self._another)
            self._another = False
            self._look_around()
            self._entitle()
        elif name == "rows":
            self._table.put(value, asked=self._window)
        elif name == "detail":
            self._detail.tell(value)
        elif name == "log" and value is self._stream:
            self._log.append(value.take())
            self._log_pane.entitle(f"attempt {value.attempt}   {self._log.status}")

    def refuse(self, name: str, trouble: Trouble) -> None:
        if name == "detail":
            self._detail.refuse(str(trouble))
        elif name == "log":
            self._log_pane.entitle(str(trouble.error.what))
        else:
            super().refuse(name, trouble)

    def on_virtual_list_wanted(self, message: VirtualList.Wanted) -> None:
        message.stop()
        self._look_around()

    def on_virtual_list_moved(self, message: VirtualList.Moved) -> None:
        message.stop()
        self._moved = moment()
        self._look_around()
        self._entitle()
        if self._has_room:
            self.set_timer(SETTLED, self._settle)

    def on_virtual_list_marked(self, message: VirtualList.Marked) -> None:
        message.stop()
        self._entitle()

    async def on_virtual_list_beyond(self, message: VirtualList.Beyond) -> None:
        """Mark rows that were never in sight: their ids are read for it."""
        message.stop()
        ends = [each for each in message.ends or () if isinstance(each, int)]
        after, before = (min(ends) - 1, max(ends) + 1) if ends else (None, None)
        wanted = self._wanted
        found = await self.deck.bridge.ask(
            lambda view: view.task_ids(wanted, after=after, before=before, limit=MOST_MARKED + 1)
        )
        if len(found) > MOST_MARKED:
            self.deck.say(
                f"more than {MOST_MARKED:,}: act on a filter instead, as in :cancel type:fetch", wrong=True
            )
        else:
            self._table.mark(found)

    def on_resize(self) -> None:
        self._look_around()
        self._settle()

    def _look_around(self) -> None:
        """Ask for the rows in sight and some around them, where they differ from what is read already."""
        table = self._table
        seen = set(table.shown_ids)
        near = table.ids[max(table.above - SPARE, 0) : table.above + len(seen) + SPARE]
        before = (self._window, self._around)
        if not seen <= set(self._window):
            self._window = tuple(each for each in near if not isinstance(each, Unread))
        here = table.cursor_id
        self._ids.around = here if isinstance(here, int) else Unread(max(table.position - 1, 0))
        edges = (table.above - SPARE, table.above + len(seen) + SPARE)
        if any(isinstance(table.ids[each], Unread) for each in edges if 0 <= each < len(table.ids)):
            self._around = self._ids.around
        if before != (self._window, self._around):
            self.deck.ask()

    def _settle(self) -> None:
        """The cursor rests: show its task beside the list."""
        if not self._has_room or moment() - self._moved < SETTLED * 0.9:
            return
        wanted = self._table.cursor_id
        if wanted != self._beside:
            self._beside = wanted if isinstance(wanted, int) else None
        self._open_log()
        self.deck.ask()

    def _open_log(self) -> None:
        """The log of the task beside the list, where there is room for that as well."""
        task = self._beside if self.screen.has_class("-wide") else None
        if task != (self._stream.task_id if self._stream else None):
            self._stream = None if task is None else reads.LogStream(task)
            self._log.open([])

    def target(self) -> Target:
        focused = self.deck.focused
        beside = focused is not None and (self._detail in focused.ancestors or focused is self._log)
        return self._detail.target if beside else chosen_in(self._table)

    @property
    def _has_room(self) -> bool:
        return self.screen.has_class("-normal") or self.screen.has_class("-wide")

    def _entitle(self) -> None:
        table = self._table
        parts = [f"/ {self._text}"] if self._text else []
        parts.append(f"{table.position:,} of {len(table.ids):,}")
        parts += [f"{len(table.marked):,} marked"] if table.marked else []
        parts += [f"{table.unseen:,} above"] if table.unseen else []
        self._pane.entitle("   ".join(parts))

    # ---- filter ----------------------------------------------------------------------------------------------------

    def filter(self) -> str:
        return self._text

    def set_filter(self, text: str) -> None:
        wanted = _both(self._base, views.parse(text))
        self._text, self._wanted, self._another = text, wanted, True
        self._ids = reads.TaskIds(wanted)
        self.deck.ask()

    def tick(self) -> None:
        super().tick()
        self._entitle()

    def section(self, step: int) -> None:
        self._detail.section(step)


def _both(base: views.Filter, own: views.Filter) -> views.Filter:
    """What both ask for; the states of the base hold unless some of them are named."""
    if not base.states:
        return own
    import msgspec

    states: Sequence[str] = [state for state in own.states if state in base.states] or base.states
    return msgspec.structs.replace(own, states=tuple(states))
