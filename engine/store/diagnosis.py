"""What an error of SQLite means: the disk's or a lock's affair that may be over in a moment, or something else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import StorageTrouble
from ..rules.storage import Fault, Trouble

_FAULTS = {
    sqlite3.SQLITE_FULL: (Fault.FULL, "make room"),
    sqlite3.SQLITE_READONLY: (Fault.READ_ONLY, "make it writable"),
    sqlite3.SQLITE_BUSY: (Fault.LOCKED, "end the program that holds it; see: fuser -v"),
    sqlite3.SQLITE_LOCKED: (Fault.LOCKED, "end the program that holds it; see: fuser -v"),
}
_PASSING = frozenset({*_FAULTS, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM})


def is_passing(error: BaseException | None) -> bool:
    """Is it the disk's or a lock's affair, which may be over in a moment? Looks behind peewee's own error too."""
    code = getattr(_culprit(error), "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _PASSING


def diagnosis(error: BaseException) -> Trouble:
    """What kept a change from being written."""
    error = _culprit(error) or error
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", "")
    fault, remedy = _FAULTS.get(
        (code or 0) & 0xFF, (Fault.BROKEN, "check the disk, its room and its permissions")
    )
    return Trouble(fault, f"{error}{f' ({name})' if name else ''}", remedy)


def refusal(trouble: Trouble, what: str = "the database can't be written now") -> StorageTrouble:
    """The error that says so to whoever asked for a change."""
    return StorageTrouble(what, trouble.why, trouble.remedy)


@contextmanager
def passing_as_trouble(what: str) -> Iterator[None]:
    """Raise `StorageTrouble` with these first words where the disk or a lock is in the way."""
    try:
        yield
    except Exception as error:
        if is_passing(error):
            raise refusal(diagnosis(error), what) from error
        raise


def _culprit(error: BaseException | None) -> BaseException | None:
    """The first error of SQLite in what led to `error`, but rather one that says more than SQLITE_ERROR.

    Where the disk is in the way in the midst of a transaction, SQLite rolls it back; to do so again is such an error.
    """
    first = None
    while error is not None:
        code = getattr(error, "sqlite_errorcode", None)
        if code not in (None, sqlite3.SQLITE_ERROR):
            return error
        first = first or (error if code is not None else None)
        error = error.__cause__ or error.__context__
    return first
