"""Many rows by few statements: a row costs less than half of what an INSERT of its own would.

Columns that no row has a value for are written as NULL and not bound: for each None that it binds, `sqlite3` looks in vain
for somebody who would adapt it, which takes as long as writing three texts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

AT_ONCE = 64
"""Rows of one statement: beyond that little is gained."""

FEWEST = 2
"""Values of a row that stay bound: `itemgetter` makes a tuple of no fewer."""

Values = tuple[Any, ...]


def insert(connection: sqlite3.Connection, head: str, row: str, rows: Sequence[Values]) -> None:
    """Run `head` (INSERT … VALUES) for all `rows`, in order; `row` are the marks of one. Constant SQL, hence cached."""
    row, rows = _without_empty(row, rows)
    whole = len(rows) - len(rows) % AT_ONCE
    for first in range(0, whole, AT_ONCE):
        connection.execute(_of_many(head, row), tuple(chain.from_iterable(rows[first : first + AT_ONCE])))
    if whole < len(rows):
        connection.executemany(head + row, rows[whole:])


def insert_one(connection: sqlite3.Connection, head: str, row: str, values: Values) -> int:
    """Run `head` for one row; returns its id."""
    row, (values,) = _without_empty(row, (values,))
    number = connection.execute(head + row, values).lastrowid
    assert number is not None
    return number


def insert_row(connection: sqlite3.Connection, table: str, columns: Mapping[str, Any]) -> int:
    """One new row of `table`; returns its id."""
    names = '", "'.join(columns)
    row = f"({', '.join('?' * len(columns))})"
    return insert_one(connection, f'INSERT INTO {table}("{names}") VALUES ', row, tuple(columns.values()))


def _without_empty(row: str, rows: Sequence[Values]) -> tuple[str, Sequence[Values]]:
    """The marks and values without the columns in which every row has None."""
    first = rows[0] if rows else ()
    empty = tuple(
        at
        for at, value in enumerate(first)
        if value is None and list(map(itemgetter(at), rows)).count(None) == len(rows)
    )[: max(0, len(first) - FEWEST)]
    if not empty:
        return row, rows
    row, rest = _spared(row, len(first), empty)
    return row, list(map(rest, rows))


@lru_cache(maxsize=256)
def _spared(row: str, count: int, empty: tuple[int, ...]) -> tuple[str, Callable[[Values], Values]]:
    """The marks with NULL at these places, and what takes the other values."""
    between = row.split("?")
    marks = ["NULL" if at in empty else "?" for at in range(count)]
    kept = [at for at in range(count) if at not in empty]
    return "".join(chain.from_iterable(zip(between, [*marks, ""], strict=True))), itemgetter(*kept)


@lru_cache(maxsize=64)
def _of_many(head: str, row: str) -> str:
    return head + ",".join([row] * AT_ONCE)
