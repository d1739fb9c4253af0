"""How SQLite goes about every statement: collected from a day of all verbs and from all that a screen asks, then explained.

A table that grows with what is done is never read whole, and nothing that grows is sorted, where anybody waits for it.
"""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import taskdeck.engine
from taskdeck.engine.rules.filters import parse, parse_events
from taskdeck.engine.store.reading import Reader
from taskdeck.engine.views import View
from tests.crashing.day import live_through
from tests.crashing.life import Life

LARGE = {
    "task", "attempt", "event_log", "checkpoint", "operation", "request", "rollback_step", "archived_task",
}  # fmt: skip
"""Tables that grow with what is done."""

SHORT = {
    "task_wanted", "task_held", "attempt_live", "operation_open", "request_open", "request_task", "worker_live",
    "rollback_step_open",
}  # fmt: skip
"""Partial indexes of what is alive or unanswered: to read one whole costs what is going on, not what has been."""

ONCE = {
    "SELECT state, count(*) FROM task GROUP BY state": "all tasks by state: 0.3 s a million from an index alone",
    "SELECT count(*) FROM task t1 WHERE 1": "the length of the whole list",
}
"""Statements that read a large table whole, and why they may."""

FILTERS = (
    "", "state:failed", "state:failed,dead,needs_review", "type:job", "type:job,browse", "state:pending type:job",
    "key:plain", "state:failed,dead type:job,browse", "3-7", "#2", "parent:1",
)  # fmt: skip
EVENT_FILTERS = ("", "#1", "level:error", "type:TASK_STATE", "older:1h")
WORD = re.compile(r"\b(SELECT|UPDATE|DELETE|INSERT|REPLACE|WITH)\b")
STATEMENT = re.compile(rf"\s*{WORD.pattern}")


class Recording(sqlite3.Connection):
    """Notes each statement as it was written, with its question marks."""

    seen: set[str] = set()

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        self.seen.add(sql)
        return super().execute(sql, *args)

    def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
        self.seen.add(sql)
        return super().executemany(sql, *args)

    def cursor(self, *args: Any, **more: Any) -> Any:
        return super().cursor(RecordingCursor)


class RecordingCursor(sqlite3.Cursor):
    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        Recording.seen.add(sql)
        return super().execute(sql, *args)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """A database after a day of all verbs, on connections that note what they are asked."""
    patch, plain = pytest.MonkeyPatch(), sqlite3.connect
    patch.setattr(sqlite3, "connect", lambda *args, **more: plain(*args, **{**more, "factory": Recording}))
    life = Life(tmp_path_factory.mktemp("plans")).begin()
    Recording.seen.clear()
    live_through(life)
    yield life
    patch.undo()


@pytest.fixture(scope="module")
def plans(lived: Life) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(lived.config.db)) as connection:
        yield connection


def explained(connection: sqlite3.Connection, sql: str) -> list[str]:
    places = max(map(int, re.findall(r"\?(\d+)", sql)), default=sql.count("?"))
    names = dict.fromkeys(re.findall(r"[ (,]:(\w+)", sql))
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", names or (None,) * places)
    return [row[3] for row in rows]


def faults(connection: sqlite3.Connection, sql: str) -> Iterator[str]:
    """What is wrong with the way in which SQLite would go."""
    if sql in ONCE:
        return
    plan = explained(connection, sql)
    for step in plan:
        found = re.match(r"SCAN (\S+)(?: USING (?:COVERING )?INDEX (\S+))?", step)
        if found and _table(sql, found[1]) in LARGE and found[2] not in SHORT and not _is_stopped(sql, plan):
            yield f"{step}\n  {sql}"
        if "TEMP B-TREE FOR ORDER BY" in step and " LIMIT " in sql and _named(sql) & LARGE:
            yield f"{step}: all are sorted for the first few\n  {sql}"


def _named(sql: str) -> set[str]:
    return set(re.findall(r'(?:FROM|JOIN)\s+"?(\w+)', sql))


def _table(sql: str, alias: str) -> str:
    found = re.search(rf'(?:FROM|JOIN|UPDATE|INTO)\s+"?(\w+)"?\s+(?:AS\s+)?"?{re.escape(alias)}"?\b', sql)
    return found[1] if found else alias


def _is_stopped(sql: str, plan: Iterable[str]) -> bool:
    """A list in the order of its keys ends with its limit."""
    return " LIMIT " in sql and not any("TEMP B-TREE" in step for step in plan)


def of_all(connection: sqlite3.Connection, statements: Iterable[str]) -> list[str]:
    return [fault for sql in sorted(statements) if STATEMENT.match(sql) for fault in faults(connection, sql)]


def test_no_verb_and_no_attempt_reads_a_large_table_whole(lived: Life, plans: sqlite3.Connection) -> None:
    seen = set(Recording.seen)
    assert len([sql for sql in seen if STATEMENT.match(sql)]) > 60
    assert not of_all(plans, seen)


def test_no_screen_and_no_filter_reads_a_large_table_whole(lived: Life, plans: sqlite3.Connection) -> None:
    Recording.seen.clear()
    with Reader(lived.config.db) as reader:
        view = View(lived.config, reader, lived.clock)
        for text in FILTERS:
            wanted = parse(text)
            view.tasks(wanted, 20)
            view.tasks(wanted, 20, before=9, whole=True)
            view.task_ids(wanted, limit=20, after=3)
            view.task_ids(wanted, limit=20, newest_first=True)
            if text:
                view.count(wanted)
        for text in EVENT_FILTERS:
            view.events(parse_events([text] if text else []), after=1)
        for task_id in range(1, 9):
            view.why(task_id)
        for ask in (
            view.counts,
            view.in_doubt,
            view.workers,
            view.resources,
            view.routes,
            view.engine,
            view.holds,
        ):
            ask()
        view.upcoming(20)
        view.leftovers()
        view.workers(ended=5)
    assert not of_all(plans, Recording.seen)


def test_no_statement_that_stands_in_the_code_reads_a_large_table_whole(plans: sqlite3.Connection) -> None:
    """Also those that the day does not come by: whatever is a statement as it stands."""
    assert not of_all(plans, {sql for sql in constants() if _is_whole(plans, sql)})


def constants() -> Iterator[str]:
    for path in Path(next(iter(taskdeck.engine.__path__))).rglob("*.py"):
        if not {"migrations", "demo", "chaos"} & set(path.parts):
            text = path.read_text("utf-8")
            if not WORD.search(text):
                continue  # to parse all code takes seconds
            nodes = list(ast.walk(ast.parse(text)))
            pieces = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
            for node in nodes:
                if (
                    isinstance(node, ast.Constant)
                    and id(node) not in pieces
                    and STATEMENT.match(str(node.value))
                ):
                    yield str(node.value)


def _is_whole(connection: sqlite3.Connection, sql: str) -> bool:
    try:
        explained(connection, sql)
    except sqlite3.Error:  # a piece of one, or no SQL at all
        return False
    return True


def test_a_whole_scan_and_a_long_sort_are_found(plans: sqlite3.Connection) -> None:
    assert of_all(plans, ["SELECT * FROM task t1 WHERE t1.payload = ?"])
    assert of_all(plans, ["SELECT id FROM attempt WHERE ended_at IS NOT NULL"])
    assert of_all(plans, ["SELECT id FROM task ORDER BY created_at LIMIT 5"])
    assert not of_all(plans, ["SELECT id FROM task WHERE state = ? ORDER BY id DESC LIMIT 5"])
