"""A payload is taken only if it fits the declared type, at submit and at run; the refusal names the place."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
import pytest

from taskdeck.engine.clock import SystemClock
from taskdeck.engine.errors import InvalidPayload, Unavailable
from taskdeck.engine.run import params
from taskdeck.engine.run.handlers import Handler, load
from taskdeck.engine.run.messages import TypeInfo
from taskdeck.engine.run.throwaway import Handlers
from taskdeck.engine.run.validation import validate
from tests.faults import fault
from tests.run.engine_double import SAMPLES


class Item(msgspec.Struct):
    sku: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


@dataclass
class Order:
    region: str
    items: list[Item] = field(default_factory=list)
    by_name: dict[str, Item] = field(default_factory=dict)
    labels: dict[str, Any] = field(default_factory=dict)


class Query(TypedDict, total=False):
    text: str


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    tricks: int


class Renamed(msgspec.Struct, rename="camel"):
    start_date: str


def problem(kind: Any, payload: str) -> str:
    return validate(Handler(TypeInfo("t", "here"), params=kind), payload)


@fault("TF273")
@pytest.mark.parametrize(
    ("kind", "payload", "says"),
    [
        (Order, '{"regoin": "eu"}', 'unknown key "regoin" at $; known: region, items, by_name, labels'),
        (Item, '{"sku": "a", "size": 2}', 'unknown key "size" at $; known: sku, count'),
        (Order, '{"region": "eu", "items": [{"sku": "a"}, {"suk": 1}]}', 'unknown key "suk" at $.items[1]'),
        (Order, '{"region": "eu", "by_name": {"x": {"sku": "a", "y": 1}}}', 'unknown key "y" at $.by_name.x'),
        (Query, '{"txt": "a"}', 'unknown key "txt" at $; known: text'),
        (Item | None, '{"sku": "a", "size": 2}', 'unknown key "size" at $'),
        (Cat | Dog, '{"type": "cat", "lives": 9, "tricks": 1}', 'unknown key "tricks" at $; known: lives'),
        (list[Item], '[{"sku": "a", "b": 1}]', 'unknown key "b" at $[0]'),
        (Renamed, '{"start_date": "x"}', 'unknown key "start_date" at $; known: startDate'),
        (None, '{"region": "eu"}', "takes no parameters"),
    ],
)
def test_unknown_parameters_are_refused_with_the_known_names(kind: Any, payload: str, says: str) -> None:
    assert says in problem(kind, payload)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (Order, '{"region": "eu", "items": [{"sku": "a"}], "labels": {"any": {"thing": 1}}}'),
        (Cat | Dog, '{"type": "dog", "tricks": 1}'),
        (Item | None, "null"),
        (Any, '{"any": [1, {"thing": null}]}'),
        (dict, '{"any": 1}'),
        (dict[str, int], '{"any": 1}'),
        (tuple[Item, int], '[{"sku": "a"}, 1]'),
        (Renamed, '{"startDate": "x"}'),
        (None, "{}"),
        (None, "null"),
    ],
)
def test_what_fits_is_taken(kind: Any, payload: str) -> None:
    assert problem(kind, payload) == ""


@pytest.mark.parametrize(
    ("kind", "payload", "says"),
    [
        (Order, "{}", "region"),
        (Item, '{"sku": 7}', "`$.sku`"),
        (Item, '{"sku": "a", "count": 0}', ">= 1"),
        (Item, "[]", "`object`"),
        (Item, '{"sku": "a", "sku": "b"}', "twice"),
        (Any, '{"a": NaN}', "NaN"),
        (Any, "", "empty"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_place(kind: Any, payload: str, says: str) -> None:
    assert says in problem(kind, payload)


@fault("TF210")
def test_a_number_beyond_64_bits_is_kept_exactly() -> None:
    assert params.convert(Any, json.loads("18446708610539800576")) == 18446708610539800576
    assert params.convert(dict[str, int], {"n": 2**80}) == {"n": 2**80}


def test_a_dataclass_arrives_as_such() -> None:
    order = params.convert(Order, {"region": "eu", "items": [{"sku": "a"}]})
    assert order == Order("eu", [Item("a")])


def test_a_check_of_the_type_itself_is_told() -> None:
    assert problem(load([], Path()).handlers["shell"].params, '{"argv": []}').startswith("argv is empty")


def test_a_pydantic_model_is_validated_and_refuses_unknown_names() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):
        region: str

    with pytest.raises(InvalidPayload, match="known: region"):
        params.convert(Model, {"regoin": "eu"})
    assert params.convert(Model, {"region": "eu"}).region == "eu"


def ask(question: dict[str, Any], *handlers: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the process says by itself, and what it answers."""
    command = [sys.executable, "-m", "taskdeck.engine.run.validation"]
    for handler in handlers:
        command += ["--handler", handler]
    done = subprocess.run(
        command, input=json.dumps(question) + "\n", stdout=subprocess.PIPE, text=True, check=True
    )
    *begun, survey, answer = done.stdout.splitlines()
    assert [json.loads(line) for line in begun] == [{"begins": handler} for handler in handlers]
    return json.loads(survey), json.loads(answer)


def test_the_throw_away_process_says_what_loads_and_answers_one_line(tmp_path: Path) -> None:
    loud = tmp_path / "loud.py"
    loud.write_text(
        "import threading, time\nprint('noise')\nthreading.Thread(target=time.sleep, args=(60,)).start()"
    )
    question = {"type": "page", "payload": '{"ulr": "x"}'}
    survey, said = ask(question, str(SAMPLES), str(loud), str(tmp_path / "missing.py"))
    assert "known: url, depth" in said["problem"]
    assert json.loads(survey["types"]["page"])[0] == "object"
    assert "echo" in survey["types"]
    assert len(survey["problems"]) == 1


def test_the_throw_away_process_says_when_it_does_not_know_a_type() -> None:
    survey, said = ask({"type": "nope", "payload": "{}"})
    assert sorted(survey["types"]) == ["http", "shell"]
    assert said["problem"] == "no such type here"


def test_the_first_that_does_not_fit_or_is_unknown_is_refused(tmp_path: Path) -> None:
    fits, misfit, unknown = ("page", '{"url":"/"}'), ("page", '{"ulr":"/"}'), ("nope", "{}")

    def check(*specs: tuple[str, str]) -> None:
        with Handlers([str(SAMPLES)], tmp_path, SystemClock()) as handlers:
            handlers.check(specs)

    check(fits)
    with pytest.raises(InvalidPayload, match="unknown key"):
        check(fits, misfit, unknown)
    with pytest.raises(InvalidPayload, match="no handler for type 'nope'"):
        check(fits, unknown, misfit)


def test_each_is_refused_for_itself_and_what_surely_fits_is_not_where_the_others_can_not_be_asked(
    tmp_path: Path,
) -> None:
    fits, misfit, unknown = ("page", '{"url":"/"}'), ("page", '{"ulr":"/"}'), ("nope", "{}")

    def refused(*specs: tuple[str, str], handlers: str = str(SAMPLES)) -> list[Any]:
        with Handlers([handlers], tmp_path, SystemClock()) as process:
            return [refusal and type(refusal) for refusal in process.refusals(specs)]

    assert refused(fits, unknown, misfit, fits) == [None, InvalidPayload, InvalidPayload, None]
    (tmp_path / "mute.py").write_text("import os\nos._exit(3)\n")
    assert refused(fits, unknown, handlers="mute.py") == [Unavailable, Unavailable]
    (tmp_path / "ends.py").write_text(ENDS)
    assert refused(("plain", "1"), ("odd", '{"number":1}'), ("nope", "1"), handlers="ends.py") == [
        None,
        Unavailable,
        InvalidPayload,
    ]


ENDS = """
import os
from dataclasses import dataclass
from taskdeck.engine import task


@dataclass
class Odd:
    number: int

    def __post_init__(self):
        os._exit(3)


@task("plain")
async def plain(ctx, number: int): ...


@task("odd")
async def odd(ctx, odd: Odd): ...
"""


def test_handlers_that_end_the_process_are_told_of_with_their_last_words(tmp_path: Path) -> None:
    (tmp_path / "mute.py").write_text("import os\nos.write(2, b'it is over')\nos._exit(3)\n")
    with (
        pytest.raises(Unavailable, match="it is over"),
        Handlers(["mute.py"], tmp_path, SystemClock()) as process,
    ):
        process.survey()


class _Hurried(SystemClock):
    """All the time there is has gone by once the first line has come."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return 0.0 if self.looks <= 2 else 1e9


def test_a_file_of_handlers_that_hangs_at_its_import_is_named_after_the_time_that_a_worker_has(
    tmp_path: Path,
) -> None:
    (tmp_path / "hangs.py").write_text("import time\ntime.sleep(1000)\n")
    with (
        pytest.raises(Unavailable, match=r"did not load within 60 s: hangs\.py was being loaded \(look at"),
        Handlers(["hangs.py"], tmp_path, _Hurried(), load_within=60.0) as process,
    ):
        process.survey()
