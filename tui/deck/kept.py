"""What decks keep from one time to the next, colours and what was typed: in the user's own folder, never in the database.

Filters and views are not kept: a list that is narrowed by what somebody wanted last week hides what matters now. Several
decks may be open: each adds what it has to what is there when it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from taskdeck.engine.config import base_folder

NAME = "deck.json"
VERSION = 1
REMEMBERED = 50
"""Lines of each kind that are kept."""


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


def newest_first(typed: Iterable[str], known: Iterable[str]) -> list[str]:
    """What was typed before what was known, each line once and no more than are kept."""
    return list(dict.fromkeys([*typed, *known]))[:REMEMBERED]


def add(
    file: Path, *, theme: str, typed: Mapping[str, Iterable[str]], clear: Callable[[str], str] = str
) -> None:
    """Keep what one deck has to add: the colours that were chosen in it ("" for none), and lines as in `Kept.history`.

    What others have kept meanwhile stays, behind that; `clear` takes secrets out of all of it. May wait for one that is
    writing. Raises `OSError`.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(file.parent):
        found, _ = load(file)
        lines = {
            sign: newest_first(map(clear, typed.get(sign, ())), map(clear, found.history.get(sign, ())))
            for sign in {**found.history, **typed}
        }
        _save(Kept(theme=theme or found.theme, history=lines), file)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other deck changes what is kept here meanwhile."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a filesystem without locks: then the last one to write wins
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _save(kept: Kept, file: Path) -> None:
    """Write it as a whole or not at all. Raises `OSError`."""
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    text = json.dumps(msgspec.to_builtins(kept), ensure_ascii=False)
    fd = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8", errors="replace") as opened:
        opened.write(text)
    beside.replace(file)
