"""Questions before something large: yes or no, no first; or a word that must be typed. What is typed ahead is no answer."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ..widgets.cells import shown
from ..widgets.panes import moment

DEAF = 0.4
"""Seconds in which keys that were held down are ignored."""


class Confirm(ModalScreen[bool]):
    """Answers True only for `y`."""

    BINDINGS = [
        Binding("y", "answer(True)", "yes", id="confirm.yes"),
        Binding("n,escape,q,enter", "answer(False)", "no", id="confirm.no"),
    ]

    def __init__(self, question: str, samples: Sequence[str], verb: str) -> None:
        super().__init__()
        self._question, self._samples, self._verb = question, samples, verb

    def compose(self) -> ComposeResult:
        with Vertical(classes="window small question"):
            yield Static(Content.styled(shown(self._question), "bold"), markup=False)
            for sample in self._samples:
                yield Static(Content(shown(sample)), classes="sample", markup=False)
            yield Static(Content(f"y {self._verb}   n leave as it is"), classes="answers", markup=False)

    def on_mount(self) -> None:
        self._since = moment()

    def action_answer(self, yes: bool) -> None:
        if moment() - self._since >= DEAF:
            self.dismiss(yes)


class Typed(ModalScreen[bool]):
    """Answers True only when `word` (a name, or how many) was typed: for what can't be undone."""

    BINDINGS = [Binding("escape", "leave", "no", id="typed.no")]

    def __init__(self, question: str, told: str, word: str) -> None:
        super().__init__()
        self._question, self._told, self._word = question, told, word
        self._hint = Static(Content(""), markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(classes="window small question"):
            yield Static(Content.styled(shown(self._question), "bold"), markup=False)
            yield Static(Content(shown(self._told)), markup=False)
            with Vertical(classes="answers"):
                yield Static(
                    Content(f"type {shown(self._word)} and Enter; Esc leaves it as it is"), markup=False
                )
                yield Input(compact=True, id="typed")
                yield self._hint

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip() == self._word:
            self.dismiss(True)
        else:
            self._hint.update(Content.styled(f"that is not {shown(self._word)}", "bold $text-warning"))

    def action_leave(self) -> None:
        self.dismiss(False)
