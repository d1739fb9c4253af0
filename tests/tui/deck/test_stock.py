"""Resources and routes in the deck: what their pages say, and what their keys do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskdeck.engine import views
from taskdeck.engine.errors import UsageError
from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.store import alerts
from taskdeck.tui.deck import keys, reads, resource_text, route_text, stock_filter
from taskdeck.tui.deck.screens.inventory import RoutesPage
from taskdeck.tui.deck.states import Glyphs
from taskdeck.tui.deck.stock_tables import resource_cells
from taskdeck.tui.deck.widgets.panes import ResourceTable, RouteTable
from tests.inventoried import Inventory
from tests.seeded import Seed
from tests.tui.deck.decks import deck, settings
from tests.tui.deck.hostile import HOSTILE
from tests.tui.deck.test_app import UNWANTED


@pytest.fixture
def seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seed]:
    """A database of this boot at a moment that stands still, so that scores count."""
    made = Seed(tmp_path / "deck.db")
    monkeypatch.setattr(views, "now", made.clock.utc)
    monkeypatch.setattr(views, "system_clock", lambda: made.clock)
    monkeypatch.setattr("taskdeck.engine.edge.identity.boot_id", lambda: "boot")
    yield made
    made.close()


@pytest.fixture
def stock(seed: Seed) -> Inventory:
    made = Inventory(seed)
    made.resources(
        {"id": "browser-1", "pool": "browser", "min_reuse": 30.0, "labels": {"kind": "firefox"}},
        {"id": "gpu", "pool": "gpu", "capacity": 2},
    )
    for name in ("eu-1", "eu-2", "eu-3"):
        made.route(id=name, url=f"http://{name}.example.net:3128", group="eu", expected_regions=["DE"])
    made.probed(
        "eu-1", ms=106.0, tcp_ms=3.0, probe_ms=106.0, exit_ms=88.0, exit_ip="203.0.113.7", exit_region="FR"
    )
    made.probed("eu-1", ErrorType.TUNNEL_TIMEOUT, detail="no answer within 5 s", tcp_ms=3.2)
    for _ in range(3):
        made.probed("eu-2", ErrorType.TUNNEL_TIMEOUT)
    seed.sql(
        "INSERT INTO route_target(route_id, target, ok, fail, blocked, consecutive_blocked, blocked_until, level)"
        " VALUES ('eu-1', 'shop.example.net', 7, 1, 2, 2, '2026-11-29T12:15:00.000000Z', 0)"
    )
    return made


def told(seed: Seed, name: str, width: int = 66, *, ascii: bool = False) -> str:
    """The page of a route, or of a resource."""
    now, glyphs = seed.clock.utc(), Glyphs(ascii)
    with views.open_view(settings(seed.path)) as view:
        if name.startswith("eu"):
            story = reads.route_story(name)(view)
            lines = route_text.page(story.route, story.why_not, glyphs, width, now)
        else:
            lines = resource_text.page(reads.resource(name)(view), glyphs, width, now)
    assert not ascii or all(text.isascii() for text, _ in lines)
    return "\n".join(text for text, _ in lines)


def test_a_routes_page_tells_the_sum_the_stages_the_latencies_and_the_targets(stock: Inventory) -> None:
    page = told(stock.seed, "eu-1", 90)
    assert " 69.7 ##############......" in page
    assert "100 − 5.3 − 15 − 10 = 69.7" in page
    assert "100, 106 ms, 1 failed in a row, 1 recent timeouts" in page
    assert "✓ reached 3 ms, ✗ probed, - left by its exit" in page
    assert "106 to 106 ms, 1 of 2 failed" in page
    assert "TUNNEL_TIMEOUT: no answer within 5 s" in page
    assert "203.0.113.7 FR, ELSEWHERE, expected DE" in page
    assert "shop.example.net  7   1     2        in 15m00s" in page
    assert "100 - 5.3 - 15 - 10 = 69.7" in told(stock.seed, "eu-1", ascii=True)


def test_it_says_why_it_and_others_of_its_group_are_not_chosen_in_the_words_of_the_choice(
    stock: Inventory,
) -> None:
    assert "eu: 2 of 3 can be chosen" in told(stock.seed, "eu-1")
    assert "eu-2        it cools down (HEALTH), next probe in 1m" in told(stock.seed, "eu-1")
    page = told(stock.seed, "eu-2")
    assert "no: it cools down (HEALTH), next probe in 1m" in page
    assert "NOT CHOSEN" not in page
    assert "in 1m00s (HEALTH)" in page


def test_whether_a_resource_is_ready_and_a_route_is_proved_are_told_and_what_its_checks_cost(
    stock: Inventory,
) -> None:
    stock.seed.sql(
        "INSERT INTO resource_ready (resource_id, state, until_at, failures, detail, checked_at) VALUES"
        " ('gpu', 'not_ready', '2099-01-01T00:00:00.000000Z', 1, 'only 300 MiB', '2026-11-29T12:00:00.000000Z'),"
        " ('browser-1', 'checking', '2026-11-29T11:00:00.000000Z', 0, '', NULL)"
    )
    assert "no: only 300 MiB (asked " in told(stock.seed, "gpu")
    glyphs, now = Glyphs(), stock.seed.clock.utc()
    with views.open_view(settings(stock.seed.path)) as view:
        cells = {each.id: resource_cells(each, now, glyphs)["now"] for each in view.resources()}
    assert cells["gpu/1"] == ("not ready: only 300 MiB", "warn")
    assert cells["browser-1"] == ("", "")  # whoever asked is gone
    stock.seed.sql("UPDATE route_health SET verified = 0, region_source = 'iptocc', probe_bytes = 123456")
    page = told(stock.seed, "eu-1", 120)
    assert (
        "203.0.113.7 FR (by iptocc), ELSEWHERE, expected DE, unverified: a proxy could have answered" in page
    )
    assert "checks cost  123 kB so far" in page
    stock.seed.sql("UPDATE route_health SET verified = 1")
    assert ", verified" in told(stock.seed, "eu-1", 120)


def test_who_holds_it_since_when_is_told_of_both(stock: Inventory) -> None:
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, pools={"browser": 1}, route="eu-3")
    stock.seed.clock.advance(192)
    fence = stock.seed.tx.rows("SELECT fence FROM attempt")[0]["fence"]
    assert f"#{task} for 3m12s, lease 1m48s, fence {fence}" in told(stock.seed, "eu-3")
    page = told(stock.seed, "browser-1")
    assert f"#{task} for 3m12s" in page
    assert f"1m48s left, fence {fence}" in page
    stock.give_back(task)
    stock.seed.clock.advance(9)
    page = told(stock.seed, "browser-1")
    assert "######..............  in 21s (USE)" in page
    assert "kind=firefox" in page
    assert told(stock.seed, "gpu").count("nobody") == 2


def test_the_route_that_goes_with_a_resource_and_its_wear_are_told(stock: Inventory) -> None:
    stock.seed.sql(
        "UPDATE resource SET route_id = 'eu-1', max_uses = 100, max_age = 7200.0 WHERE pool = 'browser'"
    )
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, pools={"browser": 1})
    page = told(stock.seed, "browser-1")
    assert "1 of 100, the last 0s ago" in page
    assert "eu-1 (and by no other)" in page
    assert "2h" in page
    stock.seed.sql("UPDATE resource SET route_soft = 1")
    assert "eu-1 (or by another where it can't be had)" in told(stock.seed, "browser-1")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ["eu-1", "eu-2", "eu-3"]),
        ("state:cooldown", ["eu-2"]),
        ("state:rests", ["eu-2"]),
        ("-state:cooldown group:e*", ["eu-1", "eu-3"]),
        ("timeout", ["eu-1", "eu-2"]),
        ("region:fr 203.0", ["eu-1"]),
        ("id:eu-1,eu-3", ["eu-1", "eu-3"]),
        ("!eu-1 !eu-2", ["eu-3"]),
        ('"eu-2.example"', ["eu-2"]),
    ],
)
def test_routes_are_filtered_by_any_text_of_theirs_and_by_field(
    stock: Inventory, text: str, ids: list[str]
) -> None:
    with views.open_view(settings(stock.seed.path)) as view:
        assert [each.id for each in stock_filter.chosen(view.routes(), text)] == ids


@pytest.mark.parametrize("text", ["colour:red", '"half'])
def test_a_filter_of_routes_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        stock_filter.wanted(text)


def test_no_two_acts_on_resources_and_routes_share_a_key() -> None:
    for place in (
        [*keys.ROUTE, *keys.ROUTES, *keys.SORT],
        [*keys.ROUTE, *keys.HOLDER],
        [*keys.RESOURCE, *keys.HOLDER],
    ):
        bound = [key for each in [*keys.ANYWHERE, *keys.TEXT, *place] for key in each.key.split(",")]  # pyright: ignore
        assert len(bound) == len(set(bound))


async def test_a_kick_wants_the_name_typed_and_takes_that_lease_only(stock: Inventory) -> None:
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, pools={"browser": 1})
    async with deck(stock.seed.path) as opened:
        await opened.press("4")
        await opened.reads("in use browser")
        await opened.press("K")
        await opened.reads(f"kick browser-1 from #{task}?")
        await opened.type("browser-2")
        await opened.reads("that is not browser-1")
        await opened.press("escape", "K")
        await opened.reads("type browser-1 and Enter")
        await opened.type("browser-1")
        await opened.reads(f"#{task} asked to stop and stays paused")
        await opened.reads(f"EXPIRED, taken from #{task}")
        await opened.press("K")
        await opened.reads("nobody holds browser-1")
        await opened.press("G")
        await opened.becomes(lambda: opened.app.page.query_one(ResourceTable).cursor_id == "gpu/2")
        await opened.press("e")
        await opened.reads("[Events of resource gpu]")


async def test_a_list_is_imported_by_keys_after_a_look_at_it(
    stock: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "l"
    file.write_text("203.0.113.9:80:bob:hunter2\nftp://bob:hunter2@203.0.113.9:1\neu-1.example.net:3128\n")
    async with deck(stock.seed.path) as opened:
        await opened.press("5")
        await opened.reads("eu-3")
        await opened.press("i")
        for name in ("-", "x"):  # standard input is the terminal that the deck draws on
            await opened.type(name)
            await opened.reads(f"there is no file {name}")
            await opened.press("backspace")
        await opened.type("l")
        await opened.reads("1 new, 1 duplicate, 1 bad")
        await opened.reads("2 bad       -                    E_SCHEME")
        assert "hunter2" not in opened.text
        await opened.pilot.pause(0.5)
        await opened.press("n")
        await opened.reads("eu-3")
        await opened.press("i", "up", "enter")
        await opened.reads("y import 1 route, without 1 bad line")
        await opened.pilot.pause(0.5)
        await opened.press("y")
        await opened.reads("imported 1 route")
        await opened.reads("203.0.113.9-80")
        assert "hunter2" not in opened.text


async def test_an_alert_of_routes_stands_in_the_header_until_it_is_over(
    stock: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views.View, "engine", lambda self: views.EngineView(running=True))
    with stock.seed.writing() as tx:
        alerts.stands(tx, "PROBE_TARGET_DOWN", "the judge is down")
    async with deck(stock.seed.path) as opened:
        await opened.becomes(lambda: " PROBE TARGET DOWN " in opened.lines[0])
        with stock.seed.writing() as tx:
            alerts.over(tx, "PROBE_TARGET_DOWN", "it is back")
        await opened.becomes(lambda: "PROBE TARGET DOWN" not in opened.lines[0])


async def test_a_deck_that_only_reads_imports_and_kicks_nothing(stock: Inventory) -> None:
    async with deck(stock.seed.path, read_only=True) as opened:
        await opened.press("5")
        await opened.reads("eu-3")
        for key in ("i", "K"):
            await opened.press(key)
            await opened.reads("this deck only reads")


async def test_enter_opens_a_route_or_resource_and_again_the_task_that_holds_it(stock: Inventory) -> None:
    task = stock.seed.running(stock.seed.worker(), type="fetch_orders")
    stock.take(task, route="eu-3")
    async with deck(stock.seed.path) as opened:
        await opened.press("5")
        await opened.reads("eu-3")
        await opened.press("slash")
        await opened.type("eu-3")
        await opened.reads("/ eu-3   1 of 3")
        await opened.press("enter")
        await opened.reads("[Route eu-3]")
        await opened.reads(f"#{task} for")
        await opened.press("enter")
        await opened.reads("[Summary]")
        await opened.reads("fetch_orders")
        await opened.press("q")
        await opened.reads("[Route eu-3]")


async def test_the_lists_are_sorted_by_column_and_the_other_way_round(stock: Inventory) -> None:
    def order() -> list[str]:
        return list(opened.app.page.query_one(RouteTable).ids)  # pyright: ignore

    async with deck(stock.seed.path) as opened:
        await opened.press("5")
        await opened.becomes(lambda: order() == ["eu-1", "eu-2", "eu-3"])
        await opened.press("greater_than_sign", "greater_than_sign")
        await opened.reads("STATEv")
        await opened.becomes(lambda: order() == ["eu-2", "eu-1", "eu-3"])
        await opened.press("tilde")
        await opened.reads("STATE^")
        await opened.becomes(lambda: order() == ["eu-3", "eu-1", "eu-2"])
        await opened.press("less_than_sign", "less_than_sign")
        await opened.loses("STATE^")
        await opened.becomes(lambda: order() == ["eu-1", "eu-2", "eu-3"])


async def test_of_500_routes_only_those_in_sight_are_asked_for_their_latencies(seed: Seed) -> None:
    stock = Inventory(seed)
    for number in range(500):
        stock.route(id=f"r{number:03}", url=f"http://h{number}.example.net:1")
    stock.probed("r000", ms=40.0)
    async with deck(seed.path) as opened:
        await opened.press("5")
        await opened.reads("500 of 500 usable")
        await opened.reads("98.0")
        page = opened.app.page
        assert isinstance(page, RoutesPage)
        table = page.query_one(RouteTable)
        await opened.press("G")
        await opened.reads("r499")
        asked = page.questions()["latencies"].key
        assert asked == table.shown_ids
        assert len(table.shown_ids) <= 24


async def test_what_comes_from_outside_is_harmless_beside_the_list_as_in_it(stock: Inventory) -> None:
    for number, text in enumerate(HOSTILE[:12]):
        harmless = text.encode("utf-8", "replace").decode().replace("\0", "")
        stock.probed("eu-1", ErrorType.TCP_REFUSED, detail=harmless)
        stock.seed.sql(
            "INSERT INTO route_target(route_id, target, ok, fail, blocked, consecutive_blocked, level)"
            " VALUES ('eu-1', ?, 0, 0, 0, 0, 0)",
            f"{number}{harmless}",
        )
        stock.seed.sql("UPDATE resource_slot SET last_error = ?, state = 'FAULT' WHERE number = 1", harmless)
    async with deck(stock.seed.path, (160, 48)) as opened:
        for key in ("5", "4"):
            await opened.press(key)
            await opened.reads("Route eu" if key == "5" else "Resource browser-1")
            await opened.reads("TARGET" if key == "5" else "last error")
            assert not UNWANTED.search(opened.text.replace("\n", ""))
