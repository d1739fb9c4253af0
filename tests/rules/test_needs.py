"""The words for what a task needs are read the same everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules.needs import MOST, needs_text, parse_group, parse_needs

pools = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)


def test_a_need_is_a_pool_and_a_count_of_one_unless_it_is_given():
    assert parse_needs(["browser:2", "gpu"]) == {"browser": 2, "gpu": 1}
    assert parse_needs([]) == {}


@given(st.dictionaries(pools, st.integers(1, MOST)))
def test_needs_survive_writing_and_reading(counts: dict[str, int]):
    assert parse_needs(needs_text(counts)) == counts


@pytest.mark.parametrize(
    "needs",
    [
        *([need] for need in ("browser:0", "browser:65", "a b", "", ":2", "browser:", "browser:-1", "a:1:2")),
        *([need] for need in (3, None, "ä", "browser:٢", "x" * 65, "browser\n")),
        "browser",
        {"browser": 2},
    ],
)
def test_what_is_no_need_is_refused(needs: object):
    with pytest.raises(ValueError, match=r"."):
        parse_needs(needs)  # type: ignore[arg-type]


def test_a_pool_that_is_named_twice_is_refused_with_the_sum():
    with pytest.raises(ValueError, match='write "browser:3"'):
        parse_needs(["browser", "browser:2"])


@pytest.mark.parametrize("group", ["", "a b", None, 3, "x" * 65, "eu\n"])
def test_what_is_no_group_is_refused(group: object):
    assert parse_group("eu") == "eu"
    with pytest.raises(ValueError, match="can't be a group"):
        parse_group(group)
