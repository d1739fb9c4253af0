"""Putting another file in the place of the database, so that a crash at any point leaves the old one or the new one.

A write-ahead log belongs to the file it was written for, and to no other. What is to happen is written down first
(`<db>.restoring`); from then on whoever opens the database for writing carries it through. The old file keeps another name.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from ..errors import StoreError
from ..rules.chain import Head
from . import anchors
from .durable import published, sync
from .transaction import refuse_what_is_no_database


class Replacement(msgspec.Struct, frozen=True):
    """What is to take whose place. Names in the folder of the database; `head` is noted outside it, as of `now`."""

    new: str
    aside: str
    head: tuple[int, int, str]
    now: str


def plan_file(database: Path) -> Path:
    """Where the plan stands while it is carried out."""
    return database.with_name(f"{database.name}.restoring")


def settle(database: Path) -> None:
    """Bring what stands in the write-ahead log into the file, as far as that is possible; the caller holds the lock.

    A file that is too damaged for that is left as it is: its log is kept beside it then.
    """
    try:
        refuse_what_is_no_database(database)
    except StoreError:  # SQLite would remove the log of what is no database
        return
    if not database.exists():
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(database, timeout=5)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def replace(database: Path, plan: Replacement, at: Callable[[str], None]) -> None:
    """Carry out the plan: `plan.new` lies complete and durable beside the database. `at` is told the steps, for the crash
    tests. Raises `OSError`."""
    with published(plan_file(database), replace=True) as part:
        part.write_bytes(msgspec.json.encode(plan))
    at("after_restore_plan")
    finish(database, at)


def finish(database: Path, at: Callable[[str], None] = lambda step: None) -> None:
    """Carry through what was begun, if something was. The caller holds the database lock."""
    try:
        plan = msgspec.json.decode(plan_file(database).read_bytes(), type=Replacement)
    except FileNotFoundError:
        return
    new, aside = database.with_name(plan.new), database.with_name(plan.aside)
    if new.exists():
        _move_log(database, aside)
        at("after_old_log_moved")
        if database.exists() and not aside.exists():
            os.link(database, aside)
        event_id, count, digest = plan.head
        anchors.note(database, Head(event_id, count, digest), plan.now, restored=True)
        os.replace(new, database)
        at("after_swap")
    sync(database.parent)
    plan_file(database).unlink()
    sync(database.parent)


def _move_log(database: Path, aside: Path) -> None:
    """The old log goes with the old file, or away where it holds nothing."""
    for suffix in ("-wal", "-journal"):
        log = Path(f"{database}{suffix}")
        if log.exists() and log.stat().st_size:
            os.replace(log, f"{aside}{suffix}")
        else:
            log.unlink(missing_ok=True)
    Path(f"{database}-shm").unlink(missing_ok=True)
