from __future__ import annotations

import stat
from pathlib import Path

import pytest

from taskdeck.engine.errors import StoreError
from taskdeck.engine.rules.chain import Head
from taskdeck.engine.rules.models import AnchorView
from taskdeck.engine.store import anchors
from tests.faults import fault

NOW = "2026-11-29T12:00:00.000000Z"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "taskdeck.db"


def test_anchors_are_read_as_they_were_noted_each_once(database: Path) -> None:
    assert anchors.read(database) == []
    anchors.note(database, Head(0, 0, ""), NOW)
    assert not anchors.anchor_file(database).exists()
    for _ in range(2):
        anchors.note(database, Head(3, 3, "abc"), NOW)
    anchors.note(database, Head(4, 4, "def"), NOW, restored=True)
    assert anchors.read(database) == [AnchorView(3, 3, "abc", NOW), AnchorView(4, 4, "def", NOW, True)]
    assert stat.S_IMODE(anchors.anchor_file(database).stat().st_mode) == 0o600


@fault("TF123")
def test_a_line_that_a_dying_writer_left_unfinished_does_not_count_and_spoils_no_later_one(
    database: Path,
) -> None:
    anchors.note(database, Head(3, 3, "abc"), NOW)
    with open(anchors.anchor_file(database), "a") as file:
        file.write("7 7 de")
    assert [each.event_id for each in anchors.read(database)] == [3]
    anchors.note(database, Head(8, 8, "fff"), NOW)
    assert [each.event_id for each in anchors.read(database)] == [3, 8]


@pytest.mark.parametrize("line", ["what is this", "3 3 abc", f"3 3 abc {NOW} renamed", "\0" * 80])
def test_a_damaged_line_is_named(database: Path, line: str) -> None:
    anchors.anchor_file(database).write_text(f"3 3 abc {NOW}\n{line}\n")
    with pytest.raises(StoreError, match=r"anchors:2 is no anchor"):
        anchors.read(database)
