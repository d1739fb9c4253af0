"""The built-in type `shell`: what its payload says and which environment its command gets.

Must not start anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from ..edge import spawn
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


def environment(
    asked: Mapping[str, str], own: Mapping[str, str], allowed: list[str], given: Mapping[str, str]
) -> dict[str, str]:
    """The command's variables: allowed ones of `own`, those that the payload asks for, then `given`."""
    found = spawn.command_environment(own, allowed, {**asked, **given})
    return found | {"PATH": _with_taskdeck(found.get("PATH", os.defpath))}


@lru_cache(maxsize=64)
def _with_taskdeck(path: str) -> str:
    """`path` with the directory of our own programs at its end, so that a command finds `taskdeck op` and `taskdeck add`."""
    ours = os.path.dirname(sys.executable)
    return path if ours in path.split(os.pathsep) else f"{path}{os.pathsep}{ours}"


def failure_class_of_codes(exit_codes: Mapping[str, str]) -> dict[int, str]:
    """The configured map of exit codes with numbers as keys; what is no number was refused by the configuration."""
    return {int(code): meaning for code, meaning in exit_codes.items() if code.lstrip("-").isdigit()}
