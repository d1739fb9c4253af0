"""`taskdeck run` on a real terminal: the launcher holds it, the engine below never notices what happens to it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.journeys.decks import TASKDECK, Deck


class Terminal:
    """A terminal in which `taskdeck run` is the foreground process."""

    def __init__(self, deck: Deck) -> None:
        self._ours, theirs = pty.openpty()
        self.launcher = subprocess.Popen(
            ["setsid", "--ctty", str(TASKDECK), "run"],
            env=deck.env,
            cwd=deck.home,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        deck.children.append(self.launcher)

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self._ours, keys)

    def hang_up(self) -> None:
        """The line drops."""
        with suppress(OSError):
            os.close(self._ours)


@pytest.fixture
def terminal(deck: Deck) -> Iterator[Terminal]:
    terminal = Terminal(deck)
    yield terminal
    terminal.hang_up()


def test_ctrl_c_drains_the_engine_and_ends_well(deck: Deck, terminal: Terminal) -> None:
    deck.until_ready()
    task_id = deck.add("--", "sleep", "600")
    deck.until_command(task_id)
    terminal.press(b"\x03")
    assert deck.finish(terminal.launcher) == 0
    assert deck.moves(task_id)[-1] == "PENDING (drained)"
    assert not deck.processes()


def test_a_dropped_line_ends_the_launcher_alone(deck: Deck, terminal: Terminal) -> None:
    deck.until_ready()
    engine = deck.engine_pid
    task_id = deck.add("--", "sh", "-c", f"until [ -e {deck.home}/gate ]; do sleep 0.02; done")
    deck.until_command(task_id)
    terminal.hang_up()
    deck.until(lambda: terminal.launcher.poll() is not None, "the launcher ends")
    assert deck.engine_pid == engine
    (deck.home / "gate").touch()
    deck.until_state(task_id, "SUCCESS")
    deck.ok("stop")
    deck.until(lambda: not deck.processes(), "all has ended")
    deck.children.clear()
    assert len(deck.rows("SELECT * FROM engine")) == 1
    assert not deck.events(None, "WORKER_LOST", "ENGINE_LOST")


def test_a_second_request_to_stop_gives_no_more_time(deck: Deck) -> None:
    run = deck.start(TASKDECK_ENGINE__STOP_GRACE="10m")
    task_id = deck.add("--", "sh", "-c", "trap '' TERM; while :; do sleep 600; done")
    deck.until_command(task_id)
    run.send_signal(signal.SIGTERM)
    deck.until(lambda: deck.events(None, "ENGINE_STOPPING"), "it stops")
    run.send_signal(signal.SIGINT)
    assert deck.finish(run) == 0
    assert deck.moves(task_id)[-1] == "PENDING (drained)"
    assert not deck.processes()
