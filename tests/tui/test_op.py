from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.tui.calls import Calls


@pytest.fixture
def engine(taskdeck: Calls) -> Iterator[list[dict]]:
    """The other end of TASKDECK_FD: remembers what is asked and answers as the engine does."""
    ours, theirs = socket.socketpair()
    asked: list[dict] = []

    def serve() -> None:
        with ours, ours.makefile("rwb") as file:
            for line in file:
                said = json.loads(line)
                asked.append(said)
                if "rollback" in said:
                    file.write(b'{"rollback": 3}\n')
                    file.flush()
                    continue
                known = said["operation"] if said["operation"] in ("done", "doubt", "odd") else "new"
                answer = (
                    {"state": "done"} if said.get("done") else {"state": known, "result": None, "age": 0.0}
                )
                if said["operation"] == "refused":
                    answer = {"error": "the operation was not recorded"}
                file.write(json.dumps(answer).encode() + b"\n")
                file.flush()

    thread = threading.Thread(target=serve)
    thread.start()
    taskdeck.environment["TASKDECK_FD"] = str(theirs.fileno())
    yield asked
    theirs.close()
    thread.join()


def test_a_script_begins_and_ends_an_operation(taskdeck: Calls, engine: list[dict]) -> None:
    assert taskdeck("op", "begin", "upload:42").out == "new\n"
    assert taskdeck("op", "done", "upload:42", '{"id": 7}').out == "done\n"
    assert taskdeck("op", "begin", "x", "--json").lines == [{"state": "new", "result": None, "age": 0.0}]
    assert engine[:2] == [
        {"operation": "upload:42"},
        {"operation": "upload:42", "done": True, "result": {"id": 7}},
    ]


def test_a_script_registers_what_undoes_it(taskdeck: Calls, engine: list[dict]) -> None:
    command = ["rm", "-f", "--", "a b"]
    assert taskdeck("op", "rollback", "--undoes", "make", "--", *command).out == "step 3\n"
    assert taskdeck("op", "rollback", "--repeatable", "--json", "--", "true").lines == [{"rollback": 3}]
    assert engine == [
        {"rollback": command, "repeatable": False, "undoes": "make"},
        {"rollback": ["true"], "repeatable": True},
    ]


def test_the_effect_is_only_reached_where_it_certainly_was_not_begun(
    taskdeck: Calls, engine: list[dict]
) -> None:
    assert taskdeck("op", "begin", "done", code=10).out == "done\n"
    doubt = taskdeck("op", "begin", "doubt", code=11)
    assert doubt.out == "doubt\n"
    assert "look before it is done again" in doubt.err
    assert "not understood" in taskdeck("op", "begin", "odd", code=1).err


def test_a_refusal_is_told(taskdeck: Calls, engine: list[dict]) -> None:
    assert "not recorded" in taskdeck("op", "begin", "refused", code=1).err
    taskdeck("op", "done", "x", "no json", code=2)
