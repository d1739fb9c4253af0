from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults import fault
from tests.tui.calls import Calls
from tests.warm import taskdeck_process

ONE = {"TASKDECK_ENGINE__WORKERS": "1"}


@contextmanager
def engine(taskdeck: Calls, *words: str, workers: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    """An engine that is up and is ended afterwards, whatever happened."""
    environment = {**taskdeck.environment, "TASKDECK_ENGINE__WORKERS": str(workers)}
    process = taskdeck_process(["run", *words], taskdeck.folder, environment, stderr=subprocess.PIPE)
    assert process.stderr
    assert b"works on" in process.stderr.readline()
    try:
        yield process
    finally:
        taskdeck("stop", "--now")
        process.wait(30)
        process.stderr.close()


@fault("TF256")
def test_verbs_reach_a_running_engine_and_stop_ends_it(taskdeck: Calls) -> None:
    with engine(taskdeck, workers=2) as running:
        found = taskdeck("status", "--json").lines[0]["engine"]
        assert found["running"]
        assert found["pid"]
        assert f"pid {found['pid']}" in taskdeck("status").out
        assert taskdeck("add", "--wait", "--", "echo", "hi").out == "1\n#1 ✓ success\n"
        assert taskdeck("log", "1").out == "hi\n"
        taskdeck("add", "--wait", "--retries", "0", "--", "false", code=6)
        taskdeck("pause", "--all")
        taskdeck("add", "--", "true")
        assert "everything is held" in taskdeck("why", "3").out
        assert len(taskdeck("worker", "list", "--json").lines) == 2
        assert "works on" in taskdeck("run", code=4).err or "already" in taskdeck("run", code=4).err
        assert taskdeck("stop").out == "the engine stopped\n"
        assert running.wait(30) == 0
    assert "was not running" in taskdeck("stop").out


def test_a_stopped_run_says_what_goes_on_and_one_that_only_a_person_can_let_go_on_says_so(
    taskdeck: Calls,
) -> None:
    with engine(taskdeck) as running:
        assert running.stderr
        taskdeck("pause", "--all")
        taskdeck("add", "--", "true")
        taskdeck("stop")
        assert "1 task goes on at the next run" in running.stderr.read().decode()
        running.wait(30)
    with engine(taskdeck, "--until-idle") as running:
        assert running.stderr
        told = running.stderr.readline().decode()
        assert "waiting: #1: everything is held" in told
        assert "taskdeck resume --all" in told
        taskdeck("resume", "--all")
        assert running.wait(30) == 0
        assert b"waiting" not in running.stderr.read()


def test_a_run_on_a_terminal_says_for_whom_it_waits_and_where_to_look_with_the_paths_it_was_given(
    taskdeck: Calls,
) -> None:
    taskdeck("add", "--in", "1h", "--", "true")
    words = ("run", "--until-idle", "--max-wait", "0.1s", "--db", str(taskdeck.db))
    ended = taskdeck.process_on_terminal(*words, **ONE)
    shown = " ".join(ended.out.split())
    assert ended.code == 124
    assert re.search(
        r"waiting: #1 is due at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(--max-wait bounds it\)", shown
    ), shown
    assert f"look: taskdeck list --db {taskdeck.db}" in shown


def test_a_run_says_why_the_task_that_it_waits_for_has_failed_and_no_secret_of_it(taskdeck: Calls) -> None:
    (taskdeck.folder / "tasks.py").write_text(
        'from taskdeck.engine import task\n\n@task("greet")\n'
        'async def greet(ctx, params: dict):\n    raise ConnectionError("no\\nanswer, password=hunter22x")\n'
    )
    (taskdeck.folder / "config.toml").write_text(
        '[taskdeck]\nhandlers = ["tasks.py"]\n[retry]\nbase = "1h"\n'
    )
    taskdeck("add", "greet")
    with engine(taskdeck, "--until-idle") as running:
        assert running.stderr
        told = running.stderr.readline().decode()
        assert re.search(r"waiting: #1 retries at \S+ after ConnectionError: no answer, password=", told), (
            told
        )
        assert "hunter22x" not in told


def test_a_task_whose_handler_fails_to_load_is_told_as_such_in_the_run_and_after_it(taskdeck: Calls) -> None:
    file = taskdeck.folder / "tasks.py"
    file.write_text(
        'from taskdeck.engine import task\n\n@task("greet")\nasync def greet(ctx, params: dict): ...\n'
    )
    (taskdeck.folder / "config.toml").write_text('[taskdeck]\nhandlers = ["tasks.py"]\n')
    taskdeck("add", "greet")
    assert "handler" not in taskdeck("why", "1").out
    file.write_text("import nosuch\n")
    failed = f"failed to load: {file}: ModuleNotFoundError: No module named 'nosuch'"
    with engine(taskdeck, "--until-idle") as running:
        assert running.stderr
        told = running.stderr.read().decode()
        assert running.wait(30) == 1
    assert f"1 task has no handler and can't run: {failed} (see: taskdeck config check" in told
    assert "nothing is left" not in told
    for words in (["why", "1"], ["status"]):
        shown = " ".join(taskdeck(*words).out.split())
        assert f"had no handler for type greet: {failed} (see: taskdeck config check)" in shown, shown
    assert len(taskdeck("status", "--json").lines[0]["unhandled"]) == 1


def test_handlers_that_hang_while_they_load_are_named_to_who_adds_and_by_the_engine(taskdeck: Calls) -> None:
    file = taskdeck.folder / "tasks.py"
    file.write_text("import time\ntime.sleep(1000)\n")
    (taskdeck.folder / "config.toml").write_text(
        '[taskdeck]\nhandlers = ["tasks.py"]\n[engine]\nstart_timeout = "2s"\nheartbeat = "0.3s"\n'
    )
    assert "tasks.py was being loaded" in taskdeck("config", "check", code=78).err
    assert "tasks.py was being loaded" in taskdeck("add", "greet", code=75).err
    with engine(taskdeck) as running:
        assert running.stderr
        told = taskdeck("add", "greet", code=75).err
        assert f"each loads its handlers ({file}) first (see: taskdeck config check)" in told
        told = running.stderr.readline().decode()
        assert f"it was still loading its handlers ({file}) (see: taskdeck config check)" in told


def test_an_engine_with_another_configuration_is_named_where_a_handler_is_missed(taskdeck: Calls) -> None:
    """And `status` says that a supervisor gave up until an engine starts again."""
    Path(f"{taskdeck.db}.gave-up").write_text(
        "the engine died 5 times (the last \x1b[2Jwas killed by SIGSEGV)\n"
    )
    told = taskdeck("status").out
    assert "was killed by SIGSEGV" in told
    assert "\x1b" not in told

    theirs, ours = taskdeck.folder / "theirs.toml", taskdeck.folder / "ours.toml"
    theirs.write_text("[taskdeck]\n")
    ours.write_text("[taskdeck]\n")
    told = f"the engine works with {theirs}, this command with {ours}"
    with engine(taskdeck, "--config", str(theirs)):
        refused = taskdeck("add", "greet", "--config", str(ours), code=4).err
        assert "no handler for type 'greet'" in refused
        assert told in refused
        assert told in taskdeck("status", "--config", str(ours)).out
        listed = taskdeck("worker", "list", "--config", str(ours)).out
        assert told in listed
        assert "types" in listed
        assert told not in taskdeck("status", "--config", str(theirs)).out

    assert taskdeck("status", "--json").lines[0]["gave_up"] is None
    alerts = taskdeck("events", "type:alert_raised", "--json").lines
    assert [each["reason"] for each in alerts] == ["supervisor_gave_up"]
