from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.edge import identity, trees
from taskdeck.engine.edge.spawn import Child, start
from tests.faults import fault

CLOCK = SystemClock()

Start = Callable[..., Child]


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return trees.mark(tmp_path / "taskdeck.db", 4, 1)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Start]:
    """Runs a script with a mark and returns once it has said a line."""
    children: list[Child] = []

    def begin(script: str, mark: str, *, shell: tuple[str, ...] = ("sh", "-c")) -> Child:
        env = {"PATH": os.environ["PATH"], trees.VARIABLE: mark}
        child = start([*shell, script], env=env, cwd=tmp_path)
        children.append(child)
        assert child.stdout is not None
        assert identity.wait_readable(child.stdout, 10)
        assert os.read(child.stdout, 100)
        return child

    yield begin
    for child in children:
        trees.end_tree(
            trees.mark(tmp_path / "taskdeck.db", 0, 0)[:9], grace=0, clock=CLOCK, session=child.pid
        )
        child.wait(5)
        child.close()


def hash_of(mark: str) -> str:
    return mark.partition(":")[0] + ":"


def end(prefix: str, grace: float = 5, session: int | None = None) -> list[identity.Identity]:
    return trees.end_tree(prefix, grace=grace, clock=CLOCK, session=session)


def names(found: list[identity.Identity]) -> list[str]:
    return sorted(name for one in found if (name := name_of(one)))


def sleepers(mark: str) -> list[identity.Identity]:
    return [one for one in trees.find(mark) if name_of(one) == "sleep"]


def name_of(one: identity.Identity) -> str:
    try:
        return Path(f"/proc/{one.pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_mark_names_database_task_and_attempt(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real.db")
    mark = trees.mark(tmp_path / "real.db", 42, 3)
    assert mark == trees.mark(link, 42, 3)
    assert mark.endswith(":42:3")
    assert len(mark.partition(":")[0]) == 8


def test_a_simple_command_is_found_and_ends_at_the_first_request(run: Start, mark: str) -> None:
    child = run("trap 'exit 3' TERM; sleep 60 & echo up; wait", mark)
    wait_for(lambda: sleepers(mark), 1)
    assert names(trees.find(mark)) == ["sh", "sleep"]
    assert end(mark) == []
    assert child.wait(5) == 3
    assert trees.find(mark) == []


def test_task_4_does_not_answer_for_task_42_nor_attempt_1_for_11(run: Start, tmp_path: Path) -> None:
    db = tmp_path / "taskdeck.db"
    four, forty_two = trees.mark(db, 4, 1), trees.mark(db, 42, 11)
    child = run("echo up; exec sleep 60", four)
    other = run("echo up; exec sleep 60", forty_two)
    assert [one.pid for one in trees.find(four)] == [child.pid]
    assert [one.pid for one in trees.find(hash_of(four) + "4:")] == [child.pid]
    assert trees.find(trees.mark(db, 42, 1)) == []
    assert {one.pid for one in trees.find(hash_of(four))} == {child.pid, other.pid}
    assert trees.find(trees.mark(tmp_path / "other.db", 4, 1)) == []
    assert end(four) == []
    assert identity.alive(other.identity)


@fault("TF133")
def test_children_with_sessions_of_their_own_and_double_forks_are_ended(run: Start, mark: str) -> None:
    script = "setsid sleep 301 & (setsid sh -c 'sleep 302 & sleep 303' &) ; (sleep 304 &) ; echo up; exit 0"
    child = run(script, mark)
    assert child.wait(5) == 0
    found = wait_for(lambda: sleepers(mark), 4)
    assert len({os.getsid(one.pid) for one in found}) >= 3
    assert end(mark) == []
    assert not any(identity.alive(one) for one in found)


@fault("TF133")
def test_a_child_that_clears_its_environment_is_found_through_its_family(run: Start, mark: str) -> None:
    child = run("env -i sleep 301 & setsid env -i sh -c 'sleep 302 & wait' & echo up; wait", mark)
    found = wait_for(lambda: sleepers(mark), 2)
    assert end(mark) == []
    assert not any(identity.alive(one) for one in found)
    assert child.wait(5) is not None


@fault("TF133")
def test_an_orphan_without_a_mark_is_found_through_the_session_of_its_leader(run: Start, mark: str) -> None:
    child = run("env -i sleep 301 & echo up; exit 0", mark)
    assert identity.wait_readable(child.pidfd, 5)
    orphans = wait_for(lambda: trees.find(mark, session=child.pid), 1)
    assert orphans == trees.members_of_session(child.pid)
    assert end(mark, session=child.pid) == []
    assert not identity.alive(orphans[0])
    assert child.reap() == 0


def test_who_ignores_the_request_is_killed_after_the_grace(run: Start, mark: str) -> None:
    child = run("trap '' TERM; echo up; while :; do sleep 60; done", mark)
    begin = CLOCK.monotonic()
    assert end(mark, grace=0.2) == []
    assert CLOCK.monotonic() - begin >= 0.2
    assert child.wait(5) == -signal.SIGKILL


def test_a_stopped_tree_is_woken_to_hear_the_request(run: Start, mark: str) -> None:
    child = run("trap 'exit 5' TERM; sleep 60 & echo up; wait", mark)
    wait_for(lambda: sleepers(mark), 1)
    os.killpg(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert end(mark) == []
    assert child.wait(5) == 5


def test_who_flees_by_forking_without_end_does_not_escape(run: Start, mark: str) -> None:
    script = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "end = time.monotonic() + 20\n"
        "print('up', flush=True)\n"
        "while time.monotonic() < end:\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
    )
    child = run(script, mark, shell=(sys.executable, "-ISc"))
    assert child.wait(5) == 0
    assert end(mark, grace=0.05) == []
    assert child.stdout is not None
    assert identity.wait_readable(child.stdout, 1)
    assert os.read(child.stdout, 1) == b""  # nobody holds the other end any more


def test_this_process_is_never_found_although_it_is_marked(mark: str) -> None:
    script = (
        "import os, sys\n"
        "from taskdeck.engine.clock import SystemClock\n"
        "from taskdeck.engine.edge import trees\n"
        "print([one.pid for one in trees.find(sys.argv[1])] == [os.getppid()], flush=True)\n"
        "left = trees.end_tree(sys.argv[1], grace=5, clock=SystemClock())\n"
        "print(left, trees.find(sys.argv[1]), flush=True)\n"
    )
    env = {"PATH": os.environ["PATH"], trees.VARIABLE: mark}
    # A marked shell whose marked child ends the tree: the shell goes, the child itself goes on to the end.
    child = start(["sh", "-c", '"$0" -c "$1" "$2"; exit', sys.executable, script, mark], env=env)
    assert child.stdout is not None
    output = b""
    while identity.wait_readable(child.stdout, 10) and (piece := os.read(child.stdout, 1000)):
        output += piece
    assert output == b"True\n[] []\n"
    assert child.wait(5) == -signal.SIGTERM
    child.close()


def test_a_strangers_session_into_which_the_variable_was_copied_is_left_alone(run: Start, mark: str) -> None:
    stranger = run(f"sleep 301 & TASKDECK_MARK={mark} sleep 302 & echo up; wait", "none")
    found = wait_for(lambda: trees.find(mark), 1)
    assert len(found) == 1
    assert end(mark) == []
    assert identity.alive(stranger.identity)
    identity.kill(stranger.identity, signal.SIGKILL)


def test_nothing_to_end_is_done_at_once(mark: str) -> None:
    begin = CLOCK.monotonic()
    assert end(mark, grace=60) == []
    assert CLOCK.monotonic() - begin < 2


def wait_for(look: Callable[[], list[identity.Identity]], count: int) -> list[identity.Identity]:
    """Until `count` are there: a shell's children appear a moment after its line."""
    until = CLOCK.monotonic() + 10
    while len(found := look()) < count and CLOCK.monotonic() < until:
        os.sched_yield()
    assert len(found) >= count
    return found
