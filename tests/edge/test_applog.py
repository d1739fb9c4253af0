from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskdeck.engine.edge import applog
from taskdeck.engine.rules.redaction import Redactor
from tests.faults import fault


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "logs" / "engine.log"
    before = {name: list(logging.getLogger(name).handlers) for name in ("taskdeck", "asyncio")}
    applog.configure(path, "info", Redactor(("hunter2hunter2",)))
    yield path
    for handler in logging.getLogger("taskdeck").handlers:
        handler.close()
    for name, handlers in before.items():
        logging.getLogger(name).handlers[:] = handlers
        logging.getLogger(name).propagate = True


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_line_is_one_json_object_without_secrets_in_a_private_file(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("taskdeck.test").warning("the password is %s\nnext", "hunter2hunter2")
    (line,) = lines(log)
    assert line["message"] == "the password is ***\nnext"
    assert line["log.level"] == "warning"
    assert log.stat().st_mode & 0o077 == 0
    assert "hunter2" not in capsys.readouterr().err


@fault("TF129")
def test_a_log_whose_folder_was_removed_goes_on_in_a_new_one_that_says_so(log: Path) -> None:
    logger = logging.getLogger("taskdeck.test")
    logger.info("before")
    shutil.rmtree(log.parent)
    logger.info("after")
    assert [line["message"] for line in lines(log)] == [
        "the log was removed; what stood in it is lost",
        "after",
    ]
