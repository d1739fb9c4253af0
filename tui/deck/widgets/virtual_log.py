"""The log of an attempt as it grows (in the making)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.message import Message

from .looks import LineWidget


class VirtualLog(LineWidget, can_focus=True):
    """Lines of text, the newest in sight while `following`."""

    class Changed(Message):
        """What `status` tells has changed."""

        def __init__(self, log: VirtualLog) -> None:
            super().__init__()
            self.log = log

        @property
        def control(self) -> VirtualLog:
            """The log."""
            return self.log

    class Older(Changed):
        """The first line that is held came into sight; `prepend` takes what was before it."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.following = True
        self.wrap = False
        self.level = ""
        self.new_lines = 0
        """Lines that came since following ended."""

    def open(self, source: Sequence[str]) -> None:
        """Show another log, its end first: a list is taken over, any other sequence is read by index."""

    def append(self, lines: Iterable[str]) -> None:
        """Lines that came at the end."""

    def prepend(self, lines: Sequence[str]) -> None:
        """Lines that were before the first one."""

    def search(self, text: str) -> None:
        """Look for a text (small letters: in any case) from here on; n and N go to the next and previous match."""

    def set_level(self, level: str) -> None:
        """Show lines of this level and above only: `""`, `info`, `warn`, `error`."""

    @property
    def status(self) -> str:
        """One line for the title: following, new lines, level, wrap, search."""
        return ""
