"""A new database, made once by the engine and copied for each test: making one takes many fsyncs."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from taskdeck.engine.store.database import open_for_writing


def put_blank(path: Path) -> None:
    """A database as the engine leaves a new one; one that is there stays."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(_blank())


@cache
def _blank() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "blank.db"
        open_for_writing(path, "2026-11-29T12:00:00.000000Z").close()
        assert os.listdir(folder) == ["blank.db"]
        return path.read_bytes()
