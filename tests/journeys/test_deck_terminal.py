"""The deck on a real terminal: whatever becomes of the terminal, the work goes on; whatever becomes of the deck, so does
the shell."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskdeck.engine.edge.locks import DatabaseLock
from tests.faults import fault
from tests.journeys.decks import TASKDECK, Deck, kill, process_state
from tests.journeys.screens import FULL_SCREEN, HANG_UP, Terminal, until_ended

PAINTED = "taskdeck"
"""Stands in the header of every view."""
SHELL = ("bash", "--norc", "--noprofile", "-i")

Open = Callable[..., Terminal]


@pytest.fixture
def opened(deck: Deck) -> Iterator[Open]:
    """Opens terminals, and closes them at the end."""
    terminals: list[Terminal] = []

    def opens(*command: str, **more: object) -> Terminal:
        terminals.append(Terminal(deck, *command, **more))  # pyright: ignore[reportArgumentType]
        return terminals[-1]

    yield opens
    for terminal in terminals:
        terminal.hang_up()


@pytest.fixture
def painted(deck: Deck, opened: Open) -> Terminal:
    """A terminal with a deck, and an engine that is ready below it."""
    terminal = opened()
    terminal.until_text(PAINTED)
    deck.until_ready()
    return terminal


@pytest.fixture
def running(deck: Deck, painted: Terminal) -> Iterator[dict[str, int]]:
    """The pids of engine, worker and a running command, which must be the same at the end."""
    task_id = deck.add("--", "sh", "-c", f"until [ -e {deck.home}/gate ]; do sleep 0.02; done")
    command = deck.until_command(task_id)
    pids = {"engine": deck.engine_pid, "worker": deck.worker_of(task_id), "command": command}
    yield pids
    assert {"engine": deck.engine_pid, "worker": deck.worker_of(task_id)} == {
        name: pids[name] for name in ("engine", "worker")
    }
    assert command in deck.commands(task_id)
    assert not deck.events(None, "WORKER_LOST", "ENGINE_LOST")
    (deck.home / "gate").touch()
    deck.until_state(task_id, "SUCCESS")
    assert len(deck.rows("SELECT * FROM engine")) == 1
    deck.ok("stop")


@fault("TF141")
def test_whatever_the_terminal_does_the_deck_works_until_it_is_detached_and_a_second_one_attaches(
    deck: Deck, painted: Terminal, running: dict[str, int]
) -> None:
    a_terminal_that_was_small_for_a_moment_is_painted_again(deck, painted)
    a_terminal_that_reads_nothing_does_not_stall_the_engine(deck, painted)
    a_task_prints_as_fast_whether_anyone_looks_or_stands_still(deck, painted)
    garbage_from_the_terminal_is_survived(deck, painted)

    assert until_ended(deck, painted.launcher) == 0
    painted.until_usable()
    painted.until_received(f"the engine goes on (pid {running['engine']}); back: taskdeck".encode())
    assert not _on_terminal(running["engine"])

    seen = len(painted.received)
    painted.launch()
    painted.until_received(PAINTED.encode(), seen)
    painted.press(b"q")
    assert until_ended(deck, painted.launcher) == 0
    painted.until_usable()


def a_terminal_that_was_small_for_a_moment_is_painted_again(deck: Deck, painted: Terminal) -> None:
    title, last = PAINTED.encode(), [time.monotonic(), 0]

    def at_rest() -> bool:  # the first frames have come; later ones hold what changed, and never the title
        if (times := painted.received.count(title)) != last[1]:
            last[:] = time.monotonic(), times
        return time.monotonic() > last[0] + 1

    deck.until(at_rest, "the deck is painted")
    seen = len(painted.received)
    painted.launcher.send_signal(signal.SIGWINCH)  # when the deck looks, the old size is back already
    painted.until_received(title, seen)


def a_terminal_that_reads_nothing_does_not_stall_the_engine(deck: Deck, painted: Terminal) -> None:
    painted.deaf.set()
    seen = len(painted.received)
    for step in range(60):  # more than any buffer holds: each is a repaint of all of it
        painted.resize(160 + step % 2, 48)
        asked = time.monotonic()
        assert deck_age(deck, "beat") < 6.0
        assert time.monotonic() - asked < 1.0, "the engine's loop stands still"
    assert deck.until_state(deck.add("--", "true"), "SUCCESS")
    painted.resize(80, 24)
    painted.deaf.clear()
    painted.until_received(PAINTED.encode(), seen)
    painted.until_text(PAINTED)


def a_task_prints_as_fast_whether_anyone_looks_or_stands_still(deck: Deck, painted: Terminal) -> None:
    gate = deck.home / "may-print"
    task = deck.add("--", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done; yes | head -c 50000000")
    deck.until_command(task)
    viewer = deck.beside("log", task, "--follow")
    deck.until(lambda: process_state(viewer.pid) == "S", "the viewer waits for more")
    os.kill(viewer.pid, signal.SIGSTOP)
    painted.deaf.set()
    gate.touch()
    assert deck.until_state(task, "SUCCESS")
    painted.deaf.clear()
    viewer.kill()
    viewer.communicate()


def garbage_from_the_terminal_is_survived(deck: Deck, painted: Terminal) -> None:
    """It is, and the deck is left."""
    for garbage in (
        b"\xff\xfe\xff",
        b"\x1b[M \xf0\xe1",
        b"\x1b[M\x20",
        b"\xc3\xff",
        b"\x1b[<999;999",
        b"\xf0\x9f",
    ):
        painted.press(garbage)
    seen = len(painted.received)
    painted.resize(1, 1)
    painted.resize(80, 24)
    painted.until_received(PAINTED.encode(), seen)
    assert painted.launcher.poll() is None
    pressed = [time.monotonic()]

    def ended() -> bool:  # what was begun by the garbage may take a key or two with it
        if time.monotonic() > pressed[-1] + 0.3:
            painted.press(b"d")
            pressed.append(time.monotonic())
        return painted.launcher.poll() is not None

    deck.until(ended, "the deck hears keys again")
    assert len(pressed) < 6


def test_a_closed_terminal_takes_the_screen_and_nothing_else(
    deck: Deck, painted: Terminal, running: dict[str, int]
) -> None:
    painted.hang_up()
    assert until_ended(deck, painted.launcher) == HANG_UP
    deck.until(lambda: not _on_terminal(running["engine"]), "the engine lets go of the terminal")


def test_ctrl_z_stops_the_screen_alone_and_an_engine_that_comes_back_meanwhile_or_later_draws_nothing(
    deck: Deck, opened: Open
) -> None:
    terminal = opened(*SHELL)
    terminal.press(b"PS1='ready> '; taskdeck\r")
    terminal.until_received(FULL_SCREEN)
    terminal.until_text(PAINTED)
    deck.until_ready()
    engine = deck.engine_pid
    supervisor = deck.rows("SELECT supervisor_pid AS pid FROM engine")[0]["pid"]

    seen = len(terminal.received)
    terminal.press(b"\x1a")
    terminal.until_received(b"Stopped", seen)
    terminal.press(b"echo $((40 + 2))\r")
    terminal.until_received(b"42\r\n", seen)
    assert FULL_SCREEN not in terminal.received[seen:]
    assert process_state(engine) not in ("T", "")
    assert deck.until_state(deck.add("--", "true"), "SUCCESS")

    seen = len(terminal.received)
    terminal.press(b"fg\r")
    terminal.until_received(FULL_SCREEN, seen)
    terminal.until_received(PAINTED.encode(), seen)
    assert deck.engine_pid == engine

    seen = len(terminal.received)
    terminal.press(b"\x1a")
    terminal.until_received(b"Stopped", seen)
    another_engine_comes_and_works(deck)
    assert FULL_SCREEN not in terminal.received[seen:]
    terminal.press(b"fg\r")
    terminal.until_received(b"the engine goes on", seen)

    deck.until(lambda: terminal.received.endswith(b"ready> "), "the prompt")
    seen = len(terminal.received)
    another_engine_comes_and_works(deck)
    assert not _on_terminal(deck.engine_pid)
    assert not _on_terminal(supervisor)
    assert terminal.received[seen:] == b""
    terminal.press(b"exit\r")
    assert until_ended(deck, terminal.launcher) == 0
    deck.ok("stop")


def another_engine_comes_and_works(deck: Deck) -> None:
    """The one that works is killed first."""
    killed = deck.engine_pid
    kill(killed)
    deck.until(lambda: deck.engine_pid not in (0, killed), "another engine")
    assert deck.until_state(deck.add("--", "true"), "SUCCESS")


def test_a_killed_launcher_leaves_a_usable_terminal_and_the_engine(
    deck: Deck, painted: Terminal, running: dict[str, int]
) -> None:
    painted.launcher.kill()
    until_ended(deck, painted.launcher)
    painted.until_usable()
    deck.until(lambda: not _on_terminal(running["engine"]), "the engine lets go of the terminal")


@fault("TF021")
def test_a_deck_that_is_killed_or_restarted_with_its_engine_draws_again_and_what_it_asked_about_is_as_it_was(
    deck: Deck, painted: Terminal
) -> None:
    asked_about = deck.add("--priority", "7", "--in", "1h", "--", "true")
    painted.press(b"2")
    painted.until_text("1 of 1")
    painted.press(b"K")
    painted.until_text(f"kill #{asked_about}?")
    before = deck.show(asked_about)
    first, seen = deck.engine_pid, len(painted.received)
    kill(first)
    painted.until_received(FULL_SCREEN, seen)
    deck.until(lambda: deck.engine_pid not in (0, first), "another engine")
    painted.until_text(PAINTED)
    deck.until_ready()
    second, seen = deck.engine_pid, len(painted.received)
    painted.press(b":restart\r")
    painted.until_received(FULL_SCREEN, seen)
    deck.until(lambda: deck.engine_pid not in (0, second), "the engine of the newer code")
    painted.until_text(PAINTED)
    deck.until_ready()
    third = deck.engine_pid  # without a supervisor the deck works on
    kill(deck.rows("SELECT supervisor_pid AS pid FROM engine WHERE pid = ?", third)[0]["pid"])
    painted.press(b"q")
    assert until_ended(deck, painted.launcher) == 0
    painted.until_usable()
    assert deck.engine_pid == third
    painted.until_received(b"was killed by SIGKILL; starting it again")
    assert deck.show(asked_about) == before
    deck.ok("cancel", asked_about)
    deck.ok("retry", asked_about)
    deck.until_state(asked_about, "SUCCESS")
    deck.ok("stop")


def test_when_all_below_is_killed_the_launcher_mends_the_terminal(deck: Deck, painted: Terminal) -> None:
    left = deck.processes().keys() - {painted.launcher.pid}
    supervisor = deck.rows("SELECT supervisor_pid AS pid FROM engine")[0]["pid"]
    for pid in (supervisor, *left):
        kill(pid)
    assert until_ended(deck, painted.launcher) == 128 + signal.SIGKILL
    painted.until_usable()


def test_without_a_terminal_or_on_a_dumb_one_the_status_is_printed(deck: Deck, opened: Open) -> None:
    assert "engine" in deck.ok()
    terminal = opened(TERM="dumb")
    assert until_ended(deck, terminal.launcher) == 0
    terminal.until_received(b"taskdeck --help")
    assert b"\x1b" not in terminal.received
    assert not deck.engine_pid


BROKEN = """\
import sys
from importlib.abc import MetaPathFinder
from importlib.util import spec_from_file_location

class Broken(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "taskdeck.tui.deck.app":
            return spec_from_file_location(name, __file__.replace("sitecustomize", "broken"))

sys.meta_path.insert(0, Broken())
"""
APP = """\
import asyncio
from textual.app import App
from textual.widgets import Static
from taskdeck.tui.deck import living

living.LEAVES_WITHIN = 0.3

class DeckApp(App):
    def __init__(self, config, **more):
        super().__init__(**more)

    def compose(self):
        yield Static("taskdeck: a deck with a fault")

    def on_key(self, event):
        if event.key == "x":
            local_value = "in a variable"
            raise RuntimeError("password=hunter2hunter2")
        self.exit()

    async def on_unmount(self):
        {ending}
"""


def break_the_deck(deck: Deck, ending: str = "pass") -> str:
    """Put a faulty app in the place of the real one; returns the PYTHONPATH that does it."""
    folder = deck.home / "broken"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(BROKEN)
    (folder / "broken.py").write_text(APP.format(ending=ending))
    return str(folder)


def test_a_crash_of_the_deck_leaves_the_engine_and_is_put_on_record(deck: Deck, opened: Open) -> None:
    terminal = opened(PYTHONPATH=break_the_deck(deck))
    terminal.until_text("a deck with a fault")
    terminal.press(b"x")
    assert until_ended(deck, terminal.launcher) == 0
    terminal.until_usable()
    deck.until_ready()
    assert deck.engine_pid
    alert = deck.until(lambda: deck.events(None, "ALERT_RAISED"), "the crash is put on record")[0]
    assert alert["reason"] == "deck_crashed"
    file = Path(alert["message"].partition(": ")[2])
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    told = file.read_text()
    assert "RuntimeError" in told
    assert "on_key" in told
    terminal.until_received(b"the deck crashed")
    for text in (told, alert["message"], terminal.received.decode()):
        assert "hunter2" not in text
        assert "in a variable" not in text.replace('local_value = "in a variable"', "")
    deck.ok("stop")


def test_a_screen_that_does_not_end_is_abandoned_and_the_engine_goes_on(deck: Deck, opened: Open) -> None:
    terminal = opened(PYTHONPATH=break_the_deck(deck, "await asyncio.Event().wait()"))
    terminal.until_text("a deck with a fault")
    deck.until_ready()
    engine = deck.engine_pid
    terminal.press(b"q")
    assert until_ended(deck, terminal.launcher) == 0
    terminal.until_usable()
    assert deck.until_state(deck.add("--", "true"), "SUCCESS")
    assert deck.engine_pid == engine
    deck.ok("stop")


def test_an_engine_that_cannot_start_is_told_below_the_screen(deck: Deck, opened: Open) -> None:
    deck.db.parent.mkdir(parents=True, exist_ok=True)
    deck.db.write_bytes(b"no database" * 1000)
    terminal = opened()
    assert until_ended(deck, terminal.launcher) == 1
    terminal.until_usable()
    terminal.until_received(b"it is no SQLite file")
    deck.db.unlink()


def test_a_deck_that_starts_second_looks_at_the_engine_that_came_first_and_starts_one_when_it_has_gone(
    deck: Deck, opened: Open
) -> None:
    run = deck.start()
    deck.until_ready()
    engine, lock = deck.engine_pid, deck.db.with_name(f"{deck.db.name}.lock")
    words = lock.read_bytes()
    os.truncate(lock, 0)  # as it is between taking it and signing it
    terminal = opened()
    terminal.until_text("RUN 0")
    lock.write_bytes(words)
    deck.until(lambda: any(each.endswith(" --attach") for each in deck.processes().values()), "it attaches")
    terminal.until_text("RUN 0")
    assert deck.engine_pid == engine

    deck.ok("stop")
    assert deck.finish(run) == 0
    terminal.until_text("NO ENGINE")
    terminal.press(b":start\r")
    deck.until_ready()
    assert deck.until_state(deck.add("--", "true"), "SUCCESS")
    terminal.press(b"d")
    assert until_ended(deck, terminal.launcher) == 0
    assert b"exactly one engine" not in terminal.received
    deck.ok("stop")


def deck_age(deck: Deck, name: str) -> float:
    """Seconds since a loop of the engine last went round, as the engine answers it."""
    from taskdeck.engine import commands
    from taskdeck.engine.config import load

    config = load(path=deck.config, db=deck.db, environ={})
    return commands.call(config, "ping", "cli:test")["loops"][name]


def _on_terminal(pid: int) -> bool:
    """Does a process still have a terminal open as 0, 1 or 2?"""
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)]
    return any(link.startswith("/dev/pts") for link in links)


def test_the_demo_runs_under_a_deck_goes_on_when_it_is_left_and_ends_with_ctrl_c(
    deck: Deck, opened: Open, tmp_path: Path
) -> None:
    database = tmp_path / "demo.db"
    terminal = opened(str(TASKDECK), "demo", "--seed", "3", "--db", str(database))
    terminal.until_text("[1 Overview]", "http-fast", "engine up")
    terminal.press(b"q")
    terminal.until_text("the demo goes on; ctrl+c ends it")
    terminal.press(b"\x03")
    assert until_ended(deck, terminal.launcher) == 130
    terminal.until_text("kept: ")
    assert b"tasks added in one transaction" in terminal.received
    assert not DatabaseLock.holder(database)
