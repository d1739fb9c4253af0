"""What the deck looks like, cell for cell, at the sizes that it is made for.

The pictures lie in `grids/`. `DRAW_GRIDS=1 pytest tests/tui/deck/test_grids.py` draws them anew: look at the difference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskdeck.engine.rules.route_errors import ErrorType
from tests.inventoried import Inventory
from tests.seeded import Seed
from tests.tui.deck.decks import Open, deck

GRIDS = Path(__file__).parent / "grids"
SIZES = ((40, 10), (60, 20), (80, 24), (120, 40), (160, 48))
AGO = "2026-11-29T11:58:00.000000Z"
PAGES = {"overview": ["1"], "help": ["question_mark"], "tasks": ["escape", "2"]}
"""By which keys they come, one after the other."""


@pytest.fixture
def seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seed]:
    """One of everything, at a moment that stands still."""
    from taskdeck.engine import views
    from taskdeck.engine.clock import ManualClock

    clock = ManualClock()
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr(views, "now", clock.utc)
    monkeypatch.setattr(views, "system_clock", lambda: clock)
    made = Seed(tmp_path / "deck.db", clock)
    _fill(made)
    yield made
    made.close()


def _fill(seed: Seed) -> None:
    inventory = Inventory(seed)
    inventory.resources(*({"id": f"gpu-{n}", "pool": "gpu"} for n in (1, 2, 3)))
    for number, name in enumerate(("jp-1", "jp-2", "us-1")):
        inventory.route(id=name, url=f"http://127.0.0.1:{9000 + number}")
    inventory.probed("jp-1", ms=41.0)
    inventory.probed("us-1", ErrorType.TCP_REFUSED)
    worker = seed.worker()
    for done, note in ((3, "page 3"), (31, "page 31 of 50")):
        task = seed.running(
            worker,
            type="fetch_orders",
            progress_done=done,
            progress_total=50,
            progress_note=note,
            started_at=AGO,
        )
        inventory.take(task, pools={"gpu": 1}, route="jp-1" if done == 3 else None)
    seed.task("sync_catalog", state="PAUSED", reason="user_pause")
    seed.task(
        "upload", state="RETRYING", reason="retry", next_run_at="2026-11-29T12:00:48.000000Z", error='"429"'
    )
    seed.task("digest_mail", key="mail:today")
    seed.task("render", state="LOST", reason="worker_lost")
    seed.task("upload", state="NEEDS_REVIEW", reason="max_retry", error='"connection reset"')
    seed.task("fetch_orders", state="FAILED", reason="fatal", error='"404 bad target"', finished_at=AGO)
    seed.task("sync_catalog", state="DEAD", reason="user_discard", finished_at=AGO)
    seed.task("digest_mail", state="CANCELLED", reason="user_cancel", finished_at=AGO)
    seed.task("报告生成", state="SUCCESS", reason="done", finished_at=AGO, key="月报")
    seed.task(payload={"argv": ["sh", "-c", "echo hi; sleep 1"]}, next_run_at="2026-11-29T14:17:00.000000Z")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_deck_looks_as_it_was_drawn(seed: Seed, size: tuple[int, int]) -> None:
    async with deck(seed.path, size) as opened:
        for page, keys in PAGES.items():
            await opened.press(*keys)
            await as_drawn(opened, f"{page}-{size[0]}x{size[1]}.txt")


async def test_the_deck_looks_as_it_was_drawn_in_ascii(seed: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKDECK_ASCII", "1")
    async with deck(seed.path, (80, 24)) as opened:
        await opened.press("2")
        await as_drawn(opened, "tasks-80x24-ascii.txt")


async def as_drawn(opened: Open, name: str) -> None:
    """Wait until the screen is the one in this file; DRAW_GRIDS writes the file instead."""
    file = GRIDS / name
    if os.environ.get("DRAW_GRIDS"):
        GRIDS.mkdir(exist_ok=True)
        file.write_text(await _settled(opened), "utf-8")
    drawn = file.read_text("utf-8")
    try:
        await opened.becomes(lambda: _whole(opened) == drawn)
    except AssertionError:
        raise AssertionError(f"it looks otherwise than {name}:\n{_whole(opened)}") from None


async def _settled(opened: Open) -> str:
    """The screen once it has stood still for a while."""
    before, same = "", 0
    while same < 6:
        await opened.pilot.pause(0.1)
        same = same + 1 if opened.text == before else 0
        before = opened.text
    return _whole(opened)


def _whole(opened: Open) -> str:
    return re.sub(r" +\n", "\n", opened.text) + "\n"
