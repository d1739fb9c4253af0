"""The lines at the bottom: what was said last, what the keys do here, and the line to type in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from ..kept import newest_first
from .cells import shown, wrapped

LONGEST = 500
"""Characters of a line: each key costs the loop, which is the engine's too, as much as the line is long."""
STAYS = 6
"""Seconds for which something that was said is shown."""
MOST_ROWS = 4
"""Lines that a message takes at most."""
NAMES = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "minus": "-",
    "escape": "esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "tilde": "~",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "shift+tab": "shift+tab",
    "upper_g": "G",
}


def key_name(key: str) -> str:
    """A key as it is written for people."""
    if key.startswith("upper_"):
        return key[6:].upper()
    return NAMES.get(key, key)


class StatusLine(Static):
    """What was said last; of two at once the later one, with how many went before.

    It is one line, and as many as a text needs, up to a few, for as long as that shows: what is said last is the remedy.
    """

    def __init__(self) -> None:
        super().__init__(Content(""), id="status", markup=False)
        self._left = 0
        self._kept = ""
        self._is_spread = False
        self._rows = 1
        self._wrong = False
        self.text = ""

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Show this for some seconds, longer where it takes several lines."""
        self._tell(text, wrong=wrong)
        self._left = STAYS * self._rows

    def unsay(self, beginning: str) -> None:
        """Take back what begins like this, if it is what was said last: it is no longer true."""
        if self._left and self.text.startswith(beginning):
            self._left = 0
            self._tell(self._kept, wrong=True)

    def keep(self, text: str) -> None:
        """Show this trouble until another text, or none, is to be kept; what is said meanwhile stands before it."""
        if text != self._kept:
            self._kept = text
            self._left = 0
            self._tell(text, wrong=True)

    def spread(self, text: str) -> None:
        """Show what is wrong in as many lines as it needs, until this is called with nothing."""
        if not text and not self._is_spread:
            return
        self._tell(text or self._kept, wrong=True)
        self._is_spread = bool(text)
        self._left = 0

    def on_resize(self) -> None:
        """The lines are other ones in another width."""
        self._draw()

    def _tell(self, text: str, *, wrong: bool = False) -> None:
        self._is_spread = False
        self.text = shown(" ".join(text.split()), ascii=bool(getattr(self.app, "ascii", False)))
        self._wrong = wrong
        self._draw()

    def _draw(self) -> None:
        width = max(self.app.size.width, 20)
        rows = wrapped(self.text, width, MOST_ROWS)
        if len(rows) != self._rows:
            self._rows = len(rows)
            self.styles.height = len(rows)
        self.update(
            Content.styled("\n".join(rows), "bold $text-warning" if self._wrong else ""), layout=False
        )

    def tick(self) -> None:
        """A second has passed."""
        if self._left:
            self._left -= 1
            if not self._left:
                self._tell(self._kept, wrong=True)


class Hints(Static):
    """The keys that matter here, as many as there is room for."""

    def __init__(self) -> None:
        super().__init__(Content(""), id="hints", markup=False)
        self._parts: list[tuple[str, str]] = []

    def tell(self, screen: Screen, word: Callable[[str, str], str] = lambda _, short: short) -> None:
        """Read the keys of what has the focus; `word` says how an action is called here, or nothing to leave it out."""
        typing = isinstance(screen.focused, Input)
        found = [
            (key_name(key), word(each.binding.action, each.binding.description))
            for key, each in screen.active_bindings.items()
            if each.binding.show and (not typing or each.node is screen.focused)
        ]
        first = {}
        for key, what in found:
            if what:
                first.setdefault(what, key)
        self._parts = [(key, what) for what, key in first.items()]
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        room = self.size.width
        line = Content("")
        for key, what in self._parts:
            part = Content.styled(key, "bold") + Content.styled(f" {what}  ", "dim")
            if line.cell_length + part.cell_length - 2 > room:
                break
            line = line + part
        self.update(line, layout=False)


Answer = Callable[[str], Awaitable[str]]
"""Takes a line, returns what is wrong with it."""


class Words(Protocol):
    """What can be typed."""

    def complete(self, text: str) -> list[str]:
        """The words that begin so."""
        ...

    def explain(self, text: str) -> str:
        """What a line would do."""
        ...


class _Line(Input):
    """The text itself. Esc and an empty backspace close it."""

    BINDINGS = [
        Binding("enter", "submit", "do it", id="prompt.submit"),
        Binding("tab", "complete", "complete", id="prompt.complete"),
        Binding("up", "earlier", "earlier", id="prompt.earlier"),
        Binding("down", "later", "later", id="prompt.later", show=False),
        Binding("escape", "close", "close", id="prompt.close"),
    ]

    def action_close(self) -> None:
        prompt = self.parent
        assert isinstance(prompt, Prompt)
        prompt.close()

    def action_complete(self) -> None:
        prompt = self.parent
        assert isinstance(prompt, Prompt)
        prompt.complete()

    def action_earlier(self) -> None:
        self._remember(1)

    def action_later(self) -> None:
        self._remember(-1)

    def _remember(self, step: int) -> None:
        prompt = self.parent
        assert isinstance(prompt, Prompt)
        prompt.remember(step)


class Prompt(Horizontal):
    """One line to type in, for filters and commands. What is wrong is said behind it; the line stays to be mended."""

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self._sign = Static(Content(":"), id="prompt-sign", markup=False)
        self._line = _Line(id="prompt-line", compact=True, select_on_focus=False, max_length=LONGEST)
        self._told = Static(Content(""), id="prompt-told", markup=False)
        self._answer: Answer | None = None
        self._words: Words | None = None
        self._focus_back: Widget | None = None
        self.history: dict[str, list[str]] = {}
        """What was typed behind each sign, the newest first."""
        self.typed: dict[str, list[str]] = {}
        """What of that was typed here."""
        self._place = -1
        self._kind = ":"

    def compose(self) -> ComposeResult:
        yield self._sign
        yield self._line
        yield self._told

    def on_mount(self) -> None:
        self.display = False

    @property
    def is_open(self) -> bool:
        """Is it being typed in?"""
        return bool(self.display)

    def open(self, kind: str, text: str, answer: Answer, words: Words | None = None) -> None:
        """Ask for a line; `answer` gets it and returns what is wrong with it."""
        self._kind, self._answer, self._words = kind, answer, words
        self._focus_back, self._place = self.screen.focused, -1
        self._sign.update(Content.styled(kind, "bold"))
        self._told.update(Content(""))
        self.display = True
        self._line.value = text
        self._line.cursor_position = len(text)
        # At once: `focus()` waits a turn, in which the next keys would be commands.
        self.screen.set_focus(self._line)

    def close(self) -> None:
        """Put it away; the focus goes back."""
        self.display = False
        self.screen.query_one(StatusLine).spread("")
        if self._focus_back is not None and self._focus_back.is_attached:
            self.screen.set_focus(self._focus_back)

    def remember(self, step: int) -> None:
        """An earlier line (1), or a later one (-1)."""
        known = self.history.get(self._kind, [])
        self._place = max(min(self._place + step, len(known) - 1), -1)
        self._line.value = known[self._place] if self._place >= 0 else ""
        self._line.cursor_position = len(self._line.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._tell(self._words.explain(event.value) if self._words else "")

    def complete(self) -> None:
        """The first of the words that begin so."""
        if self._words and (found := self._words.complete(self._line.value)):
            self._line.value = f"{found[0]} "
            self._line.cursor_position = len(self._line.value)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        answer = self._answer
        self.close()
        wrong = await answer(text) if answer else ""
        if text:
            for lines in (self.history, self.typed):
                lines[self._kind] = newest_first([text], lines.get(self._kind, ()))
        if wrong and answer:
            self.open(self._kind, event.value, answer, self._words)
            self._tell(wrong, wrong=True)

    def _tell(self, text: str, *, wrong: bool = False) -> None:
        """What is wrong and too long for the place beside the input stands above it as well."""
        self._told.update(Content.styled(shown(text), "bold $text-warning" if wrong else "dim"), layout=False)
        status = self.screen.query_one(StatusLine)
        status.spread(text if wrong and cell_len(shown(text)) > self.app.size.width // 2 else "")


class TooSmall(Static):
    """Covers everything in a window that is too small."""

    def __init__(self) -> None:
        super().__init__(Content("too small: 40x10 at least"), id="too-small", markup=False)
