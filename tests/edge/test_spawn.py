from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskdeck.engine.edge import identity, posix_spawn
from taskdeck.engine.edge.spawn import CannotStart, Child, StatusLost, command_environment, start
from tests.faults import fault

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}

Start = Callable[..., Child]


@pytest.fixture(params=["quick", "exact"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Both ways in which a child is started."""
    if request.param == "exact":
        monkeypatch.setattr(posix_spawn, "AVAILABLE", False)
    children: list[Child] = []

    def begin(*argv: str, **options: object) -> Child:
        children.append(start(argv, **{"env": ENV, **options}))  # type: ignore[arg-type]
        return children[-1]

    yield begin
    for child in children:
        if child.pidfd >= 0:
            identity.kill(child.identity, signal.SIGKILL)
            child.wait(5)
            child.close()


def read(child: Child) -> bytes:
    assert child.stdout is not None
    output = b""
    while identity.wait_readable(child.stdout, 10):
        piece = os.read(child.stdout, 65536)
        if not piece:
            return output
        output += piece
    raise AssertionError("no end of output")


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_output_and_errors_come_in_one_stream_with_the_exit_code(run: Start) -> None:
    child = run("sh", "-c", "echo one; echo two >&2; echo three; exit 7")
    assert read(child) == b"one\ntwo\nthree\n"
    assert child.wait(5) == 7
    assert child.reap() == 7


def test_a_signal_is_a_negative_code(run: Start) -> None:
    assert run("sh", "-c", "kill -SEGV $$").wait(5) == -signal.SIGSEGV


def test_reaping_never_waits_and_the_pidfd_tells_the_end(run: Start) -> None:
    child = run("cat", "/dev/stdin", "-")
    assert child.wait(5) == 0  # its input is /dev/null
    child = run("sleep", "60")
    assert child.reap() is None
    assert not identity.wait_readable(child.pidfd, 0)
    assert child.wait(0.01) is None
    identity.kill(child.identity, signal.SIGTERM)
    assert identity.wait_readable(child.pidfd, 5)
    assert child.reap() == -signal.SIGTERM


def test_reading_an_empty_pipe_does_not_block(run: Start) -> None:
    child = run("sleep", "60")
    assert child.stdout is not None
    with pytest.raises(BlockingIOError):
        os.read(child.stdout, 1)


def test_a_child_leads_a_session_of_its_own_without_a_terminal(run: Start) -> None:
    child = run("sh", "-c", "ps -o sid= -p $$ 2>/dev/null || cut -d' ' -f6 /proc/$$/stat; : </dev/tty")
    output = read(child)
    assert output.split()[0] == b"%d" % child.pid
    assert b"/dev/tty" in output
    assert child.wait(5) != 0


def test_signals_that_python_ignores_are_restored(run: Start) -> None:
    assert signal.SIGPIPE in _ignored(Path("/proc/self/status").read_text())
    assert not {signal.SIGPIPE, signal.SIGXFSZ} & _ignored(read(run("cat", "/proc/self/status")).decode())


def _ignored(status: str) -> set[int]:
    """Which signals a process ignores; a terminal that was left behind (nohup) may have its own among them."""
    (line,) = (line for line in status.splitlines() if line.startswith("SigIgn:"))
    return {number for number in range(1, 65) if int(line.split()[1], 16) >> (number - 1) & 1}


def test_no_descriptor_of_ours_leaks_but_the_passed_one_arrives(run: Start) -> None:
    ours, theirs = socket.socketpair()
    kept = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(kept, True)
    with ours, theirs:
        fd = theirs.fileno()
        code = f"import os; print(*sorted(os.listdir('/proc/self/fd'))); os.write({fd}, b'hello')"
        child = run(sys.executable, "-ISc", code, pass_fds=[fd])
        listing = 3 if fd != 3 else 4  # the one the listing itself has open
        assert read(child).decode().split() == sorted(["0", "1", "2", str(listing), str(fd)])
        assert ours.recv(100) == b"hello"
    os.close(kept)


def test_output_can_go_straight_to_a_file(run: Start, tmp_path: Path) -> None:
    with open(tmp_path / "log", "wb") as log:
        child = run("sh", "-c", "echo out; echo err >&2", log_fd=log.fileno())
        assert child.stdout is None
        assert child.wait(5) == 0
    assert (tmp_path / "log").read_bytes() == b"out\nerr\n"


def test_the_environment_is_the_given_one_only(run: Start) -> None:
    child = run("env", env={"PATH": ENV["PATH"], "MINE": "déjà vu"})
    assert set(read(child).splitlines()) == {"MINE=déjà vu".encode(), f"PATH={ENV['PATH']}".encode()}


def test_an_empty_environment_is_empty(run: Start) -> None:
    child = run("/usr/bin/env", env={})
    assert (read(child), child.wait(5)) == (b"", 0)


def test_words_and_values_arrive_as_they_are(run: Start) -> None:
    words = ["", "a b", "new\nline", "ü", os.fsdecode(b"\xff"), "="]
    child = run(
        "/bin/sh", "-c", 'printf "%s|" "$@" "$V"', "sh", *words, env={"V": "x=ü\n", "lower.case-1": ""}
    )
    assert read(child) == b"".join(os.fsencode(word) + b"|" for word in [*words, "x=ü\n"])


def test_allowed_names_pass_and_extra_ones_win() -> None:
    base = {"PATH": "/bin", "SECRET": "x", "HOME": "/root"}
    env = command_environment(base, ["PATH", "HOME", "LANG"], {"HOME": "/tmp", "TASKDECK_MARK": "m"})
    assert env == {"PATH": "/bin", "HOME": "/tmp", "TASKDECK_MARK": "m"}


def test_the_program_is_found_from_its_own_directory_and_path(run: Start, tmp_path: Path) -> None:
    script = tmp_path / "here"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    assert read(run("./here", cwd=tmp_path)) == os.fsencode(os.path.realpath(tmp_path)) + b"\n"
    assert read(run("here", cwd="/", env={"PATH": str(tmp_path)})) == b"/\n"


@pytest.mark.skipif(not posix_spawn.AVAILABLE, reason="this C library can't")
def test_a_plain_command_is_started_without_a_fork_of_ours(
    run: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process of Python's own was made")

    monkeypatch.setattr(posix_spawn, "AVAILABLE", True)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    child = run("sh", "-c", "pwd", cwd="/", pass_fds=[])
    assert read(child) == b"/\n"
    assert child.wait(5) == 0


def test_a_program_of_a_relative_path_is_that_of_the_new_directory(run: Start, tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text(f"#!/bin/sh\necho {folder}\n")
        (tmp_path / folder / "tool").chmod(0o755)
    env = {**ENV, "PATH": f".:{tmp_path}/second"}
    assert read(run("tool", env=env, cwd=tmp_path / "first")) == b"first\n"
    assert read(run("./tool", env=ENV, cwd=tmp_path / "first")) == b"first\n"


def test_what_a_path_names_first_but_cannot_run_is_passed_over(run: Start, tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()  # a directory may be entered, which is the same bit as may be run
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "bin" / "tool").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{tmp_path}/bin:/usr/bin:/bin"}
    assert read(run("tool", env=env)) == b"found\n"


def test_a_lost_exit_status_is_never_taken_for_success(run: Start) -> None:
    child = run("true")
    os.waitpid(child.pid, 0)
    with pytest.raises(StatusLost):
        child.reap()
    assert child.reap() != 0


def test_a_hundred_children_leave_no_descriptor_and_no_zombie() -> None:
    before = open_descriptors()
    children = [start(["true"], env=ENV) for _ in range(100)]
    for child in children:
        assert child.wait(10) == 0
        child.close()
        child.close()
        assert identity.state(child.pid) != "Z"
    assert open_descriptors() == before


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    (tmp_path / "plain").write_text("echo hi\n")
    (tmp_path / "plain").chmod(0o644)
    (tmp_path / "no_line").write_text("echo hi\n")
    (tmp_path / "no_line").chmod(0o755)
    (tmp_path / "bad_line").write_text("#!/no/such/interpreter\n")
    (tmp_path / "bad_line").chmod(0o755)
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    return tmp_path


@fault("TF215")
@pytest.mark.parametrize(
    ("argv", "kind", "code"),
    [
        ([], "empty", 127),
        ([""], "empty", 127),
        (["  "], "empty", 127),
        (["nosuchcmd"], "not_found", 127),
        (["./nosuchcmd"], "not_found", 127),
        (["./plain/x"], "not_found", 127),
        (["./bad_line"], "not_found", 127),
        (["./folder"], "is_directory", 126),
        (["."], "is_directory", 126),
        (["./plain"], "not_executable", 126),
        (["plain"], "not_executable", 126),
        (["./no_line"], "not_executable", 126),
        (["echo", "a\0b"], "malformed", 126),
        (["ec\0ho"], "malformed", 126),
        (["echo", "\ud800"], "malformed", 126),
        (["echo", "x" * 200_000], "too_long", 126),
    ],
)
def test_what_cannot_start_says_why(odd: Path, argv: list[str], kind: str, code: int) -> None:
    before = open_descriptors()
    with pytest.raises(CannotStart) as caught:
        start(argv, env={"PATH": f"{ENV['PATH']}:{odd}"}, cwd=odd)
    assert (caught.value.kind, caught.value.equivalent) == (kind, code)
    assert caught.value.why
    assert len(str(caught.value)) < 400
    assert open_descriptors() == before


@fault("TF215")
@pytest.mark.parametrize(
    ("cwd", "why"), [("/no/such", "No such file"), ("/dev/null", "Not a directory"), ("a\0b", "null")]
)
def test_a_missing_working_directory_is_named(cwd: str, why: str) -> None:
    with pytest.raises(CannotStart, match=why) as caught:
        start(["true"], env=ENV, cwd=cwd)
    assert caught.value.kind == "no_directory"


@pytest.mark.parametrize("env", [{"A\0B": "x"}, {"A": "x\0y"}, {"": "x"}, {"A=B": "x"}])
def test_a_malformed_variable_is_refused_without_its_value(env: dict[str, str]) -> None:
    with pytest.raises(CannotStart) as caught:
        start(["true"], env=env)
    assert caught.value.kind == "malformed"
    assert "x" not in str(caught.value).partition(": ")[2].replace("\\x00", "")


def test_running_out_of_descriptors_may_pass_and_is_not_the_commands_fault() -> None:
    code = (
        "import os, resource\n"
        "from taskdeck.engine.edge.spawn import CannotStart, start\n"
        "soft = len(os.listdir('/proc/self/fd')) + SPARE\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft))\n"
        "try: start(['true'], env={'PATH': '/bin:/usr/bin'})\n"
        "except CannotStart as error: print(error.kind, error.equivalent)\n"
    )
    for spare in range(6):
        command = [sys.executable, "-c", code.replace("SPARE", str(spare))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout in ("no_resources 75\n", ""), done
        if spare == 0:
            assert done.stdout


def test_closing_the_output_breaks_the_pipe_of_what_still_writes(run: Start) -> None:
    child = run("yes")
    assert child.stdout is not None
    select.select([child.stdout], [], [], 5)
    child.close_output()
    assert child.wait(5) == -signal.SIGPIPE
