"""`resource` and `route`: what is shown, what may be done, and how it all fits 80 columns."""

from __future__ import annotations

import json
import re

import pytest

from taskdeck.engine.rules.route_errors import ErrorType
from taskdeck.engine.store import alerts
from taskdeck.engine.views import ScoreView
from taskdeck.tui.format import breakdown, cells
from tests.inventoried import Inventory
from tests.seeded import Seed
from tests.tui.calls import Calls

STABLE_RESOURCE = "id pool state owner lease_until fence cooldown_until labels last_error"
STABLE_ROUTE = "id url state score latency_ms consecutive_failures recent_timeouts exit_ip region cooldown_until last_error"


@pytest.fixture
def this_boot(seed: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line runs at the seed's moment of the seed's boot, so that its samples still count."""
    boot = seed.clock.boot()
    monkeypatch.setattr("taskdeck.engine.clock.SystemClock.boot", lambda self: boot)
    monkeypatch.setattr("taskdeck.engine.edge.identity.boot_id", lambda: "boot")


@pytest.fixture
def stock(seed: Seed) -> Inventory:
    made = Inventory(seed)
    made.resources(
        {"id": "browser-1", "pool": "browser", "min_reuse": 5.0, "labels": {"kind": "firefox"}},
        {"id": "browser-2", "pool": "browser"},
        {"id": "gpu", "pool": "gpu", "capacity": 2},
    )
    made.route(
        id="eu-1",
        url="http://ann@proxy.example.net:3128",
        password="env:PW",
        group="eu",
        expected_ip="203.0.113.0/24",
    )
    made.route(id="us-1", url="socks5://h.example.net:1080", group="us")
    return made


def test_resources_have_the_stable_names_and_a_row_for_each_slot(taskdeck: Calls, stock: Inventory) -> None:
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, pools={"browser": 1})
    lines = taskdeck("resource", "list", "--json").lines
    assert [(each["id"], each["state"]) for each in lines] == [
        ("browser-1", "RUNNING"),
        ("browser-2", "AVAILABLE"),
        ("gpu/1", "AVAILABLE"),
        ("gpu/2", "AVAILABLE"),
    ]
    assert set(STABLE_RESOURCE.split()) <= set(lines[0])
    assert lines[0]["task"] == task
    assert lines[0]["owner"] == f"task:{task}/1"
    assert lines[0]["held_since"]
    assert lines[0]["labels"] == {"kind": "firefox"}
    assert [each["id"] for each in taskdeck("resource", "list", "--pool", "gpu", "--json").lines] == [
        "gpu/1",
        "gpu/2",
    ]


@pytest.mark.usefixtures("this_boot")
def test_whether_a_resource_is_ready_and_what_kind_it_is_are_told(taskdeck: Calls, stock: Inventory) -> None:
    columns = "(resource_id, state, until_at, failures, detail, checked_at)"
    later, now = "2099-01-01T00:00:00.000000Z", "2026-11-29T12:00:00.000000Z"
    stock.seed.sql(
        f"INSERT INTO resource_ready {columns} VALUES ('browser-2', 'ready', ?, 0, '', ?)", later, now
    )
    why = "only 300 MiB"
    stock.seed.sql(
        f"INSERT INTO resource_ready {columns} VALUES ('gpu', 'not_ready', ?, 3, ?, ?)", later, why, now
    )
    stock.seed.sql("UPDATE resource SET kind = 'credential' WHERE resource_id = 'browser-1'")
    lines = {each["id"]: each for each in taskdeck("resource", "list", "--json").lines}
    assert lines["browser-1"]["ready"] is None
    assert [each["kind"] for each in lines.values()] == ["credential", "unit", "unit", "unit"]
    assert lines["gpu/2"]["ready"] == {
        "state": "not_ready", "detail": why, "checked_at": now, "until": later, "failures": 3,
    }  # fmt: skip
    assert lines["browser-2"]["ready"]["state"] == "ready"
    assert taskdeck("resource", "list").out.count("not ready: only 300 MiB") == 2
    assert "no: only 300 MiB (asked 2026-11-29 12:00:00 UTC, 3 times in a row; again 2099-01-01" in (
        taskdeck("resource", "show", "gpu/1").out
    )
    assert "yes, asked" in taskdeck("resource", "show", "browser-2").out
    assert "credential" in taskdeck("resource", "show", "browser-1").out


def test_what_a_task_holds_is_shown_with_it_and_with_its_attempts(taskdeck: Calls, stock: Inventory) -> None:
    task = stock.seed.running(stock.seed.worker(), needs='["browser:2"]', route="eu")
    stock.take(task, pools={"browser": 2}, route="eu-1")
    (shown,) = taskdeck("show", str(task), "--json").lines
    held = {"resources": ["browser-1", "browser-2"], "route": "eu-1"}
    assert {name: shown[name] for name in held} == held
    assert {name: shown["attempts"][0][name] for name in held} == held
    assert (shown["needs"], shown["wants_route"], shown["allow_direct"]) == (["browser:2"], "eu", False)
    (listed,) = taskdeck("list", "--json").lines
    assert {name: listed[name] for name in held} == held
    human = taskdeck("show", str(task)).out
    assert "needs      browser:2, route eu" in human
    assert "holds      browser-1, browser-2, route eu-1" in human
    stock.give_back(task)
    (shown,) = taskdeck("show", str(task), "--json").lines
    assert (shown["resources"], shown["route"]) == ([], None)
    assert {name: shown["attempts"][0][name] for name in held} == held


def test_a_pool_or_route_that_is_not_there_is_told_when_a_task_is_added(
    taskdeck: Calls, stock: Inventory
) -> None:
    stock.seed.close()
    told = taskdeck(
        "add", "--needs", "nopool:2", "--needs", "browser", "--route", "nowhere", "--", "true"
    ).err
    assert "there is no pool nopool (see: taskdeck resource list)" in told
    assert "there is no route or group nowhere" in told
    assert "browser" not in told
    assert not taskdeck("add", "--needs", "browser", "--route", "eu", "--", "true").err


def test_why_names_the_pool_and_who_holds_it(taskdeck: Calls, stock: Inventory) -> None:
    holder = stock.seed.running(stock.seed.worker())
    stock.take(holder, pools={"browser": 2})
    waiting = stock.seed.task(needs='["browser"]', route="nowhere")
    reasons = taskdeck("why", str(waiting), "--json").lines[0]["waits"]
    assert any(f"pool browser: 0 of 2 usable, 1 needed: held by #{holder}" in reason for reason in reasons)
    assert any("there is no route or group nowhere" in reason for reason in reasons)


def test_a_resource_is_taken_out_and_back_and_a_refusal_is_its_own(taskdeck: Calls, stock: Inventory) -> None:
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, pools={"browser": 1})
    stock.seed.close()
    ended = taskdeck("resource", "disable", "browser-1", "browser-2", "nosuch", code=3)
    assert ended.out.splitlines() == [
        "browser-1 is drained: disabled when its attempt ends",
        "browser-2 is DISABLED",
    ]
    assert "there is no resource 'nosuch'" in ended.err
    assert [each["state"] for each in taskdeck("resource", "list", "--json").lines[:2]] == [
        "RUNNING",
        "DISABLED",
    ]
    taskdeck("resource", "enable", "browser-2")
    (shown,) = taskdeck("resource", "show", "browser-2", "--json").lines
    assert shown["state"] == "AVAILABLE"
    assert "then" in taskdeck("resource", "show", "browser-1").out


def test_a_rest_and_a_fault_are_shown_and_reset(taskdeck: Calls, stock: Inventory) -> None:
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, pools={"browser": 2})
    stock.give_back(task, faulty=["browser-2"], message="logged out")
    stock.seed.close()
    first, second = taskdeck("resource", "list", "--json").lines[:2]
    assert (first["state"], first["cooldown_reason"]) == ("COOLDOWN", "USE")
    assert (second["state"], second["last_error"]) == ("FAULT", "logged out")
    human = taskdeck("resource", "list").out
    assert "◌ cooldown" in human
    assert re.search(r"until [-:\d ]+ USE", human)
    assert taskdeck("resource", "reset", "browser-2").out == "browser-2 is AVAILABLE\n"
    told = taskdeck("events", "resource:browser-2", "--json").lines
    assert {each["resource_id"] for each in told} == {"browser-2"}
    assert [each["event_type"] for each in told][-2:] == ["RESOURCE_RELEASED", "RESOURCE_STATE"]


@pytest.mark.usefixtures("this_boot")
def test_routes_have_the_stable_names_and_no_password(taskdeck: Calls, stock: Inventory) -> None:
    taskdeck.environment["PW"] = "hunter2"
    (taskdeck.folder / "config.toml").write_text(
        '[taskdeck]\n[[routes]]\nid = "eu-1"\nurl = "http://ann@proxy.example.net:3128"\npassword = "env:PW"\n'
    )
    stock.probed(
        "eu-1", ms=106.0, tcp_ms=3.0, probe_ms=106.0, exit_ms=88.0, exit_ip="203.0.113.7", exit_region="DE"
    )
    stock.probed("eu-1", ErrorType.TUNNEL_TIMEOUT, detail="no answer within 5 s, hunter2 was refused")
    first, second = taskdeck("route", "list", "--json").lines
    assert set(STABLE_ROUTE.split()) <= set(first)
    assert first["url"] == "http://ann@proxy.example.net:3128"
    assert (first["latency_ms"], first["consecutive_failures"], first["recent_timeouts"]) == (106, 1, 1)
    assert (first["exit_ip"], first["region"], first["last_error"]) == ("203.0.113.7", "DE", "TUNNEL_TIMEOUT")
    assert (second["id"], second["score"], second["state"]) == ("us-1", None, "AVAILABLE")
    for words in (["list"], ["list", "--json"], ["show", "eu-1"], ["show", "eu-1", "--json"]):
        assert "hunter2" not in taskdeck("route", *words).out


@pytest.mark.usefixtures("this_boot")
def test_the_page_of_a_route_holds_the_sum_the_stages_and_why_it_is_not_chosen(
    taskdeck: Calls, stock: Inventory
) -> None:
    stock.probed(
        "eu-1", ms=106.0, tcp_ms=3.0, probe_ms=106.0, exit_ms=88.0, exit_ip="203.0.113.7", exit_region="DE"
    )
    stock.probed("eu-1", ErrorType.TUNNEL_TIMEOUT, detail="no answer", tcp_ms=3.2)
    page = taskdeck("route", "show", "eu-1").out
    assert "score         100 − 5.3 − 15 − 10 = 69.7" in page
    assert "failures      1 in a row, 1 recent timeouts" in page
    assert "tcp 3 ms" in page
    assert "TUNNEL_TIMEOUT: no answer" in page
    assert "usable        yes" in page
    assert "expected      203.0.113.0/24" in page
    stock.seed.close()
    assert taskdeck("route", "disable", "eu-1").out == "eu-1 is DISABLED\n"
    assert "usable        no: it is disabled" in taskdeck("route", "show", "eu-1").out
    shown = taskdeck("route", "show", "eu-1", "--json").lines[0]
    assert shown["why_not"] == "it is disabled"
    assert [each["error_type"] for each in shown["samples"]] == ["TUNNEL_TIMEOUT", None]
    assert shown["breakdown"]["failures"] == 15


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (ScoreView(100, 5.3, 15, 10, 69.7, 69.7), "100 − 5.3 − 15 − 10 = 69.7"),
        (ScoreView(100, 15.05, 45, 0, 39.95, 39.95), "100 − 15.1 − 45 − 0 = 39.9"),
        (ScoreView(100, 150, 30, 20, -100, 0), "100 − 150 − 30 − 20 = −100, counts as 0"),
    ],
)
def test_the_sum_of_a_score_adds_up_as_it_is_read(parts: ScoreView, text: str) -> None:
    assert breakdown(parts) == text


def test_who_holds_a_route_since_when_and_under_which_fence_is_told(
    taskdeck: Calls, stock: Inventory
) -> None:
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, route="eu-1")
    (shown,) = taskdeck("route", "list", "--json").lines[:1]
    assert (shown["tasks"], shown["held_since"]) == ([task], "2026-11-29T12:00:00.000000Z")
    assert shown["lease_until"] == "2026-11-29T12:05:00.000000Z"
    assert f"#{task} since 11-29 12:00" in taskdeck("route", "list").out
    fence = taskdeck("route", "show", "eu-1", "--json").lines[0]["slots"][0]["fence"]
    told = f"#{task} since 2026-11-29 12:00:00 UTC, lease until 2026-11-29 12:05:00 UTC, fence {fence}"
    assert told in taskdeck("route", "show", "eu-1").out


def test_a_route_is_added_by_its_url_and_a_password_in_it_is_refused(
    taskdeck: Calls, stock: Inventory
) -> None:
    stock.seed.close()
    assert (
        taskdeck("route", "add", "http://bob@p.example.net:8080", "--group", "eu").out
        == "p.example.net-8080\n"
    )
    words = [
        "socks5h://bob@q.example.net:1080",
        "--id",
        "q",
        "--password",
        "env:PW",
        "--label",
        "city=Berlin",
    ]
    assert json.loads(taskdeck("route", "add", *words, "--json").out)["id"] == "q"
    (shown,) = taskdeck("route", "show", "q", "--json").lines
    assert (shown["url"], shown["labels"]) == ("socks5h://bob@q.example.net:1080", {"city": "Berlin"})
    for words, what in [
        (["http://bob:hunter2@x.example.net:1"], "a password stands in the url"),
        (["http://x.example.net"], "E_PORT_MISSING"),
        (["http://x.example.net:1", "--password", "hunter2"], "expected a reference to the password"),
        (["http://x.example.net:1", "--label", "x"], "names no value"),
    ]:
        error = taskdeck("route", "add", *words, code=2).err
        assert what in error
        assert "hunter2" not in error
    assert taskdeck("route", "add", "http://bob@r.example.net:8080", "--id", "q", code=4).err


def test_a_route_that_was_added_is_removed_and_one_that_is_declared_is_not(
    taskdeck: Calls, stock: Inventory
) -> None:
    holder = stock.seed.running(stock.seed.worker())
    stock.take(holder, route="us-1")
    stock.seed.sql("UPDATE route SET origin = 'config' WHERE route_id = 'eu-1'")
    told = taskdeck("route", "remove", "us-1", "eu-1", "nosuch", code=4)
    assert told.out == f"us-1 is removed; #{holder} keeps it to its end\n"
    assert "route eu-1 is declared by the configuration" in told.err
    assert "there is no route 'nosuch'" in told.err
    (kept, gone) = taskdeck("route", "list", "--json").lines
    assert (kept["id"], gone["id"], gone["tasks"]) == ("eu-1", "us-1", [holder])
    assert gone["removed_at"]
    stock.give_back(holder)
    assert [each["id"] for each in taskdeck("route", "list", "--json").lines] == ["eu-1"]
    assert taskdeck("route", "remove", "us-1", code=3).err
    taskdeck("route", "add", "socks5://h.example.net:1080", "--id", "us-1", "--group", "us")
    assert [each["id"] for each in taskdeck("route", "list", "--json").lines] == ["eu-1", "us-1"]
    reasons = [
        each["reason"]
        for each in taskdeck("events", "--json").lines
        if each["event_type"] == "OPERATOR_ROUTE"
    ]
    assert reasons == ["removed", "added"]


@pytest.mark.parametrize(
    "url",
    ["bob:Hunter2pw:127.0.0.1:38833", "http://bob:Hunter2pw:127.0.0.1:1", "http://bob:Hun/Hunter2pw@h:1"],
)
def test_a_url_that_cannot_be_read_is_not_repeated_and_an_id_is_made_of_host_and_port(
    taskdeck: Calls, stock: Inventory, url: str
) -> None:
    stock.seed.close()
    told = taskdeck("route", "add", url, code=2)
    assert "E_" in told.err
    assert "unter2" not in (told.out + told.err).lower()
    assert taskdeck("route", "add", "http://bob@[2001:db8::1]:3128/").out == "2001-db8-1-3128\n"
    assert taskdeck("route", "add", "direct://").out == "direct\n"


def test_a_check_needs_a_judge_and_an_engine(taskdeck: Calls, stock: Inventory) -> None:
    assert "probe_urls is empty" in taskdeck("route", "check", "eu-1", code=4).err
    taskdeck.environment["TASKDECK_ROUTING__PROBE_URLS"] = "https://judge.example.net/nonce"
    assert taskdeck("route", "check", "eu-1", "--json", code=3).error["code"] == "no_engine"
    assert "there is no route 'nosuch'" in taskdeck("route", "check", "nosuch", code=3).err


def test_the_tables_fit_80_columns(taskdeck: Calls, stock: Inventory) -> None:
    taskdeck.environment["COLUMNS"] = "80"
    task = stock.seed.running(stock.seed.worker())
    stock.take(task, pools={"browser": 2}, route="eu-1")
    stock.probed("eu-1", ms=106.0, exit_ip="2001:db8:1234:5678:9abc:def0:1234:5678", exit_region="DE")
    for _ in range(3):
        stock.probed("us-1", ErrorType.TUNNEL_TIMEOUT, detail="x" * 200)
    for words in (["resource", "list"], ["route", "list"]):
        lines = taskdeck(*words).out.splitlines()
        assert max(cells(line) for line in lines) <= 80
        assert len(lines) >= 3


def test_nothing_declared_is_told_with_what_to_do(taskdeck: Calls, seed: Seed) -> None:
    seed.task()
    assert "declare [[resources]]" in taskdeck("resource", "list").err
    assert "taskdeck route add URL" in taskdeck("route", "list").err
    assert taskdeck("resource", "list", "--json").out == ""
    assert taskdeck("route", "show", "x", "--json", code=3).error["code"] == "not_found"


def test_a_password_that_cannot_be_read_is_a_warning_of_the_check(taskdeck: Calls) -> None:
    (taskdeck.folder / "config.toml").write_text(
        '[taskdeck]\n[[routes]]\nid = "a"\nurl = "http://u@h:1"\npassword = "env:NOSUCH"\n'
    )
    ended = taskdeck("config", "check")
    assert "config.toml:5: routes.a.password: env:NOSUCH can't be read" in ended.err
    assert len(taskdeck("config", "check", "--json").lines[0]["warnings"]) == 1


def test_what_is_wrong_with_routes_as_a_whole_stands_in_the_status_until_it_is_over(
    taskdeck: Calls, stock: Inventory
) -> None:
    with stock.seed.writing() as tx:
        alerts.stands(tx, "PROBE_TARGET_DOWN", "the judge is down: routes stay as they are", "eu")
    told = "PROBE_TARGET_DOWN eu since 2026-11-29 12:00:00 UTC: the judge is down"
    assert told in " ".join(taskdeck("status").out.split())
    (alert,) = taskdeck("status", "--json").lines[0]["alerts"]
    assert (alert["reason"], alert["subject"], alert["since"][:10]) == (
        "PROBE_TARGET_DOWN",
        "eu",
        "2026-11-29",
    )
    with stock.seed.writing() as tx:
        alerts.over(tx, "PROBE_TARGET_DOWN", "it is back", "eu")
    assert "PROBE_TARGET_DOWN" not in taskdeck("status").out
