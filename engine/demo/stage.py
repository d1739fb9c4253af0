"""What a run on a scratch database needs around it: the world in a process of its own, and the end of all that was started.

Shared by `demo` and `chaos`. Shows nothing itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..clock import Clock, SystemClock
from ..config import Config
from ..edge import identity, trees
from ..edge.paths import database_hash
from ..errors import TaskdeckError
from ..views import View, holder
from . import plan

WORLD_WITHIN = 20.0
"""Seconds in which site and proxies must listen."""
FORGET = ("TASKDECK_",)
"""Variables that would set what the run's own configuration sets."""


def environment() -> dict[str, str]:
    """This process's, without what would get into the run's way."""
    return {name: value for name, value in os.environ.items() if not name.startswith(FORGET)}


@dataclass(frozen=True)
class World:
    """Site and proxies while they live."""

    places: Mapping[str, Any]
    """What stands in world.json."""
    pid: int
    _pipe: int

    def tell(self, *words: str) -> None:
        """Give an order: `cut`, `mend`, `drop ID`, `raise ID` (see `world`)."""
        os.write(self._pipe, f"{' '.join(words)}\n".encode())


@contextmanager
def world(folder: Path, seed: int, clock: Clock, rest: Callable[[], None]) -> Iterator[World]:
    """Site and proxies in a process of their own, which ends with this one: it sees the pipe close.

    `rest` is called again and again until they listen. Raises `TaskdeckError` where they don't.
    """
    read, write = os.pipe()
    command = [sys.executable, "-m", "taskdeck.engine.demo.world", "--dir", str(folder), "--seed", str(seed)]
    with ExitStack() as stack:
        stack.callback(os.close, write)
        output = stack.enter_context((folder / "world.out").open("ab"))
        process = subprocess.Popen(
            command,
            env={**environment(), "TASKDECK_DEMO_FD": str(read)},
            pass_fds=(read,),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        os.close(read)
        stack.callback(end, process, 5.0)
        places = _until_it_listens(process, folder / plan.WORLD_FILE, clock, rest)
        yield World(places, process.pid, write)


def _until_it_listens(
    process: subprocess.Popen[bytes], path: Path, clock: Clock, rest: Callable[[], None]
) -> Mapping[str, Any]:
    deadline = clock.monotonic() + WORLD_WITHIN
    while not path.exists():
        if process.poll() is not None or clock.monotonic() > deadline:
            raise TaskdeckError(
                "the site and the proxies did not come up", f"see {path.with_name('world.out')}"
            )
        rest()
    return json.loads(path.read_text(encoding="utf-8"))


# ---- who is there, and how they end -----------------------------------------------------------------------------------


def ready(view: View) -> list[int]:
    """The pids of the workers that can take work."""
    return [each.pid for each in view.workers() if each.state == "READY"]


def busy(view: View) -> list[int]:
    """The pids of the workers that have some."""
    return [each.pid for each in view.workers() if each.state == "READY" and each.attempts]


def strike(pid: int, number: int = signal.SIGKILL) -> identity.Identity | None:
    """Send a signal to whoever has this pid now. Returns who that was, None = nobody that lives."""
    who = identity.of(pid)
    return who if who is not None and identity.alive(who) and identity.kill(who, number) else None


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """TERM (and CONT, which a stopped one needs to hear it), then KILL."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_engine(config: Config, *supervisors: int) -> None:
    """Kill an engine whose supervisor could not end it, and the workers that outlived their engine.

    Only one of a session that was opened for these supervisors: whoever else works on that database is not ours to end. (As
    long as a process is in a session, no other gets its number.)
    """
    found, clock = holder(config), SystemClock()
    if found.running and found.pid and (who := identity.of(found.pid)):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(found.pid) in supervisors:
                identity.kill(who, signal.SIGKILL)
                identity.wait_gone([who], WORLD_WITHIN, clock)
    if not holder(config).running:
        trees.end_tree(f"{database_hash(config.db)}:", grace=1.0, clock=clock)
