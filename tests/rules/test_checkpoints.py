"""Checkpoints merge by patches, and resuming takes the newest one that its handler can read."""

from __future__ import annotations

from typing import Any

import pytest

from taskdeck.engine.rules.checkpoints import Resume, is_valid, latest_valid, merge


@pytest.mark.parametrize(
    ("old", "patch", "merged"),
    [  # the table of RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_does_what_its_standard_says(old: Any, patch: Any, merged: Any):
    assert merge(old, patch) == merged


def test_merging_changes_neither_side():
    old, patch = {"a": {"b": 1}}, {"a": {"c": 2}, "d": {"e": 3}}
    merged = merge(old, patch)
    merged["a"]["x"] = merged["d"]["x"] = 0
    assert (old, patch) == ({"a": {"b": 1}}, {"a": {"c": 2}, "d": {"e": 3}})


def test_merging_deep_values_needs_no_stack():
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    merged = merge(deep, deep)
    for _ in range(5000):
        merged = merged["a"]
    assert merged == {}


def row(seq: int, data: str, version: int = 1) -> dict[str, Any]:
    return {"seq": seq, "version": version, "stage": "", "data": data}


def test_resuming_takes_the_newest_valid_checkpoint_and_tells_what_it_passed_over():
    rows = [
        row(9, '{"n": 9', 1),
        row(8, '{"n": 8}', 2),
        row(7, "[7]"),
        row(6, '{"n": 6}'),
        row(5, '{"n": 5}'),
    ]
    found = latest_valid(rows, 1)
    assert (found.seq, found.data, found.needs_review) == (6, {"n": 6}, False)
    assert [text.partition(":")[0] for text in found.skipped] == [
        "checkpoint 9",
        "checkpoint 8",
        "checkpoint 7",
    ]


def test_with_no_valid_checkpoint_a_person_decides_and_with_none_at_all_work_begins():
    assert latest_valid([row(1, "{}", 3)], 4).needs_review
    assert latest_valid([], 4) == Resume(0, {})
    assert not latest_valid([], 4).needs_review


@pytest.mark.parametrize(
    ("data", "version", "valid"), [("{}", 1, True), ("{}", 2, False), ("", 1, False), ('{"a":NaN}', 1, False)]
)
def test_a_checkpoint_is_valid_for_its_own_version_only(data: str, version: int, valid: bool):
    assert is_valid(data, version, 1) is valid
