"""Validation without an engine: a process of its own imports the handlers, answers one question, and is gone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InvalidPayload, Unavailable
from ..rules.cleaning import clean

PATIENCE = 60.0
"""Seconds in which the handlers must have been imported."""


def check(handlers: Sequence[str], root: Path, type_name: str, payload: str) -> str:
    """Why the payload does not fit the type, or "". Raises `InvalidPayload` for an unknown type, `Unavailable` when the
    handlers can't be asked."""
    answer = _ask(handlers, root, {"type": type_name, "payload": payload})
    if not answer["known"]:
        known = ", ".join(name for name in answer["types"] if name != "shell") or "none"
        raise InvalidPayload(
            f"no handler for type {type_name!r}",
            f"known types: {known}" + "".join(f"; {problem}" for problem in answer.get("problems", [])),
            "name its file in the configuration: [taskdeck] handlers = [...]",
        )
    return str(answer["problem"])


def _ask(handlers: Sequence[str], root: Path, question: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "taskdeck.engine.run.validation", "--handlers-root", str(root)]
    for handler in handlers:
        command += ["--handler", handler]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(question).encode() + b"\n",
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise Unavailable(
            "the handlers did not load in time", remedy="look at what they do at import"
        ) from None
    except (IndexError, ValueError):
        detail = clean(done.stderr.decode("utf-8", "replace"), limit=300) or f"exit code {done.returncode}"
        raise Unavailable("the handlers could not be asked", detail) from None
