"""Workers that are started ahead of their engine: told whose they are, or gone with whoever was to tell them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from taskdeck.engine.config import Config, EngineSettings, TaskdeckSettings
from taskdeck.engine.edge import identity, trees
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.edge.paths import database_hash
from taskdeck.engine.run import births
from taskdeck.engine.run.births import Ahead, give_birth
from tests.eventually import eventually

ECHO = (
    "import sys\n"
    "from pathlib import Path\n"
    "from taskdeck.engine.run import summons\n"
    "told = summons.told()\n"
    "journal = Path(told[told.index('--journal') + 1])\n"
    "summons.print_beside(journal)\n"
    "print(told, sys.stdin.read() == '', flush=True)\n"
)
"""A worker's beginning, and nothing after it."""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(births, "PROGRAM", (sys.executable, "-c", ECHO))
    (tmp_path / "logs" / "workers").mkdir(parents=True)
    return Config(
        taskdeck=TaskdeckSettings(db=tmp_path / "t.db", logs=tmp_path / "logs", handlers=("tasks.py",)),
        engine=EngineSettings(workers=2, cgroups="off"),
    )


def journal_in(config: Config) -> Path:
    return config.log_directory / "workers" / "w.starts"


def test_one_that_waits_becomes_the_worker_that_it_is_told_to_be(config: Config, tmp_path: Path) -> None:
    ahead = Ahead(config, cores=8)
    ahead.begin()
    one = ahead.take()
    assert one is not None
    eventually(
        lambda: trees.worker_mark(config.db, one.incarnation) in trees.marks(f"{database_hash(config.db)}:")
    )
    journal = journal_in(config)
    born = give_birth(config, tmp_path / "socket", one.incarnation, journal, one.process)
    assert born is one.process
    assert born.wait(30) == 0
    told, nothing_more = (journal.parent / "output.log").read_text().rsplit(" ", 1)
    assert nothing_more == "True\n"
    for name, value in (("--incarnation", one.incarnation), ("--handler", "tasks.py")):
        assert f"'{name}', '{value}'" in told
    ahead.end()


def test_those_that_nobody_needs_end(config: Config) -> None:
    ahead = Ahead(config, cores=8)
    ahead.begin()
    waiting = [one.process for one in ahead._waiting]
    assert len(waiting) == 2
    ahead.end()
    assert all(each.returncode is not None for each in waiting)
    assert ahead.take() is None


def test_one_core_is_left_to_the_engine_until_it_is_loaded(config: Config) -> None:
    ahead = Ahead(config, cores=2)
    ahead.begin()
    assert len(ahead._waiting) == 1
    ahead.go_on()
    assert len(ahead._waiting) == 2
    ahead.go_on()
    assert len(ahead._waiting) == 2
    ahead.end()


def test_one_that_waits_ends_with_its_engine(config: Config) -> None:
    ahead = Ahead(config, cores=8)
    ahead.begin()
    one = ahead.take()
    assert one is not None
    assert one.process.stdin is not None
    one.process.stdin.close()  # as a killed engine's end of the pipe
    assert one.process.wait(30) == 0
    ahead.end()


def test_one_that_has_died_meanwhile_is_replaced(config: Config, tmp_path: Path) -> None:
    ahead = Ahead(config, cores=8)
    ahead.begin()
    one = ahead.take()
    assert one is not None
    one.process.kill()
    os.waitid(os.P_PID, one.process.pid, os.WEXITED | os.WNOWAIT)
    born = give_birth(config, tmp_path / "socket", one.incarnation, journal_in(config), one.process)
    assert born is not one.process
    assert identity.of(born.pid) is not None
    born.wait(30)
    ahead.end()


def test_none_are_started_beside_workers_that_live_or_an_engine_that_works(config: Config) -> None:
    mark = trees.worker_mark(config.db, "survivor")
    living = subprocess.Popen(["sleep", "60"], env={**os.environ, trees.VARIABLE: mark})
    try:
        eventually(
            lambda: mark in trees.marks(f"{database_hash(config.db)}:")
        )  # within an exec nobody has an environment
        ahead = Ahead(config, cores=8)
        ahead.begin()
        assert len(ahead._waiting) == 1
        ahead.end()
    finally:
        living.kill()
        living.wait()
    lock = DatabaseLock(config.db, role="engine", incarnation="other", socket="s")
    assert lock.acquire()
    try:
        ahead.begin()
        assert ahead.take() is None
    finally:
        lock.release()


def test_what_is_told_is_the_arguments_of_a_worker() -> None:
    line = msgspec.json.encode(["--socket", "s"]) + b"\n"
    script = "from taskdeck.engine.run import summons; print(summons.told())"
    done = subprocess.run([sys.executable, "-c", script], input=line, capture_output=True, check=True)
    assert done.stdout == b"['--socket', 's']\n"
