"""The demo's task types do what they say, in a real worker, through the demo's own proxies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from taskdeck.engine.demo import catalogue
from taskdeck.engine.run import messages as m
from tests.demo.worlds import World
from tests.run.engine_double import EngineDouble, engine

JOBS = "taskdeck.engine.demo.jobs"
BROWSER = {"browser": ["browser-2"]}


@pytest.fixture
def double(tmp_path: Path) -> Iterator[EngineDouble]:
    with engine(tmp_path, JOBS) as made:
        yield made


def test_the_types_load_without_a_problem_and_say_what_they_need(double: EngineDouble) -> None:
    manifest = double.wait(m.Manifest)
    assert not manifest.problems
    types = {each.name: each for each in manifest.types if each.name.startswith("demo_")}
    assert len(types) == 10
    assert [name for name, each in types.items() if each.route == "demo"] == [
        "demo_fetch",
        "demo_flaky",
        "demo_limited",
        "demo_slow",
    ]
    assert [name for name, each in types.items() if each.needs] == ["demo_browser", "demo_upload"]
    assert all(each.doc for each in types.values())


# ---- through a route ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["http-fast", "http-login", "socks-slow"])
def test_a_list_is_fetched_through_the_route(demo_world: World, double: EngineDouble, id: str) -> None:
    exit_ip = demo_world.proxy(id)["exit_ip"]
    before = demo_world.data("/stats")["callers"].get(exit_ip, 0)
    payload = {"site": demo_world.told["site"], "list": "records", "folder": str(double.folder)}
    fence = double.run("demo_fetch", payload, route=demo_world.route(id))
    assert double.result(fence) == {"list": "records", "items": 10}
    fetched = json.loads((double.folder / "fetched" / "42.json").read_text())
    assert fetched == {"list": "records", "items": list(catalogue.lists()["records"])}
    assert demo_world.data("/stats")["callers"][exit_ip] >= before + 4


def test_a_fetch_goes_on_where_the_checkpoint_is(demo_world: World, double: EngineDouble) -> None:
    seen = [{"name": "seen", "price": "1.00", "note": ""}] * 9
    checkpoint = json.dumps({"cursor": "teas-9", "items": seen, "total": 10})
    payload = {"site": demo_world.told["site"], "list": "teas", "folder": str(double.folder)}
    before = demo_world.data("/stats")["paths"].get("/pages", 0)
    route = demo_world.route("http-fast")
    double.result(double.run("demo_fetch", payload, route=route, checkpoint=checkpoint, checkpoint_seq=3))
    assert demo_world.data("/stats")["paths"]["/pages"] == before + 1
    fetched = json.loads((double.folder / "fetched" / "42.json").read_text())["items"]
    assert fetched == [*seen, catalogue.lists()["teas"][9]]


def test_a_whole_checkpoint_needs_no_page(demo_world: World, double: EngineDouble) -> None:
    checkpoint = json.dumps({"items": list(catalogue.lists()["teas"]), "total": 10})
    payload = {"site": "http://127.0.0.1:1", "list": "teas", "folder": str(double.folder)}
    route = demo_world.route("http-fast")
    fence = double.run("demo_fetch", payload, route=route, checkpoint=checkpoint, checkpoint_seq=4)
    assert double.result(fence)["items"] == 10


def test_the_limited_page_delays_by_a_second_and_then_answers(
    demo_world: World, double: EngineDouble
) -> None:
    payload, route = {"site": demo_world.told["site"]}, demo_world.route("http-fast")
    failure = double.failure(double.run("demo_limited", payload, route=route, task_id=501))
    assert (failure["class_"], failure["kind"], failure["delay"]) == ("delayed", "http_429", 1.0)
    double.result(double.run("demo_limited", payload, route=route, task_id=501))


def test_the_flaky_page_is_worth_two_retries(demo_world: World, double: EngineDouble) -> None:
    payload, route = {"site": demo_world.told["site"]}, demo_world.route("http-fast")
    for _ in range(2):
        failure = double.failure(double.run("demo_flaky", payload, route=route, task_id=502))
        assert (failure["class_"], failure["kind"]) == ("retryable", "http_500")
    double.result(double.run("demo_flaky", payload, route=route, task_id=502))


def test_the_slow_page_answers_in_the_end(demo_world: World, double: EngineDouble) -> None:
    payload = {"site": demo_world.told["site"]}
    double.result(double.run("demo_slow", payload, route=demo_world.route("http-fast")))


def test_without_a_route_nothing_is_visited(demo_world: World, double: EngineDouble) -> None:
    failure = double.failure(double.run("demo_slow", {"site": demo_world.told["site"]}))
    assert failure["class_"] == "resource_fault"


# ---- exactly once -------------------------------------------------------------------------------------------------


def orders(world: World, first: int, last: int) -> list[str]:
    """What the ledger has of these orders, in the order of the ledger."""
    names = {each["order_id"] for each in catalogue.orders()[first - 1 : last]}
    return [line["row"] for line in world.ledger() if line["row"] in names]


def test_orders_are_uploaded_once_each(demo_world: World, double: EngineDouble) -> None:
    payload = {"site": demo_world.told["site"], "first": 1, "last": 12}
    fence = double.run("demo_upload", payload, resources=BROWSER)
    assert double.result(fence) == {"orders": 12}
    assert orders(demo_world, 1, 12) == [f"D-{n:03}" for n in range(1, 13)]
    assert double.checkpoints[42] == {"site": demo_world.told["site"], "done": 10}
    double.result(double.run("demo_upload", payload, resources=BROWSER))
    assert len(orders(demo_world, 1, 12)) == 12


@pytest.mark.parametrize("arrived", [True, False])
def test_an_order_in_doubt_is_asked_for(demo_world: World, double: EngineDouble, arrived: bool) -> None:
    number = 20 if arrived else 21
    name = catalogue.orders()[number - 1]["order_id"]
    if arrived:
        demo_world.data("/upload", {"row": name, "body": {}})
    double.operations["", name] = {"state": "BEGUN"}
    payload = {"site": demo_world.told["site"], "first": number, "last": number}
    double.result(double.run("demo_upload", payload, resources=BROWSER))
    assert orders(demo_world, number, number) == [name]


def test_a_site_that_refuses_leaves_no_doubt(double: EngineDouble) -> None:
    fence = double.run(
        "demo_upload", {"site": "http://127.0.0.1:1", "first": 1, "last": 1}, resources=BROWSER
    )
    assert double.failure(fence)["class_"] == "retryable"
    assert [each["state"] for each in double.operations.values()] == ["NOT_DONE"]


# ---- the report ---------------------------------------------------------------------------------------------------


class Seen(HTMLParser):
    """The elements and cells of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_report_waits_for_the_last_list(double: EngineDouble) -> None:
    failure = double.failure(double.run("demo_report", {"folder": str(double.folder), "lists": 1}))
    assert (failure["class_"], failure["delay"]) == ("delayed", 0.5)


def test_the_report_holds_every_item_and_nothing_that_runs(double: EngineDouble) -> None:
    (double.folder / "fetched").mkdir()
    for number, (name, items) in enumerate(catalogue.lists().items()):
        text = json.dumps({"list": name, "items": items})
        (double.folder / "fetched" / f"{number}.json").write_text(text)
    result = double.result(double.run("demo_report", {"folder": str(double.folder), "lists": 12}))
    assert result == {"file": str(double.folder / "report.html"), "items": 120}
    seen = Seen(Path(result["file"]).read_text(encoding="utf-8"))
    assert seen.elements == {"html", "meta", "title", "style", "h1", "h2", "table", "tr", "td"}
    names = {item["name"] for items in catalogue.lists().values() for item in items}
    assert names <= set(seen.text)


# ---- that go wrong ------------------------------------------------------------------------------------------------


def test_a_range_that_runs_backwards_is_fatal(double: EngineDouble) -> None:
    assert double.failure(double.run("demo_bad_parameters", {"first": 9, "last": 1}))["class_"] == "fatal"
    assert double.result(double.run("demo_bad_parameters", {"first": 1, "last": 9})) == {"numbers": 9}


def test_what_always_fails_may_always_be_retried(double: EngineDouble) -> None:
    failure = double.failure(double.run("demo_always_fails"))
    assert (failure["class_"], failure["rule"]) == ("retryable", "raised Retry")


def test_what_kills_its_worker_does(double: EngineDouble) -> None:
    double.run("demo_kills_its_worker")
    assert double.ended() == -9


def test_a_browser_crashes_once(double: EngineDouble) -> None:
    payload = {"folder": str(double.folder)}
    failure = double.failure(double.run("demo_browser", payload, resources=BROWSER))
    assert (failure["class_"], failure["detail"]) == ("resource_fault", "browser-2")
    assert double.result(double.run("demo_browser", payload, resources=BROWSER)) == {"browser": "browser-2"}
