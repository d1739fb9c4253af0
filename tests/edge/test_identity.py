from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.edge import identity
from taskdeck.engine.edge.identity import Identity

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[subprocess.Popen[bytes]] = []

    def begin(*argv: str) -> subprocess.Popen[bytes]:
        children.append(subprocess.Popen(argv, stdout=subprocess.PIPE))
        return children[-1]

    yield begin
    for child in children:
        child.kill()
        child.communicate()


def of(child: subprocess.Popen[bytes]) -> Identity:
    found = identity.of(child.pid)
    assert found
    return found


def wait_for_zombie(child: subprocess.Popen[bytes]) -> None:
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def test_this_process_is_alive_and_knows_itself() -> None:
    me = identity.me()
    assert me == identity.of(os.getpid())
    assert identity.alive(me)
    assert (identity.rss_bytes(os.getpid()) or 0) > 1_000_000
    assert (identity.cpu_seconds(os.getpid()) or 0) > 0
    assert identity.state(os.getpid()) == "R"


def test_a_process_that_never_was_has_nothing() -> None:
    none = 2**22 + 7  # above the kernel's greatest pid
    assert identity.of(none) is None
    assert identity.state(none) is None
    assert identity.cpu_seconds(none) is None
    assert identity.rss_bytes(none) is None
    assert not identity.alive(Identity(none, 1, identity.boot_id()))


def test_a_zombie_is_dead(start: Start) -> None:
    child = start("true")
    seen = of(child)
    wait_for_zombie(child)
    assert identity.state(child.pid) == "Z"
    assert not identity.alive(seen)
    assert not identity.kill(seen, signal.SIGTERM)
    assert identity.wait_gone([seen], 0) == []


def test_another_boot_or_another_start_time_is_another_process(start: Start) -> None:
    seen = of(start("sleep", "60"))
    assert identity.alive(seen)
    for other in (
        msgspec.structs.replace(seen, boot_id="00000000-0000-0000-0000-000000000000"),
        msgspec.structs.replace(seen, start_time=seen.start_time - 1),
    ):
        assert not identity.alive(other)
        assert identity.open_pidfd(other) is None
        assert not identity.kill(other, signal.SIGKILL)
        assert identity.wait_gone([other], 0) == []
    assert identity.alive(seen)


@pytest.mark.parametrize("pid", [0, -1])
def test_a_pid_that_means_a_group_is_never_signalled(pid: int) -> None:
    assert not identity.kill(Identity(pid, 1, identity.boot_id()), signal.SIGKILL)


def test_names_with_spaces_and_parentheses_do_not_confuse(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    child = start(str(program), "60")
    seen = of(child)
    assert b"a) R 1 (b" in Path(f"/proc/{child.pid}/stat").read_bytes()
    assert identity.state(child.pid) in ("S", "R", "D")
    plain = of(start("sleep", "60"))
    assert 0 <= plain.start_time - seen.start_time < 60 * os.sysconf("SC_CLK_TCK")


def test_a_stopped_process_shows_it_and_stays_alive(start: Start) -> None:
    child = start("sleep", "60")
    seen = of(child)
    assert identity.kill(seen, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert identity.state(child.pid) == "T"
    assert identity.alive(seen)


def test_a_main_thread_that_ended_does_not_mean_death(start: Start) -> None:
    code = (
        "import threading, ctypes, sys\n"
        "def rest():\n"
        "    print('up', flush=True); sys.stdin.read()\n"
        "    ctypes.CDLL(None).sleep(60)\n"
        "threading.Thread(target=rest).start()\n"
        "ctypes.CDLL(None).syscall(60 if sys.maxsize > 2**32 else 1, 0)\n"  # exit(2): this thread only
    )
    if os.uname().machine != "x86_64":
        pytest.skip("system call numbers of x86_64")
    child = start(sys.executable, "-c", code)
    assert child.stdout
    child.stdout.readline()
    seen = of(child)
    clock = SystemClock()
    end = clock.monotonic() + 5
    while identity.state(child.pid) != "Z" and clock.monotonic() < end:
        os.sched_yield()
    assert identity.state(child.pid) == "Z"
    assert identity.alive(seen)
    assert identity.kill(seen, signal.SIGKILL)
    assert identity.wait_gone([seen], 5) == []
    assert not identity.alive(seen)


def test_waiting_returns_who_is_left(start: Start) -> None:
    dying, staying = start("sleep", "60"), start("sleep", "60")
    both = [of(dying), of(staying)]
    assert identity.kill(both[0], signal.SIGKILL)
    assert identity.wait_gone(both[:1], 5) == []
    assert identity.wait_gone(both, 0.01) == both[1:]


def test_cpu_time_grows_with_work(start: Start) -> None:
    child = start(sys.executable, "-c", "while True: pass")
    clock = SystemClock()
    end = clock.monotonic() + 5
    while (identity.cpu_seconds(child.pid) or 0) < 0.03:
        assert clock.monotonic() < end
        os.sched_yield()
