"""A taskdeck of a benchmark's own: a scratch home, the installed command as real processes, and a look at what they use."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

from taskdeck.engine.config import Config, load

TASKDECK = Path(sys.executable).with_name("taskdeck")
TICK = os.sysconf("SC_CLK_TCK")
PATIENCE = 600.0

HANDLERS = """\
import asyncio, os, time
from taskdeck.engine import task

ledger = os.open(os.environ["BENCH_LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@task("noop")
async def noop(ctx, number: int) -> None:
    os.write(ledger, b"%08d%07d\\n" % (number, os.getpid()))


@task("tick")
async def tick(ctx, number: int) -> None:
    os.write(ledger, b"%08d %f\\n" % (number, time.time()))


@task("hold")
async def hold(ctx) -> None:
    os.write(ledger, b"%08d%07d\\n" % (0, os.getpid()))
    if ctx.attempt == 1:
        await asyncio.sleep(3600)
"""


def wait(seconds: float) -> None:
    """Let time pass."""
    Event().wait(seconds)


def until(look: Callable[[], Any], what: str, every: float = 0.01, patience: float = PATIENCE) -> Any:
    """Wait for `look()` to be true; returns it."""
    end = perf_counter() + patience
    while not (found := look()):
        if perf_counter() > end:
            raise TimeoutError(f"{what} did not come in {patience:.0f} s")
        wait(every)
    return found


class Home:
    """One database with its configuration. Everything in it is started by us and ended with `closing`."""

    def __init__(self, folder: Path, config: str = "", workers: int = 2) -> None:
        self.folder, self.db, self.ledger = folder, folder / "taskdeck.db", folder / "ledger"
        (folder / "tasks.py").write_text(HANDLERS)
        self.file = folder / "config.toml"
        engine = f"[engine]\nworkers = {workers}\n"
        head = f'[taskdeck]\ndb = "{self.db}"\nlogs = "{folder}/logs"\nhandlers = ["tasks.py"]\n'
        self.file.write_text(f"{head}{engine}{config}")
        self.ledger.touch()
        self.env = {**os.environ, "BENCH_LEDGER": str(self.ledger)}
        self.engine: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Config:
        """Its settings, for calls of the library."""
        return load(path=self.file, environ={})

    def taskdeck(self, *words: object) -> tuple[float, str]:
        """Run `taskdeck`, see that it did well; how long it took (seconds), and what it printed."""
        began = perf_counter()
        done = subprocess.run(
            [str(TASKDECK), "--config", self.file, *map(str, words)],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(
                f"taskdeck {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr}"
            )
        return perf_counter() - began, done.stdout

    def add(self, count: int, type_: str = "noop", **fields: Any) -> float:
        """Add tasks in bulk, numbered from 0; seconds."""
        lines = (json.dumps({"type": type_, "payload": number, **fields}) for number in range(count))
        path = self.folder / "tasks.jsonl"
        path.write_text("\n".join(lines) + "\n")
        return self.taskdeck("add", "-f", path)[0]

    def start(self, *options: str) -> float:
        """Start `taskdeck run`; returns when (`perf_counter`)."""
        began = perf_counter()
        with (self.folder / "run.log").open("ab") as log:
            self.engine = subprocess.Popen(
                [str(TASKDECK), "--config", self.file, "run", *options],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return began

    def ran(self) -> int:
        """How many no-ops have run."""
        return self.ledger.stat().st_size // 16

    def until_ready(self) -> None:
        """Wait for all workers."""
        until(lambda: len(self.workers()) >= 2, "two ready workers")

    def workers(self) -> list[int]:
        """The pids of the workers that take tasks."""
        return [
            row[0] for row in self.rows("SELECT pid FROM worker WHERE ended_at IS NULL AND state = 'READY'")
        ]

    @property
    def engine_pid(self) -> int:
        """The pid of the engine itself, not of its supervisor."""
        return self.rows("SELECT pid FROM engine ORDER BY id DESC LIMIT 1")[0][0]

    def rows(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        """What the database says now; nothing while there is none."""
        try:
            with closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True, timeout=30)) as connection:
                return connection.execute(sql, args).fetchall()
        except sqlite3.OperationalError:
            return []

    def count(self, state: str) -> int:
        """How many tasks are in a state."""
        return self.rows("SELECT count(*) FROM task WHERE state = ?", state)[0][0]

    def kill(self) -> None:
        """KILL of supervisor, engine and workers."""
        pids = [self.engine.pid] if self.engine else []
        pids += [self.engine_pid, *self.workers()]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        if self.engine:
            self.engine.wait()
        self.engine = None

    def stop(self) -> None:
        """End the engine in order."""
        if self.engine is not None and self.engine.poll() is None:
            self.engine.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.engine.wait(30)
            if self.engine.poll() is None:
                self.kill()
        self.engine = None


@contextmanager
def home(folder: Path, config: str = "", workers: int = 2) -> Iterator[Home]:
    """A home, empty of processes afterwards whatever happened."""
    made = Home(folder, config, workers)
    try:
        yield made
    finally:
        made.stop()


def cpu(*pids: int) -> float:
    """What these processes have used (seconds of a core)."""
    found = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found += (int(fields[11]) + int(fields[12])) / TICK
    return found


def resident(pid: int) -> float:
    """Memory of a process (MB)."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def wakeups(pid: int) -> dict[int, int]:
    """How often each thread of a process went to sleep by itself, so far; the process's own number is its loop's."""
    found: dict[int, int] = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            match = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (thread / "status").read_text(), re.M)
            found[int(thread.name)] = int(match[1]) if match else 0
    return found


def p(values: list[float], share: float) -> float:
    """A percentile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
