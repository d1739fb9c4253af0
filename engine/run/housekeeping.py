"""What the engine does every few minutes: anchors of the audit chain outside the database."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from ..store import events
from ..store.writer import Writer

_last: dict[Path, int] = {}


def anchor_file(database: Path) -> Path:
    """Where the anchors of a database are kept: lines of `event_id count hash utc`."""
    return database.with_name(database.name + ".anchors")


async def anchor(writer: Writer, database: Path) -> None:
    """Append the head of the chain to the anchor file, unless it stands there already.

    A chain alone can't show that its tail was cut or that it was rewritten as a whole; it is tamper-evident back to the
    last anchor.
    """
    event_id, count, digest, now = await writer.write(events.head)
    if count and _last.get(database) != event_id:
        await asyncio.to_thread(_append, anchor_file(database), f"{event_id} {count} {digest} {now}\n")
        _last[database] = event_id


def _append(path: Path, line: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, line.encode())
        os.fsync(fd)
    finally:
        os.close(fd)
