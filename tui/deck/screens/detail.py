"""One task: its summary with the reasons why it waits, attempts, checkpoint, payload and events, a section at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from .. import keys, reads, task_text
from ..bridge import Question, Trouble
from ..states import STYLES, Glyphs
from ..widgets.cells import shown
from ..widgets.rooms import Down
from ..widgets.text import TextPane, lines
from .page import Page, Target, standing


class DetailView(Down):
    """The sections of a task, beside a list or on a page of their own. Its keys are those of a task."""

    BINDINGS = [*keys.SECTIONS, *keys.TASK]

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:
        super().__init__(id=id, classes="detail")
        self._glyphs = glyphs
        self._section = 0
        self._found: reads.Detail | None = None
        self._head = Static(Content(""), classes="pane-title", markup=False)
        self._tabs = Static(Content(""), classes="detail-tabs", markup=False)
        self.text = TextPane(id=f"{id}-text")

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._tabs
        yield self.text

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def tell(self, found: reads.Detail) -> None:
        """Show this task as it is now."""
        self._found = found
        self._draw()

    def refuse(self, text: str) -> None:
        """It can't be read, or is gone."""
        self._found = None
        self._head.update(Content(""), layout=False)
        self.text.tell(Content(shown(text)))

    def section(self, step: int) -> None:
        """The next section, or the one before."""
        self._section = (self._section + step) % len(task_text.SECTIONS)
        self.text.scroll_home(animate=False)
        self._draw()

    @property
    def target(self) -> Target:
        """The task that is shown."""
        if self._found is None:
            return Target("", [])
        task = self._found.task
        return Target("task", [task.id], {task.id: standing(task)})

    def _draw(self) -> None:
        names = task_text.SECTIONS
        here = names[self._section]
        parts = [
            Content.styled(f"[{name}]", "bold") if name == here else Content.styled(f" {name} ", "dim")
            for name in names
        ]
        self._tabs.update(Content("").join(parts), layout=False)
        if self._found is None:
            return
        name, state, style = task_text.heading(self._found, self._glyphs)
        head = (
            Content.styled(shown(name), "bold") + Content("  ") + Content.styled(state, STYLES.get(style, ""))
        )
        self._head.update(head, layout=False)
        found = task_text.section(here, self._found, self._glyphs, self.text.size.width - 1)
        self.text.tell(lines(found, ascii=self._glyphs.ascii_only))


class DetailPage(Page):
    """A task over whatever was shown."""

    title = "Task"

    def __init__(self, glyphs: Glyphs, task_id: int) -> None:
        super().__init__(id=f"task-{task_id}-{id(self)}")
        self._task_id = task_id
        self._view = DetailView(glyphs, id=f"detail-{id(self)}")

    def compose(self) -> ComposeResult:
        yield self._view

    def entry(self) -> Widget:
        return self._view.text

    def questions(self) -> Mapping[str, Question]:
        return {"detail": Question(reads.detail(self._task_id), key=self._task_id)}

    def take(self, name: str, value: Any) -> None:
        self._view.tell(value)

    def refuse(self, name: str, trouble: Trouble) -> None:
        self._view.refuse(str(trouble))

    def target(self) -> Target:
        return self._view.target

    def section(self, step: int) -> None:
        self._view.section(step)

    def tick(self) -> None:
        """Times in it go on only when the task changes."""
