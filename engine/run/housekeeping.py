"""What the engine does every few minutes: anchors of the audit chain outside the database."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..rules.chain import Head
from ..store import anchors, events
from ..store.writer import Writer


async def anchor(writer: Writer, database: Path) -> None:
    """Note the head of the chain outside the database, unless it stands there already."""
    event_id, count, digest, now = await writer.write(events.head)
    await asyncio.to_thread(anchors.note, database, Head(event_id, count, digest), now)
