"""The deck by itself on a database, without launcher and engine: python -m benchmarks.deck.real DB [REPORT]

Writes how late its loop was (seconds) to REPORT, if there is one, when it is left.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from taskdeck.engine.config import load
from taskdeck.tui.deck.app import DeckApp
from taskdeck.tui.deck.driver import SafeDriver

TICK = 0.01


async def watch(late: list[float]) -> None:
    """Note how late each tick of the loop is."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + TICK
        await asyncio.sleep(TICK)
        late.append(max(loop.time() - due, 0.0))


async def main(db: Path, *, watched: bool) -> list[float]:
    late: list[float] = []
    watching = asyncio.create_task(watch(late)) if watched else None
    await DeckApp(load(db=db), driver_class=SafeDriver).run_async()
    if watching:
        watching.cancel()
    return late


if __name__ == "__main__":
    found = asyncio.run(main(Path(sys.argv[1]), watched=len(sys.argv) > 2))
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(json.dumps(found))
