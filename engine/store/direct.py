"""One transaction without an engine: for a command that holds the database lock for a moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..clock import Clock
from ..rules.timing import utc_text
from .database import Redacts, Transaction, open_for_writing

T = TypeVar("T")


def write_once(path: Path, clock: Clock, redactor: Redacts, unit: Callable[..., T], *args: Any) -> T:
    """Open the database (creating or migrating it), run `unit(transaction, *args)`, commit, close.

    The caller holds the database lock. What the unit raises is raised, and nothing is changed then.
    """
    database = open_for_writing(path, utc_text(clock.utc()))
    try:
        # No lease is taken here, so the boot id is not needed: it is read by engines only.
        tx = Transaction(database, clock, "", redactor)
        tx.begin()
        try:
            result = tx.unit(unit, *args)
        except BaseException:
            tx.roll_back()
            raise
        tx.commit()
        return result
    finally:
        database.close()
