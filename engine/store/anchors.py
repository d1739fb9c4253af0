"""Anchors: heads of the audit chain noted in a file outside the database, `<db>.anchors`.

A chain alone can't show that its tail was cut or that it was rewritten as a whole; it is tamper-evident back to the last
anchor. Lines of `event_id count hash utc`, with `restored` behind it for the event with which a backup took the place of the
database. Whoever may write the database may write this file too: copy it elsewhere to be safe from them as well.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import NotPermitted, StoreError
from ..rules.chain import Anchor, Head
from ..rules.models import AnchorView
from .durable import append_line, last_line

RESTORED = "restored"


def anchor_file(database: Path) -> Path:
    """Where the anchors of a database are kept."""
    return database.with_name(database.name + ".anchors")


def note(database: Path, head: Head, now: str, *, restored: bool = False) -> None:
    """Append a head (now as UTC text), durably, unless it is the last one noted already. Raises `OSError`."""
    noted = f"{head.event_id} {head.length} {head.hash} "
    if head.event_id and not last_line(anchor_file(database)).startswith(noted):
        append_line(anchor_file(database), noted + (f"{now} {RESTORED}" if restored else now))


def read(database: Path) -> list[AnchorView]:
    """All anchors, as they were noted. A last line without its end does not count. Raises `StoreError`, `NotPermitted`."""
    path = anchor_file(database)
    try:
        text = path.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise NotPermitted(f"{path} can't be read", error.strerror or "", "ask as its owner") from error
    lines = text.split("\n")
    return [_anchor(path, number, line) for number, line in enumerate(lines[:-1], 1)]


def _anchor(path: Path, number: int, line: str) -> AnchorView:
    parts = line.split()
    numbers = len(parts) >= 4 and parts[0].isdecimal() and parts[1].isdecimal()
    if not numbers or parts[4:] not in ([], [RESTORED]):
        raise StoreError(f"{path}:{number} is no anchor", "the file was damaged", "restore it from a copy")
    return AnchorView(int(parts[0]), int(parts[1]), parts[2], parts[3], restored=len(parts) > 4)


def as_rules(anchors: list[AnchorView]) -> list[Anchor]:
    """The anchors as the walk of the chain takes them."""
    return [Anchor(each.event_id, each.count, each.hash, each.restored) for each in anchors]
