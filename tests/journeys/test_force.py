"""What a handler may do against its own end, and what the engine then does for it."""

from __future__ import annotations

import json
import re

import pytest

from tests.faults import fault
from tests.journeys.decks import Deck

STUBBORN = """
import asyncio, time
from taskdeck.engine import task

@task("swallow", timeout="300ms")
async def swallow(ctx, params: dict):
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@task("hold", max_retry=0)
async def hold(ctx, params: dict):
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@task("calm")
async def calm(ctx, params: dict):
    n = ctx.checkpoint.get("n", 0)
    while n < params["to"]:
        n += 1
        await ctx.save(n=n)
        await asyncio.sleep(0.05)
    return n
"""


@pytest.fixture
def stubborn(deck: Deck) -> Deck:
    """A deck whose handlers will not end when they are asked to."""
    handlers = deck.home / "stubborn.py"
    handlers.write_text(STUBBORN)
    text = deck.config.read_text(encoding="utf-8").replace('cancel_grace = "1s"', 'cancel_grace = "100ms"')
    deck.configure(re.sub(r"handlers = .*", f"handlers = [{json.dumps(str(handlers))}]", text))
    return deck


@fault("TF224")
def test_a_handler_that_will_not_hear_of_its_end_is_ended_by_the_engine_and_charges_nobody_else(
    stubborn: Deck,
) -> None:
    stubborn.start(workers=1)
    holding, calm = stubborn.add("hold", "{}"), stubborn.add("calm", json.dumps({"to": 4000}))
    stubborn.until(lambda: stubborn.rows("SELECT 1 FROM checkpoint WHERE task_id = ?", calm), "it is calm")
    stubborn.ok("cancel", holding)
    stubborn.until_state(holding, "CANCELLED")
    stubborn.until(lambda: len(stubborn.attempts(calm)) == 2, "the other one goes on")
    assert stubborn.events(None, "WORKER_FORCED")
    assert stubborn.rows("SELECT losses, losses_total FROM task WHERE id = ?", calm) == [
        {"losses": 0, "losses_total": 0}
    ]
    stubborn.ok("cancel", calm)

    task = stubborn.add("--retries", "0", "swallow", "{}")
    stubborn.until_state(task, "NEEDS_REVIEW")  # a timeout is enforced, too
    assert stubborn.show(task)["error"]["kind"] == "timeout"
