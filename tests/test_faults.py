"""The list of covered faults is read from the marks as they stand in the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import known, marks, report

SOURCE = """
import pytest
from tests.faults import fault

@fault("TF001", "TF004")
def test_a(): ...

class TestGroup:
    @pytest.mark.fault("TF005")
    async def test_b(self): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=fault("TF001"))])
def test_c(x): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tests = tmp_path / "tests"
    tests.mkdir()
    return tests


def test_marks_are_found_on_functions_methods_and_parameters(folder: Path) -> None:
    (folder / "test_x.py").write_text(SOURCE)
    assert [(mark.id, mark.test) for mark in marks(folder)] == [
        ("TF001", "tests/test_x.py::test_a"),
        ("TF004", "tests/test_x.py::test_a"),
        ("TF005", "tests/test_x.py::TestGroup::test_b"),
        ("TF001", "tests/test_x.py::test_c"),
    ]


def test_the_report_counts_by_area_what_has_tests(folder: Path) -> None:
    (folder / "test_x.py").write_text(SOURCE)
    lines, usable = report({"state", "scheduler"}, folder)
    assert usable
    assert "TF001  scheduler  tests/test_x.py::test_c" in lines
    state = sum(row["area"] == "state" for row in known().values())
    assert f"state        1 of {state:>3} have tests" in lines
    assert lines[-1].startswith("all          3 of")


@pytest.mark.parametrize("argument", ['"TF000"', "some_name"])
def test_a_mark_that_names_no_row_is_an_error(folder: Path, argument: str) -> None:
    (folder / "test_x.py").write_text(f"@fault({argument})\ndef test_a(): ...\n")
    lines, usable = report(set(), folder)
    assert not usable
    assert lines[0].startswith("error: tests/test_x.py::test_a (line 1)")


def test_every_mark_of_this_project_names_a_row() -> None:
    rows = known()
    assert [mark for mark in marks() if mark.id not in rows] == []
