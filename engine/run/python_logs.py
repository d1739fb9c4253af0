"""Logs of attempts as a worker writes them; that of a Python attempt is opened at its first line, since most say nothing."""

from __future__ import annotations

from ..edge.logs import AttemptLog
from ..rules.cleaning import clean
from ..rules.redaction import Redactor
from .attempts import Attempt
from .endings import MAX_LOG_LINE, log_line
from .messages import Welcome

TAIL_LINES = 20
MAX_TAIL = 2000
"""Characters."""


def open_log(path: str, settings: Welcome) -> AttemptLog:
    """The bounded log file of one attempt."""
    return AttemptLog(path, file_bytes=settings.attempt_bytes, files=settings.attempt_files)


def tail_of(log: AttemptLog, redactor: Redactor) -> str:
    """The last lines for the screen, cleaned and without secrets; of too much, the end."""
    if not log.total:
        return ""
    lines = [clean(line.decode("utf-8", "replace"), keep="\t") for line in log.tail(TAIL_LINES)]
    text = redactor.text("\n".join(lines))
    return text if len(text) <= MAX_TAIL else "…" + text[-MAX_TAIL:]


class PythonLog:
    """What a handler logs, and the traceback of its failure."""

    def __init__(self, attempt: Attempt, settings: Welcome) -> None:
        self._attempt = attempt
        self._settings = settings
        self._log: AttemptLog | None = None

    def write(self, text: str) -> None:
        """Add a line with its time, UTC."""
        run = self._attempt.run
        if not run.log_path:
            return
        if self._log is None:
            self._log = open_log(run.log_path, self._settings)
        if run.route:  # libraries write a proxy's URL into their errors
            text = self._attempt.held.redactor.text(text[:MAX_LOG_LINE])
        self._log.write(log_line(text, self._attempt.clock.utc()).encode("utf-8", "replace"))

    def tail(self) -> str:
        """The last lines, or empty where nothing was logged."""
        return tail_of(self._log, self._attempt.held.redactor) if self._log else ""

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._log is not None:
            self._log.close()
