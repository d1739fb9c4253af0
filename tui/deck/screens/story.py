"""All that is known of one resource or route: beside its list, or on a page over whatever was shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget

from taskdeck.engine import views

from ... import stock_words
from .. import keys, reads, resource_text, route_text
from ..bridge import Question, Trouble
from ..states import Glyphs
from ..widgets.cells import shown
from ..widgets.panes import Pane
from ..widgets.text import Line, TextPane, looked
from .page import NOTHING, Page, Target, holders, standing


class ResourceText(TextPane):
    """All that is known of a resource; its keys are those of resources."""

    BINDINGS = [*keys.TEXT, *keys.RESOURCE, *keys.HOLDER]


class RouteText(TextPane):
    """All that is known of a route; its keys are those of routes."""

    BINDINGS = [*keys.TEXT, *keys.ROUTE, *keys.HOLDER]


class Story:
    """One resource or route in a text, on a page of its own or beside the list."""

    def __init__(self, kind: str, text: TextPane, glyphs: Glyphs) -> None:
        self.kind = kind
        self.text = text
        self.name: str | None = None
        self._glyphs = glyphs
        self._found: Any = None

    def question(self) -> Question:
        """What there is to read of it."""
        assert self.name is not None
        read = reads.route_story(self.name) if self.kind == "route" else reads.resource(self.name)
        return Question(read, key=self.name, every=25)

    def tell(self, found: Any) -> None:
        """Show what was read."""
        self._found = found
        self.draw()

    def open(self, name: str | None) -> bool:
        """Let it be about another one; returns whether it was about something else."""
        if name == self.name:
            return False
        self.name, self._found = name, None
        return True

    def refuse(self, trouble: Trouble) -> None:
        """It can't be read, or is gone."""
        self._found = None
        self.text.tell(Content(shown(str(trouble))))

    def draw(self) -> None:
        """As it is at this moment: times go on."""
        if self._found is None:
            return
        width = (self.text.size.width or self.text.app.size.width) - 1
        lines = self._lines(width, views.now())
        self.text.tell(looked(lines, ascii=self._glyphs.ascii_only))

    def _lines(self, width: int, now: datetime) -> list[Line]:
        if self.kind == "route":
            return route_text.page(self._found.route, self._found.why_not, self._glyphs, width, now)
        return resource_text.page(self._found, self._glyphs, width, now)

    @property
    def target(self) -> Target:
        """What an act is for."""
        if self._found is None or self.name is None:
            return NOTHING
        items = [self._found.route] if self.kind == "route" else self._found
        tasks = tuple(task for each in items for task in holders(each))
        fences = {each.fence for each in self._leases()}
        return Target(
            self.kind,
            [self.name],
            {self.name: standing(items[0])},
            {self.name: tasks},
            {self.name: fences.pop() if len(fences) == 1 else 0},
        )

    def _leases(self) -> Sequence[views.ResourceView | views.SlotView]:
        if self.kind == "resource":
            return [each for each in self._found if each.task is not None]
        return stock_words.leases(self._found.route)

    @property
    def holder(self) -> int | None:
        """The first task that holds it."""
        return next(iter(self.target.held.get(self.name, ())), None)


class StoryPage(Page):
    """One resource or route over whatever was shown."""

    def __init__(self, kind: str, glyphs: Glyphs, name: str) -> None:
        super().__init__(id=f"{kind}-{id(self)}")
        self.title = kind.title()
        text = (RouteText if kind == "route" else ResourceText)(id=f"{kind}-text-{id(self)}")
        self._story = Story(kind, text, glyphs)
        self._story.open(name)

    def compose(self) -> ComposeResult:
        yield Pane(f"{self.title} {self._story.name}", self._story.text, id=f"story-pane-{id(self)}")

    def entry(self) -> Widget:
        return self._story.text

    def target(self) -> Target:
        return self._story.target

    def holder(self) -> int | None:
        return self._story.holder

    def questions(self) -> Mapping[str, Question]:
        return {"story": self._story.question()}

    def take(self, name: str, value: Any) -> None:
        before = self._story.holder
        self._story.tell(value)
        if (before is None) != (self._story.holder is None):
            self.deck.tell_keys()

    def refuse(self, name: str, trouble: Trouble) -> None:
        self._story.refuse(trouble)

    def hint(self, action: str, short: str) -> str:
        return "" if action == "app.holder" and self.holder() is None else super().hint(action, short)

    def on_resize(self) -> None:
        self.call_after_refresh(self._story.draw)

    def tick(self) -> None:
        self._story.draw()
