"""The door: what an author of handlers imports, or a program that submits tasks. Light, since every start of the command line
passes through it.

Owns the words with which a handler speaks about its own end. Everything that costs an import is fetched on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose loading is a tenth of the start of a supervisor

if TYPE_CHECKING:
    from datetime import datetime

    from .run.context import Context as Context
    from .run.handlers import task as task
    from .run.sync_context import SyncContext as SyncContext
    from .run.undo import rollback as rollback
    from .submitting import Submitter as Submitter

__version__ = "0.1.0"

__all__ = [
    "Context",
    "Delay",
    "Fatal",
    "NotDone",
    "ResourceFault",
    "Retry",
    "StopRequested",
    "Submitter",
    "SyncContext",
    "__version__",
    "rollback",
    "task",
]


class Retry(Exception):
    """Raise to run again later, after the usual backoff or `after` seconds; spends one retry."""

    def __init__(self, message: str = "", *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class Delay(Exception):
    """Raise when it is too early: run again in `seconds`, or at `until` (aware). Spends no retry; has a bound of its own."""

    def __init__(
        self, message: str = "", *, seconds: float | None = None, until: datetime | None = None
    ) -> None:
        super().__init__(message)
        if until is not None and until.tzinfo is None:
            raise ValueError("until needs a time zone, e.g. datetime.now(UTC) + timedelta(minutes=5)")
        self.seconds = seconds
        self.until = until


class Fatal(Exception):
    """Raise when trying again can't help; the task is FAILED at once."""


class ResourceFault(Exception):
    """Raise when the resource or route is at fault and not the task; it goes back to the queue for another one."""

    def __init__(self, message: str = "", *, resource: str = "") -> None:
        super().__init__(message)
        self.resource = resource


class NotDone(Exception):
    """Raise inside `ctx.once` or a `verify`: the effect certainly did not happen, so it may be tried again."""


class StopRequested(BaseException):
    """Raised by a checkpoint when the task shall pause or stop. No `except Exception` of a handler swallows it."""


_LATE = {
    "Context": ".run.context",
    "Submitter": ".submitting",
    "SyncContext": ".run.sync_context",
    "rollback": ".run.undo",
    "task": ".run.handlers",
}


def __getattr__(name: str) -> object:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module, __name__), name)
    globals()[name] = value
    return value
