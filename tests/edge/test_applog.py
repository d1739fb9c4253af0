from __future__ import annotations

import json
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.edge import applog
from taskdeck.engine.edge.applog import ApplicationLog, LogFile
from taskdeck.engine.errors import ConfigError
from taskdeck.engine.rules.redaction import Redactor
from taskdeck.engine.rules.settings import LoggingSettings
from tests.faults import fault
from tests.scarce import short_files

logger = logging.getLogger("taskdeck.test")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "engine.log"


@pytest.fixture
def make(path: Path) -> Iterator[Callable[..., ApplicationLog]]:
    before = {name: list(logging.getLogger(name).handlers) for name in ("taskdeck", "asyncio")}

    def made(**settings: Any) -> ApplicationLog:
        return ApplicationLog(path, LoggingSettings(**settings), Redactor(("hunter2hunter2",)))

    yield made
    for handler in logging.getLogger("taskdeck").handlers:
        handler.close()
    for name, handlers in before.items():
        logging.getLogger(name).handlers[:] = handlers
        logging.getLogger(name).propagate = True


def said(*paths: Path) -> list[str]:
    return [json.loads(line)["message"] for path in paths for line in path.read_text("utf-8").splitlines()]


def test_a_line_is_one_json_object_without_secrets_in_a_private_file(
    make: Callable[..., ApplicationLog], path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make()
    logger.warning("the password is %s\nnext", "hunter2hunter2")
    (line,) = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert line["message"] == "the password is ***\nnext"
    assert line["log.level"] == "warning"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "hunter2" not in capsys.readouterr().err


@fault("TF129")
def test_a_log_whose_folder_was_removed_goes_on_in_a_new_one_that_says_so(
    make: Callable[..., ApplicationLog], path: Path
) -> None:
    make()
    logger.info("before")
    shutil.rmtree(path.parent)
    logger.info("after")
    assert said(path) == ["the log was removed; what stood in it is lost", "after"]


@fault("TF265")
def test_a_pipe_in_the_place_of_the_log_is_not_waited_for(
    make: Callable[..., ApplicationLog], path: Path
) -> None:
    make()
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    logger.info("into nothing")
    path.unlink()
    logger.info("after")
    assert said(path)[-1] == "after"
    assert "lines lost here: 1" in said(path)[0]


def test_a_log_that_was_moved_is_begun_anew_under_its_name_and_nothing_is_lost(
    make: Callable[..., ApplicationLog], path: Path
) -> None:
    make()
    logger.info("before")
    moved = path.with_name("engine.log-20261129")
    path.rename(moved)
    logger.info("after")
    assert (said(moved), said(path)) == (["before"], ["after"])


def test_debug_stands_in_a_file_of_its_own_and_on_no_terminal(
    make: Callable[..., ApplicationLog], path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(level="debug")
    logger.debug("detail")
    logger.info("what happened")
    assert (said(path), said(path.with_name("engine.debug.log"))) == (["what happened"], ["detail"])
    assert "detail" not in capsys.readouterr().err


def test_all_files_together_are_bounded_and_debug_goes_first(
    make: Callable[..., ApplicationLog], path: Path
) -> None:
    make(level="debug", file_bytes=4096, files=5)
    logger.info("line -1")
    (path.parent / "engine.log.old").write_text("not ours")
    for number in range(200):
        logger.debug("detail %d %s", number, "x" * 200)
        logger.info("line %d %s", number, "x" * 200)
    names = {
        each.name: each.stat().st_size for each in path.parent.iterdir() if each.name != "engine.log.old"
    }
    assert len(names) <= 5
    assert max(names.values()) <= 4096
    assert {"engine.log", "engine.log.1", "engine.log.2", "engine.debug.log"} <= names.keys()
    assert (path.parent / "engine.log.old").read_text() == "not ours"
    numbers = [
        int(text.split()[1])
        for text in said(*sorted(path.parent.glob("engine.log.[0-9]"), reverse=True), path)
    ]
    assert numbers == list(range(numbers[0], 200))


@fault("TF267")
def test_two_writers_that_rotate_one_log_lose_no_line(path: Path) -> None:
    settings = LoggingSettings(file_bytes=4096, files=1000)
    writers = [LogFile(path, settings, of=path) for _ in range(2)]
    for number in range(300):
        record = logging.LogRecord("x", logging.INFO, "", 0, f"{number} {'x' * 90}", None, None)
        for writer in writers:
            writer.setFormatter(applog.JsonLines(Redactor()))
            writer.emit(record)
    for writer in writers:
        writer.close()
    kept = sorted(int(text.split()[0]) for text in said(*path.parent.iterdir()))
    assert kept == sorted([*range(300), *range(300)])


def test_level_place_and_bounds_change_while_it_is_written(
    make: Callable[..., ApplicationLog], path: Path, tmp_path: Path
) -> None:
    log = make(level="warning")
    logger.info("unheard")
    elsewhere = tmp_path / "elsewhere" / "deck.log"
    log.reconfigure(elsewhere, LoggingSettings(level="info"))
    logger.info("heard")
    assert said(elsewhere) == ["heard"]
    assert not path.exists()


def test_a_place_that_cannot_be_written_is_refused_and_the_old_one_goes_on(
    make: Callable[..., ApplicationLog], path: Path, tmp_path: Path
) -> None:
    log = make()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"logging\.file"):
        log.reconfigure(tmp_path / "file" / "engine.log", LoggingSettings())
    logger.info("still here")
    assert said(path) == ["still here"]


def test_a_full_disk_costs_whole_lines_that_are_counted_and_nothing_else(
    make: Callable[..., ApplicationLog], path: Path
) -> None:
    make()
    logger.info("before")
    with short_files(path.stat().st_size + 20):
        logger.info("lost")
        logger.info("lost too")
    logger.info("after")
    assert said(path)[::2] == ["before", "after"]
    assert said(path)[1].startswith("lines lost here: 2 (")


def test_a_message_that_cannot_be_put_together_hurts_nobody(
    make: Callable[..., ApplicationLog], path: Path
) -> None:
    make()
    logger.info("%d", "no number")
    logger.info("after")
    assert said(path) == ["lines lost here: 1 (TypeError in a message)", "after"]


def test_the_output_of_workers_is_shortened_while_they_hold_it_open(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    with open(path, "ab", buffering=0) as worker:
        worker.write(b"a" * 1000 + b"b" * 1000)
        assert applog.shorten(path, 1000)
        worker.write(b"c")
        assert not applog.shorten(path, 1000)
    assert (path.read_bytes(), path.with_name("output.log.1").read_bytes()) == (b"c", b"b" * 1000)
