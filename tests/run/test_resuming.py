"""Which of the kept checkpoints a handler goes on from is for its own code to say."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskdeck.engine.run.handlers import Handler
from taskdeck.engine.run.messages import Run, TypeInfo
from taskdeck.engine.run.resuming import NoValidCheckpoint, Resumed, resume
from tests.eventually import eventually
from tests.faults import fault
from tests.run.engine_double import engine


class Cursor(msgspec.Struct):
    page: int
    rows: int = 0


def run_with(*kept: tuple[int, int, str]) -> Run:
    """A run that brings these checkpoints (number, version, text), newest first."""
    (seq, version, text), *older = kept or ((0, 1, "{}"),)
    return Run(7, 1, 1, 1, "fetch", "{}", text, seq, version, None, "", {}, older=older)


def handler(version: int = 1, **fields: Any) -> Handler:
    return Handler(TypeInfo("fetch", "tasks.py:1", checkpoint_version=version), **fields)


def renamed(data: dict[str, Any], version: int) -> dict[str, Any]:
    return {"page": data["number"]} if version == 1 else data


def test_the_newest_that_fits_the_type_is_taken_and_the_others_are_told() -> None:
    run = run_with((4, 1, '{"page":"x"}'), (3, 1, "[1]"), (2, 1, '{"page":2}'), (1, 1, '{"page":1}'))
    found = resume(run, handler(checkpoint=Cursor))
    assert (found.data, found.as_kept) == ({"page": 2}, False)
    assert [fault.partition(":")[0] for fault in found.faults] == ["checkpoint 4", "checkpoint 3"]
    assert "$.page" in found.faults[0]


def test_without_one_that_fits_a_person_decides_and_with_none_kept_work_begins() -> None:
    with pytest.raises(NoValidCheckpoint, match="checkpoint 2: unknown key"):
        resume(run_with((2, 1, '{"page":1,"other":2}')), handler(checkpoint=Cursor))
    assert resume(run_with(), handler(checkpoint=Cursor)) == Resumed({})


def test_an_older_version_is_made_a_present_one_and_must_be_saved_as_such() -> None:
    found = resume(run_with((3, 1, '{"number":3}')), handler(2, checkpoint=Cursor, migrate=renamed))
    assert found == Resumed({"page": 3}, as_kept=False)
    present = resume(run_with((3, 2, '{"page":3}')), handler(2, checkpoint=Cursor, migrate=renamed))
    assert present == Resumed({"page": 3})


def test_what_can_not_be_migrated_is_passed_over() -> None:
    run = run_with((3, 1, '{"rows":3}'), (2, 1, '{"number":2}'))
    found = resume(run, handler(2, migrate=renamed))
    assert (found.data, found.faults) == ({"page": 2}, ("checkpoint 3: KeyError: 'number'",))


@fault("TF243")
def test_a_source_that_has_lost_items_meanwhile_is_followed_by_key_and_each_item_is_taken_once(
    tmp_path: Path,
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    names = [f"item-{number:03}" for number in range(30)]
    source.write_text("\n".join(names))
    files = {"source": str(source), "out": str(out)}
    (tmp_path / "first").mkdir()
    with engine(tmp_path / "first", environ={"TASKDECK_CRASH_AT": "after_checkpoint_saved:15"}) as double:
        double.run("follow", files)
        assert double.ended() == -signal.SIGKILL
        eventually(lambda: double.gone)
        kept, operations = double.checkpoints[42], double.operations
    assert kept["after"] == "item-014"
    source.write_text("\n".join(names[5:]))
    with engine(tmp_path) as double:
        double.operations |= operations
        double.result(double.run("follow", files, checkpoint=json.dumps(kept), checkpoint_seq=15))
    assert out.read_text().split() == names
