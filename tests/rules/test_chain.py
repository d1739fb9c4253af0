from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules.chain import COLUMNS, Head, first_break, row_hash

TEXT = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])))
NUMBER = st.one_of(st.none(), st.integers(min_value=-(2**63), max_value=2**63 - 1))
KINDS = {"event_id": NUMBER, "task_id": NUMBER, "worker_id": NUMBER}
ROWS = st.tuples(*(KINDS.get(column, TEXT) for column in COLUMNS))


def by_the_book(previous: str, row: tuple[int | str | None, ...]) -> str:
    text = previous + "\n" + json.dumps(list(row), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@given(previous=st.text("0123456789abcdef", max_size=64), row=ROWS)
def test_the_hash_of_any_row_equals_plain_json_and_sha256(
    previous: str, row: tuple[int | str | None, ...]
) -> None:
    assert row_hash(previous, row) == by_the_book(previous, row)


def test_every_character_below_256_and_the_line_separators_hash_as_plain_json_does() -> None:
    row = (1, None, "".join(map(chr, range(256))), "\u2028\u2029\ufeff\ufffe\U0001f600")
    assert row_hash("", row) == by_the_book("", row)


def test_the_hash_depends_on_the_previous_hash_and_on_each_column() -> None:
    row = (
        1,
        2,
        None,
        None,
        3,
        "TASK_STATE",
        "info",
        "done",
        "engine",
        "done",
        "{}",
        "2026-11-29T12:00:00.000000Z",
    )
    seen = {row_hash("", row), row_hash("ab", row)}
    seen |= {row_hash("", (*row[:place], "other", *row[place + 1 :])) for place in range(len(row))}
    assert len(seen) == 2 + len(row)


def chained(count: int, salt: str = "") -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    previous = ""
    for number in range(1, count + 1):
        row = (
            number,
            number,
            None,
            None,
            1,
            "TASK_STATE",
            "info",
            "done",
            "engine",
            f"m{number}{salt}",
            "{}",
            "now",
        )
        previous = row_hash(previous, row)
        rows.append((*row, previous))
    return rows


def head_of(rows: list[tuple[Any, ...]]) -> Head:
    return Head(rows[-1][0], len(rows), rows[-1][-1]) if rows else Head(0, 0, "")


def broken_at(rows: list[tuple[Any, ...]], head: Head, anchors: list[Head] | None = None) -> int | None:
    found = first_break(iter(rows), head, anchors or [])
    assert found is None or found.problem
    return found.event_id if found else None


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_whole_chain_has_no_break(count: int) -> None:
    rows = chained(count)
    assert broken_at(rows, head_of(rows)) is None
    assert broken_at(rows, head_of(rows), [head_of(rows[:half]) for half in range(1, count)]) is None


@pytest.mark.parametrize("column", range(len(COLUMNS) + 1))
def test_a_change_of_any_column_is_named(column: int) -> None:
    rows = chained(5)
    rows[2] = (*rows[2][:column], 77 if column == 0 else "other", *rows[2][column + 1 :])
    assert broken_at(rows, head_of(chained(5))) == 3


def test_a_removed_an_inserted_and_two_swapped_rows_are_named() -> None:
    rows, head = chained(6), head_of(chained(6))
    assert broken_at(rows[:2] + rows[4:], head) == 3
    assert broken_at([(0, *rows[0][1:]), *rows], head) == 0
    swapped = [*rows[:2], (3, *rows[3][1:]), (4, *rows[2][1:]), *rows[4:]]
    assert broken_at(swapped, head) == 3
    shifted = [*rows[:3], (4, *rows[0][1:]), *((row[0] + 1, *row[1:]) for row in rows[3:])]
    assert broken_at(shifted, head) == 4


def test_a_cut_tail_is_told_by_the_head_and_with_a_rewritten_head_by_the_anchor() -> None:
    rows = chained(6)
    assert broken_at(rows[:4], head_of(rows)) == 5
    assert broken_at([], head_of(rows)) == 1
    assert broken_at(rows[:4], head_of(rows[:4])) is None
    assert broken_at(rows[:4], head_of(rows[:4]), [head_of(rows[:5])]) == 5


def test_a_row_beyond_the_head_and_a_changed_head_are_told() -> None:
    rows = chained(6)
    assert broken_at(rows, head_of(rows[:4])) == 5
    assert broken_at(rows, Head(6, 5, rows[-1][-1])) == 6
    assert broken_at(rows, Head(6, 6, "other")) == 6


def test_a_chain_rewritten_as_a_whole_is_told_back_to_the_anchor() -> None:
    honest, forged = chained(6), chained(6, "forged")
    assert broken_at(forged, head_of(forged)) is None
    assert broken_at(forged, head_of(forged), [head_of(honest[:4])]) == 4
