"""A picture of the real deck while the demo runs: python -m benchmarks.deck.picture docs/deck.svg

Starts `taskdeck demo` on a scratch database, attaches a deck of 100x30 and saves what it shows once every pane has something.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from taskdeck.engine.config import load
from taskdeck.tui.deck.app import DeckApp
from tests.journeys.decks import TASKDECK

SIZE = (100, 30)
SHOWS = re.compile(r"engine up.*RUN \d.* RETRY .* in use +[\d.]* *#", re.DOTALL)
"""All of this, in this order: an engine, tasks that run, retries, a resource or route in use."""
CELL = 12.2
"""Width of a character."""
PATIENCE = 60.0
_FONTS = re.compile(r"\s*(@font-face \{.*?\}|<!--.*?-->)\n", re.DOTALL)
_INDENTED = re.compile(r'x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)"([^>]*)>((?:&#160;)+)')
FONT = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'


async def picture(db: Path) -> str:
    """The deck on this database as SVG, with the fonts that a reader has instead of some from the net."""
    app = DeckApp(load(db=db, environ={}, cwd=db.parent), read_only=False)
    async with app.run_test(size=SIZE) as pilot:
        async with asyncio.timeout(PATIENCE):
            while not SHOWS.search(_text(app)):
                await pilot.pause(0.05)
        svg = app.export_screenshot(title="taskdeck")
    svg = _FONTS.sub("\n", svg).replace("font-family: Fira Code, monospace;", f"font-family: {FONT};")
    return _INDENTED.sub(_moved, svg)


def _moved(found: re.Match[str]) -> str:
    """Text that begins with blanks, moved instead: some programs leave them out."""
    blanks = len(found[5]) // len("&#160;") * CELL
    x, length = float(found[1]) + blanks, float(found[3]) - blanks
    return f'x="{x:g}" {found[2]} textLength="{length:g}"{found[4]}>'


def _text(app: DeckApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips(app.size))


def main(file: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "demo.db"
        command = [str(TASKDECK), "demo", "--headless", "--db", str(db)]
        demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            file.write_text(asyncio.run(picture(db)), "utf-8")
        finally:
            demo.terminate()
            demo.wait(30)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
