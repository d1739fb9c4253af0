"""Calling the command line as a person or script would: in this process, in one of its own, on a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from taskdeck.engine.run import throwaway
from taskdeck.tui.cli import main
from tests.warm import validation_process

PROGRAM = [sys.executable, "-c", "from taskdeck.tui.cli import script; script()"]


WARM = SimpleNamespace(
    Popen=validation_process, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired
)
"""How a call starts the process that knows the handlers."""


without_database = pytest.mark.parametrize("taskdeck", ["new"], indirect=True)
"""What is called has no database yet."""


@dataclass
class Ended:
    """How a call ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, Any]:
        """The error object on standard error."""
        return json.loads(self.err)["error"]


class Calls:
    """Calls on one database in one directory; every call must end without a traceback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / "taskdeck.db"
        self.environment = {**os.environ, "TASKDECK_DB": str(self.db), "TERM": "xterm", "TZ": "UTC"}
        self.environment.pop("COLUMNS", None)

    def __call__(self, *words: str, stdin: str = "", code: int | None = 0) -> Ended:
        """A call inside this process (twenty times faster): same directory, variables and streams as `process`."""
        return self._checked(*called(words, self.folder, self.environment, stdin), code)

    def process(self, *words: str, code: int = 0) -> Ended:
        """A call in a process of its own."""
        done = subprocess.run(
            [*PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=self.folder,
            env=self.environment,
            timeout=30,
            check=False,
        )
        return self._checked(done.returncode, done.stdout, done.stderr, code)

    def _checked(self, ended: int, out: bytes, err: bytes, code: int | None) -> Ended:
        found = Ended(ended, out.decode("utf-8", "surrogateescape"), err.decode())
        assert "Traceback" not in found.err
        assert code is None or found.code == code, found
        return found

    def on_terminal(self, *words: str, answer: str = "", **more: str) -> Ended:
        """A call inside this process with a terminal of 24 lines and 80 columns on all three streams."""
        ours, theirs = pty.openpty()
        if answer:
            os.write(ours, answer.encode())
        with ThreadPoolExecutor(1) as reader, _standard_streams(theirs):
            shown = reader.submit(_read_all, ours)
            code = _main(words, self.folder, {**self.environment, **more}, *map(_terminal, range(3)))
        os.close(ours)
        text = shown.result().decode().replace("\r\n", "\n")
        assert "Traceback" not in text
        return Ended(code, text, text)

    def process_on_terminal(self, *words: str, **more: str) -> Ended:
        """The same in a process of its own, which is the leader of a session of its own."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*PROGRAM, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self.folder,
            env={**self.environment, **more},
            start_new_session=True,
        )
        os.close(theirs)
        text = _read_all(ours).decode().replace("\r\n", "\n")
        os.close(ours)
        assert "Traceback" not in text
        return Ended(process.wait(timeout=30), text, text)


def _read_all(terminal: int) -> bytes:
    """What is shown until nobody has the other end any more."""
    shown = b""
    try:
        while data := os.read(terminal, 65536):
            shown += data
    except OSError:  # the other end is closed
        pass
    return shown


@contextmanager
def _standard_streams(fd: int) -> Iterator[None]:
    """This descriptor as the first three of this process; it is closed with the last of them."""
    kept = [os.dup(number) for number in range(3)]
    for number in range(3):
        os.dup2(fd, number)
    os.close(fd)
    try:
        yield
    finally:
        for number, each in enumerate(kept):
            os.dup2(each, number)
            os.close(each)


def _terminal(fd: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(open(fd, "rb" if fd == 0 else "wb", closefd=False), encoding="utf-8")


def called(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: str = ""
) -> tuple[int, bytes, bytes]:
    """The console script's own `main` as if in a process with this directory and these variables: code, output, errors."""
    out, err = _stream(), _stream()
    code = _main(words, folder, environment, _stream(stdin.encode("utf-8", "surrogateescape")), out, err)
    return code, _bytes(out), _bytes(err)


def _main(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], *streams: io.TextIOWrapper
) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in [name for name in os.environ if name not in environment]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        patch.setattr(throwaway, "subprocess", WARM)
        code = main(list(words))
        for stream in streams[1:]:
            stream.flush()
        return code


def _stream(data: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")


def _bytes(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue()
