"""The deck in a real terminal over a real engine, by its keys: what is pressed is what happens to the work."""

from __future__ import annotations

import os
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
    """A deck, and an engine that is ready below it."""
    columns, lines = getattr(request, "param", (80, 24))
    opened = Terminal(deck, columns=columns, lines=lines)
    opened.until_text("taskdeck")
    deck.until_ready()
    yield opened
    deck.ok("stop")
    until_ended(deck, opened.launcher)
    opened.hang_up()


@pytest.mark.parametrize("terminal", [(80, 24), (160, 48)], indirect=True, ids=["80x24", "160x48"])
def test_a_task_is_paused_let_go_cancelled_and_retried_by_keys(deck: Deck, terminal: Terminal) -> None:
    task = deck.add("--", "sh", "-c", f"echo begun; until [ -e {deck.home}/gate ]; do sleep 0.05; done")
    terminal.press(b"2")
    terminal.until_text("RUN   shell")
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


@fault("TF157", "TF152")
def test_hostile_texts_send_no_sequence_to_the_terminal(deck: Deck, terminal: Terminal) -> None:
    for text in TEXTS:
        harmless = text.encode("utf-8", "replace").replace(b"\0", b"").decode()
        deck.add("--", "printf", "%s", harmless)
    terminal.press(b"2")
    terminal.until_text(f" of {len(TEXTS)}")
    last = len(TEXTS)
    deck.until_state(last, "SUCCESS")
    seen = len(terminal.received)
    for _ in TEXTS:
        terminal.press(b"l")
        terminal.until_text("Log of #")
        terminal.press(b"q")
        terminal.until_text(f" of {len(TEXTS)}")
        terminal.press(b"\r")
        terminal.until_text("[Summary]")
        terminal.press(b"q")
        terminal.until_text(f" of {len(TEXTS)}")
        terminal.press(b"j")
    terminal.press(b"7")
    terminal.until_text("[7 Events]", "follow ON")
    for sequence in FORBIDDEN:
        assert sequence not in terminal.received[seen:]


@fault("TF204", "TF205")
def test_a_rejected_configuration_stands_in_the_header_until_it_is_mended(
    deck: Deck, terminal: Terminal
) -> None:
    good = deck.config.read_text(encoding="utf-8")
    deck.configure(good + '\n[retry]\nbase = "1s"\n')
    os.kill(deck.engine_pid, signal.SIGHUP)
    terminal.until_text("CONFIG REJECTED", "on version 1")
    deck.configure(good)
    os.kill(deck.engine_pid, signal.SIGHUP)
    deck.until(lambda: "CONFIG REJECTED" not in terminal.text, "the header is calm again")
