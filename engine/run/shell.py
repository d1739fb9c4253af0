"""The built-in type `shell`: what its payload says.

Must not start anything.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .references import VARIABLE


class ShellPayload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command. Values of `env` are literal, or references looked up at the start: `env:NAME` and the like."""

    argv: list[str]
    cwd: str = ""
    env: dict[str, str] = {}
    pause: Literal["stop", "checkpoint"] = "stop"

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ValueError("argv is empty: there is no command to run")
        if any("\0" in text for text in (*self.argv, self.cwd, *self.env.values())):
            raise ValueError("a NUL can't be passed to a command")
        for name in self.env:
            if not VARIABLE.fullmatch(name):
                raise ValueError(f"bad variable name {name[:40]!r}")
