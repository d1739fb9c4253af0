"""Resources and routes, cell for cell, at the five sizes that the deck is made for (see test_grids)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskdeck.engine import views
from taskdeck.engine.rules.route_errors import ErrorType
from tests.inventoried import Inventory
from tests.seeded import Seed
from tests.tui.deck.decks import deck
from tests.tui.deck.test_grids import SIZES, as_drawn

PAGES = {"resources": "4", "routes": "5"}


@pytest.fixture
def seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seed]:
    """Pools and routes in every state, in this boot, at a moment that stands still."""
    made = Seed(tmp_path / "deck.db")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr(views, "now", made.clock.utc)
    monkeypatch.setattr(views, "system_clock", lambda: made.clock)
    monkeypatch.setattr("taskdeck.engine.edge.identity.boot_id", lambda: "boot")
    _fill(made)
    yield made
    made.close()


def _fill(seed: Seed) -> None:
    stock = Inventory(seed)
    stock.resources(
        *({"id": f"browser-{n}", "pool": "browser", "min_reuse": 60.0} for n in (1, 2, 3)),
        {"id": "gpu", "pool": "gpu", "capacity": 2, "labels": {"memory": "24 GB"}},
    )
    for name in ("jp-1", "jp-2", "jp-3"):
        stock.route(
            id=name,
            url=f"http://bob@{name}.example.net:3128",
            password="env:PW",
            group="jp",
            expected_regions=["JP"],
        )
    stock.route(id="203.0.113.4-8080", url="socks5://203.0.113.4:8080", capacity=2)
    worker = seed.worker()
    rest, fault, task = (seed.running(worker, type="fetch_orders") for _ in range(3))
    stock.take(rest, pools={"browser": 1})
    stock.take(fault, pools={"browser": 1})
    stock.give_back(rest)
    stock.give_back(fault, faulty=["browser-2"], message="logged out: the account is locked")
    stock.take(task, pools={"gpu": 1, "browser": 1}, route="jp-1")
    for ms in (90.0, 112.0, 106.0, 140.0, 102.0, 106.0):
        stock.probed(
            "jp-1", ms=ms, tcp_ms=3.0, probe_ms=ms, exit_ms=88.0, exit_ip="203.0.113.7", exit_region="JP"
        )
    stock.probed("jp-1", ErrorType.TUNNEL_TIMEOUT, detail="no answer within 5 s", tcp_ms=3.2)
    stock.probed(
        "jp-2", ms=41.0, tcp_ms=2.0, probe_ms=41.0, exit_ms=40.0, exit_ip="203.0.113.8", exit_region="KR"
    )
    for _ in range(3):
        stock.probed("jp-3", ErrorType.TCP_TIMEOUT)
    seed.sql(
        "INSERT INTO route_target(route_id, target, ok, fail, blocked, consecutive_blocked, blocked_until, level)"
        " VALUES ('jp-1', 'shop.example.net', 7, 1, 2, 2, '2026-11-29T12:15:00.000000Z', 0)"
    )
    seed.clock.advance(12)


@pytest.mark.parametrize("size", [*SIZES, (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_resources_and_routes_look_as_they_were_drawn(seed: Seed, size: tuple[int, int]) -> None:
    async with deck(seed.path, size) as opened:
        for page, key in PAGES.items():
            await opened.press(key)
            await as_drawn(opened, f"{page}-{size[0]}x{size[1]}.txt")


async def test_the_page_of_a_route_looks_as_it_was_drawn_in_ascii(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKDECK_ASCII", "1")
    async with deck(seed.path, (80, 24)) as opened:
        await opened.press("5")
        await opened.reads("jp-1")
        await opened.press("j", "enter")
        await as_drawn(opened, "route-80x24-ascii.txt")


async def test_without_colours_both_look_the_same_and_all_that_stands_out_does_so_by_sign_and_weight(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with deck(seed.path, (80, 24)) as opened:
        for page, key in PAGES.items():
            await opened.press(key)
            await as_drawn(opened, f"{page}-80x24.txt")
            parts = [part for strip in opened.strips for part in strip if part.text.strip()]
            styles = [(part.text, part.style) for part in parts if part.style]
            coloured = [
                text
                for text, style in styles
                if not all(each is None or each.is_default for each in (style.color, style.bgcolor))
            ]
            assert coloured == []
            assert any(style.reverse for _, style in styles)  # the cursor
            assert any(style.bold for _, style in styles)  # what is wrong
