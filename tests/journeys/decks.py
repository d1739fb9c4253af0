"""A taskdeck of a test's own: a scratch home, the installed `taskdeck`, and the means to kill any part of it.

Everything it starts carries a mark in its environment (commands carry the database's mark), so that nothing can be left
behind unnoticed. Looks at the database read-only and never through the engine's code.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from taskdeck.engine.edge import trees
from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.edge.paths import database_hash
from taskdeck.engine.run import groups
from tests import replay
from tests.blank import put_blank
from tests.tui.calls import called
from tests.warm import taskdeck_process

ROOT = Path(__file__).parents[2]
TASKDECK = ROOT / ".venv" / "bin" / "taskdeck"
JOBS = Path(__file__).parent / "jobs.py"
"""The handlers that journeys use."""
PATIENCE = 20.0
"""Seconds after which a condition is given up; never the time that anything takes."""

CONFIG = """\
[taskdeck]
handlers = [{handlers}]

[engine]
heartbeat = "200ms"
suspect_after = "5s"
lease = "10s"
stop_grace = "2s"
cancel_grace = "1s"
output_drain = "200ms"

[retry]
base = "50ms"
max_delay = "1s"
"""

T = TypeVar("T")


class Deck:
    """One scratch home and all that runs in it, with an empty database; where it is `new`, without any."""

    def __init__(self, home: Path, *handlers: Path, new: bool = False) -> None:
        self.home = home
        self.mark = f"DECK_JOURNEY={uuid4().hex}"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("TASKDECK_")}
        self.env |= dict([self.mark.split("=")])
        self.env["PATH"] = f"{TASKDECK.parent}:{self.env['PATH']}"
        for name in ("config", "state", "runtime"):
            (home / name).mkdir(mode=0o700)
            self.env[f"XDG_{name.upper()}_{'DIR' if name == 'runtime' else 'HOME'}"] = str(home / name)
        self.config = home / "config" / "taskdeck" / "config.toml"
        self.db = home / "state" / "taskdeck" / "taskdeck.db"
        if not new:
            put_blank(self.db)
        self.configure(CONFIG.format(handlers=", ".join(json.dumps(str(each)) for each in handlers)))
        self.children: list[subprocess.Popen[bytes]] = []
        self.helpers: list[subprocess.Popen[bytes]] = []
        self._connections: list[sqlite3.Connection] | None = None

    def configure(self, text: str) -> None:
        """Write the configuration."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text, encoding="utf-8")

    # ---- the command line ----------------------------------------------------------------------------------------

    def cli(self, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `taskdeck` to its end; what only asks and tells runs in this process, without the cost of a start."""
        words = [str(each) for each in arguments]
        if words and words[0] != "run":
            code, out, err = called(words, self.home, {**self.env, **env})
            return subprocess.CompletedProcess(words, code, out.decode(), err.decode())
        child = self.beside(*words, **env)
        out, err = child.communicate(timeout=40)
        return subprocess.CompletedProcess(words, child.returncode, out.decode(), err.decode())

    def beside(self, *words: object, **env: str) -> subprocess.Popen[bytes]:
        """Start `taskdeck` in a process of its own; its output can be read from it."""
        pipe = subprocess.PIPE
        return taskdeck_process(words, self.home, {**self.env, **env}, stdout=pipe, stderr=pipe)

    def ok(self, *arguments: object, **env: str) -> str:
        """Run `taskdeck`, see that it did well, return what it printed."""
        done = self.cli(*arguments, **env)
        assert done.returncode == 0, (
            f"taskdeck {' '.join(map(str, arguments))} → {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def add(self, *arguments: object) -> int:
        """Add one task; returns its id."""
        return int(self.ok("add", *arguments))

    def show(self, task_id: int) -> dict[str, Any]:
        """The stable JSON of one task."""
        return json.loads(self.ok("show", task_id, "--json"))

    def start(self, *options: str, workers: int = 1, **env: str) -> subprocess.Popen[bytes]:
        """Start `taskdeck run` in the background; its output goes to `run.log`."""
        env["TASKDECK_ENGINE__WORKERS"] = str(workers)
        with (self.home / "run.log").open("ab") as log:
            child = taskdeck_process(
                ["run", *options], self.home, {**self.env, **env}, stdout=log, stderr=log
            )
        self.children.append(child)
        return child

    def helper(self, *command: object) -> subprocess.Popen[bytes]:
        """Start a process that is no part of taskdeck, e.g. a site to post to."""
        child = subprocess.Popen([str(each) for each in command], env=self.env, cwd=self.home)
        self.helpers.append(child)
        return child

    def finish(self, child: subprocess.Popen[bytes], seconds: float = 40) -> int:
        """Wait for the end of a `run`; returns its exit code."""
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"taskdeck run does not end:\n{self.told()}") from None

    def told(self) -> str:
        """What the engines said, and the last events: for messages of failing tests."""
        log = self.home / "run.log"
        events = "\n".join(
            f"{each['event_id']} {each['created_at'][17:23]} {each['event_type']} #{each['task_id']} w{each['worker_id']}"
            f" {each['reason']} {each['message']} {each['payload_json'] or ''}"
            for each in self.events()[-60:]
        )
        return (log.read_text() if log.exists() else "") + events

    def until(self, look: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
        """Wait for `look()` to be true; returns it."""
        deadline = time.monotonic() + seconds
        with self._reading():
            while not (found := look()):
                assert time.monotonic() < deadline, f"waited {seconds:.0f} s for: {what}\n{self.told()}"
                time.sleep(0.02)
            return found

    # ---- looking -------------------------------------------------------------------------------------------------

    def rows(self, sql: str, *args: object) -> list[dict[str, Any]]:
        """Rows of a query on the database as it is now; none while there is no database."""
        if not self.db.exists():
            return []
        with self._reading() as connections:
            connections += [] if connections else [self._connect()]
            try:
                return [dict(row) for row in connections[0].execute(sql, args)]
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(f"file:{self.db}?mode=ro", uri=True, timeout=10)
        connection.row_factory = sqlite3.Row
        return connection

    @contextmanager
    def _reading(self) -> Iterator[list[sqlite3.Connection]]:
        """One connection, made when it is needed, serves a whole wait: making one costs more than most looks with it."""
        if self._connections is not None:
            yield self._connections
            return
        self._connections = []
        try:
            yield self._connections
        finally:
            for each in self._connections:
                each.close()
            self._connections = None

    def state(self, task_id: int) -> str:
        """The state of a task."""
        return self.rows("SELECT state FROM task WHERE id = ?", task_id)[0]["state"]

    def states(self) -> list[str]:
        """The states of all tasks by id."""
        return [row["state"] for row in self.rows("SELECT state FROM task ORDER BY id")]

    def until_state(self, task_id: int, *states: str) -> str:
        """Wait until the task is in one of these states."""
        self.until(lambda: self.state(task_id) in states, f"#{task_id} becomes {' or '.join(states)}")
        return self.state(task_id)

    def events(self, task_id: int | None = None, *types: str) -> list[dict[str, Any]]:
        """The events (of one task, of some types), oldest first, with `payload` decoded."""
        wanted = f"event_type IN ({', '.join('?' * len(types))})" if types else "1"
        sql = f"SELECT * FROM event_log WHERE {wanted} AND ifnull(task_id = ?, ?) ORDER BY event_id"
        rows = self.rows(sql, *types, task_id, task_id is None)
        for row in rows:
            row["payload"] = json.loads(row["payload_json"] or "{}")
        return rows

    def moves(self, task_id: int) -> list[str]:
        """The task's changes of state as `TO (reason)`."""
        return [f"{each['payload']['to']} ({each['reason']})" for each in self.events(task_id, "TASK_STATE")]

    def attempts(self, task_id: int) -> list[dict[str, Any]]:
        """The attempts of a task by number."""
        return self.rows("SELECT * FROM attempt WHERE task_id = ? ORDER BY number", task_id)

    @property
    def engine_pid(self) -> int:
        """The pid of the engine that holds the database, 0 for none."""
        holder = DatabaseLock.holder(self.db)
        return holder.pid if holder and holder.role == "engine" else 0

    def ready_workers(self) -> list[dict[str, Any]]:
        """The workers that have reported and are not known to have ended."""
        return self.rows("SELECT * FROM worker WHERE ended_at IS NULL AND state = 'READY' ORDER BY id")

    def until_ready(self) -> None:
        """Wait for an engine with a worker that takes tasks."""
        self.until(lambda: self.engine_pid and self.ready_workers(), "a ready worker")

    def worker_of(self, task_id: int) -> int:
        """The pid of the worker that holds a task, 0 for none."""
        sql = "SELECT worker.pid FROM worker JOIN task ON task.worker_id = worker.id WHERE task.id = ?"
        return next((row["pid"] for row in self.rows(sql, task_id)), 0)

    def commands(self, task_id: int) -> list[int]:
        """The living processes of a task's command."""
        return [each.pid for each in trees.find(f"{database_hash(self.db)}:{task_id}:")]

    def until_command(self, task_id: int) -> int:
        """Wait for a task's command to run; returns a pid of it."""
        # Asked of the database first: to look at all processes takes fifty times as long as to ask for this row.
        begun = "SELECT 1 FROM attempt WHERE task_id = ? AND ended_at IS NULL AND command_pid IS NOT NULL"
        self.until(lambda: self.rows(begun, task_id), f"a command of #{task_id} is on record")
        return self.until(lambda: self.commands(task_id), f"a command of #{task_id}")[0]

    def processes(self) -> dict[int, str]:
        """All living processes of this deck, by pid: those with our mark and those with the database's."""
        marks = (f"\0{self.mark}\0".encode(), f"\0{trees.VARIABLE}={database_hash(self.db)}:".encode())
        return {
            pid: _command_line(pid)
            for pid, environ in _environments()
            if any(mark in environ for mark in marks)
        }

    # ---- ending --------------------------------------------------------------------------------------------------

    def kill_everything(self) -> list[int]:
        """kill -9 of supervisor, engine, workers and commands, as a power cut would; returns their pids."""
        pids = list(self.processes().keys() - {each.pid for each in self.helpers})
        for pid in pids:  # all stand still first: in a power cut none sees another die
            kill(pid, signal.SIGSTOP)
        for pid in pids:
            kill(pid)
        for child in self.children:
            child.wait(10)
        self.children.clear()
        self.until(lambda: not self.processes().keys() & set(pids), "all killed processes are gone")
        return pids

    def stop(self) -> None:
        """Stop what still runs, politely; then nothing may be left and the database must tell one story."""
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        for child in self.children:
            assert child.wait(15) in (0, 1, 4, 6, -9), f"a stop ended with {child.returncode}\n{self.told()}"
        self._end_helpers()
        self.until(
            lambda: not self.processes(), f"nothing is left behind, but there is: {self.processes()}", 5
        )
        if self.db.exists():
            problems = replay.check(self.db)
            assert not problems, "\n".join([*problems, "", self.told()])

    def clean_up(self) -> None:
        """Leave no process, whatever happened."""
        self._end_helpers()
        deadline = time.monotonic() + 10
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                kill(pid)
            for child in self.children:
                child.poll()
            time.sleep(0.01)
        groups.sweep(self.db.parent / "logs" / "workers", [])

    def _end_helpers(self) -> None:
        for child in self.helpers:
            child.kill()
            child.wait(10)
        self.helpers.clear()


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal; a process that is gone is fine."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def process_state(pid: int) -> str:
    """The kernel's letter for a process (T = stopped), empty when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def _environments() -> Iterator[tuple[int, bytes]]:
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with suppress(OSError), open(f"/proc/{name}/environ", "rb", buffering=0) as file:
                yield int(name), b"\0" + file.read() + b"\0"


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        )
    return ""


def examples(name: str) -> Path:
    """A shipped example."""
    return ROOT / "examples" / name
