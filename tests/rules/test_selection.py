from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from taskdeck.engine.rules.selection import (
    FEWEST_TOGETHER,
    Candidate,
    Loaded,
    Situation,
    Start,
    WorkerRoom,
    choose,
    explain,
    side_by_side,
)
from tests.faults import fault

NOW = "2026-11-29T12:00:00.000000Z"
LATER = "2026-11-29T13:00:00.000000Z"
W1, W2 = WorkerRoom(1, 10), WorkerRoom(2, 10)
IDLE = Situation(NOW, max_running=100, workers=(W1, W2))


def task(number: int, type_name: str = "fetch", **fields: object) -> Candidate:
    plain = Candidate(number, type_name, "PENDING", 100, NOW)
    return structs.replace(plain, **fields)


def started(candidates: list[Candidate], situation: Situation) -> list[int]:
    return [start.candidate.id for start in choose(candidates, situation).starts]


def test_smaller_priority_then_earlier_then_smaller_id_starts_first() -> None:
    earlier = "2026-11-29T11:00:00.000000Z"
    candidates = [task(1), task(2, next_run_at=earlier), task(3, effective_priority=1), task(4)]
    assert started(candidates, IDLE) == [3, 2, 1, 4]


def test_what_is_not_due_waits_and_says_until_when() -> None:
    choice = choose([task(1, next_run_at=LATER), task(2, state="RETRYING", next_run_at=LATER)], IDLE)
    assert choice.starts == ()
    assert choice.waits == {1: (f"is due at {LATER}",), 2: (f"retries at {LATER}",)}


def test_due_is_now_or_before() -> None:
    assert started([task(1, next_run_at=NOW)], IDLE) == [1]


@fault("TF199")
def test_a_type_at_its_limit_hides_nobody_behind_it() -> None:
    situation = replace(IDLE, caps={"a": 1}, running={"a": 1})
    candidates = [task(number, "a") for number in range(1, 501)] + [task(501, "b")]
    choice = choose(candidates, situation)
    assert [start.candidate.id for start in choice.starts] == [501]
    assert choice.waits[1] == ("1 of 1 of type a run (its concurrency)",)


def test_the_global_limit_counts_what_this_choice_itself_starts() -> None:
    situation = replace(IDLE, max_running=3, running={"x": 1})
    assert started([task(number) for number in range(1, 6)], situation) == [1, 2]


def test_the_busier_worker_gets_the_next_task_last() -> None:
    situation = replace(IDLE, workers=(replace(W1, running=3), W2))
    starts = choose([task(number) for number in range(1, 4)], situation).starts
    assert [start.worker_id for start in starts] == [2, 2, 2]


def test_a_held_queue_or_type_says_by_whom() -> None:
    assert choose([task(1)], replace(IDLE, held={"all": "cli:ann"})).waits[1] == (
        "everything is held by cli:ann (let it go on: taskdeck resume --all)",
    )
    waits = choose([task(1), task(2, "b")], replace(IDLE, held={"type:b": "cli:bob"})).waits
    assert waits == {2: ("type b is held by cli:bob (let it go on: taskdeck resume type:b)",)}


def test_a_type_that_no_worker_knows_waits_for_a_handler_and_commands_run_anywhere() -> None:
    situation = replace(IDLE, workers=(replace(W1, types=frozenset({"fetch"})),))
    choice = choose([task(1, "ghost"), task(2, "shell"), task(3)], situation)
    assert [start.candidate.id for start in choice.starts] == [2, 3]
    assert "no worker has a handler for type ghost" in choice.waits[1][0]


def test_a_type_that_the_last_worker_could_not_run_is_told_with_what_failed_to_load() -> None:
    loaded = Loaded(
        frozenset({"fetch", "http"}), NOW, ("tasks.py: ModuleNotFoundError: No module named 'x'",)
    )
    failed = "failed to load: tasks.py: ModuleNotFoundError: No module named 'x'"
    without = replace(IDLE, workers=(), engine=False, loaded=loaded)
    assert explain(task(1, "ghost"), without)[1:] == (
        f"the last worker (ready at {NOW}) had no handler for type ghost: {failed} (see: taskdeck config check)",
    )
    for known in ("fetch", "shell"):
        assert len(explain(task(1, known), without)) == 1
    with_one = replace(IDLE, workers=(replace(W1, types=loaded.types),), loaded=loaded)
    assert explain(task(1, "ghost"), with_one) == (
        f"no worker has a handler for type ghost: {failed} (see: taskdeck worker list)",
    )


def test_a_suspect_has_its_worker_for_itself() -> None:
    choice = choose([task(1, suspect=True), task(2), task(3)], IDLE)
    by_worker = {start.candidate.id: start.worker_id for start in choice.starts}
    assert by_worker[1] not in (by_worker[2], by_worker[3])


def test_a_suspect_waits_for_an_idle_worker_and_one_is_kept_free_for_it() -> None:
    busy = replace(IDLE, workers=(replace(W1, running=1), replace(W2, running=2)))
    choice = choose([task(1, suspect=True), task(2)], busy)
    assert [(start.candidate.id, start.worker_id) for start in choice.starts] == [(2, 2)]
    assert choice.waits[1] == ("its worker was lost, so it waits for a worker of its own",)


@fault("TF040", "TF199")
def test_while_suspects_have_the_other_workers_the_last_one_stays_open_to_those_who_are_none() -> None:
    busy = replace(IDLE, workers=(replace(W1, alone=True, running=1, suspects=(9,)), replace(W2, running=1)))
    choice = choose([task(1, suspect=True), task(2), task(3)], busy)
    assert [(start.candidate.id, start.worker_id) for start in choice.starts] == [(2, 2), (3, 2)]
    alone = replace(IDLE, workers=(replace(W1, running=1),))
    assert started([task(1, suspect=True), task(2)], alone) == []  # else it would never have it for itself


def test_nothing_joins_a_suspect_that_runs() -> None:
    assert started([task(1)], replace(IDLE, workers=(replace(W1, alone=True, running=1),))) == []


def test_who_waits_for_workers_that_suspects_have_for_themselves_is_told_for_whom() -> None:
    kept = (replace(W1, alone=True, running=1, suspects=(4,)), replace(W2, free=0, running=10))
    assert explain(task(9), replace(IDLE, workers=kept)) == (
        "the worker with room is kept for #4, whose worker was lost: it runs alone until it ends",
    )
    both = (kept[0], replace(W2, alone=True, running=1, suspects=(5,)))
    assert "are kept for #4 and #5, whose worker was lost: they run" in explain(
        task(9), replace(IDLE, workers=both)
    )[0]  # fmt: skip
    many = (replace(W1, alone=True, running=1, suspects=tuple(range(1, 9))),)
    assert "#1, #2, #3, #4, #5 and 3 more, whose" in explain(task(9), replace(IDLE, workers=many))[0]
    full = (replace(W1, alone=True, free=0, running=1, suspects=(4,)),)
    assert explain(task(9), replace(IDLE, workers=full)) == ("all workers are full (engine.slots)",)


def test_without_an_engine_or_workers_it_says_so() -> None:
    assert "no engine runs" in explain(task(1), replace(IDLE, engine=False))[0]
    assert explain(task(1), replace(IDLE, workers=())) == ("no worker is ready yet",)
    starting = replace(IDLE, workers=(), starting="worker 1 starts")
    assert explain(task(1), starting) == ("no worker is ready yet: worker 1 starts",)


def test_what_lets_nothing_start_is_told_instead_of_what_it_brings_about() -> None:
    pause = "only 483 kB are free for the database; nothing new starts (make room)"
    paused = replace(IDLE, workers=(), pause=pause)
    assert explain(task(1), paused) == (pause,)
    assert explain(task(1), replace(IDLE, pause=pause)) == (pause,)
    assert started([task(1)], replace(IDLE, pause=pause)) == []


def test_a_task_that_nothing_blocks_says_what_comes_before_it() -> None:
    assert explain(task(1), IDLE, ahead=2) == ("2 due tasks come before it",)
    assert explain(task(1), IDLE) == ("it is due and starts with the next tick",)


candidates = st.lists(
    st.builds(
        Candidate,
        id=st.integers(1, 60),
        type=st.sampled_from("abc"),
        state=st.sampled_from(["PENDING", "RETRYING"]),
        effective_priority=st.integers(0, 3),
        next_run_at=st.sampled_from([NOW, LATER]),
        suspect=st.booleans(),
    ),
    unique_by=lambda each: each.id,
)
situations = st.builds(
    Situation,
    now=st.just(NOW),
    max_running=st.integers(1, 20),
    running=st.dictionaries(st.sampled_from("abc"), st.integers(0, 5)),
    caps=st.dictionaries(st.sampled_from("abc"), st.integers(1, 6)),
    held=st.dictionaries(st.sampled_from(["all", "type:a", "pool:p"]), st.just("ann"), max_size=1),
    workers=st.lists(
        st.builds(
            WorkerRoom,
            id=st.integers(1, 4),
            free=st.integers(0, 8),
            running=st.integers(0, 3),
            alone=st.booleans(),
        ),
        unique_by=lambda each: each.id,
        max_size=4,
    ).map(tuple),
)


@given(candidates, situations)
def test_every_task_either_starts_within_all_limits_or_has_a_reason(
    candidates: list[Candidate], situation: Situation
) -> None:
    choice = choose(candidates, situation)
    ids = [start.candidate.id for start in choice.starts]
    assert len(ids) == len(set(ids))
    assert set(ids).isdisjoint(choice.waits)
    assert set(ids) | set(choice.waits) == {each.id for each in candidates}
    assert all(choice.waits.values())
    if ids:
        assert sum(situation.running.values()) + len(ids) <= situation.max_running
    for name, cap in situation.caps.items():
        more = sum(start.candidate.type == name for start in choice.starts)
        assert not more or situation.running.get(name, 0) + more <= cap
    for worker in situation.workers:
        given_to = [start.candidate for start in choice.starts if start.worker_id == worker.id]
        assert len(given_to) <= worker.free
        if worker.alone or any(each.suspect for each in given_to):
            assert len(given_to) + (worker.running if given_to else 0) <= 1


@given(candidates, situations)
def test_the_choice_does_not_depend_on_the_order_in_which_tasks_are_given(
    candidates: list[Candidate], situation: Situation
) -> None:
    assert choose(candidates, situation) == choose(list(reversed(candidates)), situation)


def test_of_many_alike_neighbours_go_to_the_same_worker_and_few_to_all_in_turn() -> None:
    many = [Start(task(number), 1 + number % 2) for number in range(FEWEST_TOGETHER)]
    halves = [1] * (FEWEST_TOGETHER // 2) + [2] * (FEWEST_TOGETHER // 2)
    assert [start.worker_id for start in side_by_side(many)] == halves
    assert side_by_side(many[:-1]) == many[:-1]


@given(
    st.lists(
        st.builds(
            Start,
            st.builds(
                task,
                st.just(0),
                st.sampled_from("ab"),
                effective_priority=st.integers(0, 1),
                suspect=st.booleans(),
            ),
            st.integers(1, 3),
        ),
        max_size=4 * FEWEST_TOGETHER,
    )
)
def test_going_side_by_side_changes_neither_the_order_nor_what_each_worker_is_given_of_a_kind(
    starts: list[Start],
) -> None:
    found = side_by_side(starts)
    assert [start.candidate for start in found] == [start.candidate for start in starts]

    def given_to(each: Start) -> tuple[object, ...]:
        return each.worker_id, each.candidate.type, each.candidate.effective_priority, each.candidate.suspect

    assert sorted(map(given_to, found)) == sorted(map(given_to, starts))
    for before, after in zip(starts, found, strict=True):
        assert not before.candidate.suspect or before == after
