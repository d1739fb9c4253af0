"""An engine's SQLite keeps no figures of its memory; it must be told before it is loaded."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

module = find_spec("_sqlite3")
of_its_own = pytest.mark.skipif(
    module is None or not Path(module.origin or "").is_file(), reason="SQLite is a part of this interpreter"
)


def told(code: str) -> str:
    """What a process of its own prints: this one has loaded SQLite long ago."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


BEFORE = (
    "import ctypes, sqlite3, _sqlite3\n"
    "from taskdeck.engine.edge import sqlite_memory\n"
    "library = ctypes.CDLL(_sqlite3.__file__)\n"
)
USED = (
    "database = sqlite3.connect(':memory:')\ndatabase.execute('CREATE TABLE t AS SELECT hex(zeroblob(9999))')\n"
    "library.sqlite3_memory_used.restype = ctypes.c_int64\nprint(library.sqlite3_memory_used() > 0)"
)


@of_its_own
def test_it_counts_nothing_once_it_was_told_so_in_time_and_works_on() -> None:
    early = "from taskdeck.engine.edge import sqlite_memory\nsqlite_memory.count_no_memory()\n"
    assert told(early + BEFORE + USED) == "False"


@of_its_own
def test_where_it_works_already_it_goes_on_as_it_was() -> None:
    assert told(BEFORE + "print(sqlite_memory.count_no_memory())\n" + USED) == "False\nTrue"


def test_the_code_of_an_engine_is_loaded_after_it() -> None:
    code = (
        "import sys\nfrom taskdeck.engine import main\nfrom taskdeck.engine.edge import sqlite_memory\n"
        "def seen():\n    print('_sqlite3' in sys.modules)\n    raise SystemExit\n"
        "sqlite_memory.count_no_memory = seen\nmain.build(None)"
    )
    assert told(code) == "False"
