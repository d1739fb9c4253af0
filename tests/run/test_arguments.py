"""The options of the processes that taskdeck starts itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from taskdeck.engine.errors import UsageError
from taskdeck.engine.run.arguments import Arguments


def test_options_are_found_by_name_and_the_last_of_several_counts() -> None:
    given = Arguments(
        ["--db", "a", "--check", "--handler", "x", "--db=b=c", "--handler", "--y"], "db handler", "check"
    )
    assert given.one("db") == given.get("db") == "b=c"
    assert given.all("handler") == ["x", "--y"]
    assert "check" in given
    assert "until-idle" not in given
    assert given.all("logs") == []
    assert given.get("logs") is None


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--nothing", "x"], "--nothing"), (["db"], "'db'"), (["--db"], "--db needs"), ([], "--db is missing")],
)
def test_what_is_wrong_with_them_is_said(words: list[str], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        Arguments(words, "db").one("db")
    assert told in str(caught.value)


@pytest.mark.parametrize("program", ["main", "run.worker", "run.validation"])
def test_a_process_that_is_started_wrongly_says_so_in_one_line(program: str) -> None:
    command = [sys.executable, "-m", f"taskdeck.engine.{program}", "--wrong"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "--wrong" in done.stderr
    assert done.stderr.count("\n") == 1
