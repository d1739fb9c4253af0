from __future__ import annotations

import json

import pytest

from tests.seeded import Seed
from tests.tui.calls import Calls


def states(taskdeck: Calls) -> dict[int, str]:
    return {task["id"]: task["state"] for task in taskdeck("list", "--json", "-n", "0").lines}


@pytest.fixture
def five(taskdeck: Calls) -> Calls:
    for _ in range(5):
        taskdeck("add", "--", "true")
    return taskdeck


def test_ids_and_ranges_are_acted_on_one_line_each(five: Calls) -> None:
    assert five("cancel", "1", "#2", "4-5").out.count("cancelled") >= 4
    assert states(five) == {1: "CANCELLED", 2: "CANCELLED", 3: "PENDING", 4: "CANCELLED", 5: "CANCELLED"}


def test_pause_resume_and_retry_go_there_and_back(five: Calls) -> None:
    five("pause", "1,2")
    assert states(five)[1] == "PAUSED"
    five("resume", "1")
    assert states(five)[1] == "PENDING"
    five("cancel", "2")
    five("retry", "2")
    assert states(five)[2] == "PENDING"


def test_a_filter_means_the_tasks_that_it_can_be_done_to(five: Calls) -> None:
    five("cancel", "1")
    found = five("cancel", "type:shell", "--json", "--yes").lines
    assert [each["id"] for each in found] == [2, 3, 4, 5]
    assert all(each["ok"] for each in found)
    assert "no task matches" in five("cancel", "type:shell", code=3).err


def test_a_refusal_of_one_id_keeps_none_of_the_others_and_gives_the_exit_code(five: Calls) -> None:
    five("cancel", "2")
    ended = five("pause", "1-3", code=4)
    assert len(ended.out.splitlines()) == 2
    assert "#2" in ended.err
    found = five("pause", "1-3", "--json", code=4).lines
    assert [each["ok"] for each in found] == [True, False, True]
    assert found[1]["exit_code"] == 4


def test_a_missing_id_is_exit_3_and_nothing_is_done(five: Calls) -> None:
    five("cancel", "1", "99", code=3)
    assert set(states(five).values()) == {"PENDING"}


def test_all_asks_first_on_a_terminal_and_refuses_without_one(five: Calls) -> None:
    assert "--yes" in five("cancel", "--all", code=2).err
    assert "nothing was done" in five.on_terminal("cancel", "--all", answer="n\n").out
    assert set(states(five).values()) == {"PENDING"}
    assert "cancel 5 tasks?" in five.on_terminal("cancel", "--all", answer="y\n").out
    assert set(states(five).values()) == {"CANCELLED"}


def test_what_a_filter_selects_is_shown_and_asked_about_ids_never_are(five: Calls) -> None:
    refused = five("cancel", "type:shell", code=2).err
    assert "5 tasks" in refused
    assert "#1, #2, #3, #4, #5" in refused
    assert "--yes" in refused
    asked = five.on_terminal("cancel", "type:shell", answer="n\n", NO_COLOR="1").out
    assert "#1  ◦ pending  shell  true" in asked
    assert "cancel 5 tasks?" in asked
    assert set(states(five).values()) == {"PENDING"}
    five("cancel", "1-4")
    assert "1 task" in five("cancel", "true", code=2).err, "a text may be found where nobody thought of it"
    five("cancel", "state:pending")
    assert set(states(five).values()) == {"CANCELLED"}


def test_many_tasks_are_named_by_the_first_ten(taskdeck: Calls, seed: Seed) -> None:
    for _ in range(13):
        seed.task()
    asked = taskdeck.on_terminal("cancel", "--all", answer="n\n", NO_COLOR="1").out
    assert "#10" in asked
    assert "#11" not in asked
    assert "and 3 more" in asked
    assert "cancel 13 tasks?" in asked


def test_half_a_filter_cancels_nothing(five: Calls) -> None:
    assert "older:2h" in five("cancel", "age", "--yes", code=2).err
    assert set(states(five).values()) == {"PENDING"}


def test_a_word_that_names_a_state_gets_a_hint(five: Calls) -> None:
    assert "state:failed" in five("list", "failed").err
    assert "state:failed" in five("cancel", "failed", code=3).err


def test_missing_ids_are_told_in_one_line(five: Calls) -> None:
    ended = five("cancel", "7", "8-20", "2", "30", code=3)
    assert "there is no task #7-#20, #30" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_wish_without_an_engine_says_when_it_takes_effect(taskdeck: Calls, seed: Seed) -> None:
    running = str(seed.running(seed.worker()))
    assert "takes effect when one starts (taskdeck run)" in taskdeck("pause", running).err
    failed = str(seed.task(state="FAILED", reason="fatal_error"))
    assert "nothing starts until one does (taskdeck run)" in taskdeck("retry", failed).err


def test_a_refusal_says_in_plain_words_why_and_what_can_be_done(taskdeck: Calls, seed: Seed) -> None:
    running, done = str(seed.running(seed.worker())), str(seed.task(state="SUCCESS", reason="done"))
    assert f"taskdeck cancel {running}" in taskdeck("discard", running, code=4).err
    assert f"#{running} is running and can't be retried" in taskdeck("retry", running, code=4).err
    assert f"taskdeck retry --again {done}" in taskdeck("cancel", done, code=4).err


def test_all_with_yes_acts_and_excludes_a_choice(five: Calls) -> None:
    five("cancel", "--all", "1", code=2)
    five("cancel", "--all", "--yes")
    assert set(states(five).values()) == {"CANCELLED"}
    five("cancel", "--all", "--yes", code=3)


def test_everything_a_type_and_a_pool_are_held_and_go_on(five: Calls) -> None:
    assert five("pause", "--all").out == "everything is held: nothing more of it is started\n"
    assert "already" in five("pause", "--all").out
    assert "nothing is known of pool browser" in five("pause", "type:shell", "pool:browser").err
    held = [hold["scope"] for hold in five("status", "--json").lines[0]["holds"]]
    assert held == ["all", "pool:browser", "type:shell"]
    told = five("status").out
    assert "taskdeck resume --all" in told
    assert "taskdeck resume pool:browser" in told
    assert "type shell is held" in five("why", "1").out
    five("resume", "--all")
    assert five("resume", "type:shell,other", "pool:browser", "--json").lines[0]["held"] is False
    assert "is not held" in five("resume", "--all").out
    assert five("status", "--json").lines[0]["holds"] == []


def test_a_succeeded_task_is_run_again_as_a_new_one(taskdeck: Calls, seed: Seed) -> None:
    done = seed.task(state="SUCCESS", reason="done", finished_at="2026-11-29T12:00:00.000000Z")
    taskdeck("retry", str(done), code=4)
    taskdeck("retry", str(done), "--again")
    assert states(taskdeck) == {done: "SUCCESS", done + 1: "PENDING"}
    assert taskdeck("show", str(done + 1), "--json").lines[0]["parent"] == done


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (["SUCCESS", "SUCCESS"], 0),
        (["SUCCESS", "FAILED"], 1),
        (["CANCELLED"], 1),
        (["DEAD", "NEEDS_REVIEW"], 1),
        (["NEEDS_REVIEW", "SUCCESS"], 6),
    ],
)
def test_wait_says_by_its_exit_code_how_tasks_ended(
    taskdeck: Calls, seed: Seed, ends: list[str], code: int
) -> None:
    made = [seed.task(state=state, reason="done") for state in ends]
    found = taskdeck("wait", f"{made[0]}-{made[-1]}", "--json", code=code).lines
    assert [each["state"] for each in found] == ends


def test_wait_times_out_with_124_and_says_what_it_waited_for(taskdeck: Calls, seed: Seed) -> None:
    task = seed.task()
    ended = taskdeck("wait", str(task), "--timeout", "0.01", code=124)
    assert f"#{task} is ◦ pending" in ended.err
    assert "no engine runs" in ended.err
    error = json.loads(
        taskdeck("wait", str(task), "--timeout", "0s", "--json", code=124).err.splitlines()[-1]
    )
    assert error["error"]["code"] == "wait_timeout"
    taskdeck("wait", "99", code=3)


def test_waiting_ends_when_the_last_task_does(taskdeck: Calls, seed: Seed) -> None:
    import threading

    task = seed.task()
    timer = threading.Timer(0.3, lambda: Seed(taskdeck.db).sql("UPDATE task SET state = 'SUCCESS'"))
    timer.start()
    assert taskdeck("wait", "type:shell", "--timeout", "20s").out == f"#{task} ✓ success\n"
    timer.join()


def test_an_operation_needs_the_engines_socket(taskdeck: Calls) -> None:
    assert "TASKDECK_FD" in taskdeck("op", "begin", "upload", code=2).err
