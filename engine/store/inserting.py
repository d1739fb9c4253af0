"""Many rows by few statements: a row costs less than half of what an INSERT of its own would.

What all rows of a statement have in common is bound once. Columns that no row has a value for are written as NULL and not
bound: for each None that it binds, `sqlite3` looks in vain for somebody who would adapt it, which takes as long as writing
three texts. Rows that differ in one text alone bind their texts as one list: that takes half of the time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import chain
from itertools import count as numbers
from operator import itemgetter
from typing import Any

import msgspec

AT_ONCE = 64
"""Rows of one statement: beyond that little is gained."""
SIZES = (AT_ONCE, 16, 4, 1)
"""Rows of the statements for so many as there happen to be: row by row the rest would cost twice as much."""

FEWEST_ALIKE, MOST_ALIKE, LARGEST_ALIKE = 8, 256, 1 << 20
"""Rows from which on it pays to write them as rows that are alike, rows of one such statement, and characters of what they
have of their own."""

FEWEST = 2
"""Values of a row that stay bound: `itemgetter` makes a tuple of no fewer."""

Values = tuple[Any, ...]
Given = int | str | Sequence[Any] | None
"""A column: the one value that all rows have in it, or a sequence of their own."""


class Column(Enum):
    """What the rows of one statement have in a column."""

    EMPTY = "none of them has a value"
    SHARED = "all have the same"
    OWN = "each has its own"


def insert(connection: sqlite3.Connection, head: str, row: str, rows: Sequence[Values]) -> None:
    """Run `head` (INSERT … VALUES) for all `rows`, in order; `row` are the marks of one. Constant SQL, hence cached."""
    whole = len(rows) - len(rows) % AT_ONCE
    for first in range(0, whole, AT_ONCE):
        columns = zip(*rows[first : first + AT_ONCE], strict=True)
        insert_columns(connection, head, row, list(map(_given, columns)), AT_ONCE)
    if whole < len(rows):
        row, rest = _without_empty(row, rows[whole:])
        connection.executemany(head + row, rest)


def insert_columns(
    connection: sqlite3.Connection,
    head: str,
    row: str,
    columns: Sequence[Given],
    count: int,
) -> None:
    """Run `head` for `count` rows, in order, given by columns: one value that all rows have, or a sequence of their own."""
    kinds = tuple(map(_kind, columns))
    shared = [each for each in columns if isinstance(each, str | int)]
    own = [each for each in columns if not isinstance(each, str | int | None)]
    first = 0
    for size in SIZES:
        while first + size <= count:
            values = shared.copy()
            for each in own:
                values += each[first : first + size]
            connection.execute(_of_many(head, row, kinds, size), values)
            first += size


def insert_alike(
    connection: sqlite3.Connection,
    sql: str,
    common: Values,
    texts: Sequence[str],
    counted: tuple[int, ...] = (),
) -> None:
    """Run `sql` (INSERT … SELECT … FROM json_each(?)) for rows, in order, that have all but a text and a count in common.

    Its question marks are `counted`, then `common`. It takes what a row has of its own from `value`, and its place, which it
    adds to each of `counted`, from `key`. No text holds the character NUL.
    """
    for first, some in _portions(texts):
        starts = [start + first for start in counted]
        connection.execute(sql, (*starts, *common, _json(some).decode()))


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


def _kind(given: Given) -> Column:
    if given is None:
        return Column.EMPTY
    return Column.SHARED if isinstance(given, str | int) else Column.OWN


def _given(column: Values) -> Given:
    """The one value that all of the column have, or the column itself."""
    first = column[0]
    if first != column[-1] or column.count(first) != len(column):
        return column
    # Other things may be equal and still not the same: 1, 1.0 and True, 0.0 and -0.0.
    is_the_same = first is None or isinstance(first, str) or set(map(type, column)) == {int}
    return first if is_the_same else column


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
def _spared(row: str, columns: int, empty: tuple[int, ...]) -> tuple[str, Callable[[Values], Values]]:
    """The marks with NULL at these places, and what takes the other values."""
    marks = ["NULL" if at in empty else "?" for at in range(columns)]
    kept = [at for at in range(columns) if at not in empty]
    return _marked(row, marks), itemgetter(*kept)


_json = msgspec.json.Encoder().encode


def _portions(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """What goes into one statement, with the place of its first."""
    for first in range(0, len(texts), MOST_ALIKE):
        some = texts[first : first + MOST_ALIKE]
        if sum(map(len, some)) <= LARGEST_ALIKE:
            yield first, some
        else:
            yield from ((place, [text]) for place, text in enumerate(some, first))


@lru_cache(maxsize=128)
def _of_many(head: str, row: str, kinds: tuple[Column, ...], size: int) -> str:
    """The statement for so many rows; the numbers of its values: those that are shared, then column by column."""
    shared = numbers(1)
    firsts = {at: next(shared) for at, kind in enumerate(kinds) if kind is Column.SHARED}
    own = numbers(next(shared), size)
    firsts |= {at: next(own) for at, kind in enumerate(kinds) if kind is Column.OWN}

    def mark(at: int, kind: Column, number: int) -> str:
        return "NULL" if kind is Column.EMPTY else f"?{firsts[at] + (number if kind is Column.OWN else 0)}"

    rows = (_marked(row, [mark(at, kind, number) for at, kind in enumerate(kinds)]) for number in range(size))
    return head + ",".join(rows)


def _marked(row: str, marks: Sequence[str]) -> str:
    """`row` with these in the places of its question marks."""
    return "".join(chain.from_iterable(zip(row.split("?"), [*marks, ""], strict=True)))
