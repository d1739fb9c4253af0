"""Who comes to an engine from a dead worker is told from all others that come to it, by a real process that adopts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import fault

BEGIN = """
import os, signal, subprocess
from taskdeck.engine.edge import adoption, identity, trees
from taskdeck.engine.edge.identity import Identity
from taskdeck.engine.run import foundlings
from tests.eventually import eventually

def leave(**environment):
    # Somebody in a session of its own starts another one in one of its own, and waits.
    child = adoption.start(lambda: subprocess.Popen(
        ["sh", "-c", "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!; read line"],
        env={"PATH": os.environ["PATH"], **environment},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True))
    pid = int(child.stdout.readline())
    eventually(lambda: identity.name(pid) == "sleep" and os.getsid(pid) == pid)
    everybody.append(pid)
    return child, identity.of(child.pid), identity.of(pid)

everybody = []
found = foundlings.Foundlings()
found.begin()
child, worker, left = leave()
child.communicate()
try:
"""
END = """
finally:
    for pid in everybody:
        os.kill(pid, signal.SIGKILL)
"""


def adopts(does: str) -> None:
    """Run this in a process that has adopted whom a worker left: `found`, `worker` (dead), `left`."""
    body = "".join(f"    {line}\n" for line in does.strip().splitlines())
    command = [sys.executable, "-c", BEGIN + body + END]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


CASES = {
    "who was left by the dead worker": "assert found.left_by(worker) == [left]",
    "not who descends from a living one": """
living, _, held = leave()
assert found.left_by(worker) == [left]
living.communicate()
assert found.left_by(worker) == [left, held]
""",
    "not what the engine started, or a person out of it": """
leave(**{foundlings.VARIABLE: "1"})[0].communicate()
assert found.left_by(worker) == [left]
""",
    "not who carries a mark, by which it is found": """
leave(**{trees.VARIABLE: "0123abcd:7:1"})[0].communicate()
assert found.left_by(worker) == [left]
""",
    "not who was there before the worker, or of another boot": """
assert found.left_by(Identity(worker.pid, left.start_time + 1, worker.boot_id)) == []
assert found.left_by(Identity(worker.pid, 0, "another")) == []
""",
    "nobody where the kernel was not asked": "assert foundlings.Foundlings().left_by(worker) == []",
    "to the first process come others' too": """
foundlings.INIT = os.getpid()
assert (found.left_by(worker), found.doubtful(worker)) == ([], [left])
foundlings.INIT = 1
assert (found.left_by(worker), found.doubtful(worker)) == ([left], [])
""",
}


@pytest.mark.parametrize("does", CASES.values(), ids=CASES)
@fault("TF133")
def test_told_to_be_ended_is(does: str) -> None:
    adopts(does)


def test_who_has_ended_is_reaped_and_what_the_engine_waits_for_keeps_its_exit_code() -> None:
    adopts("""
own, who, _ = leave()
for one in (left, who):
    os.kill(one.pid, signal.SIGKILL)
    eventually(lambda: identity.read(one.pid).dead)
found.reap()
assert identity.read(left.pid) is None
assert own.wait() == -signal.SIGKILL
everybody.remove(left.pid)
""")
