"""What a verb says of something that it has done, where standard output takes none of it: that is told elsewhere.

Whoever sees only that a verb failed does it again. Owns what may not have arrived, and how much of it is told; must not know
where to.
"""

from __future__ import annotations

from collections.abc import Callable

MOST_LINES = 20
"""What is told elsewhere at most: thousands of lines would bury why they stand there."""


class Telling:
    """What one verb says of what it does, from `begin` on. `say` writes elsewhere; that begins with `go_elsewhere`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.forget()

    def forget(self) -> None:
        """Another verb, which has done nothing yet."""
        self.has_begun = self.is_elsewhere = self.as_json = False
        self._unsure: list[str] = []
        self._left = MOST_LINES
        self._unsaid = 0

    def begin(self, *, as_json: bool) -> None:
        """From now on something is done."""
        self.has_begun, self.as_json = True, as_json

    def keep(self, text: str) -> None:
        """This is said: elsewhere already, or it may have to be."""
        if not self.is_elsewhere:
            self._unsure += [text] if self.has_begun else []
            return
        lines = text.splitlines(keepends=True)
        self._say("".join(lines[: self._left]))
        self._unsaid += max(len(lines) - self._left, 0)
        self._left = max(self._left - len(lines), 0)

    def arrived(self) -> None:
        """What was said until now stands where it belongs."""
        self._unsure.clear()

    def go_elsewhere(self) -> None:
        """Tell elsewhere what may not have arrived, and all that is to come."""
        self.is_elsewhere = True
        for text in self._unsure:
            self.keep(text)

    def end(self) -> None:
        """Nothing more is said: how much was not told at all?"""
        if self._unsaid:
            self._say(f"and {self._unsaid} {'line' if self._unsaid == 1 else 'lines'} more\n")
            self._unsaid = 0
