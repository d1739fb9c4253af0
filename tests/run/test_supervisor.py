"""A real supervisor over small stand-ins for an engine: they beat, announce, die and hang as an engine can."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taskdeck.engine.edge import identity
from taskdeck.engine.run import supervisors
from taskdeck.engine.run.announce import Announcer
from tests.eventually import eventually
from tests.faults import fault

ENGINE = """
import os, pathlib, signal, sys, time
fd = int(os.environ["TASKDECK_SUPERVISOR_FD"])
lives = pathlib.Path("lives")
with lives.open("a") as file:
    file.write(f"{os.getpid()}\\n")
life = len(lives.read_text().split())
def say(text): os.write(fd, text.encode() + b"\\n")
"""
QUICK = (
    "from taskdeck.engine.run import supervisor as s; import sys;"
    "s.FIRST_PAUSE = 0.01; s.HUNG_AFTER = {hung_after}; sys.exit(s.main(sys.argv[1:]))"
)


def supervise(folder: Path, engine: str, hung_after: float = 60.0) -> subprocess.Popen[str]:
    script = folder / "engine.py"
    script.write_text(ENGINE + engine)
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            QUICK.format(hung_after=hung_after),
            "--notice",
            "gave-up",
            "--",
            sys.executable,
            str(script),
        ],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=20)
    return process.returncode, errors


def lives(folder: Path, count: int) -> list[int]:
    """Wait until the engine has been started so often; the pids of its lives."""
    deadline = time.monotonic() + 20
    while True:
        found = (folder / "lives").read_text().split() if (folder / "lives").exists() else []
        if len(found) >= count:
            return [int(pid) for pid in found]
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("code", [0, 1, 6, 78])
def test_an_announced_exit_is_final(tmp_path: Path, code: int) -> None:
    assert end(supervise(tmp_path, f"say('exit {code}'); os._exit(3)"))[0] == code
    assert len(lives(tmp_path, 1)) == 1


@fault("TF262")
def test_an_engine_that_recovers_after_some_tries_is_tried_with_pauses(tmp_path: Path) -> None:
    code, errors = end(
        supervise(tmp_path, "say('exit 0') if life == 4 else os.kill(os.getpid(), signal.SIGKILL)")
    )
    assert code == 0
    assert len(lives(tmp_path, 4)) == 4
    pauses = [float(line.rsplit(" ", 2)[1]) for line in errors.splitlines() if "SIGKILL" in line]
    assert pauses == sorted(pauses)
    assert len(set(pauses)) == 3


@fault("TF262")
def test_an_engine_that_dies_at_once_is_given_up(tmp_path: Path) -> None:
    code, errors = end(supervise(tmp_path, "os._exit(9)"))
    assert (code, len(lives(tmp_path, 5))) == (1, 5)
    assert "giving up" in errors
    told = (tmp_path / "gave-up").read_text()
    assert "died 5 times" in told
    assert "exit code 9" in told


def test_an_engine_that_hands_over_is_followed_at_once_under_a_supervisor_of_the_same_pid(
    tmp_path: Path,
) -> None:
    """Seven times in a row, so that none of them can count as a death; what is on the disk by then is loaded."""
    process = supervise(tmp_path, "say('again') if life < 8 else say('exit 6')")
    code, errors = end(process)
    assert (code, errors) == (6, "")
    assert len(lives(tmp_path, 8)) == 8


def test_a_supervisor_that_hands_over_too_loads_the_code_that_is_on_the_disk_then(tmp_path: Path) -> None:
    (tmp_path / "wrapper.py").write_text("VERSION = 1\n")
    code = (
        "import os, pathlib, sys; sys.path.insert(0, '.'); import wrapper; print(wrapper.VERSION, os.getpid(), flush=True);"
        "from taskdeck.engine.run import supervisor as s; sys.exit(s.main(sys.argv[1:]))"
    )
    (tmp_path / "engine.py").write_text(
        ENGINE
        + "pathlib.Path('wrapper.py').write_text('VERSION = 2222\\n'); say('again' if life == 1 else 'exit 0')"
    )
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", code, "--", sys.executable, "engine.py"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    told, _ = process.communicate(timeout=20)
    assert told == f"1 {process.pid}\n2222 {process.pid}\n"


def test_a_hung_engine_is_ended_and_started_again(tmp_path: Path) -> None:
    code, errors = end(
        supervise(tmp_path, "say('beat')\nif life > 1: say('exit 0')\nelse: time.sleep(60)", 0.6)
    )
    assert code == 0
    assert "gave no sign" in errors


def test_a_stopped_engine_is_being_looked_at_and_not_hung(tmp_path: Path) -> None:
    process = supervise(tmp_path, "say('beat'); os.kill(os.getpid(), signal.SIGSTOP); say('exit 0')", 0.6)
    (pid,) = lives(tmp_path, 1)
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(pid, signal.SIGCONT)
    assert end(process)[0] == 0
    assert lives(tmp_path, 1) == [pid]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on(tmp_path: Path, number: signal.Signals) -> None:
    engine = f"""
signal.signal({number}, lambda *_: (say('exit 7'), os._exit(7)))
pathlib.Path('ready').touch()
while True:
    say('beat'); time.sleep(0.1)
"""
    process = supervise(tmp_path, engine)
    deadline = time.monotonic() + 20
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    assert end(process)[0] == 7


def test_an_engine_killed_while_it_was_asked_to_stop_did_not_end_well(tmp_path: Path) -> None:
    process = supervise(
        tmp_path,
        "signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))\n"
        "pathlib.Path('ready').touch()\nwhile True: say('beat'); time.sleep(0.1)",
    )
    deadline = time.monotonic() + 20
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert end(process)[0] == 1
    assert len(lives(tmp_path, 1)) == 1


def test_a_signal_that_finds_no_engine_reaches_the_one_that_is_being_started(tmp_path: Path) -> None:
    script = tmp_path / "engine.py"
    script.write_text(ENGINE + "while True: say('beat'); time.sleep(0.1)")
    asked_at_the_start = (
        "from taskdeck.engine.run import supervisor as s; import os, signal, subprocess, sys\n"
        "class Popen(subprocess.Popen):\n"
        "    def __init__(self, *words, **more):\n"
        "        os.kill(os.getpid(), signal.SIGTERM); super().__init__(*words, **more)\n"
        "subprocess.Popen = Popen\n"
        "sys.exit(s.main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", asked_at_the_start, "--", sys.executable, str(script)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert end(process) == (0, "")
    finally:
        process.kill()


def test_whom_a_dead_engine_left_comes_to_the_supervisor_and_is_reaped(tmp_path: Path) -> None:
    leaves = (
        "import subprocess\n"
        "if life == 1:\n"
        "    child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "    pathlib.Path('left').write_text(f'{child.pid} ')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "say('beat')\n"
        "signal.pause()\n"
    )
    process = supervise(tmp_path, leaves)
    engine = lives(tmp_path, 2)[1]
    left = int((tmp_path / "left").read_text())
    who, supervisor = identity.read(left), identity.of(process.pid)
    assert who
    assert supervisor
    assert (who.parent, who.dead) == (process.pid, False)
    assert supervisors.children(supervisor) == [engine], "it is no engine"
    os.kill(left, signal.SIGKILL)
    eventually(lambda: identity.read(left) is None, "no zombie of it stays")
    process.terminate()
    assert end(process)[0] == 0


def test_an_engine_never_takes_who_adopts_it_for_its_supervisor() -> None:
    mine, theirs = os.pipe()
    engine = (
        "import os; from taskdeck.engine.run.announce import Announcer\n"
        f"us = Announcer({theirs}); parent = os.getppid(); print(us.supervisor == parent, flush=True)\n"
        "while os.getppid() == parent: os.sched_yield()\n"
        "print(us.supervisor, flush=True)"
    )
    supervisor = (
        "import os, subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=1, pass_fds=[{theirs}])\n"
        "sys.stdin.read(1); os._exit(0)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", supervisor, engine], stdin=-1, stdout=-1, pass_fds=[theirs]
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == b"True\n"
        process.stdin.close()
        assert process.stdout.read() == b"None\n"
    os.close(mine)
    os.close(theirs)
    assert Announcer(None).supervisor is None


BECOMES = (
    "import os, signal, sys; from pathlib import Path; from taskdeck.engine.run import launcher\n"
    "become = os.execv\n"
    "def late(*words):\n"
    "    {first}\n"
    "    become(*words)\n"
    "os.execv = late\n"
    "sys.stdout = None\n"  # as where it is closed
    "launcher.replace_by_supervisor(sys.argv[1:], Path('gave-up'))"
)
"""A launcher that does something more between the start of the engine and the moment in which it is a supervisor."""


def become_supervisor(folder: Path, engine: str, first: str = "pass") -> subprocess.Popen[str]:
    script = folder / "engine.py"
    script.write_text(ENGINE + engine)
    command = [sys.executable, "-c", BECOMES.format(first=first), sys.executable, str(script)]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def test_the_engine_that_a_launcher_starts_ahead_is_supervised_as_any_other(tmp_path: Path) -> None:
    engine = (
        "with open('parents', 'a') as file: file.write(f'{os.getppid()}\\n')\n"
        "say('exit 7') if life == 2 else os.kill(os.getpid(), signal.SIGKILL)"
    )
    process = become_supervisor(tmp_path, engine)
    code, errors = end(process)
    assert code == 7
    assert "was killed by SIGKILL" in errors
    assert (tmp_path / "parents").read_text().split() == [str(process.pid)] * 2


def test_what_it_announced_before_there_was_a_supervisor_is_heard(tmp_path: Path) -> None:
    waits = "until = Path('said')\n    while not until.exists(): pass"
    code, errors = end(become_supervisor(tmp_path, "say('exit 6'); pathlib.Path('said').touch()", waits))
    assert (code, errors) == (6, "")
    assert len(lives(tmp_path, 1)) == 1


def test_a_signal_that_comes_before_there_is_a_supervisor_reaches_the_engine(tmp_path: Path) -> None:
    engine = (
        "signal.signal(signal.SIGTERM, lambda *_: (say('exit 5'), os._exit(5)))\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])\n"
        "pathlib.Path('up').touch(); time.sleep(20)"
    )
    waits = "while not Path('up').exists(): pass\n    os.kill(os.getpid(), signal.SIGTERM)"
    assert end(become_supervisor(tmp_path, engine, waits)) == (5, "")


def test_no_engine_stays_where_a_launcher_can_become_no_supervisor(tmp_path: Path) -> None:
    code, errors = end(become_supervisor(tmp_path, "time.sleep(20)", "raise OSError('no')"))
    assert code == 1
    assert "OSError: no" in errors
