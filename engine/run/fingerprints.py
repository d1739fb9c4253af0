"""Which code a worker has loaded: a fingerprint of the handlers that the configuration names, and of taskdeck itself.

Read, never imported. What those files import is not looked at: who changes that stops the engine in order, or sends the
workers away.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import __file__ as _door
from ..rules.handler_names import is_file_handler


def fingerprint(handlers: Sequence[str], root: Path) -> str:
    """Twelve hex digits over the names and contents of these files and modules."""
    digest = hashlib.sha256()
    for handler in handlers:
        digest.update(handler.encode())
        for path in _files(handler, root):
            try:
                digest.update(path.read_bytes())
            except OSError:
                continue
            break
    return digest.hexdigest()[:12]


def own_code() -> str:
    """Twelve hex digits over the engine's own files as they are on the disk now: an upgrade need not change a version."""
    lines = sorted(_told(os.path.dirname(_door)))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _told(folder: str, below: str = "") -> Iterator[str]:
    """Name, size and time of each Python file; `Path.rglob` takes ten times as long, at each start of a worker."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _told(entry.path, f"{below}{entry.name}/")
            elif entry.name.endswith(".py"):
                found = entry.stat()
                yield f"{below}{entry.name} {found.st_size} {found.st_mtime_ns}"


def _files(handler: str, root: Path) -> Iterator[Path]:
    """Where the code may be, in the order of an import."""
    if is_file_handler(handler):
        yield root / handler
        return
    parts = handler.split(".")
    for folder in (root, *map(Path, sys.path)):
        yield folder.joinpath(*parts).with_suffix(".py")
        yield folder.joinpath(*parts, "__init__.py")
