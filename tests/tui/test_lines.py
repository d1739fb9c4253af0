"""What lines say in the same words is read once, and is what each line says alone."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.errors import UsageError
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
