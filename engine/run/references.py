"""Values that stand elsewhere: `env:NAME` and `file:/path`, resolved where the work starts and never before.

Messages hold the reference, never a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ..errors import InvalidPayload

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_SECRET = 64 * 1024
"""Bytes that a `file:` reference may hold."""


def resolved(name: str, value: str, own: Mapping[str, str]) -> str:
    """The value that `value` refers to, or itself where it is no reference; `name` is what it is for.

    `InvalidPayload` where a reference leads nowhere.
    """
    kind, _, rest = value.partition(":")
    if kind == "env" and VARIABLE.fullmatch(rest):
        if rest not in own:
            raise InvalidPayload(
                f"{name} refers to {value}", "the worker has no such variable", "set it where taskdeck starts"
            )
        return own[rest]
    if kind == "file" and rest.startswith("/"):
        return _read(name, Path(rest))
    return value


def _read(name: str, path: Path) -> str:
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
