from __future__ import annotations

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules.chain import COLUMNS, row_hash

TEXT = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])))
NUMBER = st.one_of(st.none(), st.integers(min_value=-(2**63), max_value=2**63 - 1))
KINDS = {"event_id": NUMBER, "task_id": NUMBER, "worker_id": NUMBER}
ROWS = st.tuples(*(KINDS.get(column, TEXT) for column in COLUMNS))


def by_the_book(previous: str, row: tuple[int | str | None, ...]) -> str:
    text = (
        previous
        + "\n"
        + json.dumps(list(row), ensure_ascii=False, separators=(",", ":"))
    )
    return hashlib.sha256(text.encode()).hexdigest()


@given(previous=st.text("0123456789abcdef", max_size=64), row=ROWS)
def test_the_hash_of_any_row_equals_plain_json_and_sha256(
    previous: str, row: tuple[int | str | None, ...]
) -> None:
    assert row_hash(previous, row) == by_the_book(previous, row)


def test_every_character_below_256_and_the_line_separators_hash_as_plain_json_does() -> (
    None
):
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
    seen |= {
        row_hash("", (*row[:place], "other", *row[place + 1 :]))
        for place in range(len(row))
    }
    assert len(seen) == 2 + len(row)
