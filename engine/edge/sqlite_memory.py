"""What SQLite keeps books on: in an engine, not on its memory.

As it comes, SQLite counts every piece of memory that it takes or gives back, for all threads together, behind one lock.
Nobody asks for these figures here, and the thread that writes takes and gives back a hundred pieces a task.
"""

from __future__ import annotations

import ctypes
from importlib.util import find_spec

_MEMORY_STATUS = 9  # SQLITE_CONFIG_MEMSTATUS of sqlite3_config()


def count_no_memory() -> bool:
    """No figures of memory from now on, for this process. False where SQLite works already, or is built in another way.

    Only before the first `import sqlite3`, which starts the library. Nothing but the figures of `sqlite3_status` is lost.
    """
    module = find_spec("_sqlite3")
    try:
        return ctypes.CDLL(module.origin).sqlite3_config(_MEMORY_STATUS, 0) == 0 if module else False
    except (OSError, AttributeError):  # SQLite is a part of the interpreter, or hides its functions
        return False
