"""The application's own log: one file a process, JSON lines, rotated; warnings also on standard error for a person.

Everything passes the redactor. A log that can't be written never hurts the work.
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

FILE_BYTES = 50_000_000
FILES = 10


class _Redacts(Protocol):
    def text(self, text: str) -> str: ...


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


class _Rotating(logging.handlers.RotatingFileHandler):
    def _open(self):  # the file is private from its first byte on
        os.close(os.open(self.baseFilename, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600))
        return super()._open()

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream is not None and not os.path.exists(self.baseFilename):
            self._start_anew()
        super().emit(record)

    def _start_anew(self) -> None:
        """Somebody removed the file or its folder: the log goes on in a new one, which says so."""
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self.baseFilename), mode=0o700, exist_ok=True)
            self.close()
            self.stream = self._open()
            lost = logging.LogRecord(
                "taskdeck.log",
                logging.WARNING,
                "",
                0,
                "the log was removed; what stood in it is lost",
                None,
                None,
            )
            super().emit(lost)

    def handleError(self, record: logging.LogRecord) -> None:
        return  # a full disk must not stop the engine


class _Terminal(logging.StreamHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        return  # the terminal has gone


def configure(path: Path, level: str, redactor: _Redacts, *, aloud: bool = True) -> None:
    """Log `taskdeck.*` to `path` at `level`; `aloud`: to standard error too, where no screen is drawn."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    logger = logging.getLogger("taskdeck")
    logger.setLevel(level.upper())
    logger.propagate = False
    file = _Rotating(
        path,
        maxBytes=FILE_BYTES,
        backupCount=FILES - 1,
        encoding="utf-8",
        errors="backslashreplace",
        delay=True,
    )
    file.setFormatter(JsonLines(redactor))
    logger.handlers[:] = [file]
    if aloud:
        terminal = _Terminal(sys.stderr)
        terminal.setFormatter(ForPeople(redactor))
        logger.addHandler(terminal)
    foreign = logging.getLogger(
        "asyncio"
    )  # what libraries complain of belongs in the file, not on the terminal
    foreign.propagate = False
    foreign.handlers[:] = [file]
