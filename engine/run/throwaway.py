"""Validation without an engine: a process of its own imports the handlers, says what fits them, answers what is left to ask,
and is gone. It loads while its caller reads what is to be checked.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ..clock import Clock
from ..config import Config
from ..errors import InvalidPayload, TaskdeckError, Unavailable
from ..rules.cleaning import clean
from ..rules.fitting import doubtful

PATIENCE = 60.0
"""Seconds in which handlers that are loaded must have answered all."""


class Survey(NamedTuple):
    """What loads: the types, each with its shape (`rules.fitting`), and what is wrong with the handlers.

    `barren`: the files and modules that load and declare no task.
    """

    types: dict[str, str]
    problems: list[str]
    barren: list[str]


class Handlers:
    """The process, from the start of a `with` to its end."""

    def __init__(self, handlers: Sequence[str], root: Path, clock: Clock, load_within: float = 30.0) -> None:
        """`load_within`: seconds in which the handlers must have been imported, as many as a worker has."""
        self._clock = clock
        self._load_within = load_within
        self._begun = ""
        self.surveyed: Survey | None = None
        """What was told of what loads."""
        self._command = [sys.executable, "-m", "taskdeck.engine.run.validation", "--handlers-root", str(root)]
        for handler in handlers:
            self._command += ["--handler", handler]

    @classmethod
    def of(cls, config: Config, clock: Clock) -> Handlers:
        """Those of the configuration."""
        return cls(config.taskdeck.handlers, config.handlers_root, clock, config.engine.start_timeout)

    def __enter__(self) -> Handlers:
        self._errors = tempfile.TemporaryFile()
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=self._errors)
        self._until = self._clock.monotonic() + self._load_within
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def survey(self) -> Survey:
        """What loads; to be asked once. Raises `Unavailable` when the handlers can't be asked."""
        self.surveyed = Survey(**self._surveyed())
        self._until = self._clock.monotonic() + PATIENCE
        return self.surveyed

    def check(self, specs: Sequence[tuple[str, str]]) -> None:
        """Raise `InvalidPayload` for the first (type, payload JSON) that is unknown or does not fit, `Unavailable` when the
        handlers can't be asked."""
        for refusal in self.refusals(specs):
            if refusal is not None:
                raise refusal

    def refusals(self, specs: Sequence[tuple[str, str]]) -> list[TaskdeckError | None]:
        """For each (type, payload JSON) why it is refused, if it is: `InvalidPayload`, or `Unavailable` where the handlers
        can't be asked of it."""
        try:
            types, problems, _ = self.survey()
        except Unavailable as error:
            return [error] * len(specs)
        asked = doubtful(types, [spec for spec in specs if spec[0] in types])
        try:
            told = [
                InvalidPayload(f"{type_name}: the payload was refused", answer["problem"])
                if answer["problem"]
                else None
                for (type_name, _), answer in zip(asked, self._ask(asked), strict=True)
            ]
        except Unavailable as error:
            told = [error] * len(asked)
        refused = dict(zip(asked, told, strict=True))
        return [
            refused.get(spec) if spec[0] in types else _unknown(spec[0], sorted(types), problems)
            for spec in specs
        ]

    def _ask(self, specs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        lines = "".join(json.dumps({"type": name, "payload": payload}) + "\n" for name, payload in specs)
        try:
            output, _ = self._process.communicate(
                lines.encode(), timeout=max(0.0, self._until - self._clock.monotonic())
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"the handlers did not answer within {PATIENCE:g} s",
                remedy="look at what their payload types check",
            ) from None
        answers = output.splitlines()
        if self._process.returncode or len(answers) != len(specs):
            raise self._mute()
        return [json.loads(answer) for answer in answers]

    def _surveyed(self) -> dict[str, Any]:
        """The first line that tells more than what is being loaded."""
        assert self._process.stdout is not None
        fd, rest = self._process.stdout.fileno(), b""
        while True:
            line, ended, behind = rest.partition(b"\n")
            if ended:
                told, rest = json.loads(line), behind
                if "begins" not in told:
                    return told
                self._begun = told["begins"]
                continue
            if not select.select([fd], [], [], max(0.0, self._until - self._clock.monotonic()))[0]:
                raise self._hanging()
            if not (data := os.read(fd, 1 << 16)):
                self._process.wait()
                raise self._mute()
            rest += data

    def _hanging(self) -> Unavailable:
        return Unavailable(
            f"the handlers did not load within {self._load_within:g} s",
            f"{clean(self._begun, limit=300)} was being loaded" if self._begun else "",
            "look at what is done at its import; what must take so long: [engine] start_timeout",
        )

    def _mute(self) -> Unavailable:
        self._errors.seek(0)
        told = clean(self._errors.read().decode("utf-8", "replace"), limit=300)
        return Unavailable("the handlers could not be asked", told or f"exit code {self._process.returncode}")


def survey(config: Config, clock: Clock) -> Survey:
    """What loads, in a process that is gone again. Raises `Unavailable` when the handlers can't be asked."""
    with Handlers.of(config, clock) as process:
        return process.survey()


def _unknown(type_name: str, types: Sequence[str], problems: Sequence[str]) -> InvalidPayload:
    known = ", ".join(name for name in types if name != "shell") or "none"
    failed = [f"failed to load: {problem}" for problem in problems]
    if failed:  # the type may well stand there
        remedy = "correct what failed to load, then look: taskdeck config check"
    else:
        remedy = "name its file in the configuration: [taskdeck] handlers = [...]"
    return InvalidPayload(
        f"no handler for type {type_name!r}", "; ".join([*failed, f"known types: {known}"]), remedy
    )
