"""How a process of ours ends once its work is done: at once.

To take an interpreter apart object by object costs an engine a ninth of its start and a verb a sixth, and nothing is missing
without it: what had to be written has been. Threads that somebody left behind keep nothing back either.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process with this exit code, after what it has printed has gone out."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # none, or what can't be written was told already
            stream.flush()
    os._exit(code & 255)
