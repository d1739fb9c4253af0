"""The deck in a real terminal over a real engine, by its keys: what is pressed is what happens to the work."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest

from tests.faults import fault
from tests.journeys.decks import Deck
from tests.journeys.screens import Terminal, until_ended
from tests.tui.deck.hostile import HOSTILE

TEXTS = HOSTILE[:10]
FORBIDDEN = (b"\x1b]52", b"\x1b]0;title", b"\x1b[6n", b"\x9d52", b"\x1bc", b"\x1b_G", b"\x1bP")


@pytest.fixture
def terminal(deck: Deck, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A deck, and an engine that is ready below it; at the end that is stopped, and the terminal can be used again."""
    columns, lines = request.param
    opened = Terminal(deck, columns=columns, lines=lines)
    opened.until_text("taskdeck")
    deck.until_ready()
    yield opened
    deck.ok("stop")
    assert until_ended(deck, opened.launcher) == 0
    opened.until_usable()
    opened.until_received(b"the engine has stopped")
    opened.hang_up()


@fault("TF157", "TF152")
@pytest.mark.parametrize("terminal", [(80, 24)], indirect=True, ids=["80x24"])
def test_a_task_is_handled_by_keys_and_hostile_texts_send_no_sequence_to_the_terminal(
    deck: Deck, terminal: Terminal
) -> None:
    a_task_is_paused_let_go_cancelled_and_retried(deck, terminal)
    hostile_texts_send_no_sequence(deck, terminal)


@fault("TF204", "TF205")
@pytest.mark.parametrize("terminal", [(160, 48)], indirect=True, ids=["160x48"])
def test_a_task_is_handled_by_keys_a_rejected_configuration_shows_and_a_stop_ends_the_deck(
    deck: Deck, terminal: Terminal
) -> None:
    a_task_is_paused_let_go_cancelled_and_retried(deck, terminal)
    a_rejected_configuration_stands_in_the_header_until_it_is_mended(deck, terminal)


def a_task_is_paused_let_go_cancelled_and_retried(deck: Deck, terminal: Terminal) -> None:
    task = deck.add("--", "sh", "-c", f"echo begun; until [ -e {deck.home}/gate ]; do sleep 0.05; done")
    terminal.press(b"2")
    terminal.until_text("[Tasks] 1 of 1", "RUN   shell")
    terminal.press(b"l")
    terminal.until_text("begun", "follow ON")
    terminal.press(b"q")
    terminal.until_text("RUN   shell")
    terminal.press(b"p")
    deck.until_state(task, "PAUSED")
    terminal.until_text("PAUSE shell")
    terminal.press(b"p")
    terminal.until_text("RUN   shell")
    terminal.press(b"c")
    terminal.until_text("u takes it back")
    deck.until_state(task, "CANCELLED")
    terminal.until_text("CANC  shell")
    (deck.home / "gate").touch()
    terminal.press(b"r")
    deck.until_state(task, "SUCCESS")
    terminal.until_text("OK    shell")


def hostile_texts_send_no_sequence(deck: Deck, terminal: Terminal) -> None:
    """Of all tasks in the list, the one that was there before as well."""
    tasks = len(deck.states()) + len(TEXTS)
    harmless = [text.encode("utf-8", "replace").replace(b"\0", b"").decode() for text in TEXTS]
    added = [deck.add("--", "printf", "%s", text) for text in harmless]
    terminal.until_text(f" of {tasks}")
    for (
        each
    ) in added:  # they need not end in their order, and a row that changes may move while it is looked at
        deck.until_state(each, "SUCCESS")
    deck.until(lambda: terminal.text.count("OK    shell") == tasks, f"all have ended on\n{terminal.text}")
    seen, looked_at = len(terminal.received), set[str]()

    def back() -> None:  # a part of the page before may still stand there
        terminal.press(b"q")
        pages = ("Log of #", "[Summary]")
        deck.until(
            lambda: f" of {tasks}" in terminal.text and not any(page in terminal.text for page in pages),
            f"the list on\n{terminal.text}",
        )

    terminal.press(b"g")
    for _ in range(tasks):
        terminal.press(b"l")
        shown = deck.until(lambda: re.search(r"Log of #(\d+)\]", terminal.text), f"a log on\n{terminal.text}")
        assert shown
        looked_at.add(shown[1])
        back()
        terminal.press(b"\r")
        terminal.until_text("[Summary]")
        back()
        terminal.press(b"j")
    assert len(looked_at) == tasks
    terminal.press(b"7")
    terminal.until_text("[7 Events]", "follow ON")
    for sequence in FORBIDDEN:
        assert sequence not in terminal.received[seen:]


def a_rejected_configuration_stands_in_the_header_until_it_is_mended(deck: Deck, terminal: Terminal) -> None:
    good = deck.config.read_text(encoding="utf-8")
    deck.configure(good + '\n[retry]\nbase = "1s"\n')
    os.kill(deck.engine_pid, signal.SIGHUP)
    terminal.until_text("CONFIG REJECTED", "on version 1")
    deck.configure(good)
    os.kill(deck.engine_pid, signal.SIGHUP)
    deck.until(lambda: "CONFIG REJECTED" not in terminal.text, "the header is calm again")
