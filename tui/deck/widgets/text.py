"""A pane of text that scrolls: for what is read, not chosen from."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from .. import keys
from ..states import STYLES
from .cells import shown

Line = tuple[str, str]
"""A text as it came, and a look."""


class TextPane(VerticalScroll):
    """Lines of text. What stays the same is not drawn again."""

    BINDINGS = keys.TEXT

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._text = Static(Content(""), markup=False)
        self._told: Content | None = None

    def compose(self) -> ComposeResult:
        yield self._text

    def tell(self, text: Content) -> None:
        """Show this."""
        if self._told is None or not self._told.is_same(text):
            self._told = text
            self._text.update(text)


def lines(texts: list[str], *, ascii: bool = False) -> Content:
    """Foreign lines as one text, each harmless."""
    return Content("\n").join([Content(shown(text, ascii=ascii)) for text in texts])


def looked(texts: Iterable[Line], *, ascii: bool = False) -> Content:
    """The same of lines that have looks."""
    return Content("\n").join(
        [Content.styled(shown(text, ascii=ascii), STYLES.get(look, "")) for text, look in texts]
    )
