"""The runner ends all that it started, keeps what a failure needs, and says what is wrong. No full demo is run here."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taskdeck.engine.config import Config, TaskdeckSettings
from taskdeck.engine.demo.runner import Options, Runner, prepare
from taskdeck.engine.demo.stage import end_engine
from taskdeck.engine.errors import Refused, TaskdeckError
from taskdeck.engine.views import holder
from tests.tui.calls import called
from tests.warm import taskdeck_process


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TASKDECK_")}


class Heard:
    """What a runner told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.counts: Mapping[str, int] = {}

    def runner(self, folder: Path, *program: str, chaos: bool = False) -> Runner:
        options = Options(folder, folder / "taskdeck.db", program, 1, chaos)
        return Runner(options, self.said.append, self._progress)

    def _progress(self, counts: Mapping[str, int]) -> None:
        self.counts = counts


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_an_engine_that_does_nothing_is_found_out(heard: Heard, tmp_path: Path) -> None:
    report = heard.runner(tmp_path / "demo", "true").run()
    problems = report.findings.problems
    assert problems[0].startswith("the engine ended with exit code 0")
    assert any("it should be SUCCESS, it is PENDING" in problem for problem in problems)
    assert any("it arrived 0 times" in problem for problem in problems)
    assert heard.counts["PENDING"] == sum(line.count for line in report.findings.lines)
    assert processes_of(tmp_path) == []


def test_a_database_that_is_there_is_left_alone(heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "taskdeck.db").write_text("mine")
    with pytest.raises(Refused, match="a database of its own"):
        heard.runner(tmp_path, "true").run()
    assert (tmp_path / "taskdeck.db").read_text() == "mine"


def test_of_many_demos_at_once_one_has_the_database_and_the_others_are_refused(tmp_path: Path) -> None:
    options = Options(tmp_path / "new" / "x.db.demo", tmp_path / "new" / "x.db", ["true"])
    together = threading.Barrier(8)

    def claim(_: int) -> bool:
        together.wait()
        try:
            prepare(options)
        except Refused:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(claim, range(8))) == [False] * 7 + [True]


def test_a_folder_made_for_the_run_needs_no_claim(tmp_path: Path) -> None:
    prepare(Options(tmp_path, tmp_path / "taskdeck.db", ["true"], folder_made=True))


LOCK = """
import sys
from taskdeck.engine.edge.locks import DatabaseLock
lock = DatabaseLock(sys.argv[1])
print(lock.acquire(), flush=True)
sys.stdin.read()
"""


def test_only_an_engine_of_its_own_supervisor_is_killed(tmp_path: Path) -> None:
    config = Config(TaskdeckSettings(db=tmp_path / "x.db"))
    with subprocess.Popen(
        ["sh", "-c", f"{shlex.join([sys.executable, '-c', LOCK, str(config.db)])}; true"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as supervisor:
        assert supervisor.stdin
        assert supervisor.stdout
        assert supervisor.stdout.readline() == b"True\n"
        end_engine(config, os.getsid(0))
        assert supervisor.poll() is None
        assert holder(config).running
        end_engine(config, supervisor.pid)
        assert supervisor.wait(10) == 0
        assert not holder(config).running


def test_a_folder_that_cant_be_made_is_told(heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TaskdeckError, match="can't be made"):
        heard.runner(tmp_path / "file" / "demo", "true").run()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_no_process_and_keeps_its_folder(
    demo: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals
) -> None:
    assert demo.stdout
    assert demo.stderr
    until(demo.stdout, b"tasks added")
    demo.send_signal(number)
    rest = demo.stdout.read().decode()
    assert demo.wait(40) == 130
    assert "kept: " in rest
    assert b"Traceback" not in demo.stderr.read()
    assert processes_of(tmp_path) == []
    assert (tmp_path / "demo.db.demo" / "run.json").exists()


def test_words_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for words, what in (
        (["--check"], "name its database"),
        (["--config", str(tmp_path / "x.toml")], "writes its own configuration"),
        (["--seed", "-1"], "--seed"),
        (["--haedless"], "--headless"),
    ):
        code, _, told = called(["demo", *words], tmp_path, environment())
        assert code == 2
        assert what in told.decode()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A demo that has begun."""
    words = ["demo", "--headless", "--db", tmp_path / "demo.db"]
    pipe = subprocess.PIPE
    process = taskdeck_process(words, tmp_path, environment(), stdout=pipe, stderr=pipe)
    assert process.stdout
    assert process.stderr
    with process, process.stdout, process.stderr:
        yield process
        process.kill()


def until(stream: object, words: bytes) -> None:
    for line in stream:  # type: ignore[attr-defined]
        if words in line:
            return
    raise AssertionError(f"it ended and never said {words!r}")


def processes_of(folder: Path) -> list[str]:
    """The command lines of all processes that were started for something in this folder."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(name) != os.getpid():
            found.append(words)
    return found
