"""For every test: marks name real faults, CI repeats its properties, nobody's own files are touched."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

from tests.faults import known

# The suite starts hundreds of processes: each would compile all of taskdeck anew where compiled code is not kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Nobody here is vouched for by the machine's authorities; to read all of them takes each process that makes a request, or
# knows how to, a tenth of a second.
os.environ["SSL_CERT_FILE"] = os.environ["SSL_CERT_DIR"] = os.devnull

# Scratch databases are in memory where it has room: each test has some, and all that they wait for is the disk. One run
# leaves less than a gigabyte.
MEMORY = "/dev/shm"
with suppress(OSError):
    if shutil.disk_usage(MEMORY).free > 4 << 30 and os.access(MEMORY, os.W_OK):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

# A machine under load must not fail a property for its speed; CI must draw the same examples every time.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


gc.disable()  # collecting makes a million objects that stay


def pytest_collection_finish() -> None:
    # As in our processes; a tenth of a deck's test went to looking through what is gone a moment later.
    from taskdeck.engine.garbage import begin_collecting

    begin_collecting()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rows = known()
    wrong = [
        f"{item.nodeid}: {', '.join(map(repr, mark.args)) or 'no id'}"
        for item in items
        for mark in item.iter_markers("fault")
        if not mark.args or any(id not in rows for id in mark.args)
    ]
    if wrong:
        raise pytest.UsageError("@fault must name rows of tests/data/faults.jsonl:\n  " + "\n  ".join(wrong))


def pytest_configure(config: pytest.Config) -> None:
    # One of several processes: of four messages a test the one that the main process needs is a third of what they cost.
    if hasattr(config, "workerinput") and config.option.durations is None and not config.option.xmlpath:
        config.pluginmanager.register(OneReport())


class OneReport:
    """Tells of each test how it ended, and of its set-up and clean-up where something is to be told of them."""

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


@pytest.fixture(scope="session", autouse=True)
def own_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Configuration and state of whoever runs the tests are neither read nor written."""
    home = tmp_path_factory.mktemp("xdg")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TASKDECK_")]:
            patch.delenv(name)
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(home / name.split("_")[1].lower()))
        yield
