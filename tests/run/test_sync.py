"""A sync handler runs in a process of its own: with the same verbs and judgements, and it can be ended at any moment."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.demo.fakes.faults import Behaviour, Fault
from taskdeck.engine.demo.fakes.http_proxy import HttpProxy
from taskdeck.engine.run import journal
from taskdeck.engine.run import messages as m
from tests.edge.fakes.judge import FakeJudge
from tests.eventually import eventually
from tests.run.engine_double import EngineDouble, kill, running
from tests.run.engine_double import engine as any_engine
from tests.secret_files import reference

HANDLERS = str(Path(__file__).with_name("sync_handlers.py"))


def engine(folder: Path, **options: Any) -> Any:
    return any_engine(folder, HANDLERS, **options)


def told(double: EngineDouble, event_type: str) -> dict[str, Any]:
    note = double.wait(m.Note, lambda one: one.event_type == event_type)
    return json.loads(note.payload) if note.payload else {}


def test_a_sync_handler_gets_typed_parameters_and_its_result_arrives(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        info = {one.name: one for one in double.wait(m.Manifest).types}["page"]
        assert (info.sync, info.doc, info.timeout) == (True, "Fetch a page.", 600)
        fence = double.run("page", {"url": "/"}, attempt=3)
        pid = double.wait(m.Started).pid
        assert double.result(fence) == {"url": "/", "depth": 1, "attempt": 3, "pid": pid}
        assert pid != double.worker.pid
        assert fence in journal.read(double.journal)
        assert double.failure(double.run("page", {"ulr": "/"}))["kind"] == "invalid_payload"
        large = {"text": '"\\' * 200_000 + "é"}
        assert double.result(double.run("echo", large)) == large
        assert double.result(double.run("echo", "null")) is None


def test_a_sync_handler_sees_its_attempt_and_what_it_holds_from_a_session_of_its_own(tmp_path: Path) -> None:
    with engine(tmp_path, environ={"NO_PROXY": "*"}) as double:
        fields = {"retry_count": 2, "max_retry": 5, "scheduled_at": "2026-11-29T17:12:40.123456Z"}
        leased = m.LeasedRoute("eu-1", "http", "proxy.example.net", 8080, "bob", reference("hunter2pw"))
        fence = double.run(
            "view", resources={"browser": ["b-1"]}, route=leased, checkpoint='{"n": 1}', attempt=2, **fields
        )
        seen = double.result(fence)
        url = seen["held"][3]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        assert seen == {
            "task": [42, 2, 2, 5, "2026-11-29T17:12:40.123456Z"],
            "held": ["b-1", {"browser": ["b-1"]}, "eu-1", url],
            "checkpoint": {"n": 1},
            "proxies": {"http_proxy": url, "NO_PROXY": "", "TASKDECK_FD": None},
            "session": True,
            "light": True,
            "collects": True,
            "stdin": "",
        }


def test_all_that_a_sync_handler_says_reaches_the_engine_in_order(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("says")
        assert double.result(fence) == {"kept": {"a": 1, "c": 3}, "now": {"d": 4}}
        saves = [(json.loads(one.data), one.merge) for one in double.all(m.Save)]
        assert saves == [({"a": 1, "b": 2}, True), ({"b": None, "c": 3}, True), ({"d": 4}, False)]
        assert [(one.event_type, one.message) for one in double.all(m.Note)] == [
            ("STEP_STARTED", "fetch"),
            ("CLEANED", "all of it"),
            ("ROUTE_BLOCKED", "shop.example: captcha"),
            ("STEP_SUCCEEDED", "fetch"),
        ]
        assert (double.wait(m.Progress).done, double.wait(m.Progress).note) == (1, "half")
        outcome = double.outcome(fence)
        assert "a line" in outcome.tail
        assert "printed" in outcome.tail
        assert "\x1b" not in outcome.tail


def test_a_thousand_reports_of_progress_become_few_and_the_last_arrives(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.result(double.run("progress"))
        reports = double.all(m.Progress)
        assert len(reports) <= 6
        assert (reports[0].done, reports[-1].done, reports[-1].note) == (0, 999, "page 999")
        double.run("slow_progress")
        double.wait(m.Progress, lambda one: one.done == 2)


def test_exceptions_are_judged_as_those_of_async_handlers(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        classes = {
            "delay": "delayed",
            "fatal": "fatal",
            "not_json": "fatal",
            "bad_save": "fatal",
        } | dict.fromkeys(
            ["retry", "memory", "system_exit", "keyboard", "bare", "connection", "exit", "killed"],
            "retryable",
        )
        fences = {how: double.run("fail", {"how": how}, task_id=n) for n, how in enumerate(classes)}
        failures = {how: double.failure(fence) for how, fence in fences.items()}
        assert {how: one["class_"] for how, one in failures.items()} == classes
        assert (failures["delay"]["delay"], failures["retry"]["delay"]) == (7, 3)
        assert "$.rows[0].when" in failures["not_json"]["message"]
        assert "exited with 3" in failures["exit"]["message"]
        assert "SIGKILL" in failures["killed"]["message"]
        assert double.all(m.Save) == []


def test_a_failure_leaves_its_traceback_in_the_log_and_no_secret_anywhere(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("fail", {"how": "secret"})
        assert "said no" in double.failure(fence)["message"]
        log = (tmp_path / f"{fence}.log").read_text()
        assert 'sync_handlers.py", line' in log
        assert "sync_handler.py" not in log
        assert "hunter2" not in log + str(double.told)


@pytest.mark.parametrize(("what", "kind"), [("cancel", "cancelled"), ("drain", "drained")])
@pytest.mark.parametrize("params", [{}, {"swallow": True}])
def test_a_wish_to_stop_ends_a_handler_that_saves(
    tmp_path: Path, what: str, kind: str, params: dict[str, bool]
) -> None:
    with engine(tmp_path) as double:
        fence = double.run("beats", params)
        double.wait(m.Save)
        double.ask(fence, what, grace=60)
        assert double.outcome(fence).kind == kind


@pytest.mark.parametrize("stubborn", [False, True])
def test_cancel_ends_a_handler_that_hangs_in_one_call_with_all_that_it_started(
    tmp_path: Path, stubborn: bool
) -> None:
    with engine(tmp_path) as double:
        fence = double.run("blocks", {"stubborn": stubborn})
        pids = told(double, "BLOCKED")
        double.ask(fence, "cancel", grace=0.5 if stubborn else 60)
        assert double.outcome(fence).kind == "cancelled"
        assert "cleaned up" in double.outcome(fence).tail
        assert not running(pids["pid"])
        assert not running(pids["child"])


def test_a_timeout_ends_it_and_is_told_as_such(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        failure = double.failure(double.run("blocks", timeout=0.5))
        assert (failure["class_"], failure["kind"]) == ("retryable", "timeout")


def test_pause_suspends_it_where_it_stands_and_resume_lets_it_go_on(tmp_path: Path) -> None:
    count = tmp_path / "count"
    with engine(tmp_path) as double:
        fence = double.run("counts", {"to": str(count)})
        pid = told(double, "COUNTING")["pid"]
        eventually(lambda: count.exists() and count.stat().st_size)
        double.ask(fence, "pause")
        double.outcome(fence, "stopped")
        eventually(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        size = count.stat().st_size
        beats = len(double.all(m.Beat))
        eventually(lambda: len(double.all(m.Beat)) > beats + 2)
        assert count.stat().st_size == size
        double.ask(fence, "resume")
        double.outcome(fence, "resumed")
        eventually(lambda: count.stat().st_size > size)
        double.ask(fence, "cancel")
        double.outcome(fence, "cancelled")


def test_a_process_ended_from_outside_is_retried(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("blocks")
        os.kill(told(double, "BLOCKED")["pid"], signal.SIGTERM)
        failure = double.failure(fence)
        assert (failure["class_"], failure["kind"]) == ("retryable", "killed")


def test_a_stale_attempt_ends(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.run("beats", {"swallow": True})
        double.wait(m.Save)
        double.stale.add(fence)
        assert double.outcome(fence).kind == "cancelled"


def test_without_its_engine_a_worker_leaves_no_sync_handler_behind(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.run("blocks")
        pids = told(double, "BLOCKED")
        double.link.close()
        assert double.ended() == 0
        assert not running(pids["pid"])
        assert not running(pids["child"])


def test_a_sync_handler_whose_worker_was_killed_stops_at_its_next_word(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.run("beats", {"swallow": True})
        pid = double.wait(m.Started).pid
        double.wait(m.Save)
        kill(double.worker.pid)
        eventually(lambda: not running(pid))


def test_an_operation_happens_once_and_its_result_is_kept(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        assert double.result(double.run("once")) == {"done": False, "result": {"id": 7}}
        assert double.result(double.run("once")) == {"done": True, "result": {"id": 7}}
        assert double.result(double.run("once", {"scope": "shop"})) == {"done": False, "result": {"id": 7}}
        assert [one.state for one in double.all(m.OperationEnd)] == ["DONE", "DONE"]


def test_how_an_operation_failed_decides_what_is_known_of_it(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        assert double.failure(double.run("once", {"error": "not_done"}))["class_"] == "retryable"
        assert double.operations["", "upload:1"]["state"] == "NOT_DONE"
        assert "$.id" in double.failure(double.run("once", {"bad": True}))["message"]
        assert double.operations["", "upload:1"]["state"] == "IN_DOUBT"
        outcome = double.outcome(double.run("once"))
        assert outcome.kind == "in_doubt"
        assert "upload:1" in outcome.failure
        double.owner = 42
        assert "was begun by #42" in double.outcome(double.run("once")).failure


@pytest.mark.parametrize("there", [True, False])
def test_doubt_is_settled_by_verify(tmp_path: Path, there: bool) -> None:
    site = tmp_path / "site"
    if there:
        site.touch()
    expected = {"done": there, "result": {"id": "old" if there else "new"}}
    with engine(tmp_path, environ={"SITE": str(site)}) as double:
        double.operations["", "upload:1"] = {"state": "BEGUN"}
        assert double.result(double.run("verified")) == expected
        assert double.operations["", "upload:1"]["state"] == "DONE"
        assert len(double.all(m.OperationBegin)) == (1 if there else 2)


def test_the_wait_for_verify_can_be_stopped_and_the_doubt_stands(tmp_path: Path) -> None:
    with engine(tmp_path, environ={"SITE": str(tmp_path / "site")}) as double:
        double.operations["", "upload:1"] = {"state": "BEGUN"}
        fence = double.run("patient")
        double.wait(m.OperationBegin)
        double.ask(fence, "cancel", grace=60)
        assert double.outcome(fence).kind == "cancelled"
        assert double.all(m.OperationEnd) == []


def test_a_stop_waits_for_the_end_of_an_operation(tmp_path: Path) -> None:
    site = tmp_path / "site"
    with engine(tmp_path, environ={"SITE": str(site)}) as double:
        fence = double.run("stop_inside")
        told(double, "INSIDE")
        double.ask(fence, "cancel", grace=60)
        beats = len(double.all(m.Beat))
        eventually(lambda: len(double.all(m.Beat)) > beats + 2)
        site.touch()
        assert double.outcome(fence).kind == "cancelled"
        assert double.operations["", "upload:1"]["state"] == "DONE"


def test_a_kill_in_the_middle_of_an_operation_leaves_it_in_doubt(tmp_path: Path) -> None:
    with engine(tmp_path, environ={"SITE": str(tmp_path / "site")}) as double:
        fence = double.run("stop_inside")
        told(double, "INSIDE")
        kill(double.wait(m.Started).pid)
        assert double.failure(fence)["kind"] == "killed"
        assert double.operations["", "upload:1"]["state"] == "IN_DOUBT"


def test_a_thread_left_behind_does_not_hold_the_end_nor_hide_the_result(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        assert double.result(double.run("thread_left_behind")) == "done"
        assert not running(double.wait(m.Started).pid)


def test_of_a_refusing_url_nothing_but_its_host_is_told(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        leased = m.LeasedRoute("eu-1", "http", "127.0.0.1", 1)
        fence = double.run("refused", {"host": "https://u:hunter2@shop.example/a"}, route=leased)
        assert "name the host" in double.result(fence)
        assert [one.target for one in double.all(m.RouteResult)] == ["shop.example"]


@pytest.mark.parametrize(
    ("how", "code"),
    [("returns", 0), ("no_json", 0), ("raises", 1), ("exits", 7), ("speaks", 1), ("progress", 1)],
)
def test_a_forked_child_decides_nothing_and_is_heard_of_in_the_log_only(
    tmp_path: Path, how: str, code: int
) -> None:
    with engine(tmp_path) as double:
        fence = double.run("forks", {"how": how})
        assert double.result(fence) == code
        assert double.checkpoints[42] == {"parent": True}
        assert double.operations["", "upload:1"] == {"state": "DONE", "result": '"of the parent"'}
        assert double.all(m.Progress) == []
        assert len(double.all(m.Outcome)) == 1
        log = double.outcome(fence).tail
        assert ("Fatal: of the child" in log) == (how == "raises")
        assert ("Refused: a forked child can't speak" in log) == (how in ("speaks", "progress"))
        assert "hunter2@" not in log


def test_a_type_that_is_gone_from_its_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "jobs.py"
    path.write_text("from taskdeck.engine import task\n@task('gone')\ndef gone(ctx): ...\n")
    with any_engine(tmp_path, "jobs.py") as double:
        double.wait(m.Manifest)
        path.write_text("1 / 0\n")
        failure = double.failure(double.run("gone"))
        assert failure["kind"] == "handler_gone"
        assert "ZeroDivisionError" in failure["message"]


@pytest.mark.parametrize(
    ("behaviour", "login", "kind"),
    [
        (Behaviour(), ("bob", "right"), None),
        (Behaviour(Fault.REFUSE), ("bob", "right"), "tcp_refused"),
        (Behaviour(), ("bob", "hunter2pw"), "proxy_auth"),
    ],
)
async def test_a_library_of_ones_own_goes_out_by_the_route_and_its_failure_is_the_routes(
    tmp_path: Path, behaviour: Behaviour, login: tuple[str, str], kind: str | None
) -> None:
    def act() -> None:
        with engine(tmp_path) as double:
            fence = double.run("urllib", {"url": judge.url("/ip")}, route=leased)
            if kind is None:
                assert double.result(fence) == "127.0.0.2"
                return
            failure = double.failure(fence)
            assert (failure["class_"], failure["kind"], failure["detail"]) == ("resource_fault", kind, "eu-1")
            assert login[1] not in (tmp_path / f"{fence}.log").read_text() + str(double.told)

    async with FakeJudge() as judge, HttpProxy(behaviour=behaviour, login=("bob", "right")) as proxy:
        leased = m.LeasedRoute("eu-1", "http", "127.0.0.1", proxy.port, login[0], reference(login[1]))
        await asyncio.to_thread(act)


def test_a_sync_handler_goes_on_from_the_newest_checkpoint_that_fits_its_type(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        run = {"checkpoint": '{"page": "x"}', "checkpoint_seq": 5, "checkpoint_version": 2}
        fence = double.run("walk", {"page": 4}, older=[(4, 1, '{"number": 3}')], **run)
        assert double.result(fence) == {"from": 3, "now": {"page": 4}}
        assert [one.merge for one in double.all(m.Save)] == [False, True]
        outcome = double.outcome(double.run("walk", {"page": 4}, **run))
        assert outcome.kind == "in_doubt"
        assert "checkpoint 5" in outcome.failure
