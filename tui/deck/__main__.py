"""The process behind `taskdeck`: a deck and, unless it attaches, the engine, in one loop on a terminal that others hold.

usage: python -m taskdeck.tui.deck --db PATH [--config PATH] [--since UTC] [--places TEXT] [--attach]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from taskdeck.engine.config import Config, load, load_what_stands
from taskdeck.engine.errors import ConfigError, TaskdeckError

from .living import Deck
from .terminal import Launcher

if TYPE_CHECKING:
    from taskdeck.engine.main import Announcer, Engine

PAINTED_WITHIN = 3.0
"""Seconds after which an engine no longer waits for the first paint."""


async def attach(config: Config, places: str) -> int:
    """A deck alone, on the database of an engine that works elsewhere. Returns the exit code."""
    launcher = Launcher.from_environment(os.environ)
    deck = Deck(config, launcher, places, in_engine=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, deck.leave)
    await deck.show()
    code = deck.tell_the_end_of_attached()
    launcher.tell(f"end {code}")
    return code


async def together(config: Config, places: str, since: str) -> int:
    """Paint, then let the engine work in this loop, with the screen and without. Returns the engine's exit code."""
    launcher = Launcher.from_environment(os.environ)
    deck = Deck(config, launcher, places, in_engine=True)
    screen = asyncio.create_task(deck.show())
    await deck.first_paint(PAINTED_WITHIN)
    told, engine = await asyncio.to_thread(_build, config, since)
    works = asyncio.create_task(engine.run())
    await asyncio.wait({works, screen}, return_when="FIRST_COMPLETED")
    if not works.done():
        await deck.tell_that_the_engine_goes_on(engine.alert)
        await asyncio.wait({works})
    deck.leave()
    await screen
    try:
        code = works.result()
    except TaskdeckError as error:
        code = error.exit_code
        launcher.tell(f"say {error}")
    told.end(code)
    if not told.again:  # else the next deck draws here
        deck.tell_the_end_of_the_engine(code)
    return code


def _build(config: Config, since: str) -> tuple[Announcer, Engine]:
    """In a thread: importing takes longer than a screen may stand still."""
    from taskdeck.engine import main

    told = main.announcer()
    return told, main.build(config, since=since, told=told, aloud=False)


def _to_attach(path: Path | None, db: Path) -> Config:
    """A mistake in the file, which the engine works on without, keeps nobody from looking at it."""
    try:
        return load(path=path, db=db)
    except ConfigError:
        return load_what_stands(path=path, db=db)


def main(arguments: list[str]) -> int:
    """Run one deck process."""
    gc.disable()  # until the first paint: all that is made till then stays
    parser = argparse.ArgumentParser(prog="taskdeck.tui.deck")
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--since", default="")
    parser.add_argument("--places", default="")
    parser.add_argument("--attach", action="store_true")
    options = parser.parse_args(arguments)
    for stale in ("COLUMNS", "LINES"):  # of the shell's making; sizes that Textual would believe for ever
        os.environ.pop(stale, None)
    if options.attach:
        return asyncio.run(attach(_to_attach(options.config, options.db), options.places))
    config = load(path=options.config, db=options.db)
    return asyncio.run(together(config, options.places, options.since))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
