"""Every error that taskdeck raises on purpose: one tree, one shape, one exit code each.

Each error says what happened (`what`), why (`why`) and what to do next (`remedy`). The texts are shown to people, so they
never hold a secret. Nothing else lives here: no I/O, no imports from the rest of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct


class TaskdeckError(Exception):
    """The root. `code` is a stable word for machines, `exit_code` the process exit code of cli.md."""

    code = "failed"
    exit_code = 1

    def __init__(self, what: str, why: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        text = self.what
        if self.why:
            text += f": {self.why}"
        if self.remedy:
            text += f" ({self.remedy})"
        return text

    def as_dict(self) -> dict[str, str]:
        """The stable JSON form: code, what, why, remedy."""
        return {"code": self.code, "what": self.what, "why": self.why, "remedy": self.remedy}

    def as_told(self) -> dict[str, Any]:
        """What another process is told of it, so that it can `rebuild` it: `as_dict`, and the exit code."""
        return {**self.as_dict(), "exit_code": self.exit_code}


class UsageError(TaskdeckError):
    """The request itself is malformed."""

    code = "usage"
    exit_code = 2


class NotFound(TaskdeckError):
    """No such task, type, worker or database."""

    code = "not_found"
    exit_code = 3


class NoEngine(TaskdeckError):
    """An engine is needed and none runs on this database."""

    code = "no_engine"
    exit_code = 3


class Refused(TaskdeckError):
    """A rule of the domain forbids it."""

    code = "refused"
    exit_code = 4


class IllegalTransition(Refused):
    """The task table has no such row: from this state, to that one, for this reason."""

    code = "illegal_transition"


class AlreadyRunning(Refused):
    """Another engine holds the database."""

    code = "already_running"


class InvalidPayload(Refused):
    """A payload, checkpoint or result breaks the limits of JSON or the handler's declared type."""

    code = "invalid_payload"


class SecretInInput(Refused):
    """A secret stands in a command line or payload; a reference must stand there instead."""

    code = "secret_in_input"


class StaleLease(TaskdeckError):
    """The fence of this write is older than the row's: another attempt owns the task now."""

    code = "stale_lease"
    exit_code = 4


class Unavailable(TaskdeckError):
    """It can't be done now, but may be in a moment (starting, busy, disk full)."""

    code = "temporary"
    exit_code = 75


class StoreError(TaskdeckError):
    """The database can't be opened, is damaged, or is of another schema."""

    code = "store"


class StorageTrouble(StoreError):
    """The database can't be written now: its disk is full or read-only, or its file is gone. What was asked is not done."""

    code = "storage"
    exit_code = 75


class SchemaMismatch(StoreError):
    """The database was written by another version of taskdeck."""

    code = "schema_mismatch"
    exit_code = 4


class NotPermitted(TaskdeckError):
    """The operating system or the engine denies it."""

    code = "permission"
    exit_code = 77


def kept_from(error: OSError, what: str, remedy: str) -> TaskdeckError:
    """What to raise where the system kept a file from us: `NotPermitted` where it is a matter of rights."""
    kind = NotPermitted if isinstance(error, PermissionError) else StoreError
    return kind(what, error.strerror or str(error), remedy)


class Problem(Struct, frozen=True):
    """One mistake in the configuration: where it is, what it is, and what to do."""

    file: str
    line: int | None
    key: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        key = f" {self.key}:" if self.key else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{place}:{key} {self.what}{remedy}"


class ConfigError(TaskdeckError):
    """The configuration has mistakes; all of them are listed."""

    code = "configuration"
    exit_code = 78

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


class WaitTimeout(TaskdeckError):
    """The wait ended before the tasks did."""

    code = "wait_timeout"
    exit_code = 124


def rebuild(fields: Mapping[str, Any]) -> TaskdeckError:
    """The error that another process described by `as_told`, with its code and exit code."""
    classes = {each.code: each for each in _subclasses(TaskdeckError) if each is not ConfigError}
    kind = classes.get(str(fields.get("code")), TaskdeckError)
    error = kind(str(fields.get("what", "")), str(fields.get("why", "")), str(fields.get("remedy", "")))
    error.exit_code = int(fields.get("exit_code", kind.exit_code))
    return error


def _subclasses(root: type[TaskdeckError]) -> list[type[TaskdeckError]]:
    found = [root]
    for each in root.__subclasses__():
        found += _subclasses(each)
    return found
