"""What is looked at once for many tasks, or written at once for many callers, is what each would have had alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskdeck.engine import commands
from taskdeck.engine.commands import TOGETHER
from taskdeck.engine.edge.frames import MAX_BODY
from taskdeck.engine.errors import (
    InvalidPayload,
    NotFound,
    SecretInInput,
    StorageTrouble,
    TaskdeckError,
    UsageError,
)
from taskdeck.engine.rules.new_task import NewTask, new_task
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.run import submission
from taskdeck.engine.run.clients import refusal
from taskdeck.engine.run.submission import prepare, prepare_each, submit_each
from taskdeck.engine.store import tasks
from taskdeck.engine.store.events import append
from taskdeck.engine.store.transaction import Transaction
from tests.scratch import ANN, Scratch

SECRET = "hunter2-secret"
SPECS = st.fixed_dictionaries(
    {"type": st.sampled_from(["fetch", "page", "no type", 7])},
    optional={
        "payload": st.sampled_from(["{}", '{"url":"https://a.example/x"}', '{"n":1}', "7", 7, "{", {"n": SECRET}]),
        "key": st.sampled_from(["a", "b", "", 7]),
        "priority": st.sampled_from([1, True, 1.0, 100, -1]),
        "timeout": st.sampled_from([5, 5.0, 0, False, "5", -(10**400)]),
        "not_before": st.sampled_from(["2026-12-01T00:00:00.000000Z", "soon", ""]),
        "tags": st.sampled_from([["x"], [SECRET], "x"]),
        "needs": st.sampled_from([["phone:2"], ["?"], 5]),
        "target": st.sampled_from(["a.example", "no host!"]),
        "allow_direct": st.sampled_from([True, 1, None]),
        "parent": st.sampled_from([1, 0, True, "1", [1]]),
        "schedule": st.sampled_from(["nightly", "no schedule!", 7, {}]),
        "more": st.just(1),
    },
)  # fmt: skip


def outcome(specs: list[Any], redactor: Redactor) -> Any:
    try:
        return [(each, [*map(type, (*each.kind, each.payload))]) for each in prepare(specs, redactor)]
    except TaskdeckError as error:
        return re.sub(r"^task \d+ of \d+: ", "", error.what), error.why


@given(st.lists(SPECS, min_size=1, max_size=6))
def test_a_list_is_prepared_as_each_of_its_tasks_alone(specs: list[dict[str, Any]]) -> None:
    redactor = Redactor([SECRET])
    together = outcome(specs, redactor)
    alone = [outcome([spec], redactor) for spec in specs]
    bad = [each for each in alone if isinstance(each, tuple)]
    if not bad:
        assert together == [task for each in alone for task in each]
    else:
        assert isinstance(together, tuple)
        assert together[1] == bad[0][1]


PAYLOADS = st.sampled_from(
    [
        "{}", "1", " 1", "1,2", '"a', 'b"', "1.50", "-0", '{"a":1,"a":2}', '{"url":"https://a.example/x"}', "é", '"é"',
        '{"n":1}', '{"n": 1}', f'{{"n":"{SECRET}"}}', '{"password":"x1y2z3w4"}', "[" * 70 + "]" * 70, "9" * 500, "", 7, None,
    ]
)  # fmt: skip


@given(
    SPECS, st.lists(PAYLOADS, min_size=4, max_size=12), st.lists(st.sampled_from([1, True, 1.0]), max_size=9)
)
def test_tasks_that_differ_in_their_payloads_alone_are_prepared_as_each_of_them(
    spec: dict[str, Any], payloads: list[Any], priorities: list[Any]
) -> None:
    redactor = Redactor([SECRET])
    specs = [{**spec, "payload": payload} for payload in payloads]
    specs += [{**spec, "payload": "1", "priority": priority} for priority in priorities]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submission, "AT_ONCE", 3)
        patch.setattr(submission, "FEWEST", 2)
        together = outcome(specs, redactor)
    alone = [outcome([each], redactor) for each in specs]
    bad = next((each for each in alone if isinstance(each, tuple)), None)
    assert together == (bad or [task for each in alone for task in each])


def test_the_number_of_a_bad_task_is_its_place_in_the_whole_list() -> None:
    specs = [{"type": "x", "payload": str(number)} for number in range(700)]
    specs[600] = {"type": "x", "payload": "{"}
    with pytest.raises(InvalidPayload, match="task 601 of 700: "):
        prepare(specs, Redactor([]))


def test_only_so_many_kinds_of_tasks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MOST_ALIKE", 3)
    alike: dict[Any, Any] = {}
    for priority in range(10):
        assert (
            prepare([{"type": "fetch", "priority": priority}], Redactor(), alike)[0].kind.priority == priority
        )
    assert len(alike) == 3


def new(*numbers: int, key: str | None = None, parent: int | None = None) -> list[NewTask]:
    return [new_task("fetch", json.dumps(number), key=key, parent_id=parent) for number in numbers]


def test_what_several_hand_in_at_once_is_answered_to_each(scratch: Scratch) -> None:
    answers = scratch.do(submit_each, [(new(1, 2), ANN), (new(3), ANN)])
    assert [[each["id"] for each in answer] for answer in answers] == [[1, 2], [3]]
    answers = scratch.do(submit_each, [(new(4, key="k"), ANN), (new(5, key="k"), "cli:bob"), (new(6), ANN)])
    assert [[(each["id"], each["created"]) for each in answer] for answer in answers] == [
        [(4, True)],
        [(4, False)],
        [(5, True)],
    ]
    assert scratch.query("SELECT payload FROM task ORDER BY id") == [(str(n),) for n in (1, 2, 3, 4, 6)]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([None, "a", "b", "c", "d"]), max_size=5),
    st.lists(st.sampled_from([None, *"abcdé'"])),
)
def test_a_list_with_keys_is_written_as_each_of_its_tasks_alone(
    scratch: Scratch, before: list[str | None], keys: list[str | None]
) -> None:
    def written(*lists: list[NewTask]) -> Any:
        """What is told and stands there when these are submitted one after the other; nothing of it stays."""

        def unit(tx: Transaction) -> None:
            told = [each for some in lists if some for each in submission.submit(tx, some, ANN)]
            found = told, tx.rows("SELECT id, payload, idempotency_key FROM task ORDER BY id")
            raise Found(found)

        with pytest.raises(Found) as raised:
            scratch.do(unit)
        return raised.value.args

    first = [task for key in before for task in new(0, key=key)]
    tasks = [task for number, key in enumerate(keys, 1) for task in new(number, key=key)]
    assert written(first, tasks) == written(*([each] for each in (*first, *tasks)))


class Found(Exception):
    """What a unit saw before it is taken back."""


def test_one_that_can_not_be_written_keeps_none_of_the_others(scratch: Scratch) -> None:
    first, wrong, last = scratch.do(submit_each, [(new(1), ANN), (new(2, parent=99), ANN), (new(3), ANN)])
    assert isinstance(wrong, Exception)
    assert scratch.query("SELECT id, payload FROM task ORDER BY id") == [
        (first[0]["id"], "1"),
        (last[0]["id"], "3"),
    ]


@pytest.mark.parametrize(
    "specs", [[{"type": "fetch"}, {"type": "fetch", "parent": 2}], [{"type": "fetch", "parent": 2}]]
)
def test_a_task_whose_parent_is_not_here_is_refused_with_its_list(
    scratch: Scratch, specs: list[dict[str, Any]]
) -> None:
    first = scratch.add()
    with pytest.raises(NotFound, match="there is no task #2"):
        scratch.do(submission.submit, prepare(specs, Redactor([])), ANN)
    (told,) = scratch.do(submission.submit, prepare([{"type": "fetch", "parent": first}], Redactor([])), ANN)
    assert scratch.row(told["id"])["parent_id"] == first


@given(st.lists(st.one_of(SPECS, st.sampled_from([None, 5, "x"])), min_size=1, max_size=12))
def test_tasks_that_stand_each_for_itself_are_prepared_or_refused_as_alone(specs: list[Any]) -> None:
    redactor = Redactor([SECRET])
    for spec, found in zip(specs, prepare_each(specs, redactor), strict=True):
        if isinstance(found, NewTask):
            told: Any = [(found, [*map(type, (*found.kind, found.payload))])]
        else:
            assert isinstance(found, TaskdeckError)
            told = found.what, found.why
        assert told == outcome([spec], redactor)


@pytest.mark.parametrize(
    "key", [SECRET, f'a"{SECRET}', "https://ann:pw1234x@a.example/", "password=x1y2z3w4"]
)
def test_no_secret_is_taken_as_a_key(key: str) -> None:
    with pytest.raises(SecretInInput, match="in the key"):
        prepare([{"type": "fetch", "key": key}], Redactor([SECRET]))


def test_no_secret_is_taken_as_the_name_of_a_schedule() -> None:
    with pytest.raises(SecretInInput):
        prepare([{"type": "fetch", "schedule": SECRET}], Redactor([SECRET]))


def test_trouble_of_the_store_is_nobodys_own(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> Any:
        raise StorageTrouble("the disk is full")

    monkeypatch.setattr(tasks, "create_all", full)
    with pytest.raises(StorageTrouble):
        scratch.do(submit_each, [(new(1), ANN), (new(2), ANN)])


PLAIN: dict[str, Any] = {"type": "plain"}
LOOSE: dict[str, Any] = {"type": "loose"}


async def submitted(engine: Idle, *calls: tuple[Any, str]) -> list[Any]:
    """What an engine answers to these calls (runs, actor) that come at once."""
    return await TOGETHER["submit_each"](engine, [({"runs": runs}, actor) for runs, actor in calls])


class Idle:
    """An engine to hand calls to: it knows `plain` and `loose` alone, and what is written is asked of a scratch."""

    def __init__(self, scratch: Any = None) -> None:
        self.redactor, self.alike = Redactor([SECRET]), dict[Any, Any]()
        self.reception = self.writer = self
        self.scratch = scratch
        self.units = 0

    def shape_of(self, type_name: str) -> str:
        return {"plain": '"int"', "loose": '"any"'}.get(type_name, "")

    async def validate(self, type_name: str, payload: str) -> str:
        if type_name == "slow":
            raise TimeoutError
        return "nobody knows it"

    def write(self, unit: Any, *args: Any) -> asyncio.Future[Any]:
        assert self.scratch is not None, "nothing may be written"
        self.units += 1
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(self.scratch.do(unit, *args))
        return done

    def wake_for(self, due: Iterable[str]) -> None:
        pass

    def refusal(self, error: Exception) -> TaskdeckError:
        return refusal("submit_each", error)


async def test_tasks_that_stand_each_for_itself_are_written_by_one_unit_and_refused_alone(
    scratch: Scratch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Idle(scratch)
    good = [PLAIN, [*map(str, range(20))], None]
    bad = [[PLAIN, ['"x"'], None], [{"type": "slow"}, [None], None], [PLAIN, ["{"], None], [{}, ["1"], None]]
    calls = [
        ({"runs": [good, [{**PLAIN, "parent": 99}, ["7"], None], *bad]}, ANN),
        ({"runs": []}, ANN),
        ({"runs": [[PLAIN, ["1", "1"], ["k", "k"]]]}, "cli:bob"),
        ({"runs": bad}, ANN),
    ]
    first, none, keyed, refused = await TOGETHER["submit_each"](engine, calls)
    assert [each["id"] for each in first[:20]] == [*range(1, 21)]
    codes = ["not_found", "invalid_payload", "failed", "invalid_payload", "usage"]
    assert [each["code"] for each in first[20:]] == codes
    assert [each["code"] for each in refused] == codes[1:]
    assert first[22]["what"] == "the engine failed at submit_each: TimeoutError"
    assert "verb submit_each failed" in caplog.text
    assert isinstance(none, UsageError)
    assert [(each["id"], each["created"]) for each in keyed] == [(21, True), (21, False)]
    assert engine.units == 1


async def test_many_that_differ_in_plain_payloads_alone_are_answered_with_their_new_ids(
    scratch: Scratch,
) -> None:
    engine = Idle(scratch)
    await submitted(engine, ([[PLAIN, ["0"], None]], ANN))
    calls = [([[PLAIN, [*map(str, range(at, at + 10))], None]], f"cli:{at}") for at in (10, 20, 30)]
    assert await submitted(engine, *calls) == [[*range(2, 12)], [*range(12, 22)], [*range(22, 32)]]
    rows = scratch.query("SELECT id, payload FROM task ORDER BY id")
    assert rows == [(1, "0"), *((at - 8, str(at)) for at in range(10, 40))]
    assert engine.units == 2


async def test_one_that_can_not_be_written_is_refused_alone_among_many_that_are_alike(
    scratch: Scratch,
) -> None:
    engine = Idle(scratch)
    parent = scratch.add()
    await submitted(engine, *(([[{**PLAIN, "parent": each}, ["0"], None]], ANN) for each in (parent, 99)))
    many = [*map(str, range(10))]
    calls = [
        ([[{**PLAIN, "parent": parent}, many, None], [{**PLAIN, "parent": 99}, many, None]], ANN),
        ([[{**PLAIN, "parent": parent}, many, None]], "cli:bob"),
    ]
    first, second = await submitted(engine, *calls)
    assert [each.get("id", each.get("code")) for each in first] == [*range(3, 13), *["not_found"] * 10]
    assert [each["id"] for each in second] == [*range(13, 23)]
    assert scratch.query("SELECT count(*), max(id) FROM task") == [(22, 22)]


@pytest.mark.parametrize("bad", ['"x"', "true", "{", "", None, f'"{SECRET}"'])
async def test_one_payload_that_is_refused_is_refused_alone_among_many_that_are_alike(
    scratch: Scratch, bad: str | None
) -> None:
    engine = Idle(scratch)
    await submitted(engine, ([[PLAIN, ["0"], None]], ANN))
    (told,) = await submitted(engine, ([[PLAIN, [*map(str, range(9)), bad, "10"], None]], ANN))
    assert [each.get("id") for each in told] == [*range(2, 11), None, 11]
    assert told[9]["code"] in ("invalid_payload", "secret_in_input")
    assert scratch.query("SELECT count(*) FROM task") == [(11,)]


async def test_a_key_is_never_that_of_another_task_that_is_alike(scratch: Scratch) -> None:
    engine = Idle(scratch)
    spec = {"type": "plain", "key": "k", "payload": "0"}
    ((known,),) = await TOGETHER["submit"](engine, [({"specs": [spec]}, ANN)])
    many = [*map(str, range(10))]
    keyless, wrong = await submitted(
        engine, ([[{**PLAIN, "key": None}, many, None]], ANN), ([[{**PLAIN, "key": 7}, many, None]], ANN)
    )
    assert known["id"] == 1
    assert [each["id"] for each in keyless] == [*range(2, 12)]
    assert {each["code"] for each in wrong} == {"usage"}


BAD_RUNS: list[Any] = [
    None, 5, "x", {}, [None], ["abc"], [[]], [[{}, []]], [[5, ["1"], None]], [["ab", ["1"], None]],
    [[{"type": "plain"}, "11111111", None]], [[{"type": "plain"}, {"1": 1}, None]], [[{"type": "plain"}, ["1"], ["a", "b"]]],
    [[{"type": "plain"}, ["1"], []]], [[{"type": "plain"}, ["1"], "a"]], [[{"type": "plain"}, ["1"], [7]]],
    [[{"type": "plain"}, [1], None]], [[{"type": "plain"}, [b"1"], None]], [[{"type": "plain"}, None, None]],
    [[{1: 2}, ["1"], None]], [[{"type": "plain"}, [*"12345678", 9], None]], [[{"type": "plain"}, ["1"], None], 5],
]  # fmt: skip


@pytest.mark.parametrize("runs", BAD_RUNS)
async def test_what_is_no_run_of_tasks_is_refused_as_a_whole_and_for_its_caller_alone(
    scratch: Scratch, runs: Any
) -> None:
    engine = Idle(scratch)
    good = [[PLAIN, ["1"], None]]
    first, refused, last = await submitted(engine, (good, ANN), (runs, ANN), (good, ANN))
    assert [each["id"] for each in (*first, *last)] == [1, 2]
    assert isinstance(refused, UsageError)
    (alone,) = await submitted(engine, (runs, ANN))
    assert isinstance(alone, UsageError)
    assert scratch.query("SELECT count(*) FROM task") == [(2,)]


COMMONS = st.sampled_from([
    PLAIN, {**PLAIN, "priority": 5}, {**PLAIN, "priority": True}, {**PLAIN, "target": "a.example"}, {**PLAIN, "tags": ["x"]},
    {**PLAIN, "parent": 1}, {**PLAIN, "parent": 99}, {**PLAIN, "key": "b"}, {**PLAIN, "key": 7}, {**PLAIN, "more": 1},
    {"type": "loose"}, {"type": "slow"}, {"type": "nobody's"}, {"command": {"argv": ["true"]}}, {},
    {**PLAIN, "not_before": "2026-12-24T00:00:00.000000Z"}, {"type": "command"},
])  # fmt: skip
NUMBERS = st.integers(0, 99).map(str)
TEXTS = st.sampled_from([
    "{}", " 1", "1,2", "", "{", '"é"', '{"url":"https://a.example/x"}', f'{{"n":"{SECRET}"}}', '{"argv":["true"]}',
    "1.50", None,
])  # fmt: skip
KEYS = st.sampled_from([None, "a", "b", "", SECRET, "é"])


KNOWN = [PLAIN, {**PLAIN, "priority": 5}, {**PLAIN, "parent": 1}, LOOSE, {**PLAIN, "parent": 99}]
ACTORS = st.sampled_from([ANN, "cli:bob"])


@st.composite
def any_run(draw: st.DrawFn) -> list[Any]:
    payloads = draw(st.lists(st.one_of(NUMBERS, TEXTS), min_size=1, max_size=6))
    keys = st.lists(KEYS, min_size=len(payloads), max_size=len(payloads))
    return [draw(COMMONS), payloads, draw(st.one_of(st.none(), keys))]


def numbered(common: dict[str, Any], count: int) -> list[Any]:
    return [common, [*map(str, range(count))], None]


@st.composite
def runs_of_known_kinds(draw: st.DrawFn) -> list[tuple[list[Any], str]]:
    """Calls that can be taken together, or could be but for one thing."""
    runs = st.builds(numbered, st.sampled_from(KNOWN[:4]), st.integers(2, 12))
    calls = draw(st.lists(st.tuples(st.lists(runs, min_size=1, max_size=3), ACTORS), min_size=2, max_size=4))
    run = draw(st.sampled_from([run for runs, _ in calls for run in runs]))
    match draw(st.sampled_from(["nothing", "nothing", "payload", "key", "parent"])):
        case "payload":
            run[1][-1] = draw(st.one_of(TEXTS, st.sampled_from(['"x"', "true"])))
        case "key":
            run[2] = [draw(KEYS), *run[1][1:]]
        case "parent":
            run[0] = KNOWN[4]
        case _:
            pass
    return calls


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        runs_of_known_kinds(),
        st.lists(st.tuples(st.lists(any_run(), min_size=1, max_size=3), ACTORS), max_size=4),
    )
)
def test_whatever_is_handed_in_at_once_is_written_told_and_answered_as_one_by_one(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch, calls: list[tuple[list[Any], str]]
) -> None:
    monkeypatch.setattr(submission, "FEWEST", 2)
    alone = [
        ([[common, [payload], keys and [keys[at]]]], actor)
        for runs, actor in calls
        for common, payloads, keys in runs
        for at, payload in enumerate(payloads)
    ]
    assert all_of(scratch, [calls]) == all_of(scratch, [[each] for each in alone])


def all_of(scratch: Scratch, groups: list[list[tuple[list[Any], str]]]) -> Any:
    """The answers to these groups of calls, and what then stands in the database; nothing of it stays there."""
    tx = scratch.tx
    tx.begin()
    try:
        engine = Idle(SimpleNamespace(do=tx.unit))
        told = asyncio.run(_in_turn(engine, [[([[each, ["1"], None] for each in KNOWN], ANN)], *groups]))
        append(tx.connection, list(tx._events))
        rows = tx.connection.execute("SELECT * FROM task ORDER BY id").fetchall()
        events = tx.connection.execute("SELECT * FROM event_log ORDER BY event_id").fetchall()
    finally:
        tx.roll_back()
    return told, rows, events


async def _in_turn(engine: Idle, groups: list[list[tuple[list[Any], str]]]) -> list[Any]:
    answers = [await submitted(engine, *group) for group in groups if group]
    return [plain_answer(each) for group in answers for call in group for each in call]


def plain_answer(answer: Any) -> Any:
    if isinstance(answer, int):
        return {"id": answer, "created": True, "state": "PENDING"}
    return answer


async def test_what_fails_with_one_call_is_that_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_at(specs: Any, *rest: Any) -> list[NewTask]:
        return [new_task(*specs)]  # raises what nobody meant to raise

    monkeypatch.setattr(submission, "prepare", looked_at)
    calls = [({"specs": specs}, ANN) for specs in (("fetch", "1"), 5, ("slow", "1"), ("fetch", "2"))]
    answers = await TOGETHER["submit"](Idle(), calls)
    assert list(map(type, answers)) == [InvalidPayload, TypeError, TimeoutError, InvalidPayload]


def test_what_is_too_large_to_be_asked_of_an_engine_is_refused_before_it_is_sent() -> None:
    nobody: Any = None
    with pytest.raises(UsageError, match="nothing was done"):
        commands._through_engine(nobody, nobody, "submit", {"specs": ["x" * MAX_BODY]}, ANN)
