"""Secrets at the moment of their use: references become values here, and nowhere else. Values are kept in memory only.

Owns the commands behind `cmd:` references, how long their answers are remembered, and that every value is made known to
what masks. Must not write a value anywhere, or name it in an error.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from threading import Lock

from .. import cores
from ..clock import Clock
from ..credentials import MOST_BYTES, NoCredential, look_up, usable
from ..edge.short_commands import Limits, ask
from ..rules.references import command_of, kind_of

COMMAND_LIMITS = Limits(10.0, MOST_BYTES)
REMEMBERED = 60.0
"""Seconds for which the answer of a command stands, so that a hundred attempts don't run it a hundred times."""


class Passwords:
    """Resolves references in one process. `learn` is told each value. Any thread may ask; each question blocks."""

    def __init__(
        self, clock: Clock, learn: Callable[[str], None], environ: Mapping[str, str] = os.environ
    ) -> None:
        self._clock = clock
        self._learn = learn
        self._environ = environ
        self._asking: dict[str, Lock] = {}
        self._answers: dict[str, tuple[float, str]] = {}

    def look_up(self, reference: str, *, masked: bool = True) -> str:
        """What the reference leads to now; a command's answer may be up to a minute old. Raises `NoCredential`.

        The value is `masked` from now on wherever this process tells something.
        """
        value = (
            self._of_command(reference) if kind_of(reference) == "cmd" else look_up(reference, self._environ)
        )
        if masked:
            self._learn(value)
        return value

    async def resolve(self, reference: str) -> str:
        """As `look_up`, without blocking the loop; empty for no reference."""
        return await asyncio.to_thread(self.look_up, reference) if reference else ""

    def forget(self, reference: str) -> None:
        """It was refused where it was used: the next question is asked anew."""
        self._answers.pop(reference, None)

    def _of_command(self, reference: str) -> str:
        with self._asking.setdefault(reference, Lock()):  # one command for all who ask at once
            known = self._answers.get(reference)
            if known is not None and self._clock.monotonic() - known[0] < REMEMBERED:
                return known[1]
            value = self._answer(reference)
            self._answers[reference] = self._clock.monotonic(), value
            return value

    def _answer(self, reference: str) -> str:
        cores.leave_out_secrets()
        answer = ask(command_of(reference), env=self._environ, limits=COMMAND_LIMITS, clock=self._clock)
        if answer.fault:
            raise NoCredential(reference, answer.fault)
        if answer.code != 0:
            raise NoCredential(
                reference, f"its command ended with {answer.code}", "run it by hand to see why"
            )
        try:
            return usable(reference, answer.output.decode().partition("\n")[0])
        except UnicodeDecodeError:
            raise NoCredential(reference, "what it prints is not UTF-8 text") from None
