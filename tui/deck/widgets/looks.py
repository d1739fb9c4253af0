"""How things look: names of styles that every line of the deck is drawn with, and the widget that draws lines.

A look never says anything alone: wherever one is used a glyph, a word or a mark says the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.style import Style as ThemeStyle
from textual.widget import Widget

from ..states import STYLES

FILLED = ("review", "found")
"""Looks that a blank shows as well."""


def joined(pieces: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same line in as few pieces as can be: a change of style costs more bytes than a word."""
    found: list[tuple[str, str]] = []
    for text, look in pieces:
        before = found[-1][1] if found else None
        if look == before or (text.isspace() and before is not None and not {look, before} & set(FILLED)):
            found[-1] = (found[-1][0] + text, found[-1][1])
        elif text:
            found.append((text, look))
    return found


class LineWidget(Widget):
    """A widget that draws its lines itself. Owns the looks as styles, the ASCII form, and the way to one line."""

    # No component classes: applying the sheet to one for each look of each list was a fifth of the way to the first paint.
    DEFAULT_CSS = "LineWidget { width: 1fr; height: 1fr; background: $background; color: $foreground; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._drawn_looks: dict[str, Style] = {}
        self._basis: tuple[Style, str] | None = None

    @property
    def ascii(self) -> bool:
        """Does the app want nothing but ASCII in glyphs of our own (its attribute `ascii`)?"""
        return bool(getattr(self.app, "ascii", False))

    def look(self, name: str) -> Style:
        """The whole style of a look, background included."""
        if name not in self._drawn_looks:
            style = self.rich_style
            if name in STYLES:
                style += ThemeStyle.parse(STYLES[name], self.app.theme_variables).rich_style
            self._drawn_looks[name] = style
        return self._drawn_looks[name]

    def strip(self, pieces: Iterable[tuple[str, str]]) -> Strip:
        """A line of texts, each as `cells.shown` gives it, with its look."""
        return Strip([Segment(text, self.look(look)) for text, look in joined(pieces)])

    def blank(self) -> Strip:
        """A line without anything."""
        return Strip.blank(self.size.width, self.look(""))

    def notify_style_update(self) -> None:
        """Styles were applied: where it looks otherwise now, which a focus alone does not change, all is drawn anew."""
        super().notify_style_update()
        basis = (self.rich_style, self.app.theme)
        if basis != self._basis:
            self._basis = basis
            self._drawn_looks.clear()
            self.forget()

    def on_unmount(self) -> None:
        """Let go of what was drawn: Textual keeps the caches of a thousand widgets that are gone."""
        self.refresh()
        self.forget()

    def forget(self) -> None:
        """Drop everything that was drawn with the styles or the width of before."""
