"""One transaction without an engine: for a command that holds the database lock for a moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..clock import Clock
from ..rules.timing import utc_text
from .diagnosis import passing_as_trouble
from .transaction import Redacts, Transaction, connect_current

T = TypeVar("T")


def write_once(path: Path, clock: Clock, redactor: Redacts, unit: Callable[..., T], *args: Any) -> T:
    """Open the database (creating or migrating it), run `unit(transaction, *args)`, commit, close.

    The caller holds the database lock. What the unit raises is raised, and nothing is changed then.
    """
    connection = connect_current(path)
    database = None
    if connection is None:
        from .database import open_for_writing

        database = open_for_writing(path, utc_text(clock.utc()))
        connection = database.connection()
    try:
        # No lease is taken here, so the boot id is not needed: it is read by engines only.
        tx = Transaction(connection, clock, "", redactor, database)
        with passing_as_trouble(f"{path} can't be written now"):
            tx.begin()
            try:
                result = tx.unit(unit, *args)
            except BaseException:
                tx.roll_back()
                raise
            tx.commit()
        return result
    finally:
        connection.close()
