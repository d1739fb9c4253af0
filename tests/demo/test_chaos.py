"""Nothing differs under chaos. One run of it, which takes half a minute: that long there is somebody to kill."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import replay
from tests.tui.calls import PROGRAM


@pytest.mark.timeout(150)
def test_whoever_is_killed_every_task_ends_as_planned_and_every_upload_arrives_once(tmp_path: Path) -> None:
    database = tmp_path / "demo.db"
    command = [*PROGRAM, "demo", "--json", "--chaos", "--seed", "1", "--db", str(database)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=140, check=False)
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["problems"]) == (0, True, [])
    assert (found["uploads_expected"], found["uploads_seen"], found["uploads_duplicated"]) == (60, 60, 0)
    pids = {
        what: [each["pid"] for each in found["kills"] if each["what"] == what]
        for what in ("worker", "engine")
    }
    assert len(set(pids["worker"])) == len(pids["worker"]) >= 5
    assert len(set(pids["engine"])) == len(pids["engine"]) >= 3
    assert [each["how"] for each in found["kills"]].count("fault point") == 1
    assert replay.check(database) == []
