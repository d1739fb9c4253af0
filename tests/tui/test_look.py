from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taskdeck.engine.edge.locks import DatabaseLock
from taskdeck.engine.rules.new_task import new_task
from taskdeck.engine.views import EngineView, now
from taskdeck.tui import format as look
from taskdeck.tui.verbs.status import UNSUPERVISED, next_steps
from tests.faults import fault
from tests.seeded import Seed
from tests.tui.calls import PROGRAM, Calls

HOSTILE = "\x1b[2J\x1b]52;c;QUFB\x07evil\u202e\x9b31m\r\n\x00"
SECRET = "Hunter2-Hunter2-Hunter2"


@contextmanager
def engine_lock(taskdeck: Calls) -> Iterator[None]:
    """The lock as an engine holds it."""
    lock = DatabaseLock(taskdeck.db, role="engine", incarnation="x")
    with lock:
        assert lock.acquire()
        yield


def filled(seed: Seed) -> dict[str, int]:
    worker = seed.worker()
    return {
        "waiting": seed.task(payload={"argv": ["./backup.sh", "a b"]}, key="任务/1", tags=["nightly"]),
        "running": seed.running(worker, progress_done=5, progress_total=10, progress_note="page 5"),
        "failed": seed.task(
            "fetch",
            {"url": "x"},
            state="FAILED",
            reason="fatal_error",
            error=json.dumps({"class": "fatal", "kind": "http", "message": "404", "rule": "status"}),
            finished_at="2026-11-29T12:00:00.000000Z",
        ),
        "review": seed.task("fetch", {"text": "任务" * 90}, state="NEEDS_REVIEW", reason="retries_exhausted"),
    }


def test_a_table_fits_80_columns_on_a_terminal_and_has_no_colour_with_no_color(
    taskdeck: Calls, seed: Seed
) -> None:
    filled(seed)
    coloured = taskdeck.on_terminal("list").out
    assert "\x1b[31m✗ failed" in coloured
    plain = taskdeck.on_terminal("list", NO_COLOR="1").out
    assert "\x1b" not in plain
    assert plain.splitlines()[0].startswith("ID  STATE")
    assert all(look.cells(line) <= 80 for line in plain.splitlines())
    narrow = taskdeck.on_terminal("list", NO_COLOR="1", COLUMNS="50").out
    assert all(look.cells(line) <= 50 for line in narrow.splitlines())


def test_a_pipe_gets_the_whole_lines_without_colour(taskdeck: Calls, seed: Seed) -> None:
    filled(seed)
    shown = taskdeck("list").out
    assert "\x1b" not in shown
    assert "任务" * 90 in shown
    assert "5/10 page 5" in shown
    assert "- 404" in shown
    assert "(UTC)" in shown


@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["events"], ["events", "--json"]])
def test_what_is_cut_since_nobody_said_how_many_is_told(
    taskdeck: Calls, seed: Seed, words: list[str]
) -> None:
    """`taskdeck list | wc -l` must not be taken for the number of tasks."""
    what = words[0].replace("list", "tasks")
    told = f"these are the newest 100 {what}, and there are older ones (all of them: --limit 0)"
    with seed.writing() as tx:
        for _ in range(100):
            tx.event("STEP_STARTED", actor="engine")
    for _ in range(100):
        seed.task()
    if what == "tasks":
        assert told not in taskdeck(*words).err, "there are just as many"
    assert told not in taskdeck(*words, "--limit", "100").err
    seed.task()
    found = taskdeck(*words)
    assert told in found.err
    assert len(found.lines if "--json" in words else found.out.splitlines()) in (100, 101)
    assert told not in taskdeck(*words, "--limit", "0").err


def test_a_list_is_filtered_and_limited(taskdeck: Calls, seed: Seed) -> None:
    made = filled(seed)
    assert [task["id"] for task in taskdeck("list", "--json", "state:failed,needs_review").lines] == [
        made["review"],
        made["failed"],
    ]
    assert len(taskdeck("list", "--json", "--limit", "2").lines) == 2
    assert len(taskdeck("list", "--json", "-n", "0").lines) == 4
    assert [task["id"] for task in taskdeck("list", "--json", "a b").lines] == [made["waiting"]]
    assert "no task matches" in taskdeck("list", "type:none").err


def test_a_long_list_comes_whole_in_pages(
    taskdeck: Calls, seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskdeck.engine.store import tasks

    with seed.writing() as tx:
        for _ in range(1001):
            tasks.create(tx, new_task("x", "{}"), "cli:test")
    assert [task["id"] for task in taskdeck("list", "--json", "--limit", "0").lines] == list(
        range(1001, 0, -1)
    )
    assert len(taskdeck("list", "--json", "--limit", "501").lines) == 501
    assert len(taskdeck("list", "--json").lines) == 100


def test_json_is_utf8_in_any_locale_and_tables_survive_ascii(taskdeck: Calls, seed: Seed) -> None:
    made = filled(seed)
    for more in (
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
    ):
        taskdeck.environment |= more
        found = taskdeck.process("show", str(made["waiting"]), "--json").lines[0]
        assert found["key"] == "任务/1"
        assert "failed" in taskdeck.process("list").out


def test_show_prints_everything_about_one_task(taskdeck: Calls, seed: Seed) -> None:
    made = filled(seed)
    shown = taskdeck("show", f"#{made['failed']}").out
    for text in ("fetch", "✗ failed (fatal_error)", "404", '{"url":"x"}', "0 of 5 retries"):
        assert text in shown
    attempts = taskdeck("show", str(made["running"])).out
    assert "ATTEMPT" in attempts
    assert re.search(r"^1 +1 +\S*11-29", attempts, re.MULTILINE)
    found = taskdeck("show", str(made["running"]), "--json").lines
    assert len(found) == 1
    assert found[0]["attempts"][0]["attempt"] == 1


def test_why_answers_for_every_kind_of_state(taskdeck: Calls, seed: Seed) -> None:
    made = filled(seed)
    assert "taskdeck run" in taskdeck("why", str(made["waiting"])).out
    stranded = taskdeck("why", str(made["running"])).out
    assert "its worker is gone" in stranded
    assert "goes on from the beginning" in stranded
    with engine_lock(taskdeck):
        shown = taskdeck("why", str(made["running"])).out
    assert "attempt 1 on worker 1 since 2026-11-29 12:00:00 UTC" in shown, "its attempt's start"
    assert f"taskdeck retry {made['failed']}" in taskdeck("why", str(made["failed"])).out
    found = taskdeck("why", str(made["review"]), "--json").lines[0]
    assert found["state"] == "NEEDS_REVIEW"
    assert "taskdeck discard" in found["waits"][0]


def test_a_list_tells_when_this_attempt_began_and_no_error_of_an_earlier_one(
    taskdeck: Calls, seed: Seed
) -> None:
    task_id = seed.third_attempt(seed.worker())
    seed.sql("UPDATE task SET updated_at = ? WHERE id = ?", "2026-11-29T12:05:00.000000Z", task_id)
    with engine_lock(taskdeck):
        shown = taskdeck("list").out
        as_json = json.loads(taskdeck("list", "--json").out)
    assert "exit code 1" not in shown
    began = as_json["attempt_started_at"]
    assert began == "2026-11-29T12:00:00.000000Z"
    assert look.local(began, now=now()) in shown


def test_without_an_engine_no_task_is_shown_as_running(taskdeck: Calls, seed: Seed) -> None:
    task = str(filled(seed)["running"])
    shown = taskdeck("list")
    assert "▸ stands still" in shown.out
    assert "▸ running" not in shown.out
    assert "taskdeck run" in shown.err
    assert "stands still (dispatched, but no engine runs)" in taskdeck("show", task).out
    with engine_lock(taskdeck):
        assert "▸ running" in taskdeck("list").out
        assert "▸ running (dispatched)" in taskdeck("show", task).out


def test_what_went_wrong_so_far_is_told_with_the_number_of_the_retry(taskdeck: Calls, seed: Seed) -> None:
    error = json.dumps({"class": "retryable", "kind": "error", "message": "KeyError: 'x'", "rule": "r"})
    task = seed.task(state="RETRYING", reason="retryable_error", error=error, retry_count=1)
    assert "KeyError: 'x' (retry 1 of 5)" in taskdeck("why", str(task)).out


def test_a_page_keeps_lines_and_indentation_and_wraps_at_spaces(taskdeck: Calls, seed: Seed) -> None:
    command = seed.running(seed.worker(), payload={"argv": ["sh", "-c", "echo 'a b'"], "cwd": "/srv"})
    seed.sql("UPDATE attempt SET tail = ?", "Trouble:\n  File x\n    call()\n" + "word " * 40)
    shown = taskdeck.on_terminal("show", str(command), NO_COLOR="1").out
    assert """command    sh -c 'echo '"'"'a b'"'"''""" in shown
    assert "directory  /srv" in shown
    assert "\n    File x\n      call()\n" in shown
    assert all(look.cells(line) <= 80 for line in shown.splitlines())
    long = seed.task("fetch", {"urls": ["https://example.net/" + "x" * 30] * 3})
    assert '\n             "urls": [\n' in taskdeck.on_terminal("show", str(long), NO_COLOR="1").out


@fault("TF274")
@pytest.mark.parametrize("key", ["a/b", "a b", "-x", "任务", "x" * 300])
def test_a_task_is_addressed_by_any_key(taskdeck: Calls, key: str) -> None:
    task_id = int(taskdeck("add", "--key", key, "--", "true").out)
    taskdeck("add", "--key", "other", "--", "true")
    assert taskdeck("show", f"key:{key}", "--json").lines[0]["id"] == task_id
    assert [task["id"] for task in taskdeck("list", "--json", f"key:{key}").lines] == [task_id]
    assert taskdeck("cancel", f"key:{key}", "--json").lines[0]["id"] == task_id


@fault("TF274")
@pytest.mark.parametrize("key", ["", "   ", "a\nb", "x\x1b[1m", "x" * 301])
def test_a_key_that_could_not_be_addressed_is_refused_when_the_task_is_made(
    taskdeck: Calls, key: str
) -> None:
    taskdeck("add", "--key", key, "--", "true", code=2)


@fault("TF159")
@pytest.mark.parametrize(
    "words", [["list"], ["show", "1"], ["why", "1"], ["events"], ["worker", "list"], ["status"]]
)
def test_no_text_of_a_task_reaches_the_terminal_raw(taskdeck: Calls, seed: Seed, words: list[str]) -> None:
    task_id = seed.running(
        seed.worker(), payload={"argv": ["echo", HOSTILE]}, progress_note=HOSTILE, tags=[HOSTILE]
    )
    seed.sql("UPDATE task SET idempotency_key = ?, error = ?", HOSTILE, json.dumps({"message": HOSTILE}))
    seed.sql("UPDATE attempt SET tail = ?", HOSTILE)
    seed.sql("INSERT INTO hold VALUES ('queue', ?, '2026-11-29T12:00:00.000000Z')", HOSTILE)
    with seed.writing() as tx:
        tx.event("STEP_STARTED", actor=HOSTILE, task_id=task_id, message=HOSTILE, reason=HOSTILE)
    for shown in (taskdeck.on_terminal(*words, NO_COLOR="1").out, taskdeck(*words).out):
        assert all(c == "\n" or c.isprintable() for c in shown), shown


def with_log(taskdeck: Calls, seed: Seed, data: bytes) -> int:
    path = taskdeck.folder / "1.log"
    path.write_bytes(data)
    return seed.running(seed.worker(), log_path=str(path))


@fault("TF159")
def test_a_log_is_clean_on_a_terminal_and_raw_when_piped_or_asked_for(taskdeck: Calls, seed: Seed) -> None:
    raw = "\x1b[2Jhello\x1b]52;c;QUFB\x07 world\n"
    task = str(with_log(taskdeck, seed, raw.encode()))
    assert taskdeck("log", task).out == raw
    assert taskdeck.on_terminal("log", task).out == "hello world\n"
    assert "\x1b[2J" in taskdeck.on_terminal("log", task, "--raw").out


def test_a_log_never_shows_a_secret(taskdeck: Calls, seed: Seed) -> None:
    task = str(with_log(taskdeck, seed, f"login password={SECRET} ok\n".encode()))
    for ended in (taskdeck("log", task), taskdeck("log", task, "--raw"), taskdeck.on_terminal("log", task)):
        assert SECRET not in ended.out
        assert "login" in ended.out


def test_any_bytes_pass_a_pipe_unchanged(taskdeck: Calls, seed: Seed) -> None:
    data = bytes(range(256)) * 4
    task = str(with_log(taskdeck, seed, data))
    assert taskdeck("log", task).out.encode("utf-8", "surrogateescape") == data


@fault("TF270")
def test_a_followed_log_shows_what_is_added_and_ends_with_the_attempt_or_its_reader(
    taskdeck: Calls, seed: Seed
) -> None:
    task = str(with_log(taskdeck, seed, b"one\n"))
    log = taskdeck.folder / "1.log"

    def started() -> subprocess.Popen[bytes]:
        words = [*PROGRAM, "log", task, "--follow"]
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=taskdeck.environment
        )

    with started() as first, started() as second:
        assert first.stdout
        assert second.stdout
        assert second.stderr
        assert (first.stdout.readline(), second.stdout.readline()) == (b"one\n", b"one\n")
        second.stdout.close()
        assert second.wait(20) == 141
        assert second.stderr.read() == b""
        with log.open("ab") as file:
            file.write(b"two\nthree")
        assert first.stdout.readline() == b"two\n"
        seed.sql("UPDATE attempt SET ended_at = '2026-11-29T12:00:01.000000Z'")
        assert first.stdout.read() == b"three"
        assert first.wait(20) == 0


def test_the_last_lines_of_a_log_can_be_asked_for(taskdeck: Calls, seed: Seed) -> None:
    task = str(with_log(taskdeck, seed, b"one\ntwo\nthree\n"))
    assert taskdeck("log", task, "--tail", "2").out == "two\nthree\n"


def test_a_log_that_is_not_there_is_said_in_a_line(taskdeck: Calls, seed: Seed) -> None:
    waiting = seed.task()
    running = seed.running(seed.worker(), log_path=str(Path("gone") / "1.log"))
    assert "no attempt" in taskdeck("log", str(waiting), code=3).err
    assert "no attempt" in taskdeck("log", str(running), "--attempt", "4", code=3).err
    assert "no output yet" in taskdeck("log", str(running)).err
    seed.sql("UPDATE attempt SET ended_at = '2026-11-29T12:00:01.000000Z', tail = 'its last words'")
    told = taskdeck("log", str(running), code=3).err
    assert "is no longer kept" in told
    assert f"taskdeck show {running}" in told


def test_that_there_is_no_output_is_said_beside_it(taskdeck: Calls, seed: Seed) -> None:
    command = str(with_log(taskdeck, seed, b""))
    handler = str(seed.running(seed.worker(), type="fetch", log_path=str(taskdeck.folder / "1.log")))
    running = taskdeck("log", command)
    assert (running.out, running.err) == ("", f"taskdeck: attempt 1 of #{command} has no output yet\n")
    assert (taskdeck("log", command, "--json").out, taskdeck("log", command, "--json").err) == ("", "")
    seed.sql("UPDATE attempt SET ended_at = '2026-11-29T12:00:01.000000Z'")
    for words in (("log", command), ("log", command, "--follow"), ("log", command, "--tail", "3")):
        ended = taskdeck(*words)
        assert (ended.out, ended.err) == ("", f"taskdeck: attempt 1 of #{command} has no output\n")
    assert taskdeck("log", command, "--tail", "0").err == ""
    of_handler = taskdeck("log", handler).err
    assert "has no output; handlers write it by ctx.log" in of_handler
    assert "workers/output.log" in of_handler


def test_events_are_shown_in_order_and_filtered(taskdeck: Calls, seed: Seed) -> None:
    made = filled(seed)
    found = taskdeck("events", "--json").lines
    assert [event["event_id"] for event in found] == sorted(event["event_id"] for event in found)
    only = taskdeck("events", "--task", str(made["failed"]), "--json").lines
    assert {event["task_id"] for event in only} == {made["failed"]}
    assert taskdeck("events", "type:nothing").out == ""
    assert "TASK_CREATED" in taskdeck("events", "fetch").out


def test_events_fit_80_columns_with_the_story_first_and_checkpoints_folded(
    taskdeck: Calls, seed: Seed
) -> None:
    task = seed.running(seed.worker())

    def checkpoints(*numbers: int) -> None:
        with seed.writing() as tx:
            for seq in numbers:
                tx.event(
                    "CHECKPOINT_SAVED", actor="worker:1", task_id=task, worker_id=1, payload={"seq": seq}
                )

    checkpoints(1, 2, 3)
    seed.clock.advance(86400)
    checkpoints(4)
    shown = taskdeck.on_terminal("events", NO_COLOR="1").out.splitlines()
    assert shown[0] == "-- 2026-11-29 (UTC)"
    assert shown[1] == f"12:00:00 #{task} TASK_CREATED created shell by cli:test"
    assert shown[2] == f"12:00:00 #{task} CHECKPOINT_SAVED 3 checkpoints, last 3 worker 1"
    assert shown[3:] == ["-- 2026-11-30 (UTC)", f"12:00:00 #{task} CHECKPOINT_SAVED 4 worker 1"]
    piped = taskdeck("events").out.splitlines()
    assert piped[1] == f"2026-11-29 12:00:00 UTC #{task} CHECKPOINT_SAVED 1 worker 1"
    assert len(piped) == 5


def test_the_audit_is_verified_and_a_damage_is_named_with_exit_1(taskdeck: Calls, seed: Seed) -> None:
    filled(seed)
    assert "the audit is whole: 4 events" in taskdeck("audit", "verify").out
    seed.sql("DROP TRIGGER event_log_is_append_only_u")
    seed.sql("UPDATE event_log SET actor = 'cli:eve' WHERE event_id = 2")
    assert "broken at event 2" in taskdeck("audit", "verify", code=1).out
    report = taskdeck("audit", "verify", "--json", code=1).lines[0]
    assert (report["ok"], report["event_id"]) == (False, 2)


def test_status_says_what_keeps_the_work_from_going_on_before_what_has_failed() -> None:
    counts = {"FAILED": 1, "PENDING": 2}
    waits, failed = next_steps(counts, EngineView(running=False))
    assert waits.startswith("taskdeck run ")
    assert failed == "taskdeck list state:failed"
    assert next_steps(counts, EngineView(running=True)) == [UNSUPERVISED, failed]
    assert next_steps(counts, EngineView(running=True, supervisor=7)) == [failed]
