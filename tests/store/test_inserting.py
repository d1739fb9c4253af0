from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskdeck.engine.store.inserting import (
    AT_ONCE,
    LARGEST_ALIKE,
    MOST_ALIKE,
    insert,
    insert_alike,
    insert_columns,
    insert_one,
)

HEAD, ROW = "INSERT INTO t(a, b, made, c) VALUES ", "(?, ?, 'by hand', ?)"
BACK = "SELECT a, b, made, c FROM t ORDER BY rowid"

Connection = TypeVar("Connection", bound=sqlite3.Connection)

columns = st.tuples(
    *[
        st.sampled_from(
            [
                st.none(),
                st.just("the same"),
                st.just(7),
                st.integers(-9, 9),
                st.none() | st.text(max_size=3),
                st.sampled_from([1, 1.0, 0.0, -0.0]),
            ]
        )
    ]
    * 2
)
rows = columns.flatmap(
    lambda two: st.lists(st.tuples(st.integers(0, 9), *two), max_size=2 * AT_ONCE + 2, min_size=0)
)


def table(kind: type[Connection] = sqlite3.Connection) -> Connection:
    connection = sqlite3.connect(":memory:", factory=kind)
    connection.execute("CREATE TABLE t(a INTEGER NOT NULL, b, made, c)")
    return connection


def arrive_as_they_are(given: list[tuple[int, object, object]]) -> None:
    with closing(table()) as connection:
        insert(connection, HEAD, ROW, given)
        came = connection.execute(BACK).fetchall()
        alone = [connection.execute("SELECT ?, ?, 'by hand', ?", row).fetchone() for row in given]
        assert list(map(repr, came)) == list(map(repr, alone))  # 1 is not 1.0


@settings(max_examples=60, deadline=None)
@given(rows)
def test_rows_arrive_as_they_are_and_in_order_whatever_they_have_in_common(
    given: list[tuple[int, object, object]],
) -> None:
    arrive_as_they_are(given)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3 * AT_ONCE), st.data())
def test_columns_arrive_as_the_rows_that_they_make(count: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    texts = data.draw(
        st.none() | st.just("the same") | st.just(7) | st.just([f"text {n}" for n in range(count)])
    )
    for those in ((numbers, texts, None), (range(count), texts, numbers), (tuple(numbers), 7, "x")):
        with closing(table()) as connection:
            insert_columns(connection, HEAD, ROW, those, count)
            came = connection.execute("SELECT a, b, c FROM t ORDER BY rowid").fetchall()
        made = (each if isinstance(each, list | tuple | range) else [each] * count for each in those)
        assert came == list(zip(*made, strict=True))


@pytest.mark.parametrize(("one", "others"), [(1, 1.0), (1.0, 1), (-0.0, 0.0), (0, -0.0)])
def test_what_is_equal_and_not_the_same_is_kept_apart(one: object, others: object) -> None:
    arrive_as_they_are([(number, others if number else one, None) for number in range(AT_ONCE)])


def test_a_single_row_tells_its_id() -> None:
    with closing(table()) as connection:
        assert insert_one(connection, HEAD, ROW, (1, None, None)) == 1
        assert insert_one(connection, HEAD, ROW, (2, "x", None)) == 2
        assert connection.execute(BACK).fetchall() == [(1, None, "by hand", None), (2, "x", "by hand", None)]


class Listening(sqlite3.Connection):
    """Tells what it was given to bind."""

    bound: list[Any]

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.bound = list(parameters)
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        self.bound = list(parameters)
        return super().executemany(sql, self.bound)


def test_a_column_that_no_row_has_a_value_for_is_not_bound() -> None:
    with closing(table(Listening)) as connection:
        insert(connection, HEAD, ROW, [(1, None, 2), (3, None, None)])
        assert connection.bound == [(1, 2), (3, None)]
        assert connection.execute(BACK).fetchall() == [(1, None, "by hand", 2), (3, None, "by hand", None)]


ALIKE = "INSERT INTO t(a, b, made, c) SELECT ? + key, ?, 'by hand', value FROM json_each(?)"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
    st.none() | st.integers(-9, 9),
)
def test_rows_that_differ_in_a_text_arrive_as_they_are_and_in_order(
    texts: list[str], same: int | None
) -> None:
    with closing(table()) as connection:
        insert_alike(connection, ALIKE, (same,), texts, (5,))
        assert connection.execute(BACK).fetchall() == [
            (5 + place, same, "by hand", text) for place, text in enumerate(texts)
        ]


def test_rows_that_are_too_many_or_too_large_for_a_statement_arrive_too() -> None:
    large = "x" * (LARGEST_ALIKE // 2)
    texts = [str(number) for number in range(MOST_ALIKE + 2)] + [large] * 3
    with closing(table()) as connection:
        insert_alike(connection, ALIKE, ("b",), texts, (0,))
        assert connection.execute(BACK).fetchall() == [
            (place, "b", "by hand", text) for place, text in enumerate(texts)
        ]


def test_what_all_rows_of_a_statement_have_in_common_is_bound_once() -> None:
    with closing(table(Listening)) as connection:
        given = [(number, "the same", None) for number in range(AT_ONCE)]
        insert(connection, HEAD, ROW, given)
        assert connection.bound == ["the same", *range(AT_ONCE)]
        assert connection.execute(BACK).fetchall() == [
            (number, "the same", "by hand", None) for number, *_ in given
        ]
