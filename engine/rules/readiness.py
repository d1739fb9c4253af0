"""Whether a resource is ready to be handed out: how its check is written, how long an answer stands, when it is a fault.

Pure; times are seconds of the boot clock. "Not ready" is no failure of a task: it waits, and is told why.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct

READY, NOT_READY, CHECKING = "ready", "not_ready", "checking"
LONGEST_REST_S = 60.0
"""Between two checks of a resource that is not ready, as long as it is no fault."""
EXAMPLE = "cmd:check-gpu --free 8GB, file:/run/gpu.ok, tcp:127.0.0.1:9222 or http://127.0.0.1:9222/json"


class Check(NamedTuple):
    """What is asked. `kind` is `cmd`, `file`, `tcp` or `http`; `argv` is the command, `place` anything else."""

    kind: str
    place: str = ""
    argv: tuple[str, ...] = ()


class ReadySettings(Struct, frozen=True):
    """Seconds: `every` between two checks that fail (doubled each time, to a minute), `fresh` while a yes stands.

    `failures` in a row make it a fault.
    """

    every: float = 10.0
    fresh: float = 5.0
    failures: int = 10


class Verdict(NamedTuple):
    """What an answer means: the state and until when it stands, how many failed in a row, whether that is a fault."""

    state: str
    until: float
    failures: int
    fault: bool = False


def parse_check(text: str, resource_id: str = "ID") -> Check:
    """The check that `text` describes; `{id}` in it is the resource's id. Raises `ValueError` that says what is expected."""
    text = text.replace("{id}", resource_id)
    kind, _, rest = text.partition(":")
    if kind == "cmd":
        try:
            argv = tuple(shlex.split(rest))
        except ValueError:
            raise ValueError("the quotes in the command don't close") from None
        if argv:
            return Check("cmd", argv=argv)
    elif kind == "file" and rest.startswith("/"):
        return Check("file", rest)
    elif kind == "tcp" and re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@]+):\d{1,5}", rest):
        if 0 < int(rest.rpartition(":")[2]) < 65536:
            return Check("tcp", rest)
    elif kind in ("http", "https"):
        parts = urlsplit(text)
        if parts.hostname and not parts.username and not re.search(r"\s", text):
            return Check("http", text)
    raise ValueError(f"expected {EXAMPLE}")


def judge(ok: bool, failures: int, now: float, settings: ReadySettings) -> Verdict:
    """What an answer means after so many failures in a row."""
    if ok:
        return Verdict(READY, now + settings.fresh, 0)
    count = failures + 1
    rest = min(settings.every * 2.0 ** min(count - 1, 16), max(settings.every, LONGEST_REST_S))
    return Verdict(NOT_READY, now + rest, count, fault=count >= settings.failures)
