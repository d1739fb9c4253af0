"""The worker process: its greeting, its heart, its end, and one outcome for each attempt whatever happens in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from taskdeck.engine import __version__
from taskdeck.engine.edge import identity
from taskdeck.engine.run import journal
from taskdeck.engine.run import messages as m
from tests.eventually import eventually
from tests.faults import fault
from tests.run.engine_double import SAMPLES, engine, running


def test_a_worker_says_hello_then_its_types_and_problems(tmp_path: Path) -> None:
    with engine(tmp_path, str(SAMPLES), "missing.py") as double:
        manifest = double.wait(m.Manifest)
        hello = double.told[0]
        assert isinstance(hello, m.Hello)
        assert (hello.role, hello.incarnation, hello.pid) == ("worker", "w-1", double.worker.pid)
        assert (hello.start_time, hello.boot_id) == (identity.start_time(hello.pid), identity.boot_id())
        assert hello.code_version == __version__
        types = {one.name: one for one in manifest.types}
        assert {"shell", "echo", "page"} <= set(types)
        assert (types["page"].timeout, types["page"].doc) == (600, "Fetch a page.")
        assert len(manifest.problems) == 1


def test_attempts_run_at_the_same_time_and_each_has_one_outcome(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fences = [double.run("echo", {"n": n}, task_id=n) for n in range(500)]
        waiting = double.run("wait")
        assert [double.result(fence) for fence in fences] == [{"n": n} for n in range(500)]
        eventually(lambda: double.all(m.Beat)[-1].running == [waiting])
        assert sorted(one.fence for one in double.all(m.Outcome)) == sorted(fences)
        started = [
            one for one in double.told if isinstance(one, (m.Started, m.Outcome)) and one.fence == fences[0]
        ]
        assert [type(one) for one in started] == [m.Started, m.Outcome]


def test_a_typed_payload_and_the_attempts_own_figures_reach_the_handler(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        page = double.run("page", {"url": "/"}, attempt=3)
        alone = double.run("alone", retry_count=2, max_retry=5, scheduled_at="2026-11-29T17:12:40.123456Z")
        assert double.result(page) == {"url": "/", "depth": 1, "attempt": 3}
        assert double.result(alone) == "42 2/5 2026-11-29T17:12:40.123456Z"


@fault("TF273")
def test_a_payload_that_does_not_fit_fails_for_good_when_it_runs(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        failure = double.failure(double.run("region", {"regoin": "eu"}))
        assert failure["class_"] == "fatal"
        assert failure["kind"] == "invalid_payload"
        assert "known: region, pages" in failure["message"]
        assert double.failure(double.run("region", '{"region": NaN}'))["class_"] == "fatal"


def test_a_payload_can_be_validated_without_running_it(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.wait(m.Manifest)
        double.say(m.Validate(1, "region", '{"regoin": 1}'), m.Validate(2, "region", '{"region": "eu"}'))
        double.say(m.Validate(3, "nope", "{}"))
        problems = [double.wait(m.Validated, lambda one, n=n: one.req == n).problem for n in (1, 2, 3)]
        assert "known: region" in problems[0]
        assert problems[1] == ""
        assert "nope" in problems[2]


def test_an_unknown_type_was_never_started(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("nope")
        assert double.outcome(fence).kind == "never_started"
        assert fence not in journal.read(double.journal)


def test_whatever_a_handler_raises_becomes_its_failure_and_the_worker_goes_on(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        classes = {"delay": "delayed", "fatal": "fatal"} | dict.fromkeys(
            ["retry", "memory", "system_exit", "keyboard", "cancelled", "stop", "bare", "connection"],
            "retryable",
        )
        for how, class_ in classes.items():
            assert double.failure(double.run("fail", {"how": how}))["class_"] == class_, how
        assert double.result(double.run("echo", {"a": 1})) == {"a": 1}


@fault("TF041")
def test_running_out_of_memory_fails_that_task_alone_with_the_reason(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        greedy = double.run("allocate")
        others = [double.run("echo", {"n": n}) for n in range(3)]
        assert double.failure(greedy)["kind"] == "memory"
        assert [double.result(one) for one in others] == [{"n": n} for n in range(3)]


def test_a_delay_keeps_its_time(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        assert double.failure(double.run("fail", {"how": "delay"}))["delay"] == 7


def test_a_failures_message_holds_no_secret_and_no_escape_and_the_log_has_the_traceback(
    tmp_path: Path,
) -> None:
    with engine(tmp_path) as double:
        fence = double.run("fail", {"how": "secret"})
        outcome = double.outcome(fence)
        assert "said no" in json.loads(outcome.failure)["message"]
        for text in (outcome.failure, outcome.tail):
            assert "hunter2" not in text
            assert "\x1b" not in text
        log = (tmp_path / f"{fence}.log").read_text()
        assert "RuntimeError" in log
        assert "in fail" in log
        assert "calls.py" not in log


def test_a_result_that_is_no_json_is_fatal_and_names_the_place(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        failure = double.failure(double.run("not_json"))
        assert failure["class_"] == "fatal"
        assert "$.rows[0].when" in failure["message"]


def test_a_timeout_is_a_retryable_failure(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        failure = double.failure(double.run("wait", timeout=0.1))
        assert (failure["class_"], failure["kind"]) == ("retryable", "timeout")
        assert double.outcome(double.run("wait", {"swallow": True}, timeout=0.1)).kind == "succeeded"


@pytest.mark.parametrize(("what", "kind"), [("cancel", "cancelled"), ("drain", "drained")])
def test_who_reaches_no_checkpoint_is_cancelled_by_force_after_its_grace(
    tmp_path: Path, what: str, kind: str
) -> None:
    with engine(tmp_path) as double:
        fence = double.run("wait")
        double.wait(m.Note)
        double.ask(fence, what, grace=0.05)
        assert double.outcome(fence).kind == kind


def test_a_handler_that_swallows_being_cancelled_is_named(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("stubborn")
        double.wait(m.Note)
        double.ask(fence, "cancel", grace=0.0)
        double.wait(m.Note, lambda one: one.event_type == "HANDLER_WONT_STOP")
        assert double.all(m.Outcome) == []


def test_the_heart_beats_while_a_handler_holds_the_interpreter(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("hog", {"seconds": 0.6})
        double.wait(m.Started)
        before = len(double.all(m.Beat))
        outcome = double.outcome(fence)
        during = double.told[: double.told.index(outcome)]
        beats = [one for one in during if isinstance(one, m.Beat)]
        assert len(beats) - before >= 2, "more than the one that may have been on its way"
        assert beats[-1].running == [fence]
        assert beats[-1].rss > 1_000_000
        assert beats[-1].cpu > beats[0].cpu


def test_the_start_of_an_attempt_survives_the_worker(tmp_path: Path) -> None:
    with engine(tmp_path, fresh=True) as double:
        fence = double.run("wait")
        double.wait(m.Note)
        double.worker.kill()
        assert double.ended() == -signal.SIGKILL
        assert journal.read(double.journal) == {fence}


def test_without_its_engine_a_worker_ends_and_leaves_no_command(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with engine(tmp_path) as double:
        script = f"trap '' TERM; echo $$ >> {pids}; setsid sh -c 'echo $$ >> {pids}; sleep 300' & sleep 300"
        double.shell("sh", "-c", script)
        double.run("hog", {"seconds": 30.0}, task_id=43)
        eventually(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        double.wait(m.Note, lambda one: one.event_type == "HOGGING")
        double.link.close()
        assert double.ended() == 0
        assert not any(running(int(pid)) for pid in pids.read_text().split())


def test_sigterm_drains_what_runs_and_ends_well(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        python, command = double.run("polls"), double.shell("sleep", "300", task_id=43)
        double.wait(m.Save)
        double.wait(m.Started, lambda one: one.fence == command)
        double.worker.terminate()
        assert double.ended() == 0
        assert {double.outcome(fence).kind for fence in (python, command)} == {"drained"}


def test_a_ctrl_c_of_the_terminal_does_nothing_to_a_worker_or_its_commands_default(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.wait(m.Manifest)
        double.worker.send_signal(signal.SIGINT)
        assert double.result(double.run("echo", {"a": 1})) == {"a": 1}
        fence = double.shell(sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGINT)")
        assert double.outcome(fence).exit_code in (-signal.SIGINT, 130)


def test_farewell_lets_attempts_finish_and_takes_no_more(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("count", {"to": 50})
        double.wait(m.Save)
        double.hold_saves()
        double.say(m.Farewell(False))
        late = double.run("echo")
        assert double.outcome(late).kind == "never_started"
        double.release_saves()
        assert double.ended() == 0
        assert double.result(fence)["n"] == 50


def test_farewell_now_ends_them_first_and_an_idle_worker_goes_at_once(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("polls")
        double.wait(m.Save)
        double.say(m.Farewell(True))
        assert double.ended() == 0
        assert double.outcome(fence).kind == "drained"


def test_an_idle_worker_leaves_at_farewell(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.wait(m.Beat)
        double.say(m.Farewell(False))
        assert double.ended() == 0


def test_a_worker_without_an_engine_says_so_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "taskdeck.engine.run.worker", "--socket", str(tmp_path / "no.sock")]
    command += ["--incarnation", "w", "--logs", str(tmp_path), "--journal", str(tmp_path / "starts")]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("taskdeck worker: no link to the engine")
    assert done.stderr.count("\n") == 1


def test_the_worker_never_imports_what_opens_the_database(tmp_path: Path) -> None:
    code = "import sys, taskdeck.engine.run.worker; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, env=os.environ
    )
    assert not {"peewee", "sqlite3", "aiohttp", "taskdeck.engine.store"} & set(done.stdout.split())


@fault("TF145")
def test_a_process_that_a_handler_forks_has_connections_and_signals_of_its_own(tmp_path: Path) -> None:
    with engine(tmp_path, fresh=True) as double:
        found = double.result(double.run("forks", {"file": str(tmp_path / "own.db")}))
        assert found == {"ended_by": -signal.SIGTERM, "sound": "ok", "rows": ["child", "parent"]}
        assert double.result(double.run("echo", {"still": "here"})) == {"still": "here"}
        assert double.worker.poll() is None
