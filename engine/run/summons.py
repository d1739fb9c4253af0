"""What a worker process that was started ahead waits for: its arguments. Light, since such a process loads it first."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

import msgspec

from ..edge.paths import open_private

WAIT = "--wait"
"""The argument of one that is told its others over its standard input; where that ends without, it ends too."""
OUTPUT = "output.log"
"""What workers print, beside their journals."""


def told() -> list[str]:
    """The arguments of this process, once it is told them; where it is not, since nobody needs it any more, it ends."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    return msgspec.json.decode(line, type=list[str])


def print_beside(journal: Path) -> None:
    """From now on what this process prints goes beside its journal."""
    with open_output(journal) as output:
        for fd in (1, 2):
            os.dup2(output.fileno(), fd)


def open_output(journal: Path) -> IO[bytes]:
    """The file for what the worker with this journal prints."""
    return open(journal.parent / OUTPUT, "ab", opener=open_private)
