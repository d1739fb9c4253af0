"""Resources and routes in a real terminal over a real engine: drain, kick, check and import by keys."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tests.journeys.decks import CONFIG, JOBS, Deck
from tests.journeys.screens import Terminal, until_ended

STOCK = """
[[resources]]
id = "browser-1"
pool = "browser"

[[routes]]
id = "dead"
url = "http://127.0.0.1:{port}"

[routing]
probe_urls = ["http://127.0.0.1:{port}/nonce"]
interval_s = "1h"
fast_interval_s = "1h"
"""


@pytest.fixture
def terminal(deck: Deck) -> Iterator[Terminal]:
    """A deck over an engine with one browser, and with one route that leads nowhere."""
    with socket.socket() as closed:  # bound and never listening: whoever connects is refused
        closed.bind(("127.0.0.1", 0))
        stock = STOCK.format(port=closed.getsockname()[1])
        deck.configure(CONFIG.format(handlers=json.dumps(str(JOBS))) + stock)
        opened = Terminal(deck)
        opened.until_text("taskdeck")
        deck.until_ready()
        yield opened
        deck.ok("stop")
        until_ended(deck, opened.launcher)
        opened.hang_up()


def test_resources_and_routes_are_handled_by_keys(deck: Deck, terminal: Terminal) -> None:
    a_resource_is_drained_given_back_and_kicked(deck, terminal)
    a_route_is_checked_and_a_list_imported(deck, terminal)


def a_resource_is_drained_given_back_and_kicked(deck: Deck, terminal: Terminal) -> None:
    task = deck.add("--needs", "browser", "--", "sleep", "600")
    terminal.press(b"4")
    terminal.until_text("[4 Resources]", "browser-1   in use", f"#{task} for")
    terminal.press(b"p")
    terminal.until_text("browser-1 is drained", "then disabled")
    terminal.press(b"p")
    terminal.until_text("browser-1 is RUNNING")
    terminal.press(b"K")
    terminal.until_text(f"kick browser-1 from #{task}?")
    terminal.press(b"browser-1\r")
    deck.until_state(task, "PAUSED")
    terminal.until_text("rests", f"EXPIRED, taken from #{task}")
    (slot,) = deck.rows("SELECT * FROM resource_slot")
    (attempt,) = deck.attempts(task)
    assert (slot["state"], slot["cooldown_reason"]) == ("COOLDOWN", "EXPIRED")
    assert slot["fence"] > attempt["fence"]
    assert not deck.commands(task)


def a_route_is_checked_and_a_list_imported(deck: Deck, terminal: Terminal) -> None:
    def checks() -> int:
        return deck.rows("SELECT count(*) AS n FROM route_sample WHERE error_type = 'TCP_REFUSED'")[0]["n"]

    (deck.home / "list.txt").write_text("203.0.113.4:8080:bob:hunter2\nftp://bob:hunter2@203.0.113.4:1\n")
    terminal.press(b"5")
    terminal.until_text("[5 Routes]", "dead")
    before = checks()
    terminal.press(b"r")  # by itself the next check comes within an hour
    deck.until(lambda: checks() > before, "a check")
    terminal.until_text("TCP_REFUSED")
    terminal.press(b"i")
    terminal.until_text("\n<")
    terminal.press(b"list.txt\r")
    terminal.until_text("list.txt: 1 new, 1 bad", "E_SCHEME", "y import 1 route, without 1 bad line")
    deck.until(lambda: _answered(deck, terminal), "the import")
    terminal.until_text("203.0.113.4-8080")
    assert b"hunter2" not in terminal.received
    assert not any("hunter2" in json.dumps(each) for each in deck.events())


def _answered(deck: Deck, terminal: Terminal) -> bool:
    """Say yes until it is heard: for a moment after it has opened the question is deaf on purpose."""
    if "y import" in terminal.text:
        terminal.press(b"y")
    return bool(deck.rows("SELECT 1 FROM route WHERE origin = 'import'"))
