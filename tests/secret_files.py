"""Passwords for tests where references lead to them: in files that only their owner may read."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path


def reference(password: str) -> str:
    """A `file:` reference that leads to this password; empty for none."""
    if not password:
        return ""
    path = _folder() / sha256(password.encode()).hexdigest()[:16]
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{password}\n")
    return f"file:{path}"


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="taskdeck-secrets-")
    atexit.register(shutil.rmtree, folder, True)
    return Path(folder)
