"""Validation without an engine: a process of its own imports the handlers, answers what it is asked, and is gone."""

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


def check(handlers: Sequence[str], root: Path, specs: Sequence[tuple[str, str]]) -> None:
    """Raise `InvalidPayload` for the first (type, payload JSON) that is unknown or does not fit, `Unavailable` when the
    handlers can't be asked. One process for all of them."""
    questions = [{"type": type_name, "payload": payload} for type_name, payload in specs]
    for (type_name, _), answer in zip(specs, _ask(handlers, root, questions), strict=True):
        if not answer["known"]:
            raise _unknown(type_name, answer)
        if answer["problem"]:
            raise InvalidPayload(f"{type_name}: the payload was refused", answer["problem"])


def survey(handlers: Sequence[str], root: Path) -> tuple[list[str], list[str]]:
    """The types that load, and what is wrong with the handlers. Raises `Unavailable` when they can't be asked."""
    found = _ask(handlers, root, [{"type": "", "payload": "{}"}])[0]
    return sorted(found["types"]), list(found["problems"])


def _unknown(type_name: str, answer: dict[str, Any]) -> InvalidPayload:
    known = ", ".join(name for name in answer["types"] if name != "shell") or "none"
    failed = [f"failed to load: {problem}" for problem in answer.get("problems", [])]
    if failed:  # the type may well stand there
        remedy = "correct what failed to load, then look: taskdeck config check"
    else:
        remedy = "name its file in the configuration: [taskdeck] handlers = [...]"
    return InvalidPayload(
        f"no handler for type {type_name!r}", "; ".join([*failed, f"known types: {known}"]), remedy
    )


def _ask(handlers: Sequence[str], root: Path, questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "taskdeck.engine.run.validation", "--handlers-root", str(root)]
    for handler in handlers:
        command += ["--handler", handler]
    lines = "".join(json.dumps(question) + "\n" for question in questions).encode()
    try:
        done = subprocess.run(command, input=lines, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        remedy = "look at what they do at import"
        raise Unavailable("the handlers did not load in time", remedy=remedy) from None
    answers = done.stdout.splitlines()
    if done.returncode or len(answers) != len(questions):
        detail = clean(done.stderr.decode("utf-8", "replace"), limit=300) or f"exit code {done.returncode}"
        raise Unavailable("the handlers could not be asked", detail)
    return [json.loads(answer) for answer in answers]
