"""Between Textual and the terminal: frames that nobody takes are dropped, and bytes that are no text do no harm."""

from __future__ import annotations

import os
import pty
import threading
import tty
from collections.abc import Iterator

import pytest

from taskdeck.tui.deck.driver import CHUNK, CLOSE_WITHIN, MOST_WAITING, FrameWriter, _without_x10_mouse


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal that changes no byte: the one that is read, the one that is written."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def read(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(fd, size - len(data))
    return data


def test_frames_are_written_in_their_order(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    writer = FrameWriter(theirs, lambda: None)
    writer.start()
    frames = [f"<{number}>" for number in range(500)]
    for frame in frames:
        writer.put(frame)
    expected = "".join(frames).encode()
    assert read(ours, len(expected)) == expected
    assert writer.stop(5)


def test_a_terminal_that_takes_nothing_costs_frames_and_asks_for_a_repaint_afterwards(
    terminal: tuple[int, int],
) -> None:
    ours, theirs = terminal
    caught_up = threading.Event()
    writer = FrameWriter(theirs, caught_up.set)
    writer.start()
    frame = "x" * 20_000
    for _ in range(100):
        writer.put(frame)
    writer.put("END", always=True)
    kept = b""
    while not kept.endswith(b"END"):
        kept += os.read(ours, 65536)
    assert len(kept) < MOST_WAITING + 3 * len(frame)
    assert caught_up.wait(5)
    writer.put("again")
    assert read(ours, 5) == b"again"
    assert writer.stop(5)


def test_a_writer_whose_terminal_takes_nothing_is_left_in_time(terminal: tuple[int, int]) -> None:
    _, theirs = terminal
    writer = FrameWriter(theirs, lambda: None)
    writer.start()
    writer.put("x" * 100_000)
    assert not writer.stop(CLOSE_WITHIN)
    writer.join(5)
    assert not writer.is_alive()


def test_a_terminal_that_has_gone_ends_the_writer() -> None:
    ours, theirs = pty.openpty()
    writer = FrameWriter(theirs, lambda: None)
    writer.start()
    os.close(ours)
    writer.put("nobody reads this")
    writer.join(5)
    assert not writer.is_alive()
    os.close(theirs)


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 6, 7, 8, 10, 13])
def test_old_mouse_reports_are_taken_out_however_they_are_cut(cut: int) -> None:
    typed = b"a\x1b[M \xf0\xe1b\x1b[M#\xff\x21\x1b[M !!c\x1b[Ad"
    kept, first = _without_x10_mouse(typed[:cut], more=True)
    kept, second = _without_x10_mouse(kept + typed[cut:], more=True)
    assert first + second == b"abc\x1b[Ad"
    assert kept == b""


def test_a_full_read_may_end_in_the_middle_of_a_report() -> None:
    typed = b"\x1b[M !!" * (CHUNK // 6 + 1)
    for cut in range(CHUNK, CHUNK + 6):
        kept, first = _without_x10_mouse(typed[:cut], more=True)
        assert _without_x10_mouse(kept + typed[cut:], more=True)[1] == first == b""


def test_the_escape_key_is_not_kept_waiting() -> None:
    assert _without_x10_mouse(b"\x1b", more=True) == (b"", b"\x1b")
    assert _without_x10_mouse(b"\x1b[", more=False) == (b"", b"\x1b[")


def test_a_report_that_stays_unfinished_is_dropped() -> None:
    kept, text = _without_x10_mouse(b"a\x1b[M!", more=True)
    assert (kept, text) == (b"\x1b[M!", b"a")
    assert _without_x10_mouse(kept, more=False) == (b"", b"")
