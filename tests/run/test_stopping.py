"""A stop while a real supervisor rests, or its engine only starts; the engines are stand-ins that take the lock or die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from taskdeck.engine import commands
from taskdeck.engine.clock import ManualClock, system_clock
from taskdeck.engine.config import Config
from taskdeck.engine.edge import identity
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.edge.paths import gave_up_file
from taskdeck.engine.errors import AlreadyRunning, Unavailable
from taskdeck.engine.rules.settings import EngineSettings, TaskdeckSettings
from taskdeck.engine.run import launcher, launches, stopping, supervisors
from taskdeck.engine.run.launches import Launches
from taskdeck.engine.run.outlived import Outlived
from tests.journeys.decks import process_state

DIES = "import os; print('died', flush=True); os._exit(9)"
STARTS_SLOWLY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (os.write(int(os.environ["TASKDECK_SUPERVISOR_FD"]), b"exit 6\\n"), os._exit(0)))
print("starts", flush=True)
sys.stdin.readline()
from taskdeck.engine.edge.locks import DatabaseLock
assert DatabaseLock(sys.argv[1]).acquire()
signal.pause()
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(
        taskdeck=TaskdeckSettings(db=tmp_path / "t.db", logs=tmp_path), engine=EngineSettings(stop_grace=5.0)
    )


@contextmanager
def supervised(database: Path, engine: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", engine, str(database)]
    process = subprocess.Popen(
        launcher.supervised(command, gave_up_file(database)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None and (supervisor := identity.of(process.pid)):
                engines = [identity.of(pid) for pid in supervisors.children(supervisor)]
                process.kill()
                for engine_process in engines:
                    assert engine_process
                    identity.kill(engine_process, signal.SIGKILL)


def hold_at_rest(supervisor: subprocess.Popen[str]) -> None:
    """Stop it while it rests between two engines: however busy the machine is, no other one comes meanwhile."""
    while supervisor.poll() is None:
        if rests(supervisor, "S"):
            supervisor.send_signal(signal.SIGSTOP)
            while process_state(supervisor.pid) == "S":
                time.sleep(0.001)
            if rests(supervisor, "T"):
                return
            supervisor.send_signal(signal.SIGCONT)
        time.sleep(0.001)
    raise AssertionError(f"it has ended: {supervisor.returncode}")


def rests(supervisor: subprocess.Popen[str], state: str) -> bool:
    children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children")
    return not children.read_text() and process_state(supervisor.pid) == state


def never() -> Outlived:
    raise AssertionError("this is not its turn")


def test_a_supervisor_that_rests_is_ended_before_what_outlived_its_engine(config: Config) -> None:
    with supervised(config.db, DIES) as process:
        assert process.stdout
        for _ in range(4):  # now it rests 0.8 s
            assert process.stdout.readline() == "died\n"
        hold_at_rest(process)
        seen: list[bool] = []

        def end_outlived() -> Outlived:
            seen.append(bool(supervisors.living(config.db)))
            return Outlived([77])

        stopped = stopping.stop(config, never, end_outlived, system_clock())
        assert stopped == stopping.Stopped(False, [process.pid], Outlived([77]))
        assert seen == [False]
        assert process.wait(5) == 0
        assert process.stdout.read() == ""


def test_an_engine_that_only_starts_is_waited_for_and_stopped_in_order(config: Config) -> None:
    with supervised(config.db, STARTS_SLOWLY) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "starts\n"

        def ask() -> None:
            holder = DatabaseLock.holder(config.db)
            assert holder
            identity.kill(holder.identity, signal.SIGTERM)

        process.stdin.write("go on\n")
        process.stdin.flush()
        assert stopping.stop(config, ask, Outlived, system_clock()) == stopping.Stopped(True, [])
        assert process.wait(5) == 6
        assert not supervisors.living(config.db)


def test_only_a_supervisor_of_this_database_counts(config: Config, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(config.db)
    with supervised(config.db, STARTS_SLOWLY) as process:
        assert process.stdout
        assert process.stdout.readline() == "starts\n"
        assert [one.pid for one in supervisors.living(tmp_path / "link.db")] == [process.pid]
        assert not supervisors.living(tmp_path / "other.db")
    assert not supervisors.living(config.db)


def test_nothing_is_restored_under_a_supervisor_that_is_about_to_start_an_engine(config: Config) -> None:
    with supervised(config.db, STARTS_SLOWLY) as process:
        assert process.stdout
        assert process.stdout.readline() == "starts\n"
        with pytest.raises(AlreadyRunning, match=f"pid {process.pid}"):
            commands.restore(config, "cli:ann", config.db.with_name("copy.db"))


def test_an_engine_that_does_not_go_is_told_of_by_its_pid(config: Config) -> None:
    asked: list[bool] = []
    lock = DatabaseLock(config.db)
    assert lock.acquire()
    with lock, pytest.raises(Unavailable, match=f"pid {os.getpid()}. is still there"):
        stopping.stop(config, lambda: asked.append(True), never, ManualClock())
    assert asked == [True]


HOLDS = """
import signal, sys
from taskdeck.engine.edge.locks import DatabaseLock
assert DatabaseLock(sys.argv[1]).acquire()
print("holds", flush=True)
signal.pause()
"""


@contextmanager
def said(word: str, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process of this command once it has said a word, ended at last whatever it does."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == f"{word}\n"
            yield process
        finally:
            process.kill()


def engine_alone(database: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    """One that holds the database, with nobody above it."""
    return said("holds", [sys.executable, "-c", HOLDS, str(database)])


def test_an_engine_that_dies_over_the_question_is_not_asked_what_became_of_it(config: Config) -> None:
    with engine_alone(config.db) as process:

        def ask() -> None:
            process.kill()
            process.wait()
            raise Unavailable("the engine went away before it answered")

        ended = Outlived([77])
        assert stopping.stop(config, ask, lambda: ended, system_clock()) == stopping.Stopped(False, [], ended)


def test_an_engine_that_lives_and_does_not_answer_is_told_of(config: Config) -> None:
    def ask() -> None:
        raise Unavailable("it is stopped, or hangs")

    with engine_alone(config.db), pytest.raises(Unavailable, match="hangs"):
        stopping.stop(config, ask, never, system_clock())


def launch(*words: str) -> list[str]:
    """The command line of a `taskdeck` that stands where the interpreter still loads, until it is told to go on."""
    waits = "import os, sys; print('begun', flush=True); sys.stdin.readline()"
    waits += "; os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
    return [sys.executable, "-c", f"{waits} # taskdeck.tui.cli", *words]


def begun(*words: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Such a process, once it has said a line: for an instant within `exec` a process has no command line at all."""
    return said("begun", launch(*words))


def test_a_run_that_has_only_begun_is_waited_for_and_stopped(config: Config) -> None:
    """A `run` of which nothing can be seen but its command line: then a supervisor, and at last an engine."""
    engine = [sys.executable, "-c", STARTS_SLOWLY, str(config.db)]
    supervisor = launcher.supervised(engine, gave_up_file(config.db))[1:]
    with begun("run", *supervisor) as process:
        assert process.stdin
        assert process.stdout
        under_way = Launches().under_way
        assert process.pid in [one.pid for one in under_way()]
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "starts\n"
        process.stdin.write("and on\n")
        process.stdin.flush()
        assert process.pid not in [one.pid for one in under_way()]

        def ask() -> None:
            holder = DatabaseLock.holder(config.db)
            assert holder
            identity.kill(holder.identity, signal.SIGTERM)

        assert stopping.stop(config, ask, never, system_clock()).engine
        assert process.wait(10) == 6


def test_a_launch_is_waited_for_until_it_ends_and_not_for_ever(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "YOUNG", float("inf"))
    monkeypatch.setattr(stopping, "_PAUSE", 5.0)
    clock = ManualClock()
    with begun("--db", "x", "run") as process:
        assert process.pid in [one.pid for one in Launches().under_way()]
        with pytest.raises(Unavailable, match="has not come up yet"):
            stopping.stop(config, never, Outlived, clock)
        under_way = Launches().under_way
        assert process.pid in [one.pid for one in under_way()]
        process.kill()
        process.wait()
        assert process.pid not in [one.pid for one in under_way()]


@pytest.mark.parametrize("words", [("list",), ("--db", "run", "status"), ("wait", "7"), ("stop",)])
def test_only_what_starts_an_engine_counts_as_a_launch(words: tuple[str, ...]) -> None:
    with begun(*words) as process:
        assert process.pid not in [one.pid for one in Launches().under_way()]
