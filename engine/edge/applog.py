"""The application's own log: JSON lines in files of bounded number and size; warnings also on standard error for a person.

Debug lines go to a file of their own beside it, so that they push nothing out that matters. Everything passes the redactor. A
file that was moved (logrotate) or removed is begun anew; a log that can't be written never hurts the work, and says
afterwards how many lines it lost.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from ..errors import ConfigError, Problem
from .paths import make_private_directory

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""How a log is opened: a pipe in its place, without a reader, is not waited for."""


class _Redacts(Protocol):
    def text(self, text: str) -> str: ...


class _Settings(Protocol):
    """What the log needs of `[logging]`."""

    @property
    def level(self) -> str: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def files(self) -> int: ...


class JsonLines(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message, and the error's type and place, never its locals."""

    def __init__(self, redactor: _Redacts) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "@timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "log.level": record.levelname.lower(),
            "log.logger": record.name,
            "process.pid": record.process,
            "message": self._redactor.text(record.getMessage()),
        }
        if record.exc_info:
            line["error.stack_trace"] = self._redactor.text(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


class ForPeople(logging.Formatter):
    """`taskdeck: message`, redacted."""

    def __init__(self, redactor: _Redacts) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return f"taskdeck: {self._redactor.text(record.getMessage())}"


class LogFile(logging.Handler):
    """One log of one process, in `path` and its numbered predecessors, the newest being `.1`. Opened at its first line."""

    def __init__(self, path: Path, settings: _Settings, *, of: Path) -> None:
        """`of` is the log that `path` belongs to: the bound on the number of files is for all of it."""
        super().__init__()
        self._path = path
        self._most_bytes, self._most_files = settings.file_bytes, settings.files
        self._of = of
        self._fd: int | None = None
        self._lost = 0
        self._why = ""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._follow_the_name()
            if self._lost:
                self._write(self._note(f"lines lost here: {self._lost} ({self._why})"))
                self._lost = 0
            self._write(self.format(record))
        except OSError as error:  # a full disk must not stop the engine
            self._lost, self._why = self._lost + 1, error.strerror or str(error)
        except (
            Exception
        ) as error:  # a message that can't be put together: our own mistake, and no reason to fail
            self._lost, self._why = self._lost + 1, f"{type(error).__name__} in a message"

    def close(self) -> None:
        """Let go of the file; the next line opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        super().close()

    def _follow_the_name(self) -> None:
        """Begin a new file where the name no longer leads to ours; where ours is gone for good, it says so."""
        if self._fd is None:
            return
        own = os.fstat(self._fd)
        with suppress(FileNotFoundError):
            if os.path.samestat(own, os.stat(self._path)):
                return
        os.close(self._fd)
        self._fd = None
        if not own.st_nlink:
            self._write(self._note("the log was removed; what stood in it is lost"))

    def _write(self, line: str) -> None:
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        size = self._open()
        if size and size + len(data) > self._most_bytes:
            self._begin_anew()
            size = self._open()
        assert self._fd is not None
        if (written := os.write(self._fd, data)) < len(data):
            os.ftruncate(self._fd, size)  # half a line would spoil the next one too
            raise OSError(f"only {written} of {len(data)} bytes could be written")

    def _open(self) -> int:
        """Have the file open; returns its size in bytes."""
        if self._fd is None:
            make_private_directory(self._path.parent)
            self._fd = os.open(self._path, FLAGS, 0o600)
        return os.fstat(self._fd).st_size

    def _begin_anew(self) -> None:
        assert self._fd is not None
        os.close(self._fd)
        self._fd = None
        for number in range(self._most_files, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(_numbered(self._path, number - 1), _numbered(self._path, number))
        keep_files(self._of, self._most_files - 1)  # and the one that is about to be made

    def _note(self, text: str) -> str:
        return self.format(logging.LogRecord("taskdeck.log", logging.WARNING, "", 0, text, None, None))


class _Terminal(logging.StreamHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        return  # the terminal has gone


class ApplicationLog:
    """The log of this process. `aloud`: warnings go to standard error too, where no screen is drawn."""

    def __init__(self, path: Path, settings: _Settings, redactor: _Redacts, *, aloud: bool = True) -> None:
        self._redactor = redactor
        self._aloud = aloud
        self._handlers: list[logging.Handler] = []
        self._install(path, settings)

    def reconfigure(self, path: Path, settings: _Settings) -> None:
        """Log there, so, from the next line on; files are opened anew. Raises `ConfigError` where nothing can be written.

        Then everything stays as it was.
        """
        try:
            make_private_directory(path.parent)
            os.close(os.open(path, FLAGS, 0o600))
        except OSError as error:
            what = f"{path} can't be written: {error.strerror}"
            raise ConfigError(
                [Problem("configuration", None, "logging.file", what, "name another file")]
            ) from None
        self._install(path, settings)

    def _install(self, path: Path, settings: _Settings) -> None:
        file = LogFile(path, settings, of=path)
        file.setLevel(logging.INFO)
        debug = LogFile(debug_file(path), settings, of=path)
        debug.addFilter(lambda record: record.levelno < logging.INFO)
        for handler in (file, debug):
            handler.setFormatter(JsonLines(self._redactor))
        old, self._handlers = self._handlers, list[logging.Handler]((file, debug))
        if self._aloud:
            terminal = _Terminal(sys.stderr)
            terminal.setLevel(logging.INFO)
            terminal.setFormatter(ForPeople(self._redactor))
            self._handlers.append(terminal)
        # What libraries complain of belongs in the file, not on the terminal.
        for name, handlers in (("taskdeck", self._handlers), ("asyncio", [file])):
            logger = logging.getLogger(name)
            logger.propagate = False
            logger.handlers[:] = handlers
        logging.getLogger("taskdeck").setLevel(settings.level.upper())
        keep_files(path, settings.files)
        for handler in old:
            handler.close()


def debug_file(path: Path) -> Path:
    """`engine.debug.log` beside `engine.log`."""
    return path.with_name(f"{path.stem}.debug{path.suffix}")


def keep_files(path: Path, most: int) -> None:
    """Remove the oldest files of the log at `path` beyond `most`, those of its debug log first."""
    names = [(path.name, 0), (debug_file(path).name, 1)]
    found: list[tuple[int, int, Path]] = []
    with suppress(OSError):
        for each in path.parent.iterdir():
            for name, is_debug in names:
                if match := re.fullmatch(re.escape(name) + r"(?:\.(\d{1,4}))?", each.name):
                    found.append((is_debug, int(match[1] or 0), each))
    ended = sorted((each for each in found if each[1]), reverse=True)  # those that are being written stay
    for _, _, each in ended[: max(0, len(found) - most)]:
        with suppress(OSError):
            each.unlink()


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def shorten(path: Path, most_bytes: int) -> bool:
    """Bound a file that other processes append to and keep open: its newest part goes to `.1`, and it begins anew.

    What is written in the moment between is lost. Returns whether there was something to do.
    """
    try:
        with open(path, "r+b", buffering=0, opener=_private) as file:
            size = os.fstat(file.fileno()).st_size
            if size <= most_bytes:
                return False
            file.seek(size - most_bytes)
            with open(_numbered(path, 1), "wb", buffering=0, opener=_private) as kept:
                while block := file.read(1 << 20):
                    kept.write(block)
            file.truncate(0)
    except OSError:
        return False
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
