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
    lines: list[Content] = []
    for title, found in _grouped(bindings).items():
        lines += [Content.styled(title, "bold"), *found, Content("")] if found else []
    return Content("\n").join([*lines, *_states(glyphs)])


def _states(glyphs: Glyphs) -> list[Content]:
    lines = [Content.styled("States", "bold")]
    for known, of in ((TASKS, glyphs.task), (SLOTS, glyphs.slot)):
        for state in known:
            glyph, word, look = of(state)
            shown = Content.styled(f"  {glyph} {word:<{ROOM - 4}}", STYLES.get(look, ""))
            lines.append(shown + Content(state.lower().replace("_", " ")))
    return lines


def _grouped(bindings: Mapping[str, ActiveBinding]) -> dict[str, list[Content]]:
    """A line for each thing that can be done, with all its keys."""
    keys: dict[tuple[str, str], list[str]] = {}
    for key, each in bindings.items():
        what = each.binding.tooltip or each.binding.description
        keys.setdefault((_group(each.binding.id or ""), what), []).append(key_name(key))
    groups: dict[str, list[Content]] = {"Here": [], "Anywhere": [], "In lists and texts": []}
    for (group, what), names in keys.items():
        text = " ".join(name for name in names if "width_" not in name and "ideographic" not in name)
        groups[group].append(Content.styled(f"  {text:<{ROOM - 2}}", "bold") + Content(what))
    return groups


def _group(name: str) -> str:
    if name.startswith(("app.", "view.", "pane.")):
        return "Anywhere"
    return "In lists and texts" if name.startswith(("list.", "text.")) else "Here"
