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


def chosen(seq: int, again_from: int, data: str = "{}", version: int = 1) -> dict[str, Any]:
    return row(seq, data, version) | {"again_from": again_from}


def test_nobody_resumes_behind_the_checkpoint_that_a_person_chose():
    found = latest_valid([chosen(4, 2, '{"n": 2}'), row(3, '{"n": 3}'), row(2, '{"n": 2}')], 1)
    assert (found.seq, found.data, found.story) == (4, {"n": 2}, "resumes at checkpoint 2")
    damaged = latest_valid([chosen(4, 2, "[torn"), row(3, '{"n": 3}')], 1)
    assert damaged.needs_review
    saved_since = latest_valid([row(5, '{"n": 5}'), chosen(4, 2, '{"n": 2}'), row(3, "{}")], 1)
    assert (saved_since.seq, [seq for seq, _, _ in saved_since.older]) == (5, [4])


def test_the_beginning_is_valid_for_every_version():
    found = latest_valid([chosen(4, 0, "{}", 0), row(3, '{"n": 3}')], 7)
    assert (found.seq, found.data, found.needs_review) == (4, {}, False)
    assert found.story == "starts again from the beginning"


def test_a_handler_that_migrates_goes_on_from_older_versions_and_never_from_newer_ones():
    rows = [row(3, "{}", 9), row(2, '{"n": 2}', 1), row(1, '{"n": 1}', 2)]
    found = latest_valid(rows, 2, migrates=True)
    assert (found.seq, found.version, found.older) == (2, 1, ((1, 2, '{"n": 1}'),))
