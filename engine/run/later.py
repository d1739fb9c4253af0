"""Modules that few need: a start does without them, and they are loaded in a quiet moment after it.

A process may work on for days after taskdeck's files were replaced: what it might still need must have been loaded before,
or it would mix with newer code.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import import_module

from ..clock import Clock

QUIET_AFTER = 30.0
"""Seconds after a start until these are loaded: what was waiting to run has begun by then, and a run that is short never pays
for them (a third of a second for a worker). Nobody replaces our files as soon as they were started."""
BETWEEN = 0.02
"""Seconds for which the loop gets on with its work between two of them."""

OF_AN_ENGINE = (
    "taskdeck.engine.store.tables",
    "taskdeck.engine.rules.route_merge",
    "taskdeck.engine.run.backing_up",
    "taskdeck.engine.run.pruning",
)
OF_A_WORKER = ("taskdeck.engine.run.forwarding", "taskdeck.engine.run.http_session")


async def load(modules: tuple[str, ...], clock: Clock) -> None:
    """Load them, one at a time, in a thread: the loop goes on meanwhile, and starts what is due then.

    What can't be loaded now is told of by whoever needs it.
    """
    await clock.pause(QUIET_AFTER)
    for module in modules:
        with suppress(ImportError, OSError):
            await asyncio.to_thread(import_module, module)
        await clock.pause(BETWEEN)


def begin(modules: tuple[str, ...], clock: Clock) -> asyncio.Task[None]:
    """Have them loaded by the running loop."""
    return asyncio.get_running_loop().create_task(load(modules, clock), name="later")
