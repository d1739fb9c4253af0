"""What lines say in the same words is read once, and is what each line says alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.errors import UsageError
from taskdeck.tui import lines as lines_module
from taskdeck.tui.lines import read_specs

LINES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["fetch", 7]),
        "payload": st.sampled_from([1, {"a": "é"}, None, [], {"type": {"payload": 2}}, "payload"]),
        "command": st.sampled_from([["true"], []]),
        "key": st.sampled_from(["a", "b", "", 7, None]),
        "priority": st.sampled_from([1, 2, "1"]),
        "timeout": st.sampled_from(["5m", 5, "soon"]),
        "at": st.just("2027-01-01T00:00:00Z"),
        "on_lost": st.sampled_from(["rerun", "never"]),
        "pause": st.just("stop"),
        "more": st.just(1),
    },
).map(json.dumps) | st.sampled_from(
    [
        "{",
        "[]",
        '{"type":"fetch","type":"page"}',
        '{"type":"fetch","payload":}',
        '{"type":"fetch","payload":7}',
        '{"type":"fetch","payload": {"a":1,"a":2} }',
        '{"type":"fetch","payload":{"type":1,"type":2}}',
        '{"type":"fetch","payload":"\\u0041"}',
        '{"type":"fetch","payload":7,"type":"page"}',
        '{"type":"fetch","payload":7}}',
        '{"type":"fetch","payload":7,"tags":["payload"]}',
        '{"type":"fetch","payload":8,"tags":["payload"]}',
        '{"type":"fetch","p\\u0061yload":{"payload":7}}',
        '{"type":"fetch","payload":' + "[" * 5000 + "]" * 5000 + "}",
    ]
)


def outcome(lines: list[str]) -> Any:
    try:
        return list(read_specs("f", "\n".join(lines)).values())
    except UsageError as error:
        return [line.partition(": ")[2] for line in error.why.splitlines()[1:]]


@given(st.lists(LINES, min_size=1, max_size=6))
def test_a_file_is_read_as_each_of_its_lines_alone(lines: list[str]) -> None:
    alone = [outcome([line]) for line in lines]
    wrong = [each for each in alone if isinstance(each[0], str)]
    assert outcome(lines) == [part for each in wrong or alone for part in each]


PAYLOADS = [
    "1",
    '"a',
    'b"',
    "1,2",
    " 1",
    "1 ",
    "",
    '{"type":1}',
    '"\\u0041"',
    "[1",
    "2]",
    '"é"',
    "{}",
    "1}",
    "[" * 2000,
]


@given(st.lists(st.sampled_from(PAYLOADS), min_size=3, max_size=9))
def test_lines_that_differ_in_their_payloads_alone_are_read_as_each_of_them(payloads: list[str]) -> None:
    lines = [f'{{"type":"x","payload":{payload},"priority":1}}' for payload in ["0", "0", *payloads]]
    alone = [outcome([line]) for line in lines]
    wrong = [each for each in alone if isinstance(each[0], str)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "AT_ONCE", 2)
        assert outcome(lines) == [part for each in wrong or alone for part in each]


def test_the_number_of_a_line_is_its_place_in_the_whole_file() -> None:
    lines = [f'{{"type":"x","payload":{number}}}' for number in range(700)]
    lines[600] = '{"type":"x","payload":}'
    with pytest.raises(UsageError) as caught:
        read_specs("f", "\n".join(lines))
    assert "f:601: " in caught.value.why
    lines[600] = ""
    assert list(read_specs("f", "\n".join(lines))) == [*range(1, 601), *range(602, 701)]
