"""What the world knows of a run of chaos, held against its database: the nine invariants, judged when all is over.

Reads files; uses no engine and none of the store's code.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ..demo.invariants import Outside, Verdicts, judge
from ..demo.passwords import Passwords
from . import jobs, plan

LEDGER = "ledger.jsonl"


def examine(database: Path, folder: Path, outside: Outside) -> Verdicts:
    """Judge the run in `folder`. `outside`: what people were told, and problems that were seen meanwhile."""
    outside.effects = list(_effects(folder))
    outside.told = [*outside.told, *_told(database, folder)]
    return judge(database, outside)


def _effects(folder: Path) -> Iterator[str]:
    for line in _lines(folder / LEDGER):
        yield str(json.loads(line)["row"])
    yield from _lines(folder / jobs.EFFECTS)


def _told(database: Path, folder: Path) -> Iterator[tuple[int, str]]:
    yield from ((1, line) for line in _lines(folder / jobs.TRESPASSES))
    yield from ((7, problem) for problem in Passwords(database, folder).check())
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            yield from _runs(connection, folder)
    except sqlite3.Error as error:
        yield 3, f"{database}: it can't be read: {error}"


def _runs(connection: sqlite3.Connection, folder: Path) -> Iterator[tuple[int, str]]:
    """Commands: one beginning an attempt, none of an attempt that nobody wrote down, none twice unasked."""
    begun = Counter(tuple(line.split()) for line in _lines(folder / plan.RUNS))
    known = {
        (str(task), str(number)) for task, number in connection.execute("SELECT task_id, number FROM attempt")
    }
    for (key, task, attempt), times in begun.items():
        if times > 1:
            yield 4, f"#{task} ({key}): attempt {attempt} began its command {times} times"
        if (task, attempt) not in known:
            yield 3, f"#{task} ({key}): attempt {attempt} ran, and the database knows of no such attempt"
    again = connection.execute(
        "SELECT DISTINCT task.id FROM task JOIN event_log ON task_id = task.id"
        " WHERE on_lost = 'review' AND event_type = 'TASK_STATE' AND event_log.reason = 'taken_over'"
    )
    for (task,) in again:
        yield 5, f"#{task}: it must not run twice unasked, and was taken over"


def _lines(path: Path) -> list[str]:
    """Whole lines; whoever was killed while writing one left it without an end."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0].splitlines()
    except FileNotFoundError:
        return []
