"""The console script in a process of its own that need not load first: it is forked from this process, which knows it all.

What a person's shell would start takes a third of a second of computing before it does anything; hundreds of tests start one.
The process is the same in all else: its own directory, variables, streams and session; what it replaces itself by
(`taskdeck run` becomes the supervisor) is a fresh program. Tests of the start itself take the installed script. Whoever
has a connection of his own to the database must not start one: SQLite knows its files by what the parent has open.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import taskdeck.engine.run.engine
import taskdeck.tui.verbs.run  # noqa: F401 - what `run` needs before it becomes the supervisor
from taskdeck.tui.cli import main


def taskdeck_process(
    words: Sequence[object],
    folder: Path,
    environment: Mapping[str, str],
    *,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start `taskdeck WORDS` there, without input, in a session of its own."""

    def run() -> None:
        os.closerange(3, min(4096, os.sysconf("SC_OPEN_MAX")))
        code = 1
        try:
            _become(environment)
            code = main(list(map(str, words)))
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
        return subprocess.Popen(
            ["taskdeck"],
            preexec_fn=run,  # noqa: PLW1509
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )


def _become(environment: Mapping[str, str]) -> None:
    """As a program that has just been started: its variables, its streams, no handler of signals."""
    os.environ.clear()
    os.environ.update(environment)
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
