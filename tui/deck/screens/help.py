"""The help: every key that works where it was asked for, as it is bound now."""

from __future__ import annotations

from collections.abc import Mapping

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.content import Content
from textual.screen import ModalScreen

from ..states import SLOTS, STYLES, TASKS, Glyphs
from ..widgets.lines import key_name
from ..widgets.text import TextPane

ROOM = 16
"""Cells for the keys."""


class Help(ModalScreen[None]):
    """Keys of the pane that had the focus, keys that work anywhere, and the states."""

    BINDINGS = [Binding("escape,q,question_mark,enter", "dismiss", "close", id="help.close")]

    def __init__(self, bindings: Mapping[str, ActiveBinding], glyphs: Glyphs) -> None:
        super().__init__()
        self._text = _text(bindings, glyphs)

    def compose(self) -> ComposeResult:
        pane = TextPane(id="help", classes="window")
        pane.border_title = "Keys"
        yield pane

    def on_mount(self) -> None:
        pane = self.query_one(TextPane)
        pane.tell(self._text)
        pane.focus()


def _text(bindings: Mapping[str, ActiveBinding], glyphs: Glyphs) -> Content:
    here, anywhere = _grouped(bindings)
    lines = [
        Content.styled("Here", "bold"),
        *here,
        Content(""),
        Content.styled("Anywhere", "bold"),
        *anywhere,
    ]
    lines += [Content(""), Content.styled("States", "bold")]
    for known, of in ((TASKS, glyphs.task), (SLOTS, glyphs.slot)):
        for state in known:
            glyph, word, look = of(state)
            name = state.lower().replace("_", " ")
            lines.append(
                Content.styled(f"  {glyph} {word:<{ROOM - 4}}", STYLES.get(look, "")) + Content(name)
            )
    return Content("\n").join(lines)


def _grouped(bindings: Mapping[str, ActiveBinding]) -> tuple[list[Content], list[Content]]:
    keys: dict[tuple[bool, str], list[str]] = {}
    for key, each in bindings.items():
        binding = each.binding
        is_here = not (binding.id or "").startswith(("app.", "view.", "pane."))
        keys.setdefault((is_here, binding.tooltip or binding.description), []).append(key_name(key))
    groups: dict[bool, list[Content]] = {True: [], False: []}
    for (is_here, what), names in keys.items():
        if what:
            text = " ".join(name for name in names if name.isascii())
            groups[is_here].append(Content.styled(f"  {text:<{ROOM - 2}}", "bold") + Content(what))
    return groups[True], groups[False]
