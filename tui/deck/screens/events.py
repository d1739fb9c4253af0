"""The audit as it is written, all of it or what concerns one thing, the newest at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import ComposeResult
from textual.widget import Widget

from taskdeck.engine import views

from .. import reads, tables
from ..bridge import Question
from ..states import Glyphs
from ..widgets.panes import Pane, Table
from .page import Page

KEPT = 5_000


class EventsPage(Page):
    """A view of its own, or (with `about`, such as `task:42`) a page over another."""

    title = "Events"

    def __init__(self, glyphs: Glyphs, about: str = "") -> None:
        super().__init__(id=f"events-{id(self)}" if about else "events")
        self._about = about
        self._text = ""
        self._stream = self._follow("")
        self._table = Table(tables.EVENTS, glyphs, id=f"events-list-{id(self)}", follow=True)
        title = f"Events of {about.replace(':', ' ').replace('task ', '#')}" if about else "Events"
        self._pane = Pane(title, self._table, id=f"events-pane-{id(self)}")

    def _follow(self, text: str) -> reads.EventStream:
        words = text.split()
        return reads.EventStream(views.parse_events([*words, *([self._about] if self._about else [])]), KEPT)

    def compose(self) -> ComposeResult:
        yield self._pane

    def entry(self) -> Widget:
        return self._table

    def questions(self) -> Mapping[str, Question]:
        return {"events": Question(self._stream, key=self._stream)}

    def take(self, name: str, value: Any) -> None:
        self._table.fill(value)
        shown = f"/ {self._text}   " if self._text else ""
        follow = "follow ON" if self._table.is_following else "follow off (f: on)"
        self._pane.entitle(f"{shown}{sum(row.times for row in value):,} shown   {follow}")

    def filter(self) -> str:
        return self._text

    def set_filter(self, text: str) -> None:
        self._stream, self._text = self._follow(text), text
        self.deck.ask()
