"""How a process of ours ends once its work is done: at once.

To take an interpreter apart object by object costs an engine a ninth of its whole start, and nothing is missing without it:
what had to be written has been. Threads that somebody left behind keep nothing back either.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process with this exit code, after what it has printed has gone out."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 255)
