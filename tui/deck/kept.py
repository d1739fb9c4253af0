"""What a deck keeps from one time to the next, colours and what was typed: in the user's own folder, never in the database.

Filters and views are not kept: a list that is narrowed by what somebody wanted last week hides what matters now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from taskdeck.engine.config import base_folder

NAME = "deck.json"
VERSION = 1


class Kept(msgspec.Struct, frozen=True):
    """`history` by the sign of the line, `/` or `:`; the newest first."""

    version: int = VERSION
    theme: str = ""
    history: dict[str, list[str]] = {}


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where a user's own files of the deck lie."""
    state = base_folder(environ, "XDG_STATE_HOME", os.path.join(".local", "state"))
    return Path(state) / "taskdeck"


def load(file: Path) -> tuple[Kept, str]:
    """What was kept, and what is wrong with it: then it counts as nothing."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Kept)
    except FileNotFoundError:
        return Kept(), ""
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        return Kept(), f"what the deck kept is left out, since it can't be read: {file}: {error}"
    if found.version != VERSION:
        return Kept(), f"what the deck kept is left out: another taskdeck wrote {file}"
    return found, ""


def save(kept: Kept, file: Path) -> None:
    """Write it as a whole or not at all. Raises `OSError`."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    text = json.dumps(msgspec.to_builtins(kept), ensure_ascii=False)
    fd = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8", errors="replace") as opened:
        opened.write(text)
    beside.replace(file)
