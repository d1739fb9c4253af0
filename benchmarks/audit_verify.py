"""How long `audit verify` takes over a million events, how much memory, and whether it names the row that was touched.

    .venv/bin/python -m benchmarks.audit_verify [EVENTS] [--folder DIR]

Builds a database of so many events (kept in DIR, if one is named), walks it whole, then damages one row in the middle in each
way and walks it again. Prints CPU seconds and the peak memory of the first walk. The goals: a million events in under ten CPU
seconds on one core, the peak under 150 MB however long the audit is.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from time import process_time

import msgspec

from taskdeck.engine import views
from taskdeck.engine.config import Config
from taskdeck.engine.rules.settings import TaskdeckSettings
from taskdeck.engine.store.events import PendingEvent
from tests.scratch import Scratch

GROUP = 20_000
DAMAGES = {
    "changed": "UPDATE event_log SET message = 'x' WHERE event_id = {n}",
    "removed": "DELETE FROM event_log WHERE event_id = {n}",
    "swapped": "UPDATE event_log SET event_id = -1 WHERE event_id = {n};"
    "UPDATE event_log SET event_id = {n} WHERE event_id = {n} + 1;"
    "UPDATE event_log SET event_id = {n} + 1 WHERE event_id = -1",
    "tail cut": "DELETE FROM event_log WHERE event_id >= {n}",
}


def build(folder: Path, count: int) -> Path:
    """A database of `count` events like those of an engine at work."""
    made = Scratch(folder)
    for start in range(0, count, GROUP):
        made.tx.begin()
        for number in range(start, min(start + GROUP, count)):
            payload = f'{{"from":"PENDING","to":"RUNNING","attempt":1,"fence":{number},"worker":3}}'
            made.tx._events.append(
                PendingEvent(
                    number // 4 + 1,
                    None,
                    None,
                    3,
                    "TASK_STATE",
                    "info",
                    "dispatched",
                    "engine",
                    f"attempt {number}",
                    payload,
                    made.tx.now,
                )
            )
        made.tx.commit()
    made.close()
    return made.path


def verify(path: Path) -> tuple[float, str]:
    """CPU seconds, and what was found."""
    config = msgspec.structs.replace(Config(), taskdeck=TaskdeckSettings(db=path, logs=path.parent))
    began = process_time()
    with views.open_view(config) as view:
        report = view.verify_audit()
    return process_time() - began, f"event {report.event_id}: {report.problem}" if not report.ok else "whole"


def damaged(path: Path, statements: str) -> tuple[float, str]:
    """The same for a database on which somebody did `statements`; it is as before afterwards."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = delete")
        triggers = [
            row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        ]
    copy = path.with_name("damaged.db")
    shutil.copyfile(path, copy)
    with closing(sqlite3.connect(copy)) as connection:
        for name in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.executescript(statements)
    try:
        return verify(copy)
    finally:
        copy.unlink()


def peak() -> int:
    """The most memory that this process has had, in MB; a build in the same process is part of it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.audit_verify")
    parser.add_argument("events", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        path = folder / "taskdeck.db"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            build(folder, options.events)
        seconds, found = verify(path)
        print(f"{'whole':<10} {seconds:6.2f} s  {found}; peak memory {peak()} MB")
        for name, statements in DAMAGES.items():
            seconds, found = damaged(path, statements.format(n=options.events // 2))
            print(f"{name:<10} {seconds:6.2f} s  {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
