"""The built-in type `shell`: what its payload says and which environment its command gets.

Must not start anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ..edge import spawn
from ..errors import InvalidPayload

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_SECRET = 64 * 1024
"""Bytes that a `file:` reference may hold."""

CHECKPOINT_LIMIT = 100_000
"""Bytes of a command's checkpoint: it comes back in one environment variable, which the kernel limits to 128 KiB."""


class ShellPayload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command. Values of `env` are literal, or references resolved at the start: `env:NAME`, `file:/path`."""

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
    payload: ShellPayload, own: Mapping[str, str], allowed: list[str], given: Mapping[str, str]
) -> dict[str, str]:
    """The command's variables: allowed ones of `own`, those of the payload, then `given`.

    Raises `InvalidPayload` where a reference leads nowhere; the message holds the reference, never a value.
    """
    asked = {name: _resolved(name, value, own) for name, value in payload.env.items()}
    return spawn.command_environment(own, allowed, {**asked, **given})


def failure_class_of_codes(exit_codes: Mapping[str, str]) -> dict[int, str]:
    """The configured map of exit codes with numbers as keys; what is no number was refused by the configuration."""
    return {int(code): meaning for code, meaning in exit_codes.items() if code.lstrip("-").isdigit()}


def _resolved(name: str, value: str, own: Mapping[str, str]) -> str:
    kind, _, rest = value.partition(":")
    if kind == "env" and VARIABLE.fullmatch(rest):
        if rest not in own:
            raise InvalidPayload(
                f"{name} refers to {value}", "the worker has no such variable", "set it where taskdeck starts"
            )
        return own[rest]
    if kind == "file" and rest.startswith("/"):
        return _read_secret(name, Path(rest))
    return value


def _read_secret(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SECRET + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidPayload(f"{name} refers to file:{path}", why) from None
    if len(data) > MAX_SECRET or "\0" in text:
        raise InvalidPayload(f"{name} refers to file:{path}", f"it is over {MAX_SECRET} bytes or holds a NUL")
    return text.removesuffix("\n")
