"""What is left of a command that has ended: one look at our own children, where the kernel brings all orphans to us."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, signal, sys, time
from taskdeck.engine.clock import SystemClock
from taskdeck.engine.edge import adoption, spawn
from taskdeck.engine.run.strays import Commands

def ended(mark, script):
    child = families.start(mark, lambda: spawn.start(["sh", "-c", script], env={"PATH": os.environ["PATH"]}), 0)
    said = b""
    os.set_blocking(child.stdout, True)
    while data := os.read(child.stdout, 4096):
        said += data
    child.wait()
    return said

if "adopting" in sys.argv:
    assert adoption.adopt_orphans()
families = Commands(SystemClock()).families
ended("x:1:1", "exit 0")
print(families.nothing_is_left())
fled = int(ended("x:2:1", "(setsid sleep 600 >/dev/null 2>&1 & echo $!)"))
print(families.nothing_is_left())
os.kill(fled, signal.SIGKILL)
"""


def told(*words: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_who_adopts_all_orphans_sees_at_once_whether_anything_is_left() -> None:
    assert told("adopting") == ["True", "False"]


def test_who_does_not_has_to_ask_everybody() -> None:
    assert told() == ["False", "False"]
