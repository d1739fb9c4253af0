from __future__ import annotations

import hashlib
import json
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules.chain import COLUMNS, Anchor, Head, first_break, hashes_alike, row_hash

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


@given(previous=st.text("0123456789abcdef", max_size=64), row=ROWS, count=st.integers(1, 4))
def test_rows_that_are_the_same_behind_event_and_task_are_hashed_as_any_others(
    previous: str, row: tuple[int | str | None, ...], count: int
) -> None:
    found = hashes_alike(previous, 7, range(3, 3 + count), row[2:])
    for number in range(count):
        previous = by_the_book(previous, (7 + number, 3 + number, *row[2:]))
        assert found[number] == previous


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


def anchor_of(rows: list[tuple[Any, ...]], restored: bool = False) -> Anchor:
    return Anchor(*head_of(rows), restored)


def broken_at(rows: list[tuple[Any, ...]], head: Head, anchors: list[Anchor] | None = None) -> int | None:
    found = first_break(iter(rows), head, anchors or [])
    assert found is None or found.problem
    return found.event_id if found else None


def problem_of(rows: list[tuple[Any, ...]]) -> tuple[int, str]:
    found = first_break(iter(rows), head_of(rows))
    assert found
    return found.event_id, found.problem.partition(":")[0]


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_whole_chain_has_no_break(count: int) -> None:
    rows = chained(count)
    assert broken_at(rows, head_of(rows)) is None
    assert broken_at(rows, head_of(rows), [anchor_of(rows[:half]) for half in range(1, count)]) is None


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
    assert broken_at(rows[:4], head_of(rows[:4]), [anchor_of(rows[:5])]) == 5


def test_a_row_beyond_the_head_and_a_changed_head_are_told() -> None:
    rows = chained(6)
    assert broken_at(rows, head_of(rows[:4])) == 5
    assert broken_at(rows, Head(6, 5, rows[-1][-1])) == 6
    assert broken_at(rows, Head(6, 6, "other")) == 6


def test_a_chain_rewritten_as_a_whole_is_told_back_to_the_anchor() -> None:
    honest, forged = chained(6), chained(6, "forged")
    assert broken_at(forged, head_of(forged)) is None
    assert broken_at(forged, head_of(forged), [anchor_of(honest[:4])]) == 4


def test_what_became_of_an_event_is_told() -> None:
    rows = chained(9)
    changed = [*rows[:3], (*rows[3][:9], "other", *rows[3][10:]), *rows[4:]]
    assert problem_of(changed) == (4, "it was changed, or event 3 and its hash were")
    put_there = [*rows[:3], (4, *rows[0][1:]), *((row[0] + 1, *row[1:]) for row in rows[3:])]
    assert problem_of(put_there) == (4, "it was put there")
    neighbours = [*rows[:3], (4, *rows[4][1:]), (5, *rows[3][1:]), *rows[5:]]
    assert problem_of(neighbours) == (4, "it was swapped with another")
    far = [*rows[:1], (2, *rows[7][1:]), *rows[2:7], (8, *rows[1][1:]), *rows[8:]]
    assert problem_of(far) == (2, "it was swapped with another")


@pytest.mark.parametrize("damage", ["change", "remove", "swap", "insert"])
def test_whatever_is_done_to_one_row_or_two_the_first_of_them_is_named(damage: str) -> None:
    whole = chained(8)
    head = head_of(whole)
    for first, second in combinations(range(8), 2):
        rows = list(whole)
        if damage == "change":
            rows[first] = (*rows[first][:9], "other", *rows[first][10:])
        elif damage == "remove":
            del rows[first:second]
        elif damage == "swap":
            rows[first], rows[second] = (
                (first + 1, *rows[second][1:]),
                (second + 1, *rows[first][1:]),
            )
        else:
            shifted = [(row[0] + 1, *row[1:]) for row in rows[first:]]
            rows = [*rows[:first], (first + 1, *rows[second][1:]), *shifted]
        assert broken_at(rows, head) == first + 1, (first, second)


def restored(kept: list[tuple[Any, ...]], more: int, salt: str) -> list[tuple[Any, ...]]:
    """A history that goes on behind `kept` in another way."""
    rows, previous = list(kept), kept[-1][-1]
    for number in range(len(kept) + 1, len(kept) + 1 + more):
        row = (*chained(1, salt)[0][:-1],)
        row = (number, *row[1:])
        previous = row_hash(previous, row)
        rows.append((*row, previous))
    return rows


def test_a_restore_that_was_noted_gives_up_the_anchors_before_it_and_no_others() -> None:
    old = chained(8)
    new = restored(old[:4], 3, "restored")
    before = [anchor_of(old[:3]), anchor_of(old[:5]), anchor_of(old)]
    note = anchor_of(new[:5], restored=True)
    assert broken_at(new, head_of(new), before) == 5
    assert broken_at(new, head_of(new), [*before, note]) is None
    assert broken_at(new, head_of(new), [*before, note, anchor_of(new[:6])]) is None
    forged = restored(new[:5], 2, "forged")
    assert broken_at(forged, head_of(forged), [*before, note, anchor_of(new[:6])]) == 6
    assert broken_at(new[:5], head_of(new[:5]), [*before, note, anchor_of(new[:6])]) == 6


def test_a_restore_that_was_noted_and_never_happened_gives_up_nothing() -> None:
    old = chained(8)
    note = anchor_of(restored(old[:4], 1, "restored"), restored=True)
    anchors = [anchor_of(old[:3]), anchor_of(old), note]
    assert broken_at(old, head_of(old), anchors) is None
    assert broken_at(old[:6], head_of(old[:6]), anchors) == 7
    forged = chained(8, "forged")
    assert broken_at(forged, head_of(forged), anchors) == 3


def test_a_restore_of_a_history_that_an_earlier_restore_gave_up_is_whole_too() -> None:
    first = chained(9)
    second = restored(first[:3], 3, "second")
    third = restored(first[:7], 2, "third")
    anchors = [
        anchor_of(first),
        anchor_of(second[:4], restored=True),
        anchor_of(second),
        anchor_of(third[:8], restored=True),
    ]
    assert broken_at(third, head_of(third), anchors) is None
    assert broken_at(third[:7], head_of(third[:7]), anchors) == 6


def test_a_walk_may_begin_behind_a_known_head() -> None:
    rows = chained(6)
    assert first_break(rows[3:], head_of(rows), start=head_of(rows[:3])) is None
    found = first_break(rows[3:], head_of(rows), start=head_of(rows[:2]))
    assert found
    assert found.event_id == 3
