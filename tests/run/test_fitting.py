"""What is taken without asking a worker is what the worker would have taken."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.errors import InvalidPayload
from taskdeck.engine.rules import fitting
from taskdeck.engine.rules.fitting import doubtful, surely_fits
from taskdeck.engine.run import params


class Page(msgspec.Struct, rename="camel"):
    url: str
    max_depth: int = 1
    tags: list[str] = []
    weight: float | None = None


@dataclasses.dataclass
class Book:
    page: Page
    notes: dict[str, int]


class Asked(TypedDict, total=False):
    region: str
    wide: bool


class Checked(msgspec.Struct):
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("too small")


class Tagged(msgspec.Struct, tag=True):
    number: int


class Row(msgspec.Struct, array_like=True):
    number: int


KINDS: tuple[Any, ...] = (
    params.NOTHING, Any, dict, list, int, float, str, bool, None | int, list[int], dict[str, float], dict[str, Any],
    int | str | None, list[int | None], Page, Book, Asked, Page | None, list[Book],
)  # fmt: skip
ASKED: tuple[Any, ...] = (
    Checked, Tagged, Row, Literal["a", "b"], Annotated[int, msgspec.Meta(ge=0)],
    Annotated[str, msgspec.Meta(pattern="a+")], tuple[int, str], bytes, dict[int, str], list[Checked],
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["url", "maxDepth", "tags", "page", "notes", "region"]), inner)
    ),
    max_leaves=12,
)


@given(st.sampled_from(KINDS + ASKED), VALUES)
def test_what_surely_fits_is_taken_by_the_worker_too(kind: Any, value: Any) -> None:
    if surely_fits(params.shape(kind), msgspec.json.encode(value).decode()):
        params.convert(kind, value)


@pytest.mark.parametrize("kind", ASKED, ids=str)
def test_a_type_that_says_more_than_its_shape_is_asked_about(kind: Any) -> None:
    assert params.shape(kind) == ""
    assert not surely_fits("", "{}")


@pytest.mark.parametrize(
    ("kind", "fits", "other"),
    [
        (params.NOTHING, ["{}", "null"], ['{"a":1}', "0"]),
        (Any, ["0", '"x"', "[{}]"], []),
        (dict, ["{}", '{"a":[1]}'], ["[]", "1"]),
        (int, ["0", "-7", "12345678901234567890123"], ["true", "1.5", '"1"', "null"]),
        (float, ["0.5", "1"], ["true", '"1"']),
        (bool, ["true"], ["1"]),
        (Page, ['{"url":"/"}', '{"url":"/","maxDepth":2,"tags":["a"],"weight":null}'],
         ['{}', '{"url":1}', '{"url":"/","max_depth":2}', '{"url":"/","more":1}', '{"url":"/","tags":[1]}']),
        (Book, ['{"page":{"url":"/"},"notes":{"a":1}}'], ['{"page":{"url":"/"}}', '{"page":1,"notes":{}}']),
        (Asked, ["{}", '{"wide":true}'], ['{"wide":1}', '{"other":1}']),
    ],
    ids=str,
)  # fmt: skip
def test_a_plain_type_is_told_without_its_worker(kind: Any, fits: list[str], other: list[str]) -> None:
    shape = params.shape(kind)
    assert all(surely_fits(shape, text) for text in fits)
    for text in other:
        assert not surely_fits(shape, text)
        with pytest.raises(InvalidPayload):
            params.convert(kind, msgspec.json.decode(text))


SHAPES = {"int": '"int"', "any": '"any"', "asked": "", "list": '["list","int"]', "page": params.shape(Page)}
TASKS = st.tuples(
    st.sampled_from(sorted(SHAPES)), st.sampled_from(["1", "true", "[1]", '["a"]', '{"url":"/"}', "{}"])
)


@given(st.lists(TASKS, max_size=9), TASKS)
def test_of_many_tasks_those_are_asked_about_that_each_alone_would_be(
    tasks: list[tuple[str, str]], last: tuple[str, str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_AT_ONCE", 3)
        for some in (tasks, [*tasks, *[last] * 5]):
            expected = [each for each in some if not surely_fits(SHAPES[each[0]], each[1])]
            assert doubtful(SHAPES, some) == expected


def test_a_type_that_holds_itself_is_asked_about() -> None:
    class Tree(msgspec.Struct):
        below: list[Any] = []

    Tree.__annotations__["below"] = list[Tree]
    assert params.shape(Tree) == ""
