from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.errors import UsageError
from taskdeck.engine.rules.filters import (
    EventFilter,
    Filter,
    ids,
    is_ids,
    parse,
    parse_arguments,
    parse_events,
    state_named,
)
from taskdeck.engine.rules.tasks import TaskState
from tests.faults import fault


def test_an_empty_filter_asks_nothing() -> None:
    assert parse("  ") == Filter() == parse_arguments([])


def test_every_term_is_read_into_its_field() -> None:
    found = parse(
        'state:failed type:fetch age>2h age<=3d tag:x key:k reason:timeout worker:2 parent:#4 "some text"'
    )
    assert found == Filter(
        states=("FAILED",),
        types=("fetch",),
        tags=("x",),
        keys=("k",),
        reasons=("timeout",),
        workers=((2, 2),),
        parents=((4, 4),),
        text=("some text",),
        older=7200.0,
        younger=259200.0,
    )


def test_values_of_one_term_are_alternatives_by_comma_or_repetition() -> None:
    assert parse("state:failed,dead state:needs-review").states == ("FAILED", "DEAD", "NEEDS_REVIEW")


@given(st.sampled_from(list(TaskState)), st.data())
def test_states_are_read_in_any_case(state: TaskState, data: st.DataObject) -> None:
    flips = data.draw(st.lists(st.booleans(), min_size=len(state), max_size=len(state)))
    text = "".join(c.lower() if flip else c for c, flip in zip(state, flips, strict=True))
    assert parse(f"state:{text}").states == (state,)


@pytest.mark.parametrize("text", ["42", "#42", "id:42"])
def test_a_bare_number_is_an_id(text: str) -> None:
    assert parse(text).ids == ((42, 42),)


def test_ids_are_numbers_ranges_and_lists_of_both() -> None:
    assert ids("1 3-5,9 #42 #6-#7") == [(1, 1), (3, 5), (9, 9), (42, 42), (6, 7)]


@pytest.mark.parametrize(
    "text", ["", "0", "x", "5-3", "-3", "1-", "1.5", "٣", "99999999999999999999", "9223372036854775808"]
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        ids(text)


@given(st.lists(st.tuples(st.integers(1, 2**63 - 1), st.integers(0, 50)), min_size=1, max_size=5))
def test_any_written_ranges_are_read_back(pairs: list[tuple[int, int]]) -> None:
    ranges = [(first, min(first + more, 2**63 - 1)) for first, more in pairs]
    text = ",".join(f"{first}-{last}" for first, last in ranges)
    assert is_ids(text)
    assert ids(text) == ranges


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_usage_error(text: str) -> None:
    for read in (parse, ids, lambda t: parse_arguments([t]), lambda t: parse_events([t])):
        with contextlib.suppress(UsageError):
            read(text)


def test_an_unknown_term_names_itself_the_nearest_and_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        parse("stat:failed")
    assert "`stat`" in caught.value.what
    assert "did you mean state?" in caught.value.why
    assert all(f"{name}:" in caught.value.why for name in ("state", "type", "tag", "key"))
    assert "older:" in caught.value.why


def test_an_unknown_state_names_the_nearest_and_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        parse("state:faild")
    assert "did you mean failed?" in caught.value.why
    assert "needs_review" in caught.value.why


@pytest.mark.parametrize(
    "text",
    [
        "age:2h",
        "older>2h",
        "newer:",
        "older:soon",
        "age>soon",
        "age>",
        "state:",
        "state>failed",
        "worker:x",
        "age>99999w",
    ],
)
def test_a_malformed_term_is_refused_with_a_remedy_or_the_reason(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.remedy or caught.value.why


def test_ages_can_be_written_without_a_sign_that_the_shell_reads() -> None:
    assert parse("older:2h newer:3d") == parse("age>2h age<3d") == Filter(older=7200.0, younger=259200.0)
    assert parse_events(["newer:1h"]).younger == 3600.0


@pytest.mark.parametrize("word", ["age", "AGE", "older", "state", "type", "key"])
def test_a_terms_name_alone_is_refused_and_may_be_quoted(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arguments(["state:failed", word])
    assert word.lower() in caught.value.what
    assert ":" in caught.value.remedy
    assert parse_arguments([f'"{word}"']).text == (word,)


def test_a_plain_word_that_names_a_state_is_known() -> None:
    assert state_named("Failed") == "state:failed"
    assert state_named("needs-review") == "state:needs_review"
    assert state_named("fail") is None


def test_quoted_text_is_never_read_as_a_term() -> None:
    assert parse(r'"state:x" "a \"b\""').text == ("state:x", 'a "b"')


@fault("TF274")
@pytest.mark.parametrize("name", ["a/b", "a b", "-x", "任务", "x" * 300, "a,b", "k:v", "#7"])
def test_any_key_can_be_named_in_a_shell_argument_and_in_quotes(name: str) -> None:
    assert parse_arguments([f"key:{name}"]).keys == (name,)
    assert parse(f'key:"{name}"').keys == (name,)


def test_a_shell_argument_may_hold_a_whole_filter_or_one_text() -> None:
    assert parse_arguments(["state:failed type:x"]) == Filter(states=("FAILED",), types=("x",))
    assert parse_arguments(["some text", "more"]).text == ("some text", "more")
    assert parse_arguments(['"a:b"']).text == ("a:b",)


def test_event_terms_are_read_into_their_fields() -> None:
    assert parse_events(["type:task_state", "level:Warning", "3-4", "actor:cli:ann", "done"]) == EventFilter(
        types=("TASK_STATE",), levels=("warning",), tasks=((3, 4),), actors=("cli:ann",), text=("done",)
    )
    with pytest.raises(UsageError):
        parse_events(["level:loud"])


def test_events_of_resources_and_routes_are_found_by_their_ids() -> None:
    wanted = parse_events(["resource:browser-1,browser-2", "route:eu-1"])
    assert (wanted.resources, wanted.routes) == (("browser-1", "browser-2"), ("eu-1",))
