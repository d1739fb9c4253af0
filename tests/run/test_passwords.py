"""Passwords at their use: commands within limits, answers remembered for a while and asked anew where they were refused."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from threading import Thread

import pytest

from taskdeck.engine.clock import ManualClock, SystemClock
from taskdeck.engine.credentials import NoCredential
from taskdeck.engine.edge.short_commands import Limits, ask
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.run.passwords import REMEMBERED, Passwords
from tests.eventually import eventually
from tests.run.engine_double import running

PATH = {"PATH": os.environ["PATH"]}
SECRET = "hunter2-pass"


def script(folder: Path, text: str) -> str:
    path = folder / "ask.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return f"cmd:{path}"


def test_a_command_gives_its_first_line_once_a_minute_and_anew_after_a_refusal(tmp_path: Path) -> None:
    reference = script(tmp_path, f"echo x >> {tmp_path}/asked; cat {tmp_path}/now; echo more; echo noise >&2")
    clock, redactor = ManualClock(), Redactor()
    passwords = Passwords(clock, redactor.learn, PATH)

    def asked() -> int:
        return len((tmp_path / "asked").read_text().split())

    (tmp_path / "now").write_text(f"{SECRET}\n")
    assert [passwords.look_up(reference) for _ in range(3)] == [SECRET] * 3
    assert asked() == 1
    assert redactor.text(f"it is {SECRET}.") == "it is ***."
    (tmp_path / "now").write_text("another-pass\n")
    passwords.forget(reference)
    assert passwords.look_up(reference) == "another-pass"
    clock.advance(REMEMBERED)
    assert passwords.look_up(reference) == "another-pass"
    assert asked() == 3


def test_many_who_ask_at_once_share_one_command(tmp_path: Path) -> None:
    reference = script(tmp_path, f"echo x >> {tmp_path}/asked; read line < {tmp_path}/gate; echo {SECRET}")
    os.mkfifo(tmp_path / "gate")
    passwords, found = Passwords(SystemClock(), lambda _: None, PATH), []
    threads = [Thread(target=lambda: found.append(passwords.look_up(reference))) for _ in range(8)]
    for one in threads:
        one.start()
    (tmp_path / "gate").write_text("go\n")
    for one in threads:
        one.join(10)
    assert found == [SECRET] * 8
    assert (tmp_path / "asked").read_text() == "x\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"echo {SECRET}; exit 3", "ended with 3"),
        ("echo", "empty"),
        (f"echo {SECRET} >&2", "empty"),
        (f"yes {SECRET} | head -c 200000", "printed more than"),
        (f"printf '{SECRET}\\377'", "not UTF-8"),
    ],
)
def test_a_command_without_a_usable_answer_is_told_by_its_reference_alone(
    tmp_path: Path, text: str, why: str
) -> None:
    reference = script(tmp_path, text)
    with pytest.raises(NoCredential, match=why) as told:
        Passwords(SystemClock(), lambda _: None, PATH).look_up(reference)
    assert reference in str(told.value)
    assert SECRET not in str(told.value)


def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    fled = (
        f"import os,time; os.setsid(); open({str(pids)!r},'a').write(f'{{os.getpid()}}\\n'); time.sleep(60)"
    )
    argv = [
        "/bin/sh",
        "-c",
        f"echo $$ >> {pids}; {shlex.join([sys.executable, '-c', fled])} & sleep 60 & echo $! >> {pids}; wait",
    ]
    gate, stop = os.pipe()
    clock, answers = SystemClock(), []
    limits = Limits(30.0, 1000)
    asking = Thread(
        target=lambda: answers.append(
            ask(argv, env=PATH, limits=limits, clock=clock, mark="check:0123", stop=gate)
        )
    )
    asking.start()
    eventually(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    os.write(stop, b"x")
    asking.join(20)
    assert answers[0].fault == "it was given up"
    assert not any(running(int(pid)) for pid in pids.read_text().split())
    os.close(gate)
    os.close(stop)


def test_a_command_over_its_time_is_no_answer() -> None:
    answer = ask(["sleep", "60"], env=PATH, limits=Limits(0.1, 10), clock=SystemClock())
    assert "not done within" in answer.fault
    assert (
        ask(["/no/such"], env=PATH, limits=Limits(1, 10), clock=SystemClock()).fault
        == "no such file or directory"
    )
