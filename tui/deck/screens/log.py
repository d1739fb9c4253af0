"""The output of an attempt, as it grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widget import Widget

from .. import reads
from ..bridge import Question, Trouble
from ..states import Glyphs
from ..widgets.panes import Pane
from ..widgets.virtual_log import VirtualLog
from .page import Page, Target


class LogPage(Page):
    """One attempt's output; [ and ] go to the attempts before and after."""

    title = "Log"
    BINDINGS = [
        Binding(
            "left_square_bracket",
            "app.section(-1)",
            "attempt",
            id="log.previous",
            tooltip="the attempt before",
        ),
        Binding(
            "right_square_bracket", "app.section(1)", "attempt", id="log.next", tooltip="the attempt after"
        ),
    ]

    def __init__(self, glyphs: Glyphs, task_id: int, attempt: int | None = None) -> None:
        super().__init__(id=f"log-{task_id}-{id(self)}")
        self._task_id = task_id
        self._stream = reads.LogStream(task_id, attempt)
        self._attempts = 0
        self._log = VirtualLog(id=f"lines-{id(self)}")
        self._pane = Pane(f"Log of #{task_id}", self._log, id=f"pane-{id(self)}")

    def compose(self) -> ComposeResult:
        yield self._pane

    def on_mount(self) -> None:
        self._log.open([])

    def entry(self) -> Widget:
        return self._log

    def target(self) -> Target:
        return Target("task", [self._task_id])

    def questions(self) -> Mapping[str, Question]:
        return {"lines": Question(self._stream, key=self._stream, every=1)}

    def take(self, name: str, value: Any) -> None:
        if value is self._stream and (lines := value.take()):
            self._log.append(lines)
        if (self._stream.attempt or 0) > self._attempts:
            self._attempts = self._stream.attempt or 0
            self.deck.tell_keys()
        self._entitle()

    def refuse(self, name: str, trouble: Trouble) -> None:
        self._pane.entitle(str(trouble))

    def on_virtual_log_changed(self, message: VirtualLog.Changed) -> None:
        self._entitle()

    def _entitle(self) -> None:
        attempt = f"attempt {self._stream.attempt}" if self._stream.attempt else "no attempt yet"
        self._pane.entitle(f"{attempt}   {self._log.status}")

    def section(self, step: int) -> None:
        """Another attempt."""
        wanted = (self._stream.attempt or 1) + step
        if wanted < 1:
            return
        self._stream = reads.LogStream(self._task_id, wanted)
        self._log.open([])
        self.deck.ask()

    def hint(self, action: str, short: str) -> str:
        if action.startswith("app.section"):
            return short if self._attempts > 1 else ""
        return "search" if action == "app.filter" else short

    def filter(self) -> str:
        return ""

    def set_filter(self, text: str) -> None:
        self._log.search(text)
