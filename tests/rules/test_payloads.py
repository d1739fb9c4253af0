"""Payloads, checkpoints and results are strict JSON under stated limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.errors import InvalidPayload
from taskdeck.engine.rules import payloads
from taskdeck.engine.rules.payloads import DEEPEST, LARGEST, LONGEST_NUMBER, compacted, decode, encode, read
from tests.faults import fault

MiB = LARGEST
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.recursive(scalars, lambda part: st.lists(part) | st.dictionaries(st.text(), part), max_leaves=30)


@given(values)
def test_what_is_encoded_reads_back_exactly(value: Any):
    assert decode(encode(value), where="payload") == value
    assert decode(encode(value).encode(), where="payload") == value


@given(st.text() | st.binary())
def test_any_text_is_read_as_the_standard_reads_it_or_refused(text: str | bytes):
    try:
        value = decode(text, where="payload")
    except InvalidPayload:
        return
    assert value == json.loads(text)


@pytest.mark.parametrize(
    "text",
    ['\\"' * (MiB // 2), "[" * 64 + "1," * (MiB // 2 - 64) + "NaN", '["' + "[\\" * (MiB // 2 - 8), "1" * MiB],
    ids=range(4),
)
def test_no_text_takes_long_to_refuse(text: str):
    with pytest.raises(InvalidPayload):
        decode(text, where="payload")


@fault("TF210")
def test_integers_beyond_64_bits_are_kept_exactly():
    for number in (18446708610539800576, -(2**64), 10 ** (LONGEST_NUMBER - 1)):
        text = encode({"cursor": number})
        assert text == f'{{"cursor":{number}}}'
        assert decode(text, where="checkpoint") == {"cursor": number}


@fault("TF212")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "[" * 5000 + "]" * 5000,
            "more than 64 lists and objects stand inside each other at line 1, column 65",
        ),
        ('{"a":' * 5000 + "1" + "}" * 5000, "more than 64 lists"),
        ("[" * 200_000, "more than 64 lists"),
        ("9" * 5000, "a number of more than 400 characters at line 1, column 1"),
        ("1." + "9" * 5000, "a number of more than 400 characters"),
        ('{"a": [1, ' + "-" + "9" * 5000 + "]}", "at line 1, column 11"),
        ('"' + "x" * (4 * MiB) + '"', "larger than 1 MiB"),
        ('"' + "é" * (MiB // 2) + '"', "larger than 1 MiB"),
    ],
)
def test_what_could_exhaust_the_engine_is_refused_with_the_limit(text: str, reason: str):
    with pytest.raises(InvalidPayload) as caught:
        decode(text, where="payload")
    assert caught.value.what == "the payload is refused"
    assert reason in caught.value.why


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ('{"a": NaN}', "NaN is not JSON at line 1, column 7"),
        ("[1,\n -Infinity]", "-Infinity is not JSON at line 2, column 2"),
        ("1e999", "a number out of range at line 1, column 1"),
        ('{"a": 1,\n "b": {"a": 2, "a": 3}}', 'the key "a" stands twice in one object, at line 2, column 16'),
        ('{"a": 1, "\\u0061": 2}', "stands twice"),
        ('{"a": "\\"}{", "a": 2}', "stands twice in one object, at line 1, column 15"),
        (b'{"a": "\xff"}', "byte 8 is not UTF-8"),
        ('"\ud800"', "half a surrogate pair"),
        ('"\\ud800"', "half a surrogate pair at line 1, column 2"),
        ('{"\\udc00\\ud800": 1}', "half a surrogate pair"),
        ("{'a': 1}", "it is not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        ("[1] 2", "it is not JSON: Extra data at line 1, column 5"),
        ("[1,]", "it is not JSON"),
        ('"\n"', "it is not JSON: Invalid control character"),
        ("\x00", "it is not JSON"),
        ("01", "it is not JSON"),
    ],
)
def test_what_readers_understand_differently_is_refused_with_its_place(text: str | bytes, reason: str):
    with pytest.raises(InvalidPayload) as caught:
        decode(text, where="payload")
    assert reason in caught.value.why


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\\\ud800"', "\\ud800"),
        ('"NaN Infinity 1e999 [[["', "NaN Infinity 1e999 [[["),
        ('[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
        ("[" * DEEPEST + "]" * DEEPEST, json.loads("[" * DEEPEST + "]" * DEEPEST)),
        ("[" + ",".join(["[]"] * 1000) + "]", [[]] * 1000),
        ("\ufeff[1]", [1]),
        (" 5e-324 ", 5e-324),
    ],
)
def test_unusual_but_clear_json_is_read(text: str, value: Any):
    assert decode(text, where="payload") == value


def holding_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def unfolding() -> list[Any]:
    value: list[Any] = []
    for _ in range(60):
        value = [value] * 10
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            {"rows": [0, 1, 2, {"when": datetime(2026, 1, 1, tzinfo=UTC)}]},
            "$.rows[3].when: datetime is not JSON",
        ),
        ({"a b": {1, 2}}, '$["a b"]: set is not JSON'),
        (b"x", "$: bytes is not JSON"),
        ({"a": {1: 2}}, "$.a: a key is int, not a text"),
        ([float("nan")], "$[0]: nan is not JSON"),
        ([float("-inf")], "$[0]: -inf is not JSON"),
        ([10**LONGEST_NUMBER], "$[0]: a number of more than 400 characters"),
        (["a\udcff"], "$[0]: a text holds half a surrogate pair"),
        ({"a\udcff": 1}, "$: a key: a text holds half a surrogate pair"),
        (holding_itself(), "more than 64 lists and objects"),
        (unfolding(), "larger than 1 MiB"),
        ("x" * MiB, "larger than 1 MiB"),
        (object(), "$: object is not JSON"),
    ],
    ids=lambda value: None if isinstance(value, str) and len(value) < 100 else "value",
)
def test_what_is_not_json_is_refused_with_its_path(value: Any, reason: str):
    with pytest.raises(InvalidPayload) as caught:
        encode(value)
    assert reason in caught.value.why


@pytest.mark.parametrize("value", [[0] * 511, [[]] * 340, [[0], *[0] * 509], {"a": [0] * 508}])
def test_a_value_of_many_small_parts_is_taken_up_to_the_limit(value: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(payloads, "LARGEST", 1024)
    assert 1020 < len(encode(value)) <= 1024
    with pytest.raises(InvalidPayload, match="larger than"):
        encode([value, 0])


def test_enums_and_tuples_become_plain_json():
    color, size = StrEnum("color", "RED"), IntEnum("size", "BIG")
    assert encode({"c": color("red"), "s": size(1), "t": (1, None)}) == '{"c":"red","s":1,"t":[1,null]}'


TEXTS = st.builds(
    lambda value, separators, ascii_only: json.dumps(value, separators=separators, ensure_ascii=ascii_only),
    values,
    st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]),
    st.booleans(),
)
ODD = st.sampled_from(
    [
        '{"a":1,"a":2}', '{"a":1,"a":1}', "[1e400]", "1e5", "-0.0", "-0", "01", "NaN", "[Infinity]", '"\\ud800"', '"\\u0041"',
        "", " ", "{", "nul", "123456789012345678901234567890", "1" * 401, "[" * 65 + "]" * 65, "[" * 64 + "]" * 64,
        '{"a":{"b":1,"b":1}}', '"\x07"', '"\x7f"', "1.0", "1.10", "0.1e1", "[1,]", "\ufeff1", '"\\/"', "true ", "\n{}",
    ]
)  # fmt: skip


@given(TEXTS | ODD | st.text(max_size=20))
def test_what_is_read_at_once_is_what_is_decoded_and_encoded(text: str):
    """The short way refuses and takes the same, with the same words."""

    def outcome(way: Callable[[], tuple[Any, str]]) -> Any:
        try:
            value, compact = way()
            return repr(value), compact
        except InvalidPayload as error:
            return error.what, error.why, error.remedy

    def alone() -> tuple[Any, str]:
        value = decode(text, where="payload")
        return value, encode(value)

    assert outcome(lambda: read(text, where="payload")) == outcome(alone)


@given(
    st.lists(
        TEXTS | ODD | st.text(max_size=20) | st.sampled_from(['"a', 'b"', "1,2", "1", "{}"]),
        min_size=1,
        max_size=4,
    )
)
def test_texts_that_are_read_together_are_read_as_each_alone(texts: list[str]):
    if together := compacted(texts):
        assert [read(text, where="payload")[1] for text in texts] == list(together)


def test_texts_that_only_together_are_json_are_not_read_together():
    assert compacted(["1", '{"a":[1,"b"]}', "null"]) == ["1", '{"a":[1,"b"]}', "null"]
    assert compacted(["1", '{"a": [1, "\\u001f\x7f"]}']) == ["1", '{"a":[1,"\\u001f\x7f"]}']
    assert compacted(["1.5", '"a 1.b"', "1e3"]) == []
    assert compacted(["1.5", '{"a": "1.b"}']) == ["1.5", '{"a":"1.b"}']
    assert compacted(["1.5", '"1.b"']) == ["1.5", '"1.b"']
    assert not compacted(['"a', 'b"'])
    assert not compacted(['"a', 'b"', "1,2"])
    assert not compacted(["1", ""])
    assert not compacted(["[" * 65 + "]" * 65])
