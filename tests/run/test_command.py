"""Commands run away from us, are told and tell by lines, and leave nothing behind however they end."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import sys
from pathlib import Path

import pytest

from taskdeck.engine.edge import adoption
from taskdeck.engine.run import messages as m
from tests.eventually import eventually
from tests.faults import fault
from tests.run.engine_double import EngineDouble, engine, running
from tests.secret_files import reference

SPEAK = """
import json, os, socket, sys, time
sock = socket.socket(fileno=int(os.environ["TASKDECK_FD"]))
lines = sock.makefile("rw", buffering=1)
def say(**said): print(json.dumps(said), file=lines, flush=True)
def hear(): return json.loads(lines.readline())
"""


def python(double: EngineDouble, code: str, **fields: object) -> int:
    """Start a command that speaks the line protocol."""
    return double.shell(sys.executable, "-c", SPEAK + code, **fields)


def log(double: EngineDouble, fence: int) -> bytes:
    return (double.folder / f"{fence}.log").read_bytes()


def test_a_command_succeeds_with_its_output_kept_and_its_end_shown(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.shell("sh", "-c", "echo out; echo err >&2")
        outcome = double.outcome(fence)
        assert (outcome.kind, outcome.exit_code, outcome.tail) == ("succeeded", 0, "out\nerr")
        assert log(double, fence) == b"out\nerr\n"
        assert double.wait(m.Started).pid > 0
        assert (tmp_path / f"{fence}.log").stat().st_mode & 0o777 == 0o600


def test_a_command_sees_its_task_its_directory_and_only_allowed_variables(tmp_path: Path) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("from a file\n")
    secret.chmod(0o600)
    env = {"PLAIN": "as it is", "FROM": "env:ELSEWHERE", "FILED": f"file:{secret}"}
    with engine(tmp_path, environ={"ELSEWHERE": "from the worker", "HIDDEN": "not for commands"}) as double:
        script = "import os; print(os.getcwd()); print(dict(os.environ)); print(os.getsid(0) == os.getpid())"
        script += "; print(os.read(0, 1)); print(sorted(map(int, os.listdir('/proc/self/fd'))))"
        fence = double.shell(
            sys.executable, "-c", script, cwd=str(place), env=env, attempt=3, checkpoint='{"cursor": "abc"}'
        )
        assert double.outcome(fence).kind == "succeeded"
        cwd, environ, leader, stdin, fds = log(double, fence).decode().splitlines()
        seen = eval(environ)
        assert cwd == str(place)
        assert (seen["PLAIN"], seen["FROM"], seen["FILED"]) == ("as it is", "from the worker", "from a file")
        assert (seen["TASKDECK_TASK_ID"], seen["TASKDECK_ATTEMPT"]) == ("42", "3")
        assert json.loads(seen["TASKDECK_CHECKPOINT"]) == {"cursor": "abc"}
        assert seen["TASKDECK_MARK"].endswith(":42:3")
        assert "HIDDEN" not in seen
        assert "ELSEWHERE" not in seen
        assert (leader, stdin) == ("True", "b''")
        assert eval(fds) == [
            0,
            1,
            2,
            int(seen["TASKDECK_FD"]),
            4,
        ]  # 4: the folder of descriptors, just being read


@pytest.mark.parametrize("value", ["env:NOT_THERE", "file:/nowhere/at/all"])
def test_a_reference_that_leads_nowhere_is_fatal_and_named(tmp_path: Path, value: str) -> None:
    with engine(tmp_path) as double:
        failure = double.failure(double.shell("true", env={"TOKEN": value}))
        assert failure["class_"] == "fatal"
        assert value in failure["message"]


def test_a_command_for_which_no_descriptor_is_left_is_tried_again_as_one_that_cannot_start(
    tmp_path: Path,
) -> None:
    with engine(tmp_path) as double:
        assert double.outcome(double.shell("true")).kind == "succeeded"
        soft, hard = resource.prlimit(double.worker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(double.worker.pid, resource.RLIMIT_NOFILE, (4, hard))
        failure = double.failure(double.shell("true"))
        assert (failure["class_"], failure["kind"]) == ("retryable", "cannot_start")
        assert os.strerror(errno.EMFILE) in failure["message"]
        resource.prlimit(double.worker.pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert double.outcome(double.shell("true")).kind == "succeeded"


def test_a_worker_that_has_no_descriptor_left_beats_on(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        eventually(lambda: double.all(m.Beat))
        soft, hard = resource.prlimit(double.worker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(double.worker.pid, resource.RLIMIT_NOFILE, (4, hard))
        beats = len(double.all(m.Beat))
        eventually(lambda: len(double.all(m.Beat)) > beats + 2)
        assert double.all(m.Beat)[-1].rss > 0
        resource.prlimit(double.worker.pid, resource.RLIMIT_NOFILE, (soft, hard))


@fault("TF215")
def test_a_command_that_cannot_start_is_fatal_with_its_reason_and_the_worker_goes_on(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo no\n")
    with engine(tmp_path) as double:
        for argv, fields, words in [
            ([""], {}, "empty"),
            ([], {}, "empty"),
            (["nosuchcmd"], {}, "not found"),
            ([str(tmp_path)], {}, "directory"),
            ([str(plain)], {}, "ermission"),
            (["true"], {"cwd": str(tmp_path / "gone")}, "directory"),
            (["true", "a" * 200_000], {}, "longer than"),
            (["true", "a\0b"], {}, "NUL"),
        ]:
            failure = double.failure(double.shell(*argv, **fields))
            assert failure["class_"] == "fatal", failure
            assert words in failure["message"]
        assert double.outcome(double.shell("true")).kind == "succeeded"


@fault("TF271")
def test_only_zero_is_success(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        for script, code, class_ in [
            ("exit 0", 0, None),
            ("exit 1", 1, "retryable"),
            ("exit 2", 2, "retryable"),
            ("exit 75", 75, "retryable"),
            ("exit 127", 127, "fatal"),
            ("exit 137", 137, "retryable"),
            ("exit 256", 0, None),
            ("false | true", 0, None),
            ("kill -9 $$", -9, "retryable"),
            ("kill -15 $$", -15, "retryable"),
        ]:
            outcome = double.outcome(double.shell("bash", "-c", script))
            assert outcome.exit_code == code, script
            assert (json.loads(outcome.failure)["class_"] if outcome.failure else None) == class_, script
            if code < 0:
                assert signal.Signals(-code).name in outcome.failure


def test_a_type_can_map_its_exit_codes(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        codes = {"3": "success", "4": "fatal"}
        assert double.outcome(double.shell("sh", "-c", "exit 3", exit_codes=codes)).kind == "succeeded"
        assert double.failure(double.shell("sh", "-c", "exit 4", exit_codes=codes))["class_"] == "fatal"


@fault("TF139", "TF146")
def test_output_of_any_line_length_and_any_bytes_is_kept(tmp_path: Path) -> None:
    code = r"import os; w = lambda b: os.write(1, b); w(b'x' * 70_000 + b'\n'); w(b'caf\351\n\377\376\n')"
    code += "\nfor _ in range(20): w(b'y' * 40_000)\nw(b'ok')"
    with engine(tmp_path) as double:
        fence = double.shell(sys.executable, "-c", code)
        outcome = double.outcome(fence)
        assert outcome.kind == "succeeded"
        kept = log(double, fence)
        assert kept.startswith(b"x" * 70_000 + b"\ncaf\351\n\377\376\nyyy")
        assert kept.endswith(b"yok")
        assert len(kept) == 70_001 + 8 + 800_000 + 2


@fault("TF113")
def test_endless_output_is_bounded_on_disk_and_in_memory(tmp_path: Path) -> None:
    with engine(tmp_path, attempt_bytes=100_000, attempt_files=3) as double:
        eventually(lambda: double.all(m.Beat))
        before = double.all(m.Beat)[-1].rss
        fence = double.shell(
            "sh", "-c", "yes | head -c 50000000; head -c 20000000 /dev/zero; echo; echo last"
        )
        outcome = double.outcome(fence)
        assert outcome.kind == "succeeded"
        assert outcome.tail.endswith("last")
        assert sum(path.stat().st_size for path in tmp_path.glob(f"{fence}.log*")) <= 400_000
        beats = len(double.all(m.Beat))
        eventually(lambda: len(double.all(m.Beat)) > beats + 1)
        assert double.all(m.Beat)[-1].rss - before < 50_000_000


@fault("TF179")
def test_json_on_standard_output_changes_nothing(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        said = '{"state":"SUCCESS","command":"id","max_retry":99,"checkpoint":{"a":1},"progress":[1,2]}'
        fence = double.shell("sh", "-c", f"echo '{said}'; exit 1")
        assert double.failure(fence)["class_"] == "retryable"
        assert double.all(m.Save) == double.all(m.Progress) == []


@fault("TF138")
def test_a_child_in_the_background_does_not_hold_the_end_and_is_ended(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.shell("sh", "-c", "sleep 600 & echo $!; echo started")
        outcome = double.outcome(fence)
        assert outcome.kind == "succeeded"
        assert outcome.tail.endswith("started")
        assert not running(int(outcome.tail.split()[0]))


@fault("TF133", "TF136", "TF224")
def test_cancel_ends_those_who_ignore_it_or_fled_into_their_own_session(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; echo $$ >> {pids}; setsid sh -c 'trap \"\" TERM; echo $$ >> {pids}; sleep 300' & sleep 300"
    with engine(tmp_path) as double:
        fence = double.shell("sh", "-c", script)
        eventually(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        double.ask(fence, "cancel", grace=0.2)
        outcome = double.outcome(fence)
        assert (outcome.kind, outcome.exit_code, outcome.failure) == ("cancelled", -signal.SIGKILL, "")
        assert not any(running(int(pid)) for pid in pids.read_text().split())


FLEE = "env -i setsid sh -c '(exec 3>&- {away}; echo $$ >> {pids}; exec sleep 300) & exit' & wait; "
"""Forks twice, clears its environment, makes a session of its own; with `away` it lets go of all that was given to it."""
AWAY = "</dev/null >/dev/null 2>&1"


@pytest.mark.parametrize("what", ["cancel", "kill", ""], ids=["cancel", "kill", "exit"])
@fault("TF133")
def test_who_cleared_its_environment_and_forked_twice_into_a_session_of_its_own_is_ended(
    tmp_path: Path, what: str
) -> None:
    pids = tmp_path / "pids"
    script = FLEE.format(away=AWAY, pids=pids) + (
        "exec sleep 300" if what else f"until [ -s {pids} ]; do :; done"
    )
    with engine(tmp_path) as double:
        fence = double.shell("sh", "-c", script)
        (fled,) = eventually(lambda: pids.exists() and fleeing(double.worker.pid))
        if what:
            double.ask(fence, what, grace=0.2)
        assert double.outcome(fence).kind == ("cancelled" if what else "succeeded")
        assert not running(fled)
        assert fled not in adoption.children(double.worker.pid)  # nor is a zombie left of it


@fault("TF133")
def test_an_orphan_is_ended_with_its_own_attempt_and_no_other(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with engine(tmp_path) as double:
        bystander = double.shell("sleep", "300", task_id=41)
        keeps = double.shell("sh", "-c", FLEE.format(away="", pids=pids) + "exec sleep 300", task_id=43)
        (fled,) = eventually(lambda: pids.exists() and fleeing(double.worker.pid))
        double.say(m.Ask(41, bystander, "cancel", 0.2))
        double.outcome(bystander)
        assert running(fled), "it holds what only the other attempt has"
        double.say(m.Ask(43, keeps, "cancel", 0.2))
        double.outcome(keeps)
        assert not running(fled)


@fault("TF133")
def test_an_orphan_of_nobody_knows_whom_is_ended_with_the_last_that_could_have_made_it(
    tmp_path: Path,
) -> None:
    pids = tmp_path / "pids"
    with engine(tmp_path) as double:
        bystander = double.shell("sleep", "300", task_id=41)
        makes = double.shell("sh", "-c", FLEE.format(away=AWAY, pids=pids) + "exec sleep 300", task_id=43)
        (fled,) = eventually(lambda: pids.exists() and fleeing(double.worker.pid))
        double.say(m.Ask(43, makes, "cancel", 0.2))
        double.outcome(makes)
        double.say(m.Ask(41, bystander, "cancel", 0.2))
        double.outcome(bystander)
        assert not running(fled)


def fleeing(worker: int) -> list[int]:
    """The adopted children of a worker that sleep."""
    found = [pid for pid in adoption.children(worker) if os.getsid(pid) not in (pid, os.getsid(worker))]
    return [pid for pid in found if Path(f"/proc/{pid}/comm").read_text() == "sleep\n"]


@fault("TF225")
def test_cancel_beats_the_exit_code(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        for code in (143, 0, 1):
            fence = double.shell(
                "bash", "-c", f"trap 'exit {code}' TERM; echo ready; while :; do sleep 0.02; done"
            )
            eventually(lambda fence=fence: (tmp_path / f"{fence}.log").exists() and log(double, fence))
            double.ask(fence, "cancel", grace=10)
            outcome = double.outcome(fence)
            assert (outcome.kind, outcome.exit_code) == ("cancelled", code)


def test_a_command_that_was_done_before_the_drain_reached_it_succeeded(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.shell("sh", "-c", "sleep 0.2; exit 0")
        double.wait(m.Started)
        double.ask(fence, "drain", grace=10)
        assert double.outcome(fence).kind == "succeeded"


def test_a_drain_waits_for_half_of_the_grace_then_ends_it(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.shell("sh", "-c", "trap '' TERM; while :; do sleep 0.02; done")
        double.wait(m.Started)
        double.ask(fence, "drain", grace=0.3)
        outcome = double.outcome(fence)
        assert (outcome.kind, outcome.exit_code) == ("drained", -signal.SIGKILL)


def test_a_drain_takes_the_next_checkpoint(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = python(double, "n = 0\nwhile True:\n    n += 1; say(checkpoint={'n': n}); time.sleep(0.02)")
        double.wait(m.Save)
        double.ask(fence, "drain", grace=1000)
        assert (double.outcome(fence).kind, double.outcome(fence).exit_code) == ("drained", -signal.SIGTERM)


def test_a_timeout_ends_it_with_all_it_started(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.shell(
            "sh", "-c", "trap '' TERM; setsid sleep 300 & echo $!; wait; sleep 300", timeout=0.2
        )
        failure = double.failure(fence)
        assert (failure["class_"], failure["kind"]) == ("retryable", "timeout")
        assert not running(int(double.outcome(fence).tail.split()[0]))


def test_a_pause_stops_all_processes_and_the_timeout_and_resume_lets_them_go_on(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        script = "sleep 300 & echo $!; trap 'kill %1; exit 0' USR1; wait"
        fence = double.shell("bash", "-c", script, timeout=1.5)
        main = double.wait(m.Started).pid
        child = int(eventually(lambda: (tmp_path / f"{fence}.log").exists() and log(double, fence).strip()))
        double.ask(fence, "pause")
        double.outcome(fence, "stopped")
        assert state(main) == state(child) == "T"
        os.kill(main, signal.SIGUSR1)
        beats = len(double.all(m.Beat))
        eventually(lambda: len(double.all(m.Beat)) > beats + 32)  # longer than the timeout
        assert double.all(m.Beat)[-1].running == [fence]
        double.ask(fence, "resume")
        double.outcome(fence, "resumed")
        assert double.outcome(fence, "succeeded").exit_code == 0


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_stopped_command_can_be_cancelled(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.shell("sleep", "300")
        double.wait(m.Started)
        double.ask(fence, "pause")
        double.outcome(fence, "stopped")
        double.ask(fence, "cancel", grace=10)
        assert double.outcome(fence, "cancelled").exit_code == -signal.SIGTERM


def test_a_polite_pause_takes_the_next_checkpoint_or_none_if_it_never_speaks(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        silent = double.shell("sleep", "300", pause="checkpoint")
        code = "say(progress=1)\nwhile not os.path.exists('go'): time.sleep(0.02)\nsay(checkpoint={'n': 1}); time.sleep(300)"
        polite = python(double, code, pause="checkpoint", cwd=str(tmp_path), task_id=43)
        double.wait(m.Progress)
        for fence in (silent, polite):
            double.ask(fence, "pause")
        assert double.outcome(silent).kind == "paused"
        assert not [one for one in double.all(m.Outcome) if one.fence == polite]
        (tmp_path / "go").touch()
        assert double.outcome(polite).kind == "paused"
        assert double.checkpoints[43] == {"n": 1}


def test_a_command_tells_progress_checkpoints_and_events_by_lines(tmp_path: Path) -> None:
    code = """
say(progress=[5, 10], note="page 5")
say(checkpoint={"cursor": "a", "old": 1})
say(checkpoint={"cursor": "b"}, merge=True, reply=True)
assert hear() == {"checkpoint": "saved"}
say(event="STEP_SUCCEEDED", message="cleaned", payload={"rows": 3})
say(checkpoint={"cursor": "c"})
"""
    with engine(tmp_path) as double:
        fence = python(double, code)
        assert double.outcome(fence).kind == "succeeded", double.outcome(fence).tail
        report = double.wait(m.Progress)
        assert (report.done, report.total, report.note) == (5, 10, "page 5")
        assert [json.loads(one.data) for one in double.all(m.Save)] == [
            {"cursor": "a", "old": 1},
            {"cursor": "b"},
            {"cursor": "c"},
        ]
        assert double.checkpoints[42] == {"cursor": "c"}
        note = double.wait(m.Note)
        assert (note.event_type, note.message, note.payload) == ("STEP_SUCCEEDED", "cleaned", '{"rows":3}')


def test_a_shell_can_write_lines_too_and_the_last_one_before_its_end_counts(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = double.shell("sh", "-c", 'echo \'{"checkpoint": {"n": 9}}\' >&$TASKDECK_FD')
        assert double.outcome(fence).kind == "succeeded"
        assert double.checkpoints[42] == {"n": 9}


def test_a_command_does_an_operation_once(tmp_path: Path) -> None:
    code = """
say(operation="upload:42")
state = hear()
print(state["state"], state.get("result"))
if state["state"] == "new":
    say(operation="upload:42", done=True, result={"id": 7})
    assert hear() == {"state": "done"}
"""
    with engine(tmp_path) as double:
        assert double.outcome(python(double, code)).tail == "new None"
        assert double.outcome(python(double, code)).tail == "done {'id': 7}"
        double.operations["", "upload:42"] = {"state": "IN_DOUBT"}
        assert double.outcome(python(double, code)).tail == "doubt None"


def test_an_operation_that_a_command_began_and_never_settled_is_in_doubt(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = python(double, "say(operation='upload:42'); hear(); sys.exit(1)")
        assert double.outcome(fence).kind == "failed"
        assert double.operations["", "upload:42"]["state"] == "IN_DOUBT"


def test_bad_lines_are_answered_and_told_once_and_never_fatal(tmp_path: Path) -> None:
    code = r"""
bad = [b'nonsense', b'[1]', b'{}', b'{"state": "SUCCESS"}', b'{"progress": [1, 2, 3]}', b'{"progress": "x"}',
       b'{"progress": 1, "checkpoint": {}}', b'{"checkpoint": 7}', b'{"progress": 1, "max_retry": 9}',
       b'{"event": "no such type"}', b'{"operation": ""}', b'{"operation": 7}', b'\xff\xfe', b'{"progress": NaN}',
       b'{"checkpoint": {"a": "' + b'x' * 200_000 + b'"}}', b'x' * 1_200_000]
for line in bad:
    sock.sendall(line + b"\n")
    assert "error" in hear(), line
sock.sendall(b"\n")
say(checkpoint={"n": 1}, reply=True)
assert hear() == {"checkpoint": "saved"}
"""
    with engine(tmp_path) as double:
        fence = python(double, code)
        assert double.outcome(fence).kind == "succeeded", double.outcome(fence).tail
        assert [one.event_type for one in double.all(m.Note)] == ["PROTOCOL_ERROR"]
        assert double.checkpoints[42] == {"n": 1}
        assert double.all(m.Progress) == []


def test_who_never_reads_its_answers_harms_only_itself(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        fence = python(double, "for _ in range(2000): say(nonsense='x' * 300)")
        double.wait(m.Started)
        assert double.result(double.run("echo", {"a": 1})) == {"a": 1}
        double.ask(fence, "cancel", grace=1)
        assert double.outcome(fence).kind in ("cancelled", "succeeded")


def test_a_stale_command_is_ended(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.stale.add(1)
        fence = python(double, "say(checkpoint={'n': 1}); time.sleep(300)", fence=1)
        outcome = double.outcome(fence)
        assert (outcome.kind, outcome.exit_code) == ("cancelled", -signal.SIGTERM)


@fault("TF129")
def test_a_log_folder_that_vanishes_does_not_stop_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with engine(tmp_path) as double:
        script = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two"
        fence = double.shell("sh", "-c", script, cwd=str(tmp_path), log_path=str(folder / "1.log"))
        eventually(lambda: (folder / "1.log").exists() and (folder / "1.log").read_bytes())
        (folder / "1.log").unlink()
        folder.rmdir()
        (tmp_path / "go").touch()
        outcome = double.outcome(fence)
        assert outcome.kind == "succeeded"
        assert outcome.tail.endswith("two")


@fault("TF135")
def test_many_short_commands_leave_no_zombies_and_no_descriptors(tmp_path: Path) -> None:
    with engine(tmp_path) as double:
        double.wait(m.Manifest)
        before = len(os.listdir(f"/proc/{double.worker.pid}/fd"))
        fences = [double.shell("sh", "-c", "(sleep 0 &) ; true", task_id=n) for n in range(60)]
        assert {double.outcome(fence).kind for fence in fences} == {"succeeded"}
        missing = [double.shell("nosuchcmd", task_id=n) for n in range(20)]
        assert {double.outcome(fence).kind for fence in missing} == {"failed"}
        eventually(lambda: children(double.worker.pid) == [])
        assert len(os.listdir(f"/proc/{double.worker.pid}/fd")) <= before + 2


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@fault("TF151", "TF180")
def test_arguments_arrive_literally(tmp_path: Path) -> None:
    names = ["a b.csv", "a\nb.csv", "-rf", "$(touch PWN).csv", "a;touch PWN;.csv", "`touch PWN`"]
    with engine(tmp_path) as double:
        fence = double.shell(
            sys.executable, "-c", "import sys; print(sys.argv[1:])", *names, cwd=str(tmp_path)
        )
        assert eval(double.outcome(fence).tail) == names
        assert not (tmp_path / "PWN").exists()


ROUTE = m.LeasedRoute("eu-1", "socks5", "proxy.example.net", 1080, "bob", reference("hunter2pw"))
SHOW = "import os, json; print(json.dumps({k: v for k, v in os.environ.items() if 'roxy' in k.lower() or 'SKDECK_R' in k}))"


def test_a_command_is_told_what_it_holds_and_no_other_proxy(tmp_path: Path) -> None:
    inherited = {"http_proxy": "http://127.0.0.1:1", "NO_PROXY": "*"}
    with engine(tmp_path, environ=inherited, environment=["PATH", "http_proxy", "NO_PROXY"]) as double:
        resources = {"gpu-a.1": ["gpu-1", "gpu-3"], "browser": ["b-2"]}
        fence = double.shell(sys.executable, "-c", SHOW, resources=resources, route=ROUTE)
        outcome = double.outcome(fence)
        assert outcome.kind == "succeeded"
        told = json.loads(log(double, fence))
        url = told["TASKDECK_PROXY"]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        names = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
        assert told == dict.fromkeys(names, url) | {
            "TASKDECK_PROXY": url,
            "no_proxy": "",
            "NO_PROXY": "",
            "TASKDECK_ROUTE": "eu-1",
            "TASKDECK_RESOURCE_GPU_A_1": "gpu-1 gpu-3",
            "TASKDECK_RESOURCE_BROWSER": "b-2",
        }
        assert "hunter2pw" not in str(double.told)


def test_a_command_without_a_route_keeps_the_proxies_it_may_inherit_and_one_with_a_direct_route_has_none(
    tmp_path: Path,
) -> None:
    inherited = {"http_proxy": "http://127.0.0.1:1"}
    with engine(tmp_path, environ=inherited, environment=["PATH", "http_proxy"]) as double:
        fence = double.shell(sys.executable, "-c", SHOW)
        assert double.outcome(fence).kind == "succeeded"
        assert json.loads(log(double, fence)) == inherited
        fence = double.shell(sys.executable, "-c", SHOW, route=m.LeasedRoute("home", "direct"))
        assert double.outcome(fence).kind == "succeeded"
        assert json.loads(log(double, fence)) == {"TASKDECK_ROUTE": "home"}


@pytest.mark.parametrize(
    ("said", "detail"),
    [("browser-2", "browser-2"), ("browser", "browser-2"), ("", "gpu-1 gpu-3"), ("eu-1", "eu-1")],
)
def test_a_command_that_reported_a_fault_and_fails_leaves_the_blame_with_the_resource(
    tmp_path: Path, said: str, detail: str
) -> None:
    with engine(tmp_path) as double:
        resources = {"gpu": ["gpu-1", "gpu-3"], "browser": ["browser-2"]}
        code = f"say(fault={said!r}, message='logged out'); sys.exit(66)"
        failure = double.failure(python(double, code, resources=resources, route=ROUTE))
        assert (failure["class_"], failure["detail"]) == ("resource_fault", detail)
        assert failure["message"] == "logged out"


def test_a_fault_that_was_reported_does_not_fail_a_command_that_succeeds_nor_blame_what_it_does_not_hold(
    tmp_path: Path,
) -> None:
    with engine(tmp_path) as double:
        fence = python(double, "say(fault='browser-2')", resources={"browser": ["browser-2"]})
        assert double.outcome(fence).kind == "succeeded"
        code = "say(fault='browser-9'); print(hear()); sys.exit(1)"
        fence = python(double, code, resources={"browser": ["browser-2"]})
        assert double.failure(fence)["class_"] == "retryable"
        assert b"does not hold" in log(double, fence)


def test_a_command_finds_taskdeck_behind_everything_else_on_its_path(tmp_path: Path) -> None:
    with engine(tmp_path, environ={"PATH": "/usr/bin:/bin"}, environment=["PATH"]) as double:
        fence = double.shell("sh", "-c", "echo $PATH; command -v taskdeck")
        assert double.outcome(fence).kind == "succeeded"
        ours = str(Path(sys.executable).parent)
        assert log(double, fence).decode().splitlines() == [f"/usr/bin:/bin:{ours}", f"{ours}/taskdeck"]
