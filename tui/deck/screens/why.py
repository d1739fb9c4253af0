"""Why a task does not run now, in a small window over whatever is shown."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen

from taskdeck.engine.errors import TaskdeckError

from ... import format as look
from ...verbs import task_page
from ..bridge import Bridge
from ..states import STYLES, Glyphs
from ..widgets.cells import shown
from ..widgets.text import TextPane


class Why(ModalScreen[None]):
    """The scheduler's own explanation, read when it is opened."""

    BINDINGS = [Binding("escape,q,w,enter", "dismiss", "close", id="why.close")]

    def __init__(self, bridge: Bridge, task_id: int, glyphs: Glyphs) -> None:
        super().__init__()
        self._bridge, self._task_id, self._glyphs = bridge, task_id, glyphs

    def compose(self) -> ComposeResult:
        pane = TextPane(classes="window small")
        pane.border_title = f"Why #{self._task_id}"
        yield pane

    async def on_mount(self) -> None:
        pane = self.query_one(TextPane)
        pane.focus()
        try:
            task, reasons = await self._bridge.ask(lambda view: view.why(self._task_id))
        except TaskdeckError as error:
            pane.tell(Content(shown(str(error))))
            return
        glyph, word, style = self._glyphs.task(task.state)
        head = Content.styled(f"{glyph} {word}", STYLES.get(style, "")) + Content(f" ({task.reason})")
        told = [task_page.local_times(look.tidy(reason)) for reason in reasons] or [_story(task.state)]
        if task.error:
            told.append(
                f"{'last error' if task.state != 'SUCCESS' else 'error'}: {task_page.error(task.error)}"
            )
        pane.tell(Content("\n").join([head, *(Content(shown(text)) for text in told)]))


def _story(state: str) -> str:
    if state == "RUNNING":
        return "it runs now"
    return "it has ended" if state in ("SUCCESS", "FAILED", "DEAD", "CANCELLED") else "nothing is in its way"
