"""What a real terminal is sent of hostile texts: nothing but text and the deck's own sequences."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pyte
import pytest

from benchmarks.deck.terminal import Terminal
from tests.faults import fault
from tests.tui.deck.hostile import UNWANTED

OURS = re.compile(
    rb"\x1b\[(?:[0-9;:]*[mHKJ]|\?(?:1049|25|1004|1000|1002|1003|1006|1015|1016|2004|2026|2048|2031|1005|7)(?:[hl]|\$p)|>[0-9]*u|<u)|\x1b\[c|\x1b\]22;default\x07"
)
"""Styles, moves, the shape of the mouse, and the modes that the screen takes and gives back."""
COLOURS = re.compile(
    rb"\x1b\[(?:[0-9:;]*;)?(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|38[;:][0-9;:]+|48[;:][0-9;:]+)(?:;[0-9;:]*)?m"
)
SIZE = (90, 30)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    stage = [sys.executable, "-m", "tests.tui.deck.hostile_stage"]
    terminal = Terminal(stage, {"NO_COLOR": "1"}, SIZE)
    try:
        terminal.until("the last line")
        yield terminal
    finally:
        terminal.close()


@fault("TF154", "TF157", "TF162")
def test_of_hostile_texts_a_terminal_gets_the_text_alone_and_no_colour_where_none_is_wanted(
    terminal: Terminal,
) -> None:
    for keys, then in (("gwG", "the last line"), ("\tG", "tab    here"), ("a", r"\*tab    here")):
        terminal.until(then, terminal.press(keys))
    terminal.quiet()  # else the last sequence may be there by half
    sent = terminal.sent()
    text = OURS.sub(b"", sent).decode()
    assert not set(UNWANTED.findall(text)) - set("\r\n")
    assert not COLOURS.findall(sent)
    screen = pyte.Screen(*SIZE)
    pyte.ByteStream(screen).feed(sent)
    assert any("[/x] [bold] [@click=app.quit]" in line for line in screen.display)
    assert "clipboard by ST" in text


@fault("TF165")
def test_a_mouse_that_was_left_on_is_turned_off_and_what_it_still_reports_is_no_key() -> None:
    terminal = Terminal([sys.executable, "-m", "tests.tui.deck.hostile_stage", "--no-mouse"], size=SIZE)
    try:
        terminal.until("the last line")
        begun = terminal.sent().partition(b"\x1b[?1049h")[0]
        assert all(b"\x1b[?%dl" % mode in begun for mode in (1000, 1002, 1003, 1006, 1015))
        reports = "\x1b[<0;5;6M\x1b[<0;5;6m" * 2 + "\x1b[<64;5;6M" + "\x1b[32;5;7M" + "\x1b[M !&"
        terminal.until(r">[^>]*\Z", terminal.press("\tg"))
        terminal.until(r">", terminal.press(reports + "j"))
        terminal.quiet()
        screen = pyte.Screen(*SIZE)
        pyte.ByteStream(screen).feed(terminal.sent())
        assert [line[0] for line in screen.display[1:8]] == [" ", ">", " ", " ", " ", " ", " "]
        assert b"?1000h" not in terminal.sent()
    finally:
        terminal.close()
