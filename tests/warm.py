"""Programs of ours in processes of their own that need not load first: they are forked from this process, which knows it all.

What a person's shell would start takes a third of a second of computing before it does anything; hundreds of tests start one.
The process is the same in all else: its own directory, variables, streams and session; what it replaces itself by
(`taskdeck run` becomes the supervisor), and all that it starts, are fresh programs. Tests of the start itself take the
installed script, or ask for a fresh worker. Whoever has a connection of his own to the database must not start one: SQLite
knows its files by what the parent has open.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import taskdeck.engine.run.engine
import taskdeck.tui.verbs.run  # noqa: F401 - what `run` needs before it becomes the supervisor
from taskdeck.engine import crash
from taskdeck.engine.run import validation, worker
from taskdeck.tui.cli import main

ROOT = Path(__file__).parents[1]
OURS = tuple(str(each) for each in (ROOT / "engine", ROOT / "tui"))
INSTALLED = tuple(
    {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
)
"""Where programs have their modules from; what else this process has loaded, no program of its own would know."""


def taskdeck_process(
    words: Sequence[object],
    folder: Path,
    environment: Mapping[str, str],
    *,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start `taskdeck WORDS` there, without input, in a session of its own."""
    return _forked(
        "taskdeck",
        lambda: main(list(map(str, words))),
        folder,
        environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def worker_process(
    words: Sequence[object], folder: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start `python -m taskdeck.engine.run.worker WORDS` there."""

    def run() -> int:
        _forget_what_no_program_knows(folder)
        return worker.main(list(map(str, words)))

    return _forked("taskdeck worker", run, folder, environment)


def validation_process(command: Sequence[str], **streams: Any) -> subprocess.Popen[bytes]:
    """In place of `subprocess.Popen` where `python -m taskdeck.engine.run.validation …` is started."""
    assert command[1:3] == ["-m", validation.__name__]

    def run() -> int:
        _forget_what_no_program_knows(Path.cwd())
        return validation.main(command[3:])

    return _forked("taskdeck validation", run, Path.cwd(), dict(os.environ), **streams)


def _forget_what_no_program_knows(folder: Path) -> None:
    """The files of tests and handlers are loaded anew, as they stand now and from where a program in `folder` finds them."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and not file.startswith((*OURS, *INSTALLED)):
            del sys.modules[name]
    sys.path.insert(0, str(folder))  # as `-m` does


def _forked(
    name: str, program: Callable[[], int], folder: Path, environment: Mapping[str, str], **how: Any
) -> subprocess.Popen[bytes]:
    def run() -> None:
        os.closerange(3, min(4096, os.sysconf("SC_OPEN_MAX")))
        code = 1
        try:
            _become(environment)
            code = program()
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # other threads of ours hold nothing that it needs
        process: subprocess.Popen[Any] = subprocess.Popen([name], preexec_fn=run, cwd=folder, **how)  # noqa: PLW1509
        return process


def _become(environment: Mapping[str, str]) -> None:
    """As a program that has just been started: its variables, its streams, no handler of signals, no hooks of tests."""
    gc.freeze()  # what is here already belongs to the tests: to look through it would copy it
    os.environ.clear()
    os.environ.update(environment)
    crash.arm(environment)
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    sys.unraisablehook, threading.excepthook = sys.__unraisablehook__, threading.__excepthook__
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False))  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8")  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(
        open(2, "wb", closefd=False),  # noqa: SIM115
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python starts
