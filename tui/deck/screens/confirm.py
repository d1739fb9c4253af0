"""A question before something large: yes or no, no first. What is typed ahead is not taken for an answer."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

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

    def __init__(self, question: str, samples: str, verb: str) -> None:
        super().__init__()
        self._question, self._samples, self._verb = question, samples, verb

    def compose(self) -> ComposeResult:
        with Vertical(classes="window small"):
            yield Static(Content.styled(shown(self._question), "bold"), markup=False)
            yield Static(Content(shown(self._samples)), markup=False)
            yield Static(Content(f"\ny {self._verb} them   n leave them alone"), markup=False)

    def on_mount(self) -> None:
        self._since = moment()

    def action_answer(self, yes: bool) -> None:
        if moment() - self._since >= DEAF:
            self.dismiss(yes)
