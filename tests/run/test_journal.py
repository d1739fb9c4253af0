from __future__ import annotations

import resource
from pathlib import Path

import pytest

from taskdeck.engine import Delay
from taskdeck.engine.run import journal
from tests.run.engine_double import engine
from tests.scarce import short_files


def test_a_start_that_cannot_be_noted_is_put_off_and_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    written = journal.StartJournal(path)
    written.start(1)
    with short_files(3), pytest.raises(Delay, match="can't be noted"):
        written.start(123456)
    written.start(2)
    written.close()
    assert journal.read(path) == {1, 2}


def test_an_attempt_is_not_entered_where_its_start_cannot_be_noted(tmp_path: Path) -> None:
    with engine(tmp_path, fresh=True) as double:
        assert double.result(double.shell("true")) is None
        # Python ignores SIGXFSZ: writes to files then fail as on a full disk.
        resource.prlimit(double.worker.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        fences = [double.shell("touch", str(tmp_path / "entered")), double.run("echo", {"value": 1})]
        assert [double.failure(fence)["class_"] for fence in fences] == ["delayed", "delayed"]
        assert not (tmp_path / "entered").exists()
