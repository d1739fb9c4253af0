"""How an attempt ended, as a worker can say it: outcomes, and the failures behind them.

Pure; texts are cleaned and redacted here, since they leave the process. What becomes of the
task is the engine's to decide.
"""

from __future__ import annotations

import traceback
from datetime import datetime

import msgspec

from ..rules import failures
from ..rules.cleaning import clean
from ..rules.failures import Failure, FailureClass
from ..rules.redaction import Redactor
from ..rules.timing import format_duration
from .attempt_messages import Outcome, Run

MAX_MESSAGE = 2000
MAX_LOG_LINE = 64 * 1024
SECRETS = Redactor()
"""Masks what looks like a secret, and what this process has looked up (`passwords`)."""


class InDoubt(BaseException):
    """The attempt must end: an operation is in doubt and the type has no `verify`.

    `owner`: the task that began it, where it is another one; 0 = an earlier attempt of this task did.
    """

    def __init__(self, key: str, owner: int = 0) -> None:
        begun_by = f"#{owner}" if owner else "an earlier attempt"
        there = f"; settle it there (taskdeck operation list {owner}), then retry" if owner else ""
        super().__init__(
            f'operation "{key}" was begun by {begun_by} and it is not known whether it happened{there}'
        )
        self.key = key


class Judged(Exception):
    """A failure whose class is known where it happens."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failed(run: Run, failure: Failure, *, exit_code: int | None = None, tail: str = "") -> Outcome:
    """The attempt failed."""
    return Outcome(run.task_id, run.fence, "failed", failure=encoded(failure), exit_code=exit_code, tail=tail)


def in_doubt(run: Run, why: str, *, tail: str = "") -> Outcome:
    """The attempt ended because an operation is in doubt; a person decides. `failure` says which."""
    failure = Failure(FailureClass.FATAL, "in_doubt", safe(why), "operation")
    return Outcome(run.task_id, run.fence, "in_doubt", failure=encoded(failure), tail=tail)


def never_started(run: Run) -> Outcome:
    """The worker didn't begin it; it is free."""
    return Outcome(run.task_id, run.fence, "never_started")


def timed_out(seconds: float) -> Failure:
    """The attempt was ended at its timeout."""
    return Failure(
        FailureClass.RETRYABLE, "timeout", f"not done within {format_duration(seconds)}", "timeout"
    )


def failure_of(error: BaseException, now: datetime, redactor: Redactor = SECRETS) -> Failure:
    """What the rules make of an exception."""
    if isinstance(error, Judged):
        return error.failure
    names, message, attributes = failures.describe(error)
    if _is_no_http(error):
        return Failure(FailureClass.RETRYABLE, "protocol", safe(message, redactor), "answer that is not HTTP")
    return failures.from_exception(names, safe(message, redactor), attributes, now=now)


def log_line(text: str, now: datetime) -> str:
    """A line of a handler's log, with its time in UTC."""
    time = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"{time} {text[:MAX_LOG_LINE].rstrip()}\n"


def safe(text: str, redactor: Redactor = SECRETS) -> str:
    """The text as it may be stored and shown: no secret, no control character, of bounded length."""
    return clean(redactor.text(text), limit=MAX_MESSAGE)


def encoded(failure: Failure) -> str:
    """The failure as `Outcome.failure` carries it."""
    return msgspec.json.encode(failure).decode()


def told(error: BaseException) -> str:
    """The author's own frames of a failure, for the attempt's log; what was raised on purpose needs none."""
    if isinstance(error, Judged) or type(error).__module__ == "taskdeck.engine":
        return f"{type(error).__name__}: {error}"
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__package__") == __package__:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def _is_no_http(error: BaseException) -> bool:
    """An answer that can't be read, to which aiohttp gives a status of 400 that no server ever sent."""
    is_response = type(error).__name__ == "ClientResponseError"
    return is_response and any(
        kind.__name__ == "HttpProcessingError" for kind in type(error.__cause__).__mro__
    )
