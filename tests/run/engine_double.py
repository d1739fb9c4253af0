"""A small engine for tests of the worker: a real socket, a real worker process, answers from memory.

A worker's start takes longer than most tests of it: one that a test left idle serves the next test too, and most are forked
from this process, which has loaded all that a worker loads.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from taskdeck.engine.edge.link import Link, LinkLost
from taskdeck.engine.rules.checkpoints import merge
from taskdeck.engine.run import messages as m
from tests.eventually import PATIENCE
from tests.warm import worker_process

SAMPLES = Path(__file__).with_name("sample_handlers.py")

Kind = TypeVar("Kind", bound=m.Message)


class EngineDouble:
    """Answers saves and operations from memory and remembers everything that it was told."""

    def __init__(
        self,
        folder: Path,
        handlers: list[str],
        environ: dict[str, str],
        group: Path | None = None,
        fresh: bool = False,
        **settings: Any,
    ) -> None:
        self._group = group
        self._fresh = fresh
        self.home = folder
        """Where the worker was started and keeps its journal."""
        self.told: list[m.Message] = []
        self.gone = False
        self._news = threading.Condition()
        self._fences = 0
        self._begin_test(folder)
        self._welcome = {
            "heartbeat": 0.05,
            "cancel_grace": 0.3,
            "output_drain": 0.3,
            "attempt_bytes": 1_000_000,
            "attempt_files": 3,
            "environment": ["PATH", "HOME", "LANG"],
            "away_limit": 0.0,
        } | settings
        self.worker = self._start(handlers, environ)

    def _begin_test(self, folder: Path) -> None:
        self.folder = folder
        """Where attempts of this test log."""
        self.checkpoints: dict[int, dict[str, Any]] = {}
        self.owner = 0
        """The other task whose doubts these are; 0 = none."""
        self.operations: dict[tuple[str, str], dict[str, Any]] = {}
        self.refuses = ""
        """Why what shall be written together is refused."""
        self.steps: list[m.OnRollback] = []
        """Undo steps, as they were registered."""
        self.age = 60.0
        """Age of an operation in doubt, seconds."""
        self.stale: set[int] = set()
        self._held: list[m.Save] | None = None
        self._unsettled: set[int] = set()
        self._used_up = False

    def serve_another(self, folder: Path) -> bool:
        """Forget the last test and serve the next one; false when its worker is not as good as a new one."""
        if self._unsettled or self._used_up or self.worker.poll() is not None:
            return False
        try:  # all that was said before this answer belongs to the last test
            self.say(m.Validate(0, "", ""))
            self.wait(m.Validated, lambda one: one.req == 0)
        except (LinkLost, AssertionError):
            return False
        self.told = [one for one in self.told if isinstance(one, (m.Hello, m.Manifest))]
        self._begin_test(folder)
        return True

    def _start(self, handlers: list[str], environ: dict[str, str]) -> subprocess.Popen[bytes]:
        path = self.folder / "engine.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(PATIENCE)
            words = ["--socket", str(path), "--incarnation", "w-1", "--logs", str(self.folder)]
            words += ["--journal", str(self.journal), "--handlers-root", str(self.folder)]
            words += ["--group", str(self._group)] if self._group else []
            for handler in handlers:
                words += ["--handler", handler]
            if self._fresh:
                command = [sys.executable, "-m", "taskdeck.engine.run.worker", *words]
                worker = subprocess.Popen(command, env={**os.environ, **environ}, cwd=self.folder)
            else:
                worker = worker_process(words, self.folder, {**os.environ, **environ})
            accepted, _ = listener.accept()
        self.link = Link(accepted)
        threading.Thread(target=self._listen, daemon=True).start()
        return worker

    @property
    def journal(self) -> Path:
        return self.home / "starts"

    def run(self, type: str, payload: Any = None, **fields: Any) -> int:
        """Start an attempt; returns its fence."""
        self.wait(m.Manifest)
        self._fences += 1
        fence = fields.pop("fence", self._fences)
        values: dict[str, Any] = {
            "task_id": 42,
            "attempt_id": fence,
            "attempt": 1,
            "type": type,
            "payload": payload if isinstance(payload, str) else json.dumps(payload or {}),
            "checkpoint": "{}",
            "checkpoint_seq": 0,
            "checkpoint_version": 1,
            "timeout": None,
            "log_path": str(self.folder / f"{fence}.log"),
            "exit_codes": {},
        }
        self._unsettled.add(fence)
        self.say(m.Run(fence=fence, **(values | fields)))
        return fence

    def shell(self, *argv: str, **fields: Any) -> int:
        """Start a command; `cwd`, `env` and `pause` go into its payload."""
        payload = {key: fields.pop(key) for key in ("cwd", "env", "pause") if key in fields}
        return self.run("shell", {"argv": list(argv), **payload}, **fields)

    def ask(self, fence: int, what: str, grace: float = 0.5) -> None:
        self.say(m.Ask(42, fence, what, grace))

    def say(self, *said: m.Message) -> None:
        self._used_up |= any(isinstance(one, m.Farewell) for one in said)
        self._fences = max([self._fences, *(one.fence for one in said if isinstance(one, m.Run))])
        self.link.send(m.encode(list(said)))

    def hold_saves(self) -> None:
        """Leave checkpoints unanswered until `release_saves`."""
        self._held = []

    def release_saves(self) -> None:
        held, self._held = self._held or [], None
        for save in held:
            self._react(save)

    def outcome(self, fence: int, kind: str = "") -> m.Outcome:
        """The outcome of an attempt (of this kind), when it arrives."""
        return self.wait(m.Outcome, lambda one: one.fence == fence and kind in ("", one.kind))

    def result(self, fence: int) -> Any:
        """The result of an attempt that must have succeeded."""
        outcome = self.outcome(fence)
        assert outcome.kind == "succeeded", outcome
        return json.loads(outcome.result) if outcome.result else None

    def failure(self, fence: int) -> dict[str, Any]:
        """The failure of an attempt that must have failed."""
        outcome = self.outcome(fence)
        assert outcome.kind == "failed", outcome
        return json.loads(outcome.failure)

    def wait(self, kind: type[Kind], fits: Callable[[Kind], bool] = lambda _: True) -> Kind:
        """The first message of this kind that fits, when it arrives."""

        def found() -> Kind | None:
            return next((one for one in self.told if isinstance(one, kind) and fits(one)), None)

        with self._news:
            self._news.wait_for(lambda: found() is not None or self.gone, PATIENCE)
            message = found()
        assert message is not None, f"no such {kind.__name__} among {self.told[-20:]}"
        return message

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [one for one in list(self.told) if isinstance(one, kind)]

    def ended(self) -> int:
        """The worker's exit code, once it has ended."""
        return self.worker.wait(PATIENCE)

    def close(self) -> None:
        self.link.close()
        with suppress(subprocess.TimeoutExpired):
            self.worker.wait(PATIENCE)
        self.worker.kill()
        self.worker.wait()

    def _listen(self) -> None:
        while (body := self.link.receive()) is not None:
            arrived = m.from_peer(body)
            with self._news:
                self.told += arrived
                self._news.notify_all()
            with suppress(LinkLost):  # a worker that was killed waits for no answer
                for message in arrived:
                    self._react(message)
        with self._news:
            self.gone = True
            self._news.notify_all()

    def _react(self, message: m.Message) -> None:
        match message:
            case m.Hello():
                self.say(
                    m.Welcome(1, database=str(self.folder / "t.db"), logs=str(self.folder), **self._welcome)
                )
            case m.Save() | m.OperationBegin() | m.OperationEnd() | m.OnRollback() if (
                message.fence in self.stale
            ):
                self.say(m.Answer(message.req, {}, "stale"))
            case m.Save() if self._held is not None:
                self._held.append(message)
            case m.Save():
                kept, data = self.checkpoints.get(message.task_id, {}), json.loads(message.data)
                self.checkpoints[message.task_id] = merge(kept, data) if message.merge else data
                if message.req:
                    self.say(m.Answer(message.req, {}))
            case m.Outcome() if message.kind not in ("stopped", "resumed"):
                self._unsettled.discard(message.fence)
            case m.OperationBegin():
                self.say(m.Answer(message.req, self._begin(message)))
            case m.Together():
                self._write_together(message)
            case m.OnRollback():
                self.steps.append(message)
                self.say(m.Answer(message.req, {"number": len(self.steps)}))
            case m.OperationEnd():
                self.operations[message.scope, message.key] = {
                    "state": message.state,
                    "result": message.result,
                }
                if message.req:
                    self.say(m.Answer(message.req, {}))

    def _write_together(self, message: m.Together) -> None:
        written = m.OperationEnd if self.refuses else m.Save | m.OperationEnd
        for part in message.parts:
            if isinstance(part, written):
                self._react(msgspec.structs.replace(part, req=0))
        self.say(m.Answer(message.req, {}, self.refuses))

    def _begin(self, message: m.OperationBegin) -> dict[str, Any]:
        known = self.operations.get((message.scope, message.key), {"state": "NOT_DONE"})
        if known["state"] == "DONE":
            return {"state": "done", "result": known["result"]}
        if known["state"] == "NOT_DONE":
            self.operations[message.scope, message.key] = {"state": "BEGUN"}
            return {"state": "new"}
        return {"state": "in_doubt", "age": self.age, "owner": self.owner}


_idle: list[tuple[tuple[str, ...], EngineDouble]] = []
"""At most one, with the handlers of its worker."""


@contextmanager
def engine(
    folder: Path,
    *handlers: str,
    environ: dict[str, str] | None = None,
    fresh: bool = False,
    group: Path | None = None,
    **settings: Any,
) -> Iterator[EngineDouble]:
    """A worker with the sample handlers (or `handlers`); a new one if it differs in something else.

    A `fresh` one is a program that was started, and has loaded nothing but its own. It has a group (cgroup) only where one is
    given.
    """
    if fresh or environ or group or settings:
        double = EngineDouble(
            folder, list(handlers) or [str(SAMPLES)], environ or {}, group, fresh, **settings
        )
        try:
            yield double
        finally:
            double.close()
        return
    handlers = handlers or (str(SAMPLES),)
    double = _idle_one(folder, handlers) or EngineDouble(folder, list(handlers), {})
    try:
        yield double
    except BaseException:
        double.close()
        raise
    _idle.append((handlers, double))


def _idle_one(folder: Path, handlers: tuple[str, ...]) -> EngineDouble | None:
    while _idle:
        its_handlers, double = _idle.pop()
        if its_handlers == handlers and double.serve_another(folder):
            return double
        double.close()
    return None


@atexit.register
def _close_idle() -> None:
    while _idle:
        _idle.pop()[1].close()


def running(pid: int) -> bool:
    """Is there a process of this pid that is no zombie?"""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
